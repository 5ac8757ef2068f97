/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/post/step.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "cache/crc32c.h"
#include "gpu/backend.h"
#include "gpu/worker/probe.h"
#include "nvme/dma/hostmem.h"

#define PAGES 512u
#define PAGES_LEAST 64u /* for launches with few threads */
#define THREADS_MAX 256u
#define BLOCKS_MAX 64u
#define ROUNDS 200u
#define SPINS 200u /* iterations before a wait yields the CPU */
/* Other processes may keep a thread from its CPU for seconds. */
#define TIMEOUT_NS (10 * HR_NS_PER_S)
#define BLOCK_LINE 128u /* size of a word that CPU and workers exchange: a cache line of its own */

/* Memory of the probe, in host memory, followed by the pages. */
struct ground {
	struct hr_probe probe;
	uint32_t crc[PAGES], end[BLOCKS_MAX];
	uint32_t ping __attribute__((aligned(BLOCK_LINE)));
	uint32_t pong __attribute__((aligned(BLOCK_LINE)));
	/* Pages to the GPU, and back. */
	uint8_t page[2][PAGES][HR_PAGE] __attribute__((aligned(HR_PAGE)));
};

struct trial {
	struct hr_backend *backend;
	struct hr_region host, gpu;
	struct ground *ground;
	struct ground *worker; /* the same memory, by the workers' address */
	uint32_t blocks, threads, pages;
	uint64_t round_ns; /* of one exchange of words */
	bool stuck;	   /* blocks still run, so their memory is not freed */
	struct hr_error *e;
};

static uint64_t word_of(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull;
}

/* Describe the blocks without an end word. Returns -ETIMEDOUT. */
static int fail_stuck(const struct trial *t)
{
	uint32_t missing = 0, first = 0;

	for (uint32_t b = t->blocks; b-- > 0;) {
		if (hr_acquire_sys_u32(&t->ground->end[b]) != HR_PROBE_RUNS)
			continue;
		missing++;
		first = b;
	}
	return hr_fail(t->e, HR_ERROR_DEVICE, -ETIMEDOUT,
		       "%u of %u worker blocks have not ended after %llu ms, the first is block "
		       "%u: %s does not hold all blocks at once, or a block hangs",
		       missing, t->blocks, 4 * TIMEOUT_NS / HR_NS_PER_MS, first, t->backend->name);
}

/* Wait for the end of the launch. Block 0 ends by itself when it gets no more words. */
static int wait_ended(struct trial *t, struct hr_launch *launch)
{
	const uint64_t end = hr_now_ns() + 4 * TIMEOUT_NS;
	const int ended = hr_launch_wait(launch, end, HR_NS_PER_MS / 10, t->e);

	if (ended == 0) {
		t->stuck = true;
		return fail_stuck(t);
	}
	hr_launch_free(launch);
	return ended < 0 ? ended : 0;
}

/*
 * Send a word and wait for the answer, `rounds` times. The fastest round counts, because a CPU may
 * be busy.
 */
static void exchange(struct trial *t, uint32_t rounds)
{
	t->round_ns = UINT64_MAX;
	for (uint32_t round = 1; round <= rounds; round++) {
		const uint64_t began = hr_now_ns();
		uint32_t spins = 0;

		hr_release_sys_u32(&t->ground->ping, round);
		while (hr_acquire_sys_u32(&t->ground->pong) != round) {
			if (hr_now_ns() - began > 2 * TIMEOUT_NS) /* later than the block */
				return;
			if (++spins > SPINS)
				hr_idle(&spins);
		}
		if (hr_now_ns() - began < t->round_ns)
			t->round_ns = hr_now_ns() - began;
	}
}

/* One launch: all blocks copy pages, block 0 exchanges words. Every block must report success. */
static int probe(struct trial *t, const uint8_t *from, uint8_t *to, uint32_t rounds)
{
	struct ground *g = t->ground;
	struct hr_launch_args args;
	struct hr_launch *launch;
	int err;

	memset(g->crc, 0, sizeof g->crc);
	memset(g->end, 0, sizeof g->end);
	g->ping = g->pong = 0;
	g->probe = (struct hr_probe){ .from = from,
				      .to = to,
				      .crc = t->worker->crc,
				      .pages = t->pages,
				      .blocks = t->blocks,
				      .rounds = rounds,
				      .timeout_ns = TIMEOUT_NS,
				      .ping = &t->worker->ping,
				      .pong = &t->worker->pong,
				      .end = t->worker->end };
	args = (struct hr_launch_args){ .entry = HR_ENTRY_PROBE,
					.argument = &t->worker->probe,
					.blocks = t->blocks,
					.threads = t->threads };
	err = t->backend->ops->launch(t->backend, &args, &launch, t->e);
	if (err)
		return err;
	exchange(t, rounds);
	err = wait_ended(t, launch);
	for (uint32_t b = 0; !err && b < t->blocks; b++) {
		if (g->end[b] == HR_PROBE_DONE)
			continue;
		err = hr_fail(t->e, HR_ERROR_DEVICE, -EPROTO, "block %u of %u %s", b, t->blocks,
			      g->end[b] ? "did not see the CPU's store" : "did not run");
	}
	return err;
}

static int compare_pages(struct trial *t, const char *where)
{
	const struct ground *g = t->ground;

	for (uint32_t p = 0; p < t->pages; p++) {
		const uint32_t want = hr_crc32c(0, g->page[0][p], HR_PAGE);

		if (g->crc[p] == want)
			continue;
		return hr_fail(t->e, HR_ERROR_DEVICE, -EIO,
			       "page %u of %u has CRC-32C %08x when read from %s, expected %08x", p,
			       t->pages, g->crc[p], where, want);
	}
	return 0;
}

/* Copy from host memory to GPU memory by workers, then back. */
static int there_and_back(struct trial *t)
{
	const size_t bytes = t->pages * (size_t)HR_PAGE;
	struct ground *g = t->ground;
	uint64_t *word = (uint64_t *)g->page[0];
	int err;

	for (uint64_t i = 0; i < bytes / sizeof *word; i++)
		word[i] = word_of(i);
	err = probe(t, t->worker->page[0][0], t->gpu.worker, 0);
	if (!err)
		err = compare_pages(t, "host memory");
	if (!err)
		err = probe(t, t->gpu.worker, t->worker->page[1][0], ROUNDS);
	if (!err)
		err = compare_pages(t, "the memory of the GPU");
	if (!err && memcmp(g->page[0], g->page[1], bytes) != 0)
		err = hr_fail(t->e, HR_ERROR_DEVICE, -EIO, "%zu bytes differ after the copy back",
			      bytes);
	return err;
}

static int allocate_ground(struct trial *t)
{
	struct hr_error *e = t->e;
	struct hr_backend *b = t->backend;
	void *worker = NULL;
	int err = hr_hostmem_alloc(&t->host, "self-test", sizeof *t->ground, e);

	if (!err)
		err = b->ops->attach(b, t->host.cpu, t->host.bytes, false, &worker, e);
	if (err) {
		hr_hostmem_free(&t->host);
		return err;
	}
	t->ground = t->host.cpu;
	t->worker = worker;
	return b->ops->alloc(b, sizeof t->ground->page[0], &t->gpu, e);
}

static void free_ground(struct trial *t)
{
	struct hr_backend *b = t->backend;

	if (t->gpu.bytes)
		b->ops->free(b, &t->gpu);
	if (t->host.cpu)
		b->ops->detach(b, t->host.cpu);
	hr_hostmem_free(&t->host);
}

int hr_post_workers(struct hr_backend *backend, char *detail, struct hr_error *e)
{
	struct trial t = { .backend = backend, .e = e };
	uint32_t most;
	int err;

	t.threads = backend->max_threads < THREADS_MAX ? backend->max_threads : THREADS_MAX;
	err = backend->ops->resident(backend, HR_ENTRY_PROBE, t.threads, 0, &most, e);
	if (err)
		return err;
	t.blocks = most < BLOCKS_MAX ? most : BLOCKS_MAX;
	t.pages = t.blocks * t.threads < PAGES ? t.blocks * t.threads : PAGES;
	if (t.pages < PAGES_LEAST)
		t.pages = PAGES_LEAST;
	err = allocate_ground(&t);
	if (!err)
		err = there_and_back(&t);
	if (!t.stuck)
		free_ground(&t);
	if (!err)
		snprintf(detail, HR_POST_DETAIL,
			 "%u blocks of %u threads, %u KiB copied to GPU memory and back, equal; "
			 "an exchange with the CPU takes %.2f us",
			 t.blocks, t.threads, t.pages * HR_PAGE >> 10, (double)t.round_ns / 1000);
	return err;
}

void hr_post_entries(const struct hr_gpu_facts *f, char *detail)
{
	size_t n = 0;

	for (unsigned i = 0; i < f->entries && n < HR_POST_DETAIL; i++)
		n += (size_t)snprintf(detail + n, HR_POST_DETAIL - n,
				      "%s%s: %u registers, %u bytes local, up to %u threads",
				      i ? "; " : "", f->entry[i].name, f->entry[i].registers,
				      f->entry[i].local_bytes, f->entry[i].max_threads);
}
