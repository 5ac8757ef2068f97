#include "boot/cmd/post/post.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/clock.h"
#include "cache/crc32c.h"
#include "gpu/worker/probe.h"
#include "nvme/hostmem.h"

#define PAGES 512u
#define PAGES_LEAST 64u /* where there are few threads to copy them */
#define THREADS_MAX 256u
#define BLOCKS_MAX 64u
#define ROUNDS 200u
#define SPINS 200u /* before a wait gives way to others */
#define PATIENCE_NS (2 * HR_NS_PER_S)
#define BLOCK_LINE 128u /* bytes of a word that CPU and workers exchange: nobody shares its line */

/* What the probe works on: in host memory. The pages lie behind it. */
struct ground {
	struct hr_probe probe;
	uint32_t crc[PAGES], end[BLOCKS_MAX];
	uint32_t ping __attribute__((aligned(BLOCK_LINE)));
	uint32_t pong __attribute__((aligned(BLOCK_LINE)));
	uint8_t page[2][PAGES][HR_PAGE] __attribute__((aligned(HR_PAGE))); /* out, and back */
};

struct trial {
	struct hr_backend *backend;
	struct hr_region host, gpu;
	struct ground *ground;
	struct ground *worker; /* the same, as workers see it */
	uint32_t blocks, threads, pages;
	uint64_t round_ns; /* of ping and pong */
	bool stuck;	   /* blocks still run: their memory stays theirs */
	char *detail;
};

static uint64_t word_of(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull;
}

/* Until the launch has ended: block 0 ends by itself when nobody asks it any more. */
static int wait_ended(struct trial *t)
{
	const uint64_t end = hr_now_ns() + 4 * PATIENCE_NS;
	int ended;

	while ((ended = t->backend->ops->poll(t->backend)) == 0) {
		if (hr_now_ns() > end) {
			t->stuck = true;
			snprintf(t->detail, HR_POST_DETAIL,
				 "worker blocks do not end within %llu s",
				 4 * PATIENCE_NS / HR_NS_PER_S);
			return -ETIMEDOUT;
		}
		hr_wait_ns(HR_NS_PER_MS / 10);
	}
	if (ended < 0)
		snprintf(t->detail, HR_POST_DETAIL, "worker blocks failed (see the log)");
	return ended < 0 ? ended : 0;
}

/* Ask and wait for the answer, `rounds` times. The quickest counts: a CPU may have other work. */
static void exchange(struct trial *t, uint32_t rounds)
{
	t->round_ns = UINT64_MAX;
	for (uint32_t round = 1; round <= rounds; round++) {
		const uint64_t began = hr_now_ns();
		uint32_t spins = 0;

		hr_release_sys_u32(&t->ground->ping, round);
		while (hr_acquire_sys_u32(&t->ground->pong) != round) {
			if (hr_now_ns() - began > PATIENCE_NS)
				return;
			if (++spins > SPINS)
				hr_idle(&spins);
		}
		if (hr_now_ns() - began < t->round_ns)
			t->round_ns = hr_now_ns() - began;
	}
}

/* One launch: copy all pages, exchange words; every block must say that it has ended well. */
static int probe(struct trial *t, const uint8_t *from, uint8_t *to, uint32_t rounds)
{
	struct ground *g = t->ground;
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
				      .patience_ns = PATIENCE_NS,
				      .ping = &t->worker->ping,
				      .pong = &t->worker->pong,
				      .end = t->worker->end };
	err = t->backend->ops->launch(t->backend, HR_KERNEL_PROBE, &t->worker->probe, t->blocks,
				      t->threads, 0);
	if (err) {
		snprintf(t->detail, HR_POST_DETAIL, "%u blocks of %u threads cannot be launched",
			 t->blocks, t->threads);
		return err;
	}
	exchange(t, rounds);
	err = wait_ended(t);
	for (uint32_t b = 0; !err && b < t->blocks; b++) {
		if (g->end[b] == HR_PROBE_DONE)
			continue;
		snprintf(t->detail, HR_POST_DETAIL, "block %u of %u %s", b, t->blocks,
			 g->end[b] ? "has seen no store of the CPU" : "has not run");
		err = -EPROTO;
	}
	return err;
}

static int compare(struct trial *t, const char *where)
{
	const struct ground *g = t->ground;

	for (uint32_t p = 0; p < t->pages; p++) {
		const uint32_t want = hr_crc32c(0, g->page[0][p], HR_PAGE);

		if (g->crc[p] == want)
			continue;
		snprintf(t->detail, HR_POST_DETAIL,
			 "page %u of %u has CRC-32C %08x when read from %s, expected %08x", p,
			 t->pages, g->crc[p], where, want);
		return -EIO;
	}
	return 0;
}

/* Out: host memory, read by workers, to GPU memory. Back: the other way round. */
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
		err = compare(t, "host memory");
	if (!err)
		err = probe(t, t->gpu.worker, t->worker->page[1][0], ROUNDS);
	if (!err)
		err = compare(t, "the memory of the GPU");
	if (!err && memcmp(g->page[0], g->page[1], bytes) != 0) {
		snprintf(t->detail, HR_POST_DETAIL, "%zu bytes have come back different", bytes);
		err = -EIO;
	}
	return err;
}

static int take_ground(struct trial *t)
{
	struct hr_backend *b = t->backend;
	void *worker = NULL;
	int err = hr_hostmem_alloc(&t->host, "self-test", sizeof *t->ground);

	if (!err)
		err = b->ops->attach(b, t->host.cpu, t->host.bytes, false, &worker);
	if (err) {
		hr_hostmem_free(&t->host);
		return err;
	}
	t->ground = t->host.cpu;
	t->worker = worker;
	return b->ops->alloc(b, sizeof t->ground->page[0], &t->gpu);
}

static void give_ground(struct trial *t)
{
	struct hr_backend *b = t->backend;

	if (t->gpu.bytes)
		b->ops->free(b, &t->gpu);
	if (t->host.cpu)
		b->ops->detach(b, t->host.cpu);
	hr_hostmem_free(&t->host);
}

int hr_post_workers(struct hr_backend *backend, char *detail)
{
	struct trial t = { .backend = backend, .detail = detail };
	uint32_t most;
	int err;

	t.threads = backend->max_threads < THREADS_MAX ? backend->max_threads : THREADS_MAX;
	most = backend->ops->resident(backend, HR_KERNEL_PROBE, t.threads, 0);
	t.blocks = most < BLOCKS_MAX ? most : BLOCKS_MAX;
	t.pages = t.blocks * t.threads < PAGES ? t.blocks * t.threads : PAGES;
	if (t.pages < PAGES_LEAST)
		t.pages = PAGES_LEAST;
	err = take_ground(&t);
	if (err)
		snprintf(detail, HR_POST_DETAIL, "no memory for the test (see the log)");
	else
		err = there_and_back(&t);
	if (!t.stuck)
		give_ground(&t);
	if (!err)
		snprintf(detail, HR_POST_DETAIL,
			 "%u blocks of %u threads, %u KiB to memory of theirs and back, the same; "
			 "CPU asks and is answered in %.2f us",
			 t.blocks, t.threads, t.pages * HR_PAGE >> 10, (double)t.round_ns / 1000);
	return err;
}

void hr_post_kernels(const struct hr_gpu_facts *f, char *detail)
{
	size_t n = 0;

	for (unsigned i = 0; i < f->kernels && n < HR_POST_DETAIL; i++)
		n += (size_t)snprintf(detail + n, HR_POST_DETAIL - n,
				      "%s%s: %u registers, %u bytes local, up to %u threads",
				      i ? "; " : "", f->kernel[i].name, f->kernel[i].registers,
				      f->kernel[i].local_bytes, f->kernel[i].max_threads);
}
