/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/host/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/operator.h"
#include "config/base/seam.h"
#include "config/base/work.h"
#include "gpu/tap/feed.h"
#include "gpu/tap/role.h"
#include "gpu/worker/io/access.h"
#include "gpu/worker/bench.h"
#include "gpu/worker/probe.h"
#include "nvme/dma/barmem.h"
#include "nvme/dma/hostmem.h"

struct host;

struct host_launch {
	struct hr_launch handle;
	struct hr_launch_args args;
	bool used;
	uint32_t running; /* blocks that have not ended */
};

/* A thread that waits for a launch, then runs one block of it. */
struct block_thread {
	struct hr_cpu_thread thread;
	struct host *host;
	struct host_launch *launch;
	uint32_t block; /* index in the launch */
};

struct host {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool ending;
	struct host_launch launch[HR_LAUNCHES_MAX];
	struct hr_barmem bar; /* all zero without a BAR */
	uint32_t threads, parked;
	struct block_thread thread[];
};

static void run_block(const struct hr_launch_args *args, uint32_t block)
{
	if (args->entry == HR_ENTRY_PIPE)
		hr_pipe_block(args->argument, block);
	else if (args->entry == HR_ENTRY_ACCESS)
		hr_access_block(args->argument, block);
	else if (args->entry == HR_ENTRY_BENCH)
		hr_bench_block(args->argument, block);
	else if (args->entry == HR_ENTRY_TAP)
		hr_tap_pipe_block(args->argument, block);
	else if (args->entry == HR_ENTRY_FEED)
		hr_feed_pipe_block(args->argument, block);
	else
		hr_probe_block(args->argument, block);
}

/* Wait until a launch has a block for this thread. False: the backend closes. */
static bool wait_launch(struct block_thread *self)
{
	struct host *host = self->host;
	bool go;

	hr_mutex_lock(&host->lock);
	while (!host->ending && !self->launch)
		hr_cond_wait(&host->wake, &host->lock);
	go = !host->ending;
	pthread_mutex_unlock(&host->lock);
	return go;
}

static void *block_main(void *argument)
{
	struct block_thread *self = argument;
	struct host *host = self->host;

	hr_wait_precisely();
	while (wait_launch(self)) {
		hr_work_now.of = self->launch->args.argument;
		run_block(&self->launch->args, self->block);
		hr_work_now.of = NULL;
		hr_mutex_lock(&host->lock);
		self->launch->running--;
		self->launch = NULL;
		host->parked++;
		pthread_mutex_unlock(&host->lock);
	}
	return NULL;
}

static struct host_launch *reserve_host_launch(struct host *host)
{
	for (uint32_t i = 0; i < HR_LAUNCHES_MAX; i++)
		if (!host->launch[i].used)
			return &host->launch[i];
	return NULL;
}

/* With the lock held: wake one waiting thread per block. */
static void start_blocks(struct host *host, struct host_launch *launch)
{
	uint32_t block = 0;

	for (uint32_t i = 0; block < launch->args.blocks; i++) {
		struct block_thread *t = &host->thread[i];

		if (t->launch)
			continue;
		t->launch = launch;
		t->block = block++;
	}
	host->parked -= block;
	launch->running = block;
	hr_cond_broadcast(&host->wake);
}

static int host_launch(struct hr_backend *b, const struct hr_launch_args *args,
		       struct hr_launch **handle, struct hr_error *e)
{
	struct host *host = b->impl;
	struct host_launch *launch;
	int err = 0;

	if (args->blocks == 0 || args->blocks > host->threads || args->threads != 1)
		return hr_fail(e, HR_ERROR_FAILED, -EINVAL,
			       "%s: %u blocks of %u threads cannot be launched, expected 1 to %u "
			       "blocks of 1 thread",
			       b->name, args->blocks, args->threads, host->threads);
	hr_mutex_lock(&host->lock);
	launch = reserve_host_launch(host);
	if (!launch || args->blocks > host->parked) {
		err = hr_fail(e, HR_ERROR_FAILED, -EBUSY,
			      "%s: %u blocks cannot be launched: %u of %u threads are free, and "
			      "at most %u launches run at the same time",
			      b->name, args->blocks, host->parked, host->threads, HR_LAUNCHES_MAX);
	} else {
		*launch = (struct host_launch){ .handle = { b, args->stop },
						.args = *args,
						.used = true };
		start_blocks(host, launch);
		*handle = &launch->handle;
	}
	pthread_mutex_unlock(&host->lock);
	return err;
}

static int host_poll(struct hr_launch *handle, struct hr_error *e)
{
	const struct host_launch *launch = (const struct host_launch *)handle;
	struct host *host = handle->backend->impl;
	int ended;

	hr_mutex_lock(&host->lock);
	ended = launch->running == 0;
	pthread_mutex_unlock(&host->lock);
	return ended;
}

static void host_launch_free(struct hr_launch *handle)
{
	struct host *host = handle->backend->impl;

	hr_mutex_lock(&host->lock);
	((struct host_launch *)handle)->used = false;
	pthread_mutex_unlock(&host->lock);
}

/* Worker blocks are threads of this process, so they use the CPU's addresses. */
static int host_attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		       struct hr_error *e)
{
	*worker = cpu;
	return 0;
}

static void host_detach(struct hr_backend *b, void *cpu)
{
}

static int host_alloc(struct hr_backend *b, size_t bytes, struct hr_region *region,
		      struct hr_error *e)
{
	return hr_hostmem_alloc(region, "gpu", bytes, e);
}

static int host_alloc_peer(struct hr_backend *b, size_t bytes, struct hr_region *region,
			   struct hr_error *e)
{
	struct host *host = b->impl;

	return hr_barmem_alloc(&host->bar, region, "gpu", bytes, e);
}

static void host_free(struct hr_backend *b, struct hr_region *region)
{
	struct host *host = b->impl;

	if (region->kind == HR_REGION_BAR)
		hr_barmem_free(&host->bar, region);
	else
		hr_hostmem_free(region);
}

/* All threads of this process use the same addresses. */
static int host_share(struct hr_backend *b, const struct hr_region *region,
		      struct hr_backend *other, struct hr_error *e)
{
	return 0;
}

static int host_copy(struct hr_backend *b, void *to, const void *from, size_t bytes,
		     struct hr_error *e)
{
	if (to != from)
		memcpy(to, from, bytes);
	return 0;
}

static int host_resident(struct hr_backend *b, enum hr_entry entry, uint32_t threads,
			 uint32_t shared_bytes, uint32_t *blocks, struct hr_error *e)
{
	*blocks = threads == 1 ? b->max_blocks : 0;
	return 0;
}

/* The host backend calls the operator through its id: gpu/host/operators.c. */
static int host_link(struct hr_backend *b, const struct hr_operator *op, enum hr_entry *entry,
		     uint32_t *max_threads, struct hr_error *e)
{
	*entry = hr_op_accesses(op) ? HR_ENTRY_ACCESS : HR_ENTRY_PIPE;
	*max_threads = 1;
	return 0;
}

static void stop_threads(struct host *host, uint32_t started)
{
	hr_mutex_lock(&host->lock);
	host->ending = true;
	hr_cond_broadcast(&host->wake);
	pthread_mutex_unlock(&host->lock);
	for (uint32_t i = 0; i < started; i++)
		hr_thread_join(&host->thread[i].thread);
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

#define HOST_OPS                                                                              \
	.attach = host_attach, .detach = host_detach, .alloc = host_alloc, .free = host_free, \
	.share = host_share, .upload = host_copy, .download = host_copy, .link = host_link,   \
	.resident = host_resident, .launch = host_launch, .poll = host_poll,                  \
	.launch_free = host_launch_free, .close = host_close

static const struct hr_backend_ops host_ops = { HOST_OPS };
static const struct hr_backend_ops host_bar_ops = { HOST_OPS, .alloc_peer = host_alloc_peer };

/* The first `cpus` CPUs in the affinity mask of this process. */
static void choose_cpus(cpu_set_t *set, unsigned cpus)
{
	cpu_set_t allowed;

	CPU_ZERO(set);
	if (hr_thread_cpus(&allowed) != 0)
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

	t->host = host;
	return hr_thread_start(&t->thread, CPU_COUNT(set) ? set : NULL, block_main, t);
}

int hr_host_open(struct hr_backend *b, unsigned cpus, uint32_t max_blocks, struct hr_error *e)
{
	struct host *host = calloc(1, sizeof(*host) + max_blocks * sizeof(host->thread[0]));
	cpu_set_t set;
	int err = 0;

	if (!host)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "host: out of memory");
	pthread_mutex_init(&host->lock, NULL);
	pthread_cond_init(&host->wake, NULL);
	choose_cpus(&set, cpus);
	while (!err && host->threads < max_blocks) {
		err = start_thread(host, host->threads, &set);
		host->threads += !err;
	}
	if (err) {
		hr_fail(e, HR_ERROR_FAILED, err, "host: cannot start thread %u of %u: %s",
			host->threads + 1, max_blocks, strerror(-err));
		stop_threads(host, host->threads);
		return err;
	}
	host->parked = host->threads;
	memset(b, 0, sizeof(*b));
	b->ops = &host_ops;
	snprintf(b->name, sizeof(b->name), "host:%u", cpus);
	b->lanes = b->wave = 1;
	b->max_blocks = b->side_by_side = max_blocks;
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

int hr_host_use_bar(struct hr_backend *b, const char *text, struct hr_error *e)
{
	struct host *host = b->impl;
	char address[HR_BDF_MAX];
	int bar, err;

	snprintf(address, sizeof(address), "%.*s", (int)parse_bar(text, &bar), text);
	err = hr_barmem_open(&host->bar, address, bar, e);
	if (err) {
		host_close(b);
		return err;
	}
	b->ops = &host_bar_ops;
	snprintf(b->peer, sizeof(b->peer), "%s", host->bar.function.bdf);
	b->peer_bytes = host->bar.map.bytes;
	return 0;
}
