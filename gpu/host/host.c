#include "gpu/host/host.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "gpu/worker/bench.h"
#include "gpu/worker/probe.h"
#include "nvme/barmem.h"
#include "nvme/hostmem.h"

struct host;

struct block_thread {
	pthread_t thread;
	struct host *host;
	uint32_t block;
};

struct host {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	uint64_t launch; /* number of launches; a thread runs each once */
	uint32_t blocks, running;
	bool ending;
	enum hr_kernel kernel;
	void *argument;
	uint32_t threads;
	struct hr_barmem bar; /* all zero without one */
	struct block_thread thread[];
};

static void run_block(const struct host *host, uint32_t block)
{
	if (host->kernel == HR_KERNEL_PIPE)
		hr_pipe_block(host->argument, block);
	else if (host->kernel == HR_KERNEL_BENCH)
		hr_bench_block(host->argument, block);
	else
		hr_probe_block(host->argument, block);
}

/* Parked until the next launch that has a block for this thread. False: the backend closes. */
static bool wait_launch(struct host *host, uint32_t block, uint64_t *seen)
{
	bool go;

	pthread_mutex_lock(&host->lock);
	while (!host->ending && (host->launch == *seen || block >= host->blocks)) {
		*seen = host->launch;
		pthread_cond_wait(&host->wake, &host->lock);
	}
	*seen = host->launch;
	go = !host->ending;
	pthread_mutex_unlock(&host->lock);
	return go;
}

static void *block_main(void *argument)
{
	const struct block_thread *self = argument;
	struct host *host = self->host;
	uint64_t seen = 0;

	hr_wait_precisely();
	while (wait_launch(host, self->block, &seen)) {
		run_block(host, self->block);
		pthread_mutex_lock(&host->lock);
		host->running--;
		pthread_mutex_unlock(&host->lock);
	}
	return NULL;
}

static int host_launch(struct hr_backend *b, enum hr_kernel kernel, void *argument, uint32_t blocks,
		       uint32_t threads, uint32_t shared_bytes)
{
	struct host *host = b->impl;
	int err = 0;

	(void)shared_bytes; /* a block is one thread: there is nothing to share */
	pthread_mutex_lock(&host->lock);
	if (host->running) {
		err = -EBUSY;
	} else if (blocks == 0 || blocks > host->threads || threads != 1) {
		err = -EINVAL;
	} else {
		host->kernel = kernel;
		host->argument = argument;
		host->blocks = host->running = blocks;
		host->launch++;
		pthread_cond_broadcast(&host->wake);
	}
	pthread_mutex_unlock(&host->lock);
	return err;
}

static int host_poll(struct hr_backend *b)
{
	struct host *host = b->impl;
	int ended;

	pthread_mutex_lock(&host->lock);
	ended = host->running == 0;
	pthread_mutex_unlock(&host->lock);
	return ended;
}

/* Worker blocks are threads of this process: what the CPU sees they see. */
static int host_attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker)
{
	*worker = cpu;
	return 0;
}

static void host_detach(struct hr_backend *b, void *cpu)
{
}

static int host_alloc(struct hr_backend *b, size_t bytes, struct hr_region *region)
{
	return hr_hostmem_alloc(region, "gpu", bytes);
}

static int host_alloc_peer(struct hr_backend *b, size_t bytes, struct hr_region *region)
{
	struct host *host = b->impl;

	return hr_barmem_alloc(&host->bar, region, "gpu", bytes);
}

static void host_free(struct hr_backend *b, struct hr_region *region)
{
	struct host *host = b->impl;

	if (region->kind == HR_REGION_BAR)
		hr_barmem_free(&host->bar, region);
	else
		hr_hostmem_free(region);
}

static int host_copy(struct hr_backend *b, void *to, const void *from, size_t bytes)
{
	if (to != from)
		memcpy(to, from, bytes);
	return 0;
}

static uint32_t host_resident(struct hr_backend *b, enum hr_kernel kernel, uint32_t threads,
			      uint32_t shared_bytes)
{
	return threads == 1 ? b->max_blocks : 0;
}

/* The host backend calls it through its id: gpu/host/operators.c. */
static int host_link(struct hr_backend *b, const struct hr_operator *op, enum hr_kernel *kernel,
		     uint32_t *max_threads, char *message)
{
	*kernel = HR_KERNEL_PIPE;
	*max_threads = 1;
	return 0;
}

static void stop_threads(struct host *host, uint32_t started)
{
	pthread_mutex_lock(&host->lock);
	host->ending = true;
	pthread_cond_broadcast(&host->wake);
	pthread_mutex_unlock(&host->lock);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(host->thread[i].thread, NULL);
	pthread_cond_destroy(&host->wake);
	pthread_mutex_destroy(&host->lock);
	free(host);
}

static void host_close(struct hr_backend *b)
{
	struct host *host = b->impl;

	hr_barmem_close(&host->bar);
	stop_threads(host, host->threads);
	memset(b, 0, sizeof(*b));
}

static const struct hr_backend_ops host_ops = {
	.attach = host_attach,
	.detach = host_detach,
	.alloc = host_alloc,
	.free = host_free,
	.upload = host_copy,
	.download = host_copy,
	.link = host_link,
	.resident = host_resident,
	.launch = host_launch,
	.poll = host_poll,
	.close = host_close,
};

static const struct hr_backend_ops host_bar_ops = {
	.attach = host_attach,
	.detach = host_detach,
	.alloc = host_alloc,
	.alloc_peer = host_alloc_peer,
	.free = host_free,
	.upload = host_copy,
	.download = host_copy,
	.link = host_link,
	.resident = host_resident,
	.launch = host_launch,
	.poll = host_poll,
	.close = host_close,
};

/* The first `cpus` of the CPUs that this process may use. */
static void choose_cpus(cpu_set_t *set, unsigned cpus)
{
	cpu_set_t allowed;

	CPU_ZERO(set);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	for (size_t cpu = 0; cpu < CPU_SETSIZE && cpus; cpu++) {
		if (CPU_ISSET(cpu, &allowed)) {
			CPU_SET(cpu, set);
			cpus--;
		}
	}
}

static int start_thread(struct host *host, uint32_t i, const cpu_set_t *set)
{
	struct block_thread *t = &host->thread[i];
	pthread_attr_t attr;
	int err;

	t->host = host;
	t->block = i;
	pthread_attr_init(&attr);
	if (CPU_COUNT(set))
		pthread_attr_setaffinity_np(&attr, sizeof(*set), set);
	err = pthread_create(&t->thread, &attr, block_main, t);
	pthread_attr_destroy(&attr);
	return -err;
}

int hr_host_open(struct hr_backend *b, unsigned cpus, uint32_t max_blocks, char *message)
{
	struct host *host = calloc(1, sizeof(*host) + max_blocks * sizeof(host->thread[0]));
	cpu_set_t set;
	int err = 0;

	if (!host) {
		snprintf(message, HR_LOG_LINE_MAX, "host: out of memory");
		return -ENOMEM;
	}
	pthread_mutex_init(&host->lock, NULL);
	pthread_cond_init(&host->wake, NULL);
	choose_cpus(&set, cpus);
	while (!err && host->threads < max_blocks) {
		err = start_thread(host, host->threads, &set);
		host->threads += !err;
	}
	if (err) {
		snprintf(message, HR_LOG_LINE_MAX, "host: cannot start thread %u of %u: %s",
			 host->threads + 1, max_blocks, strerror(-err));
		stop_threads(host, host->threads);
		return err;
	}
	memset(b, 0, sizeof(*b));
	b->ops = &host_ops;
	snprintf(b->name, sizeof(b->name), "host:%u", cpus);
	b->lanes = 1;
	b->max_blocks = max_blocks;
	b->processors = cpus;
	b->max_threads = 1;
	b->impl = host;
	return 0;
}

/* Length of the address in "BDF" or "BDF/N", 0 when malformed; N in *bar. */
static size_t parse_bar(const char *text, int *bar)
{
	uint32_t domain, bus, dev, fn;
	const size_t n = hr_bdf_parse(text, &domain, &bus, &dev, &fn);

	*bar = HR_BARMEM_PEER;
	if (n == 0 || dev > 31 || fn > 7 || n >= HR_BDF_MAX)
		return 0;
	if (text[n] == '\0')
		return n;
	if (text[n] != '/' || text[n + 1] < '0' || text[n + 1] > '5' || text[n + 2] != '\0')
		return 0;
	*bar = text[n + 1] - '0';
	return n;
}

bool hr_host_bar_check(const char *text)
{
	int bar;

	return parse_bar(text, &bar) != 0;
}

int hr_host_use_bar(struct hr_backend *b, const char *text, char *message)
{
	struct host *host = b->impl;
	char address[HR_BDF_MAX];
	int bar, err;

	snprintf(address, sizeof(address), "%.*s", (int)parse_bar(text, &bar), text);
	err = hr_barmem_open(&host->bar, address, bar, message);
	if (err) {
		host_close(b);
		return err;
	}
	b->ops = &host_bar_ops;
	snprintf(b->peer, sizeof(b->peer), "%s", host->bar.function.bdf);
	b->peer_bytes = host->bar.map.bytes;
	return 0;
}
