/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several gpus over the same objects: each page is read from an ssd once, and copied from the frames of
 * other gpus. Barrier and states span all gpus. A run that ends on one gpu ends on all.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/objects/objects.h"
#include "cache/page_policy.h"
#include "cache/peers.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "gpu/worker/io/peers.h"
#include "tests/harness/access_rig.h"
#include "tests/harness/random.h"

#define TIMEOUT_NS (20 * HR_NS_PER_S)

TestSuite(io_peers, .timeout = 120);

static struct access_rig rig;

static void up(uint32_t ssds, const char *options)
{
	access_memory = 24u << 20;
	access_up(&rig, ssds, options, NULL, 64, TIMEOUT_NS);
}

static void run(const struct access_work *work, void (*op)(struct hr_objects *objects))
{
	rig.op.run = op;
	access_start(&rig, work);
	access_wait(&rig);
}

static void expect_no_failure(void)
{
	const struct hr_failure *failure = access_failure(&rig);
	char text[HR_LOG_LINE_MAX];

	if (failure)
		cr_assert_fail("%s, page %llu, gpu %d",
			       hr_error_name(failure->error, text, sizeof text),
			       (unsigned long long)failure->tile, (int)failure->peer - 1);
}

static void read_and_check(struct hr_objects *objects, uint64_t offset, uint64_t bytes)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	uint8_t *data = malloc(bytes + 1);
	const int64_t got = hr_pread(objects, o, offset, data, bytes);

	if (got < 0 || memcmp(data, rig.model[0] + offset, (size_t)got))
		cr_assert_fail("%llu bytes at %llu: %lld, or wrong data", (unsigned long long)bytes,
			       (unsigned long long)offset, (long long)got);
	free(data);
}

/* Pages that workers have read in the memory of another gpu. */
static uint64_t peer_reads(void)
{
	uint64_t all = 0;

	for (uint32_t g = 0; g < rig.gpus; g++)
		for (uint32_t w = 0; w < rig.gpu[g]->cache.computers; w++)
			all += rig.gpu[g]->cache.worker[w].peer_reads;
	return all;
}

/* Each worker reads all pages once, in an order of its own. */
static void read_all(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	const uint64_t page = 1ull << objects->cache->shape.page_shift;

	for (uint32_t p = 0; p < o->pages; p++) {
		const uint64_t at =
			(p + objects->worker * (o->pages / objects->workers)) % o->pages;

		read_and_check(objects, at * page, page);
	}
}

Test(io_peers, each_page_is_read_from_the_ssd_once_by_all_gpus)
{
	up(1, "lba=512");
	for (uint32_t gpus = 2; gpus <= 3; gpus++) {
		const struct access_work work = { .objects = 1,
						  .bytes = { 200 * 4096 - 100 },
						  .frames = 2000,
						  .io = 2,
						  .compute = 2,
						  .staging = gpus == 3,
						  .gpus = gpus };
		struct hr_io_counters c;

		run(&work, read_all);
		expect_no_failure();
		c = access_counters(&rig);
		cr_expect_eq(c.reads, 200, "%llu reads", (unsigned long long)c.reads);
		/* other reads were in place, and their copies had no time */
		cr_expect_leq(c.copies, 200 * (gpus - 1), "%llu copies",
			      (unsigned long long)c.copies);
		cr_expect_gt(peer_reads(), 0u);
		cr_expect_eq(c.requests, c.reads + c.copies + c.merges);
		cr_expect_eq(c.evictions, 0);
		cr_expect_eq(c.invalidations, 0);
	}
	access_down(&rig);
}

/* In its first round a worker takes requests before it looks at mailboxes. With a wrong time in the
 * worker such a request would count as late at once. */
Test(io_peers, a_worker_has_the_time_before_its_first_round)
{
	struct hr_peers peers = { .timeout_ns = 4 * HR_NS_PER_S };
	struct hr_access access = { .cache.peers = &peers };
	struct hr_io_worker w = { .access = &access };
	const uint64_t before = hr_now_ns();

	hr_io_peers_start(&w);
	cr_assert_eq(w.peer_shift, 29, "%u", w.peer_shift); /* a unit of this time is at most 1 s */
	cr_expect(w.peer_time >= before >> 29 && w.peer_time <= hr_now_ns() >> 29, "%u",
		  w.peer_time);
}

/* ---- barrier, states and finish() over all gpus */

#define WORKERS 4u

static uint32_t finished, found[WORKERS];

static void stamp_and_meet(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);

	cr_assert_eq(objects->workers, WORKERS);
	for (uint64_t round = 1; round <= 20; round++) {
		hr_set_u64(objects, o, objects->worker, round);
		cr_assert_eq(hr_workers_sync(objects), 0);
		for (uint32_t i = 0; i < WORKERS; i++)
			cr_assert_eq(hr_get_u64(objects, o, i), round);
		cr_assert_eq(hr_workers_sync(objects), 0);
	}
	for (uint32_t g = 0; g < rig.gpus; g++)
		if (objects->cache == &rig.gpu[g]->cache)
			((uint32_t *)(void *)rig.gpu[g]->op_states)[objects->seat] =
				100 + objects->worker;
}

static void count_states(const struct hr_op_all *all)
{
	finished++;
	cr_assert_eq(all->workers, WORKERS);
	memcpy(found, all->states, sizeof found);
}

Test(io_peers, barrier_and_states_span_all_gpus)
{
	const struct access_work work = { .objects = 1,
					  .bytes = { 64 * 4096 },
					  .writable = 1,
					  .compute = 2,
					  .state_bytes = sizeof(uint32_t),
					  .gpus = 2 };

	up(1, "lba=512");
	rig.op.finish = count_states;
	run(&work, stamp_and_meet);
	expect_no_failure();
	cr_expect_eq(finished, 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		cr_expect_eq(found[i], 100 + i);
	access_down(&rig);
}

/* ---- idle I/O workers */

#define PAUSE_NS (HR_NS_PER_S / 2)
#define ROUND_NS 100000u /* a third of the longest pause */

static uint64_t pause_ns[2], pause_rounds[2]; /* of each gpu */

static uint64_t rounds_of(uint32_t gpu)
{
	return hr_acquire_sys_u64(&rig.gpu[gpu]->status[0].heartbeat);
}

/* Wait without requests, when no other worker has one. On a machine with much other work an I/O worker
 * that does not sleep has few rounds, too. */
static void read_then_pause(struct hr_objects *objects)
{
	const uint32_t g = objects->worker;
	uint64_t start, rounds;

	read_and_check(objects, 0, 4096);
	hr_workers_sync(objects);
	start = hr_now_ns();
	rounds = rounds_of(g);
	while (hr_now_ns() - start < PAUSE_NS) {
		hr_quiescent(objects);
		hr_wait_ns(PAUSE_NS / 50);
	}
	pause_rounds[g] = rounds_of(g) - rounds;
	pause_ns[g] = hr_now_ns() - start;
}

Test(io_peers, idle_workers_sleep)
{
	const struct access_work work = { .objects = 1, .bytes = { 8 * 4096 }, .gpus = 2 };

	up(1, "lba=512");
	run(&work, read_then_pause);
	expect_no_failure();
	for (uint32_t g = 0; g < 2; g++) {
		cr_expect_gt(pause_ns[g], 0u, "gpu %u", g);
		cr_expect_lt(pause_rounds[g], 5000 + pause_ns[g] / ROUND_NS,
			     "%llu rounds of gpu %u", (unsigned long long)pause_rounds[g], g);
	}
	access_down(&rig);
}
