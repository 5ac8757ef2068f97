/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of I/O workers: each missing page once, merged neighbours, victims, several ssds, page
 * sizes, staging; a set whose frames are all in use.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/objects/objects.h"
#include "cache/page_policy.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "tests/harness/access_rig.h"
#include "tests/harness/random.h"
#include "tests/harness/threads.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS (20 * HR_NS_PER_S)

TestSuite(io, .timeout = 120);

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
		cr_assert_fail("%s, page %llu", hr_error_name(failure->error, text, sizeof text),
			       (unsigned long long)failure->tile);
}

/* Read `bytes` at an offset, and compare with the model. */
static void read_and_check(struct hr_objects *objects, uint32_t object, uint64_t offset,
			   uint64_t bytes)
{
	const struct hr_object *o = hr_get_object_map(objects, object);
	uint8_t *data = malloc(bytes + 1);
	const uint64_t left = o->bytes > offset ? o->bytes - offset : 0;
	const int64_t want = (int64_t)(left < bytes ? left : bytes);
	const int64_t got = hr_pread(objects, o, offset, data, bytes);

	if (got != want)
		cr_assert_fail("object %u, %llu bytes at %llu: %lld", object,
			       (unsigned long long)bytes, (unsigned long long)offset,
			       (long long)got);
	if (memcmp(data, rig.model[object] + offset, (size_t)got))
		cr_assert_fail("object %u, %llu bytes at %llu: wrong data", object,
			       (unsigned long long)bytes, (unsigned long long)offset);
	free(data);
}

/* Each worker reads all pages of all objects once, in an order of its own. */
static void read_all(struct hr_objects *objects)
{
	const struct hr_page_cache *cache = objects->cache;
	const uint64_t page = 1ull << cache->shape.page_shift;

	for (uint32_t i = 0; i < cache->objects; i++) {
		const struct hr_object *o = &cache->object[i];

		for (uint32_t p = 0; p < o->pages; p++) {
			const uint64_t at =
				(p + objects->worker * (o->pages / objects->workers)) % o->pages;

			read_and_check(objects, i, at * page, page);
		}
	}
}

Test(io, a_page_is_read_once_however_many_workers_want_it)
{
	const struct access_work work = {
		.objects = 1, .bytes = { 256 * 4096 - 100 }, .frames = 2000, .io = 2, .compute = 4
	};
	struct hr_io_counters c;

	up(1, "lba=512");
	run(&work, read_all);
	expect_no_failure();
	c = access_counters(&rig);
	cr_expect_eq(c.reads, 256);
	cr_expect_eq(c.evictions, 0);
	cr_expect_leq(c.read_commands, c.reads);
	cr_expect_eq(c.requests, c.reads + c.merges);
	cr_expect_eq(c.write_backs, 0);
	access_down(&rig);
}

Test(io, pages_of_all_sizes_come_direct_and_by_staging_memory)
{
	up(1, "lba=4096,mdts=4");
	for (uint32_t shift = 12; shift <= 16; shift += THREAD_STEP(2u))
		for (uint32_t staging = 0; staging < 2; staging++) {
			const struct access_work work = { .objects = 2,
							  .bytes = { (13u << shift) + 1,
								     (5u << shift) - 4096 },
							  .page_shift = shift,
							  .frames = 100,
							  .io = 1 + staging,
							  .compute = 2,
							  .staging = staging };

			run(&work, read_all);
			expect_no_failure();
			cr_expect_eq(access_counters(&rig).reads, 14 + (shift == 12 ? 4 : 5));
		}
	access_down(&rig);
}

/* Reads with offsets and lengths of all kinds in random order. */
static void read_randomly(struct hr_objects *objects)
{
	struct fake_random random = { rig.seed + 77 + objects->worker };

	for (uint32_t i = 0; i < 60; i++) {
		const uint32_t object =
			(uint32_t)(fake_random_u64(&random) >> 40) % objects->cache->objects;
		const uint64_t all = objects->cache->object[object].bytes;
		const uint64_t at = (fake_random_u64(&random) >> 20) % (all + 10);
		const uint64_t bytes = (fake_random_u64(&random) >> 20) % 20000;

		read_and_check(objects, object, at, bytes);
	}
}

Test(io, pages_leave_small_caches_and_come_back)
{
	up(2, "lba=512");
	for (uint32_t policy = 0; policy < HR_POLICIES; policy++)
		for (uint32_t io = 1; io <= 3; io++) {
			if (access_leaves_out(policy, io))
				continue;
			const struct access_work work = { .objects = 3,
							  .bytes = { 300000, 200001, 4096 },
							  .frames = 7 << policy % 3 * 2,
							  .policy = policy,
							  .io = io,
							  .compute = 3,
							  .commands = io == 1 ? 1 : 8,
							  .staging = io == 2 };
			struct hr_io_counters c;

			run(&work, read_randomly);
			expect_no_failure();
			c = access_counters(&rig);
			cr_expect_gt(c.evictions, 0);
			cr_expect_leq(c.evictions, c.reads);
		}
	access_down(&rig);
}

/* One long read: all its pages are requested together. */
static void read_at_once(struct hr_objects *objects)
{
	read_and_check(objects, 0, 0, 64 * 4096);
}

Test(io, neighbours_share_a_command)
{
	const struct access_work work = { .objects = 1, .bytes = { 64 * 4096 }, .frames = 1000 };
	struct hr_io_counters c;

	up(1, "lba=4096");
	run(&work, read_at_once);
	expect_no_failure();
	c = access_counters(&rig);
	cr_expect_eq(c.reads, 64);
	cr_expect_leq(c.read_commands, 32, "%llu", (unsigned long long)c.read_commands);
	access_down(&rig);
}

/* Keep every page in use. */
static void keep_pages(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);

	for (uint64_t p = 0; p < o->pages; p++)
		if (!hr_page(objects, o, p)) {
			cr_assert_geq(p, 7);
			cr_assert_eq(objects->error, -EDEADLK);
			return;
		}
	cr_assert_fail("more pages than frames");
}

Test(io, an_operator_that_holds_all_frames_ends_with_an_error)
{
	const struct access_work work = {
		.objects = 1, .bytes = { 100 * 4096 }, .frames = 14, .timeout_ns = HR_NS_PER_S / 5
	};
	const struct hr_failure *failure;

	up(1, "lba=4096");
	run(&work, keep_pages);
	failure = access_failure(&rig);
	cr_assert_not_null(failure);
	cr_expect_eq(failure->error, -EDEADLK);
	cr_expect_eq(failure->object, ACCESS_OBJECT_ID(0));
	cr_expect_lt(failure->tile, 100);
	access_down(&rig);
}

/* ---- a page that waits while a ring is used once round */

#define RING_OBJECTS 4u
#define RING_PAGES 490u

static uint32_t stage; /* 1: pages wait for a frame; 2: the other worker has read enough */

static uint32_t set_of(const struct hr_objects *objects, const struct hr_object *o, uint32_t page)
{
	return hr_page_position_of(&objects->cache->shape, o->first_page + page).set;
}

/* Keep the pages of a set but for one, and request two more: one of them waits. */
static void keep_a_set(struct hr_objects *objects)
{
	const uint32_t set = set_of(objects, hr_get_object_map(objects, 0), 0);
	uint32_t found = 0, last = 0;

	for (uint32_t n = 0; n < RING_OBJECTS * RING_PAGES && found < HR_WAYS + 1; n++) {
		const struct hr_object *o = hr_get_object_map(objects, n / RING_PAGES);

		if (set_of(objects, o, n % RING_PAGES) != set)
			continue;
		if (found++ < HR_WAYS - 1)
			cr_assert_not_null(hr_page(objects, o, n % RING_PAGES));
		else
			hr_page_prefetch(objects, o, n % RING_PAGES);
		last = n;
	}
	cr_assert_eq(found, HR_WAYS + 1);
	hr_release_u32(&stage, 1);
	while (hr_acquire_u32(&stage) != 2)
		hr_yield();
	hr_quiescent(objects);
	read_and_check(objects, last / RING_PAGES, last % RING_PAGES * 4096ull, 4096);
}

/* Read more pages of other sets than a ring has entries. */
static void pass_the_ring(struct hr_objects *objects)
{
	const uint32_t set = set_of(objects, hr_get_object_map(objects, 0), 0);
	const struct hr_object *o = hr_get_object_map(objects, RING_OBJECTS - 1);

	if (objects->worker == 0) {
		keep_a_set(objects);
		return;
	}
	while (hr_acquire_u32(&stage) != 1) {
		hr_quiescent(objects);
		hr_yield();
	}
	for (uint32_t p = 0, read = 0; read < HR_REQUESTS + 40; p++) {
		if (set_of(objects, o, p) == set)
			continue;
		read_and_check(objects, RING_OBJECTS - 1, p * 4096ull, 100);
		read++;
	}
	hr_release_u32(&stage, 2);
}

/* The pages of all objects are nine for each set. */
Test(io, a_page_that_waits_for_a_frame_does_not_block_its_ring)
{
	const struct access_work work = { .objects = RING_OBJECTS,
					  .bytes = { RING_PAGES * 4096, RING_PAGES * 4096,
						     RING_PAGES * 4096, RING_PAGES * 4096 },
					  .frames = 1470,
					  .compute = 2 };

	up(1, "lba=4096");
	stage = 0;
	run(&work, pass_the_ring);
	expect_no_failure();
	access_down(&rig);
}

/* ---- epochs */

#define KEEPER_ROUNDS 50u

static uint32_t kept; /* workers that have kept the epoch */

/* Wait until each I/O worker has gone through some more rounds. */
static void await_rounds(const struct hr_access *access)
{
	for (uint32_t i = 0; i < hr_access_io_workers(access); i++) {
		const uint64_t *beat = &access->status[i].heartbeat;
		const uint64_t from = hr_acquire_sys_u64(beat);

		while (hr_acquire_sys_u64(beat) < from + KEEPER_ROUNDS)
			hr_yield();
	}
}

/* One worker after the other makes no call for a time, while the others say that they use no page. */
static void keep_the_epoch(struct hr_objects *objects)
{
	const struct hr_page_cache *cache = objects->cache;
	const uint32_t *seen = &cache->worker[objects->seat].seen;
	uint32_t k, epoch;

	for (k = 0; k < objects->workers; k++) {
		if (k != objects->worker) {
			while (hr_acquire_u32(&kept) <= k) {
				hr_quiescent(objects);
				hr_yield();
			}
			continue;
		}
		hr_quiescent(objects);
		await_rounds(rig.access);
		epoch = hr_acquire_u32(&cache->words->epoch);
		if (epoch > *seen + 1)
			cr_assert_fail("worker %u has seen epoch %u, the present one is %u", k,
				       *seen, epoch);
		hr_release_u32(&kept, k + 1);
	}
	epoch = *seen;
	while (hr_acquire_u32(&cache->words->epoch) < epoch + 4) {
		hr_quiescent(objects);
		hr_yield();
	}
}

Test(io, no_epoch_passes_a_compute_worker)
{
	static const struct access_work work[] = {
		{ .objects = 1, .bytes = { 4096 }, .io = 3, .compute = 5 },
		{ .objects = 1, .bytes = { 4096 }, .io = 1, .compute = 3 },
		{ .objects = 1, .bytes = { 4096 }, .io = 4, .compute = 2 },
	};

	up(1, "lba=512");
	for (size_t i = 0; i < ROWS(work); i++) {
		kept = 0;
		run(&work[i], keep_the_epoch);
		expect_no_failure();
	}
	access_down(&rig);
}

/* ---- pages that wait together, with one command at a time */

#define WAITERS 6u
#define OFFERED 2u /* of them: to be written as a whole */
#define AGAIN 40u  /* more than pages can wait */

/* Add the waiting pages that have a frame now to the bits of those that had one. Returns the first of
 * the others. */
static uint32_t look_for_pages(const struct hr_page_cache *cache, uint32_t *seen)
{
	for (uint32_t i = 0; i < WAITERS; i++) {
		const uint32_t word = hr_cache_word(cache, HR_WAYS + i);

		if (word == HR_PAGE_FREE)
			continue;
		*seen |= 1u << i;
		cr_assert_eq(HR_PAGE_KIND(word) == HR_PAGE_OFFERED, i == OFFERED, "page %u", i);
	}
	return (uint32_t)__builtin_ctz(~*seen);
}

/* All frames are held, so each further page waits, and one is wanted again and again. Each gets a
 * frame by its only request, and until then the ring tells that the request was not taken. */
static void wait_together(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	struct hr_request_ring *ring = objects->cache->ring;
	const uint64_t end = hr_now_ns() + TIMEOUT_NS;
	uint32_t seen = 0, absent = 0;
	uint64_t first, ticket;

	for (uint32_t p = 0; p < HR_WAYS; p++)
		cr_assert_not_null(hr_page(objects, o, p));
	first = hr_acquire_u64(&ring->tail);
	for (uint32_t i = 0; i < AGAIN; i++)
		hr_page_prefetch(objects, o, HR_WAYS);
	for (uint32_t p = HR_WAYS + 1; p < HR_WAYS + WAITERS; p++)
		if (p == HR_WAYS + OFFERED)
			(void)hr_cache_request(objects, ring, p, false, HR_REQUEST_WHOLE,
					       objects->held);
		else
			hr_page_prefetch(objects, o, p);
	await_rounds(rig.access);
	while (absent < WAITERS) {
		const uint64_t taken = hr_acquire_u64(&ring->taken);

		absent = look_for_pages(objects->cache, &seen);
		ticket = first + absent + (absent ? AGAIN - 1 : 0);
		if (absent < WAITERS && taken > ticket)
			cr_assert_fail("request %u still waits", absent);
		if (taken == ticket)
			hr_quiescent(objects);
		if (hr_now_ns() > end)
			cr_assert_fail("request %u waits, and %lld are taken", absent,
				       (long long)(taken - first));
		hr_yield();
	}
	read_and_check(objects, 0, (HR_WAYS + OFFERED) * 4096, 4096);
}

Test(io, each_page_that_waits_gets_a_frame_by_its_only_request)
{
	const struct access_work work = { .objects = 1,
					  .bytes = { (HR_WAYS + WAITERS) * 4096 },
					  .writable = 1,
					  .frames = HR_WAYS,
					  .policy = HR_POLICY_LRU,
					  .commands = 1 };
	struct hr_io_counters c;

	up(1, "lba=4096");
	run(&work, wait_together);
	expect_no_failure();
	c = access_counters(&rig);
	cr_expect_eq(c.reads, HR_WAYS + WAITERS, "%llu", (unsigned long long)c.reads);
	cr_expect_eq(c.whole, 1);
	access_down(&rig);
}
