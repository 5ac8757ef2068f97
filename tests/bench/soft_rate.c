/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soft_rate [OPTION...]: measures the commands per second of the software controller; without threads
 * for tests/bench/soft_cost.sh, which counts the instructions of poll_once() with callgrind.
 *
 * The driver here has a very low cost, so that the controller is measured: all slots of
 * the submission queues hold commands from the start (random blocks), a batch of them is sent by
 * one doorbell, and a batch of completions is only looked at (phase and status), then released by
 * one doorbell. With --fresh each slot is written again before it is sent, as real drivers do.
 *
 *   --device SOFT    device string after "soft:"; null,size=64G
 *   --queues N       queue pairs; 64
 *   --entries N      of each queue, a multiple of 32; 1024
 *   --depth N        commands outstanding per queue, a multiple of the batch; 512
 *   --batch N        commands per doorbell, at most 32; 32
 *   --bytes N        of one command, whole pages; 4096
 *   --access WORD    read, write or mixed (every other command writes); read
 *   --drivers N      threads that play the driver; 1
 *   --seconds S      1
 *   --fresh          write the slots again
 *   --steps N        no threads: driver and controller take turns until N commands are done
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/ctrl.h"
#include "nvme/admin.h"
#include "nvme/identify.h"
#include "nvme/soft/internal.h"
#include "tests/harness/error.h"
#include "nvme/soft/soft.h"

#define BATCH_MAX 32u
#define DRIVERS_MAX 16u
#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define HUGE_PAGE ((size_t)2 << 20)

struct request {
	char device[HR_DEVICE_MAX];
	uint32_t queues, entries, depth, batch, bytes, drivers;
	bool write, mixed, fresh;
	double seconds;
	uint64_t steps;
};

struct queue {
	struct hr_nvme_qp qp; /* only for its creation */
	uint32_t *sq_doorbell, *cq_doorbell;
	struct hr_sqe *sq;
	const struct hr_cqe *cq;
	uint32_t tail, head, phase, outstanding;
	uint64_t done;
} __attribute__((aligned(64)));

struct driver {
	pthread_t thread;
	struct bench *bench;
	uint32_t index;
	uint64_t random;
} __attribute__((aligned(64)));

struct bench {
	struct queue queue[HR_SOFT_QUEUES];
	struct driver driver[DRIVERS_MAX];
	struct request request;
	struct soft *soft;
	struct hr_transport transport;
	struct hr_region region;
	struct hr_ctrl ctrl;
	struct hr_ns ns;
	uint64_t blocks, places; /* bytes of a command; number of such pieces in the namespace */
	uint32_t stop;		 /* atomic: send no more */
	uint32_t giveup;	 /* atomic */
};

static void fail(const char *what)
{
	fprintf(stderr, "soft_rate: %s\n", what);
	exit(EXIT_FAILURE);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* ---- memory: admin queues, then per queue its rings, PRP lists and buffers */

static size_t lists_bytes(const struct request *w)
{
	return w->bytes > 2 * HR_PAGE ? (size_t)w->depth * HR_PAGE : 0;
}

static size_t queue_bytes(const struct request *w)
{
	return hr_qp_sq_bytes(w->entries) + hr_qp_cq_bytes(w->entries) + lists_bytes(w) +
	       (size_t)w->depth * w->bytes;
}

static void take_memory(struct bench *b)
{
	size_t bytes = HR_CTRL_ADMIN_BYTES + b->request.queues * queue_bytes(&b->request);
	void *memory;

	bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || hr_region_init_host(&b->region, "bench", memory, bytes) != 0)
		fail("no memory");
	madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 0, bytes);
}

/* ---- bring-up, by the product's driver */

static void *poll_all(void *argument)
{
	struct bench *b = argument;

	while (!__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE))
		for (uint32_t i = 0; i < b->soft->threads; i++)
			soft_poll(&b->soft->poller[i]);
	return NULL;
}

static void open_soft(struct bench *b)
{
	struct hr_soft_options options;
	int err = hr_soft_parse(b->request.device, &options, test_error());

	if (!err && !b->request.steps) {
		err = hr_soft_open(&b->transport, &options, test_error());
		b->soft = b->transport.impl;
		if (!err)
			err = b->transport.ops->map(&b->transport, &b->region, NULL);
	} else if (!err) {
		err = soft_new(&b->soft, &options, test_error());
		if (!err)
			b->soft->window[0] =
				(struct soft_window){ b->region.bus.addr, b->region.bytes,
						      b->region.cpu, false };
	}
	if (err)
		fail(test_error_text());
	b->transport.bar = b->soft->bar;
	b->transport.bar_bytes = b->soft->bar_bytes;
}

static void fill_ring(struct bench *b, struct queue *q, size_t lists, size_t data)
{
	const struct request *w = &b->request;
	uint64_t random = lists | 1;

	for (uint32_t i = 0; i < w->entries; i++) {
		const uint32_t buffer = i % w->depth;
		const bool write = w->write || (w->mixed && i % 2);
		const uint64_t page = data + (size_t)buffer * w->bytes;
		const uint64_t list = lists + (size_t)buffer * HR_PAGE;
		uint64_t *entry = (void *)((uint8_t *)b->region.cpu + list);
		uint64_t prp2 = 0;

		if (w->bytes > HR_PAGE)
			prp2 = hr_region_bus(&b->region, page + HR_PAGE).addr;
		for (uint32_t p = 1; w->bytes > 2 * HR_PAGE && p < w->bytes / HR_PAGE; p++)
			entry[p - 1] = hr_region_bus(&b->region, page + p * (size_t)HR_PAGE).addr;
		if (w->bytes > 2 * HR_PAGE)
			prp2 = hr_region_bus(&b->region, list).addr;
		hr_sqe_io(&q->sq[i], write ? nvme_cmd_write : nvme_cmd_read, 1,
			  next_random(&random) % b->places * b->blocks, (uint32_t)b->blocks,
			  hr_region_bus(&b->region, page).addr, prp2);
		q->sq[i].cid = (uint16_t)i;
	}
}

static void add_queue(struct bench *b, uint32_t i)
{
	const struct request *w = &b->request;
	const size_t sq = HR_CTRL_ADMIN_BYTES + i * queue_bytes(w);
	const size_t cq = sq + hr_qp_sq_bytes(w->entries);
	const size_t lists = cq + hr_qp_cq_bytes(w->entries);
	struct queue *q = &b->queue[i];
	const struct hr_qp_memory memory = { (uint8_t *)b->region.cpu + sq,
					     (uint8_t *)b->region.cpu + cq,
					     malloc(hr_qp_table_bytes(HR_QUEUE_ENTRIES_MAX)) };

	if (!memory.table ||
	    hr_qp_init(&q->qp, (uint16_t)(i + 1), w->entries, &memory, HR_NS_PER_S) != 0 ||
	    hr_ctrl_create_qp(&b->ctrl, &q->qp, hr_region_bus(&b->region, sq),
			      hr_region_bus(&b->region, cq), NULL) != 0)
		fail("cannot create a queue pair");
	free(memory.table);
	q->sq = memory.sq;
	q->cq = memory.cq;
	q->sq_doorbell = q->qp.sq_doorbell;
	q->cq_doorbell = q->qp.cq_doorbell;
	q->phase = 1;
	fill_ring(b, q, lists, lists + lists_bytes(w));
}

static void bring_up(struct bench *b)
{
	pthread_t poller = 0;
	uint32_t got;

	open_soft(b);
	if (b->request.steps && pthread_create(&poller, NULL, poll_all, b) != 0)
		fail("no thread");
	if (hr_ctrl_open(&b->ctrl, &b->transport, &b->region, 0, HR_ADMIN_TIMEOUT_NS, NULL) != 0 ||
	    hr_ctrl_identify_ns(&b->ctrl, 1, &b->ns, NULL) != 0 ||
	    hr_ctrl_set_queues(&b->ctrl, b->request.queues, &got, NULL) != 0 ||
	    got < b->request.queues)
		fail("cannot bring the controller up");
	if (b->request.bytes >> b->ns.lba_shift > b->ns.blocks ||
	    b->request.bytes > b->ctrl.max_transfer)
		fail("--bytes: more than the namespace or one command holds");
	b->blocks = b->request.bytes >> b->ns.lba_shift;
	b->places = b->ns.blocks / b->blocks;
	for (uint32_t i = 0; i < b->request.queues; i++)
		add_queue(b, i);
	if (b->request.steps) {
		__atomic_store_n(&b->stop, 1, __ATOMIC_RELEASE);
		pthread_join(poller, NULL);
		__atomic_store_n(&b->stop, 0, __ATOMIC_RELEASE);
	}
}

/* ---- the driver */

/* True once a whole batch has completed without an error; it is released. */
static bool reap(struct queue *q, const struct request *w)
{
	uint32_t all = q->phase << 16, differs = 0;

	if (!q->outstanding)
		return false;
	/* The last entry of the batch decides almost always. */
	if ((__atomic_load_n(&q->cq[q->head + w->batch - 1].dw3, __ATOMIC_ACQUIRE) ^ all) >> 16 & 1)
		return false;
	for (uint32_t i = 0; i < w->batch; i++)
		differs |= __atomic_load_n(&q->cq[q->head + i].dw3, __ATOMIC_ACQUIRE) ^ all;
	if (differs >> 16 & 1)
		return false;
	if (differs >> 17)
		fail("a command failed");
	q->head += w->batch;
	if (q->head == w->entries) {
		q->head = 0;
		q->phase ^= 1;
	}
	q->outstanding -= w->batch;
	q->done += w->batch;
	__atomic_store_n(q->cq_doorbell, q->head, __ATOMIC_RELEASE);
	return true;
}

static bool submit(struct bench *b, struct queue *q, uint64_t *random)
{
	const struct request *w = &b->request;

	if (q->outstanding + w->batch > w->depth)
		return false;
	for (uint32_t i = 0; w->fresh && i < w->batch; i++) {
		struct hr_sqe *sqe = &q->sq[q->tail + i];
		const uint64_t lba = (next_random(random) >> 32) * b->places / (1ull << 32);

		sqe->cdw10 = (uint32_t)(lba * b->blocks);
		sqe->cdw11 = (uint32_t)(lba * b->blocks >> 32);
	}
	q->tail += w->batch;
	if (q->tail == w->entries)
		q->tail = 0;
	q->outstanding += w->batch;
	__atomic_store_n(q->sq_doorbell, q->tail, __ATOMIC_RELEASE);
	return true;
}

/* One round over this driver's queues. */
static bool drive(struct driver *d, bool sending)
{
	struct bench *b = d->bench;
	bool any = false;

	for (uint32_t i = d->index; i < b->request.queues; i += b->request.drivers) {
		any |= reap(&b->queue[i], &b->request);
		while (sending && submit(b, &b->queue[i], &d->random))
			any = true;
	}
	return any;
}

static bool busy(const struct bench *b)
{
	for (uint32_t i = 0; i < b->request.queues; i++)
		if (__atomic_load_n(&b->queue[i].outstanding, __ATOMIC_RELAXED))
			return true;
	return false;
}

static void *drive_thread(void *argument)
{
	struct driver *d = argument;
	struct bench *b = d->bench;
	uint32_t idle = 0;

	while (!__atomic_load_n(&b->giveup, __ATOMIC_ACQUIRE))
		if (drive(d, !__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE)))
			idle = 0;
		else if (++idle < 64)
			__builtin_ia32_pause();
		else
			sched_yield();
	return NULL;
}

static uint64_t total(const struct bench *b)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < b->request.queues; i++)
		sum += __atomic_load_n(&b->queue[i].done, __ATOMIC_RELAXED);
	return sum;
}

static void drain(struct bench *b)
{
	const uint64_t end = hr_now_ns() + TIMEOUT_NS;

	__atomic_store_n(&b->stop, 1, __ATOMIC_RELEASE);
	while (busy(b) && hr_now_ns() < end)
		hr_wait_ns(HR_NS_PER_MS);
	__atomic_store_n(&b->giveup, 1, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < b->request.drivers; i++)
		pthread_join(b->driver[i].thread, NULL);
	if (busy(b))
		fail("commands without completion");
}

static void start_drivers(struct bench *b)
{
	for (uint32_t i = 0; i < b->request.drivers; i++) {
		struct driver *d = &b->driver[i];

		d->bench = b;
		d->index = i;
		d->random = i + 1;
		if (!b->request.steps && pthread_create(&d->thread, NULL, drive_thread, d) != 0)
			fail("no thread");
	}
}

/* The first tenth of the time is for warming up. */
static void measure(struct bench *b)
{
	const struct request *w = &b->request;
	uint64_t began, commands;
	double seconds, rate;

	start_drivers(b);
	hr_wait_ns((uint64_t)(w->seconds * 1e8));
	began = hr_now_ns();
	commands = total(b);
	hr_wait_ns((uint64_t)(w->seconds * 1e9));
	commands = total(b) - commands;
	seconds = (double)(hr_now_ns() - began) / 1e9;
	drain(b);
	rate = (double)commands / seconds;
	printf("%-44s %-5s %7u bytes, %3u queues, batch %2u, %2u drivers%s: %8.2f M/s, %6.2f a "
	       "thread, %6.1f GB/s\n",
	       w->device, w->mixed ? "mixed" : (w->write ? "write" : "read"), w->bytes, w->queues,
	       w->batch, w->drivers, w->fresh ? " (fresh)" : "", rate / 1e6,
	       rate / 1e6 / b->soft->threads, rate * w->bytes / 1e9);
}

/* callgrind counts the instructions of this function. */
__attribute__((noipa)) static void poll_once(struct soft *soft)
{
	for (uint32_t i = 0; i < soft->threads; i++)
		soft_poll(&soft->poller[i]);
}

static void step(struct bench *b)
{
	const uint64_t end = hr_now_ns() + 60 * TIMEOUT_NS;

	start_drivers(b);
	while (total(b) < b->request.steps && hr_now_ns() < end) {
		for (uint32_t i = 0; i < b->request.drivers; i++)
			drive(&b->driver[i], true);
		poll_once(b->soft);
	}
	printf("%llu\n", (unsigned long long)total(b));
}

/* ---- the command line */

static uint64_t number(const char *text, uint64_t max)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || value < 1 || value > max)
		fail("a number is out of range");
	return value;
}

static const struct option options[] = {
	{ "device", required_argument, NULL, 'D' },  { "queues", required_argument, NULL, 'q' },
	{ "entries", required_argument, NULL, 'e' }, { "depth", required_argument, NULL, 'd' },
	{ "batch", required_argument, NULL, 'b' },   { "bytes", required_argument, NULL, 'n' },
	{ "access", required_argument, NULL, 'a' },  { "drivers", required_argument, NULL, 'w' },
	{ "seconds", required_argument, NULL, 's' }, { "fresh", no_argument, NULL, 'f' },
	{ "steps", required_argument, NULL, 't' },   { NULL, 0, NULL, 0 }
};

static void take_option(struct request *w, int option)
{
	switch (option) {
	case 'D':
		snprintf(w->device, sizeof(w->device), "%s", optarg);
		break;
	case 'q':
		w->queues = (uint32_t)number(optarg, HR_SOFT_QUEUES);
		break;
	case 'e':
		w->entries = (uint32_t)number(optarg, HR_QUEUE_ENTRIES_MAX);
		break;
	case 'd':
		w->depth = (uint32_t)number(optarg, HR_QUEUE_ENTRIES_MAX);
		break;
	case 'b':
		w->batch = (uint32_t)number(optarg, BATCH_MAX);
		break;
	case 'n':
		w->bytes = (uint32_t)number(optarg, HR_CHUNK_MAX);
		break;
	case 'a':
		w->write = strcmp(optarg, "write") == 0;
		w->mixed = strcmp(optarg, "mixed") == 0;
		break;
	case 'w':
		w->drivers = (uint32_t)number(optarg, DRIVERS_MAX);
		break;
	case 's':
		w->seconds = strtod(optarg, NULL);
		break;
	case 'f':
		w->fresh = true;
		break;
	case 't':
		w->steps = number(optarg, UINT64_MAX);
		break;
	default:
		fail("unknown option; see tests/bench/soft_rate.c");
	}
}

int main(int argc, char **argv)
{
	struct bench *b = aligned_alloc(64, sizeof(*b));
	int option;

	if (!b)
		fail("no memory");
	memset(b, 0, sizeof(*b));
	b->request = (struct request){ .device = "null,size=64G",
				       .queues = 64,
				       .entries = 1024,
				       .depth = 512,
				       .batch = 32,
				       .bytes = HR_PAGE,
				       .drivers = 1,
				       .seconds = 1 };
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		take_option(&b->request, option);
	if (b->request.bytes % HR_PAGE || b->request.entries % b->request.batch ||
	    b->request.depth % b->request.batch || b->request.depth >= b->request.entries)
		fail("--bytes: whole pages; --entries, --depth: multiples of --batch, depth below "
		     "entries");
	take_memory(b);
	bring_up(b);
	if (b->request.steps)
		step(b);
	else
		measure(b);
	return 0;
}
