/* SPDX-License-Identifier: Apache-2.0 */
/* Gpu 0 runs the product's code; the test acts as the I/O workers of the other gpus, which also break
 * the protocol, and checks each message of gpu 0. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "cache/objects/objects.h"
#include "cache/peers.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "tests/harness/access_rig.h"

#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define PAGES 64u

TestSuite(io_peers_script, .timeout = 120);

static struct access_rig rig;
static struct hr_objects *self; /* objects of the compute worker */
static void (*part)(struct hr_objects *objects);
static uint32_t actor; /* the gpu that the test acts as */
static uint64_t sent[ACCESS_GPUS_MAX][HR_PEER_RINGS], taken[ACCESS_GPUS_MAX][HR_PEER_RINGS];

static const struct access_work script = {
	.objects = 1,
	.bytes = { PAGES * 4096 },
	.writable = 1,
	.frames = 112,
	.gpus = 2,
	.scripted = true,
};

static struct hr_mailbox *to(void)
{
	return rig.gpu[actor]->cache.peers->gpu[0].to;
}

static void post(uint32_t ring, struct hr_peer_message m)
{
	const uint64_t ticket = sent[actor][ring]++;

	__atomic_store_n(hr_peer_entry(to(), ring, ticket),
			 hr_peer_pack(&m) | HR_PEER_LAP(ring, ticket) << HR_PEER_LAP_SHIFT,
			 __ATOMIC_RELEASE);
}

static void send(enum hr_peer_kind kind, uint32_t page, uint32_t way, bool flag)
{
	post(kind <= HR_PEER_DROP ? HR_TO_HOME : HR_FROM_HOME,
	     (struct hr_peer_message){ page, way, kind, flag, 0, 0 });
}

/* The order to copy a page from gpu 1. */
static void send_copy(uint32_t page, uint32_t way, uint32_t from_way)
{
	post(HR_FROM_HOME, (struct hr_peer_message){ page, way, HR_PEER_COPY, false, 1, from_way });
}

/* Wait a little; the compute worker of gpu 0, which runs the test, uses no page meanwhile. */
static void wait(uint32_t *spins)
{
	if (!self->held)
		hr_quiescent(self);
	hr_idle(spins);
}

/* The next message of gpu 0 in a ring. */
static struct hr_peer_message next(uint32_t ring)
{
	struct hr_mailbox *from = rig.gpu[actor]->cache.peers->from;
	const uint64_t ticket = taken[actor][ring]++;
	uint32_t spins = 0;
	uint64_t entry;

	do {
		entry = __atomic_load_n(hr_peer_entry(from, ring, ticket), __ATOMIC_ACQUIRE);
		wait(&spins);
	} while (entry >> HR_PEER_LAP_SHIFT != HR_PEER_LAP(ring, ticket));
	__atomic_store_n(&to()->taken[ring], ticket + 1, __ATOMIC_RELEASE);
	return hr_peer_unpack(entry);
}

static struct hr_peer_message expect(enum hr_peer_kind kind, uint32_t page, uint32_t way)
{
	const struct hr_peer_message m = next(kind <= HR_PEER_DROP ? HR_TO_HOME : HR_FROM_HOME);

	cr_assert(m.kind == kind && m.page == page && (m.way == way || way >= HR_WAYS),
		  "message %u of page %u, way %u; not %u of page %u, way %u", m.kind, m.page, m.way,
		  kind, page, way);
	return m;
}

static uint32_t set_of(uint32_t page)
{
	return hr_page_position_of(&rig.gpu[0]->cache.shape, page).set;
}

/* The n-th page with this home. */
static uint32_t page_of(uint32_t home, uint32_t n)
{
	const struct hr_page_cache *cache = &rig.gpu[0]->cache;

	for (uint32_t page = 0;; page++) {
		const uint32_t group = set_of(page) >> cache->shape.group_shift;

		if (hr_peers_home(cache, rig.gpus, group) == home && n-- == 0)
			return page;
	}
}

/* The other gpus have no more requests; their data are durable. */
static void done(void)
{
	for (actor = 1; actor < rig.gpus; actor++) {
		__atomic_store_n(&rig.gpu[actor]->cache.flushed[0], UINT64_MAX, __ATOMIC_RELEASE);
		__atomic_store_n(&to()->done, 1, __ATOMIC_RELEASE);
	}
}

static void play(struct hr_objects *objects)
{
	self = objects;
	actor = 1;
	/* no worker of another gpu reads a frame of gpu 0 */
	for (uint32_t g = 1; g < rig.gpus; g++)
		hr_release_sys_u32(&rig.gpu[0]->cache.peers->words->passed[g], HR_EPOCH_ENDED);
	part(objects);
}

static void start(const struct access_work *work, void (*op)(struct hr_objects *objects))
{
	access_up(&rig, 1, "lba=512", NULL, 64, TIMEOUT_NS);
	memset(sent, 0, sizeof sent);
	memset(taken, 0, sizeof taken);
	rig.op.run = play;
	part = op;
	access_start(&rig, work);
	access_wait(&rig);
}

static void expect_no_failure(void)
{
	const struct hr_failure *failure = access_failure(&rig);

	if (failure)
		cr_assert_fail("error %d, gpu %d", failure->error, (int)failure->peer - 1);
}

static uint64_t model(uint32_t page)
{
	return *(const uint64_t *)(const void *)(rig.model[0] + page * 4096ull);
}

/* Prefetch a page: the call does not wait, so the test can check the messages of the miss. */
static void want(struct hr_objects *objects, uint32_t page)
{
	(void)hr_pread_prefetch(objects, hr_get_object_map(objects, 0), page * 4096ull, 1);
}

static uint64_t get(struct hr_objects *objects, uint32_t page)
{
	return hr_get_u64(objects, hr_get_object_map(objects, 0), page * 512ull);
}

static void home_fills_and_upgrades(struct hr_objects *objects)
{
	const uint32_t page = page_of(0, 0), set = set_of(page);

	send(HR_PEER_GET, page, 2, false);
	expect(HR_PEER_FILL, page, 2);
	send(HR_PEER_FILLED, page, 2, false);
	send(HR_PEER_UPGRADE, page, 2, false);
	expect(HR_PEER_GRANT, page, 2);
	send(HR_PEER_DROP, set, 2, false);
	expect(HR_PEER_DROPPED, set, 2);
	/* after a failed read the home forgets the page, and the next GET reads it again */
	send(HR_PEER_GET, page, 3, true);
	expect(HR_PEER_FILL, page, 3);
	send(HR_PEER_FILLED, page, 3, true);
	send(HR_PEER_GET, page, 3, true);
	expect(HR_PEER_FILL, page, 3);
	send(HR_PEER_FILLED, page, 3, false);
	expect(HR_PEER_GRANT, page, 3);
	/* the page is clean at gpu 1 before gpu 0 copies it */
	memcpy(rig.gpu[1]->cache.frame + hr_page_frame(set, 3) * 4096, "written1", 8);
	want(objects, page);
	expect(HR_PEER_CLEAN, page, 3);
	send(HR_PEER_CLEANED, page, 3, false);
	cr_assert_eq(get(objects, page), *(const uint64_t *)(const void *)"written1");
	done();
}

Test(io_peers_script, home_fills_grants_and_drops)
{
	start(&script, home_fills_and_upgrades);
	expect_no_failure();
	cr_expect_eq(access_counters(&rig).copies, 1);
	cr_expect_eq(access_counters(&rig).reads, 0);
	access_down(&rig);
}

static void home_copies(struct hr_objects *objects)
{
	const uint32_t page = page_of(0, 1);
	struct hr_peer_message m;

	cr_assert_eq(get(objects, page), model(page));
	send(HR_PEER_GET, page, 1, true);
	m = expect(HR_PEER_COPY, page, 1);
	cr_assert_eq(m.from_gpu, 0);
	cr_assert_eq(*(const uint64_t *)(const void *)hr_cache_frame(&rig.gpu[0]->cache,
								     set_of(page), m.from_way),
		     model(page));
	send(HR_PEER_FILLED, page, 1, false);
	/* gpu 0 drops its copy, and then gpu 1 may write */
	expect(HR_PEER_GRANT, page, 1);
	cr_assert_eq(hr_cache_word(objects->cache, page), HR_PAGE_FREE);
	done();
}

Test(io_peers_script, home_copies_and_invalidates)
{
	start(&script, home_copies);
	expect_no_failure();
	cr_expect_eq(access_counters(&rig).invalidations, 1);
	cr_expect_eq(access_counters(&rig).reads, 1);
	access_down(&rig);
}

/* Gpu 2 copies a page from gpu 1, which gives up its frame meanwhile. */
static void home_keeps_the_source(struct hr_objects *objects)
{
	const uint32_t page = page_of(0, 0), other = page_of(0, 1);
	struct hr_peer_message m;

	send(HR_PEER_GET, page, 2, false);
	expect(HR_PEER_FILL, page, 2);
	send(HR_PEER_FILLED, page, 2, false);
	actor = 2;
	send(HR_PEER_GET, page, 4, false);
	m = expect(HR_PEER_COPY, page, 4);
	cr_assert(m.from_gpu == 1 && m.from_way == 2);
	actor = 1;
	send(HR_PEER_DROP, set_of(page), 2, false);
	/* the home handles the messages of a gpu in their order */
	send(HR_PEER_GET, other, 5, false);
	expect(HR_PEER_FILL, other, 5);
	send(HR_PEER_FILLED, other, 5, false);
	actor = 2;
	send(HR_PEER_FILLED, page, 4, false);
	actor = 1;
	expect(HR_PEER_DROPPED, set_of(page), 2);
	done();
}

Test(io_peers_script, a_frame_that_is_copied_is_not_given_up)
{
	struct access_work three = script;

	three.gpus = 3;
	start(&three, home_keeps_the_source);
	expect_no_failure();
	access_down(&rig);
}

static bool is_free(uint32_t set, uint32_t way)
{
	const struct hr_page_cache *cache = &rig.gpu[0]->cache;

	return __atomic_load_n(&cache->set[set].tag[way], __ATOMIC_ACQUIRE) == HR_PAGE_FREE;
}

/* Gpu 1 is the home. */
static void holder_obeys(struct hr_objects *objects)
{
	const uint32_t page = page_of(1, 0);
	uint32_t spins = 0;
	struct hr_peer_message m;

	want(objects, page);
	m = expect(HR_PEER_GET, page, HR_WAYS);
	cr_assert(!m.flag);
	send(HR_PEER_FILL, page, m.way, false);
	expect(HR_PEER_FILLED, page, m.way);
	cr_assert_eq(get(objects, page), model(page));
	cr_assert(hr_cache_word(objects->cache, page) & HR_PAGE_SHARED);
	send(HR_PEER_GRANT, page, m.way, false);
	while (hr_cache_word(objects->cache, page) & HR_PAGE_SHARED)
		hr_idle(&spins);
	hr_set_u64(objects, hr_get_object_map(objects, 0), page * 512ull, 1234);
	cr_assert_eq(HR_PAGE_STATE(hr_cache_word(objects->cache, page)), HR_PAGE_DIRTY);
	send(HR_PEER_CLEAN, page, m.way, false);
	expect(HR_PEER_CLEANED, page, m.way);
	cr_assert_eq(HR_PAGE_KIND(hr_cache_word(objects->cache, page)),
		     HR_PAGE_READY | HR_PAGE_SHARED);
	send(HR_PEER_INVALIDATE, page, m.way, false);
	expect(HR_PEER_DROP, set_of(page), m.way);
	cr_assert_eq(hr_cache_word(objects->cache, page), HR_PAGE_FREE);
	send(HR_PEER_DROPPED, set_of(page), m.way, false);
	while (!is_free(set_of(page), m.way))
		wait(&spins);
	done();
}

Test(io_peers_script, holder_cleans_and_leaves)
{
	start(&script, holder_obeys);
	expect_no_failure();
	cr_expect_eq(access_counters(&rig).write_backs, 1);
	cr_expect_eq(access_counters(&rig).invalidations, 1);
	*(uint64_t *)(void *)(rig.model[0] + page_of(1, 0) * 4096ull) = 1234;
	access_check_disk(&rig, 0);
	access_down(&rig);
}

/* ---- pages that a worker reads in the cache of the other gpu */

/* Gpu 1 has a page in a way, with one value in each 8 bytes. */
static void hold_there(uint32_t page, uint32_t way, uint32_t state, uint64_t value)
{
	const struct hr_page_cache *cache = &rig.gpu[1]->cache;
	const struct hr_page_position position = hr_page_position_of(&cache->shape, page);
	uint64_t *frame = (uint64_t *)(void *)hr_cache_frame(cache, position.set, way);

	for (uint32_t i = 0; i < 512; i++)
		frame[i] = value;
	hr_release_sys_u32(&cache->set[position.set].tag[way], HR_PAGE_WORD(position.tag, state));
}

/* Requests of compute workers for pages of all rings. */
static uint64_t requests(void)
{
	const struct hr_page_cache *cache = &rig.gpu[0]->cache;
	uint64_t all = 0;

	for (uint32_t w = 0; w < cache->io_workers; w++)
		all += hr_acquire_u64(&cache->ring[w].tail);
	return all;
}

static void reads_there(struct hr_objects *objects)
{
	static const uint32_t states[] = { HR_PAGE_READY, HR_PAGE_READY | HR_PAGE_SHARED,
					   HR_PAGE_DIRTY, HR_PAGE_WRITING, HR_PAGE_REDIRTY };
	const uint32_t page = page_of(1, 0), all = HR_PEER_READS_OF_COPY;
	const struct hr_object *o = hr_get_object_map(objects, 0);
	struct hr_peer_message m;
	uint64_t data[2], count = 0;

	for (uint32_t i = 0; count < all; i++) {
		cr_assert_eq(requests(), 0, "after %llu reads", (unsigned long long)count);
		hold_there(page, 6, states[i % 5], 700 + i);
		cr_assert_eq(get(objects, page), 700 + i);
		cr_assert_geq(hr_pread_prefetch(objects, o, page * 4096ull, 4096), 0);
		cr_assert_eq(objects->peer_reads, ++count);
		cr_assert_eq(hr_pread(objects, o, page * 4096ull + 9 * 8, data, 16), 16);
		cr_assert(data[0] == 700 + i && data[1] == 700 + i);
		cr_assert_eq(objects->peer_reads, ++count);
	}
	/* the last of these reads has requested a copy; the next read is of the own frame */
	cr_assert_eq(requests(), 1);
	m = expect(HR_PEER_GET, page, HR_WAYS);
	hold_there(page, 6, HR_PAGE_READY | HR_PAGE_SHARED, 800);
	send_copy(page, m.way, 6);
	expect(HR_PEER_FILLED, page, m.way);
	hold_there(page, 6, HR_PAGE_READY | HR_PAGE_SHARED, 900);
	cr_assert_eq(get(objects, page), 800);
	cr_assert_eq(objects->peer_reads, all);
	done();
}

Test(io_peers_script, a_page_that_the_other_gpu_has_is_read_there)
{
	start(&script, reads_there);
	expect_no_failure();
	cr_expect_eq(access_counters(&rig).copies, 1);
	cr_expect_eq(access_counters(&rig).reads, 0);
	access_down(&rig);
}

/* Pages in other states have no data. */
static void reads_at_home(struct hr_objects *objects)
{
	const uint32_t page = page_of(1, 0);
	struct hr_peer_message m;

	hold_there(page, 0, HR_PAGE_LEFT, 1);
	hold_there(page, 1, HR_PAGE_READING, 1);
	hold_there(page, 2, HR_PAGE_ERROR, 1);
	hold_there(page_of(1, 1), 3, HR_PAGE_READY, 1);
	want(objects, page);
	m = expect(HR_PEER_GET, page, HR_WAYS);
	send(HR_PEER_FILL, page, m.way, false);
	cr_assert_eq(get(objects, page), model(page));
	expect(HR_PEER_FILLED, page, m.way);
	cr_assert_eq(objects->peer_reads, 0);
	done();
}

Test(io_peers_script, a_page_that_the_other_gpu_does_not_have_is_not_read_there)
{
	start(&script, reads_at_home);
	expect_no_failure();
	access_down(&rig);
}

/* A worker of gpu 1 may read a frame until gpu 1 has confirmed the epoch. */
static void leaves_after_the_others(struct hr_objects *objects)
{
	const struct hr_page_cache *cache = objects->cache;
	struct hr_peer_words *words = cache->peers->words;
	const uint32_t page = page_of(1, 0);
	const struct hr_mailbox *from = rig.gpu[actor]->cache.peers->from;
	struct hr_peer_message m;
	uint32_t spins = 0, first;
	uint64_t next_entry;

	want(objects, page);
	m = expect(HR_PEER_GET, page, HR_WAYS);
	send(HR_PEER_FILL, page, m.way, false);
	expect(HR_PEER_FILLED, page, m.way);
	first = hr_acquire_u32(&cache->words->epoch);
	hr_release_sys_u32(&words->passed[1], first);
	send(HR_PEER_INVALIDATE, page, m.way, false);
	/* the epochs of gpu 0 go on, and stop before gpu 1 has confirmed one */
	while (hr_acquire_u32(&cache->words->epoch) - first <= HR_PEER_EPOCHS)
		wait(&spins);
	next_entry = __atomic_load_n(hr_peer_entry((struct hr_mailbox *)(uintptr_t)from, HR_TO_HOME,
						   taken[actor][HR_TO_HOME]),
				     __ATOMIC_ACQUIRE);
	cr_assert_neq(next_entry >> HR_PEER_LAP_SHIFT,
		      HR_PEER_LAP(HR_TO_HOME, taken[actor][HR_TO_HOME]),
		      "DROP before gpu 1 has passed the epoch");
	cr_assert_eq(hr_acquire_sys_u32(&rig.gpu[1]->cache.peers->words->epoch[0]),
		     hr_acquire_u32(&cache->words->epoch), "gpu 1 knows the epoch");
	hr_release_sys_u32(&words->passed[1], HR_EPOCH_ENDED);
	expect(HR_PEER_DROP, set_of(page), m.way);
	send(HR_PEER_DROPPED, set_of(page), m.way, false);
	done();
}

Test(io_peers_script, a_frame_waits_for_the_workers_of_the_other_gpu)
{
	start(&script, leaves_after_the_others);
	expect_no_failure();
	access_down(&rig);
}

/* ---- gpus that do not answer, or that break the protocol */

static void (*misdeed)(struct hr_objects *objects);

static void until_stop(struct hr_objects *objects)
{
	uint32_t spins = 0;

	misdeed(objects);
	while (!__atomic_load_n(&objects->cache->words->stop, __ATOMIC_ACQUIRE)) {
		if (!objects->held)
			hr_quiescent(objects);
		hr_idle(&spins);
	}
}

/* Only tests that wait for the end of the deadline have a short one. */
static void fail_by(void (*of)(struct hr_objects *objects), int error, uint32_t peer)
{
	struct access_work work = script;
	const struct hr_failure *failure;

	if (error == -ETIMEDOUT)
		work.peer_timeout_ns = HR_NS_PER_S / 20;
	if (error == -EDEADLK)
		work.peer_timeout_ns = HR_NS_PER_S; /* messages before the end are in time */
	misdeed = of;
	start(&work, until_stop);
	failure = access_failure(&rig);
	cr_assert_not_null(failure);
	cr_expect_eq(failure->error, error, "%d", failure->error);
	cr_expect_eq(failure->peer, peer, "%u", failure->peer);
	cr_expect_eq(rig.gpu[1]->cache.peers->words->stop, 1, "the run ends on gpu 1, too");
	access_down(&rig);
}

static void fill_without_answer(struct hr_objects *objects)
{
	send(HR_PEER_GET, page_of(0, 0), 0, false);
}

static void home_without_answer(struct hr_objects *objects)
{
	want(objects, page_of(1, 0));
}

static void twice_the_same_way(struct hr_objects *objects)
{
	send(HR_PEER_GET, page_of(0, 0), 0, false);
	send(HR_PEER_GET, page_of(0, 0), 0, false);
}

static void cleaned_without_order(struct hr_objects *objects)
{
	send(HR_PEER_CLEANED, page_of(0, 0), 0, false);
}

static void page_of_another_home(struct hr_objects *objects)
{
	send(HR_PEER_GET, page_of(1, 0), 0, false);
}

static void page_beyond_the_objects(struct hr_objects *objects)
{
	send(HR_PEER_GET, 0xfffffff0u, 0, false);
}

static void fill_without_request(struct hr_objects *objects)
{
	send(HR_PEER_FILL, page_of(1, 0), 0, false);
}

/* Gpu 1 answers, but its workers do not pass an epoch. */
static void epoch_without_confirmation(struct hr_objects *objects)
{
	const uint32_t *epoch = &objects->cache->words->epoch;
	const uint32_t page = page_of(0, 0), first = hr_acquire_u32(epoch);
	uint32_t spins = 0;

	cr_assert_eq(get(objects, page), model(page));
	hr_release_sys_u32(&objects->cache->peers->words->passed[1], first);
	/* from then on only gpu 1 keeps gpu 0 from the next epoch, however busy the machine is */
	while (hr_acquire_u32(epoch) - first <= HR_PEER_EPOCHS)
		wait(&spins);
	send(HR_PEER_GET, page, 1, true);
	expect(HR_PEER_COPY, page, 1);
	send(HR_PEER_FILLED, page, 1, false);
}

Test(io_peers_script, a_gpu_that_does_not_answer_ends_the_run)
{
	fail_by(epoch_without_confirmation, -ETIMEDOUT, 2);
	fail_by(fill_without_answer, -ETIMEDOUT, 2);
	fail_by(home_without_answer, -ETIMEDOUT, 2);
}

static enum hr_peer_kind answer;

static void send_answer(struct hr_objects *objects)
{
	const uint32_t page = page_of(answer != HR_PEER_GET, 0);

	post(HR_FROM_HOME, (struct hr_peer_message){ page, 0, answer, false, 0, 0 });
}

Test(io_peers_script, a_message_that_does_not_fit_ends_the_run)
{
	static const enum hr_peer_kind wrong[] = { HR_PEER_NOTHING, HR_ENDPOINT_KINDS,
						   HR_PEER_GET };

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		answer = wrong[i];
		fail_by(send_answer, -EPROTO, 2);
	}
	fail_by(twice_the_same_way, -EPROTO, 2);
	fail_by(cleaned_without_order, -EPROTO, 2);
	fail_by(page_of_another_home, -EPROTO, 2);
	fail_by(page_beyond_the_objects, -EPROTO, 2);
	fail_by(fill_without_request, -EPROTO, 2);
}

/* Gpu 1 wants to write to a page that a worker of gpu 0 keeps. */
static void keep(struct hr_objects *objects)
{
	const uint32_t page = page_of(0, 0);

	cr_assert_not_null(hr_page(objects, hr_get_object_map(objects, 0), page));
	send(HR_PEER_GET, page, 1, true);
	expect(HR_PEER_COPY, page, 1);
	send(HR_PEER_FILLED, page, 1, false);
}

Test(io_peers_script, a_page_that_a_worker_keeps_ends_the_run)
{
	fail_by(keep, -EDEADLK, 0);
}

/* The run ends on gpu 1. */
static void stop_here(struct hr_objects *objects)
{
	__atomic_store_n(&rig.gpu[1]->cache.peers->gpu[0].words->stop, 1, __ATOMIC_RELEASE);
	want(objects, page_of(1, 0));
	(void)get(objects, page_of(1, 0));
	cr_assert_eq(objects->error, -ECANCELED);
}

Test(io_peers_script, a_run_that_ends_on_one_gpu_ends_on_all)
{
	start(&script, stop_here);
	cr_expect_null(access_failure(&rig));
	access_down(&rig);
}
