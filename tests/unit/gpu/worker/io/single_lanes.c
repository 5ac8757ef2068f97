/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/io/single.c: one call for a request, by the lanes of a worker. The controller is
 * a fake whose completion waits before the call, or comes after it. With the 64 lanes of some
 * GPUs; io_lanes.c has
 * 4.
 */
#define HR_LANES 64u
#include "tests/fakes/lanes.h"

#include "cache/object.c"
#include "gpu/worker/io/io.c"
#include "gpu/worker/io/commands.c"
#include "gpu/worker/io/single.c"
#include "gpu/worker/io/requests.c"
#include "gpu/worker/io/writeback.c"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/peer.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define PAGES 64u
#define FRAMES 56u
#define COMMANDS 4u
#define ENTRIES 8u
#define BUS 0x10000000u /* of frame 0, or of the staging memory */
#define LBA 1000u
#define NSID 7u
#define LAST (PAGES - 1) /* has one block of 512 bytes */
#define PAGE 5u		 /* that is requested */
#define TIMEOUT_NS ((uint64_t)60 * 1000 * 1000 * 1000)

static struct {
	struct hr_access access;
	struct hr_nvme_qp qp, qp_before;
	struct peer peer;
	struct hr_io_worker w[HR_LANES];
	struct hr_request_ring ring;
	struct hr_cache_words words;
	struct hr_cache_worker worker[2];
	struct hr_io_command command[COMMANDS];
	struct hr_io_counters counters, count;
	struct hr_worker_status status;
	struct hr_pipe_control control;
	uint64_t flushed;
	struct hr_page_set set[FRAMES / HR_WAYS], set_before[FRAMES / HR_WAYS];
	uint8_t frame[FRAMES][HR_PAGE] __attribute__((aligned(64)));
	uint8_t staging[COMMANDS][HR_PAGE] __attribute__((aligned(64)));
	/* of the case */
	uint32_t page, requests;
	uint32_t first, others; /* ways of the page's set that are not FREE, from `first` on */
	uint64_t flags;
	uint32_t other_word;
	bool cached;	      /* the page is in the table */
	bool completes;	      /* its completion waits */
	uint16_t status_code; /* of that */
	enum hr_io_one result;
	uint32_t unused, sent;
	uint64_t taken;
} t;

TestSuite(io_one_lanes, .timeout = 120);

static void up(bool staging)
{
	struct hr_page_cache *cache = &t.access.cache;

	memset(&t, 0, sizeof t);
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	cr_assert_eq(hr_page_shape(&cache->shape, FRAMES, HR_PAGE_SHIFT_MIN, PAGES), 0);
	cr_assert_eq(hr_page_sets(&cache->shape), ROWS(t.set));
	cache->policy = HR_POLICY_CLOCK;
	cache->objects = 1;
	cache->object[0] = (struct hr_object){ .bytes = LAST * HR_PAGE + 100, .pages = PAGES };
	cache->extent[0] = (struct hr_extent){ .lba = LBA,
					       .bytes = LAST * HR_PAGE + 100,
					       .capacity = LAST * HR_PAGE + 512,
					       .nsid = NSID,
					       .lba_shift = 9 };
	cache->computers = 1;
	hr_cache_set_io_workers(cache, 1);
	cache->timeout_ns = TIMEOUT_NS;
	cache->set = t.set;
	cache->frame = t.frame[0];
	cache->ring = &t.ring;
	cache->worker = t.worker;
	cache->flushed = &t.flushed;
	cache->words = &t.words;
	t.access.io_blocks = t.access.compute_blocks = t.access.warps = t.access.ssds = 1;
	t.access.merge_pages = 1;
	t.access.commands = COMMANDS;
	t.access.qp = &t.qp;
	t.access.command = t.command;
	t.access.counters = &t.counters;
	t.access.status = &t.status;
	t.access.control = &t.control;
	t.access.frame_bus = t.access.staging_bus = BUS;
	if (staging)
		t.access.staging = t.staging[0];
	for (uint32_t i = 0; i < COMMANDS; i++)
		memset(t.staging[i], 0x50 + (int)i, HR_PAGE);
	t.page = PAGE;
	t.requests = 1;
	t.completes = true;
}

static struct hr_page_position position(void)
{
	return hr_page_position_of(&t.access.cache.shape, t.page);
}

/* The word of the page's way; 0: it has none. */
static uint32_t word_of_page(void)
{
	const struct hr_page_position at = position();

	for (uint32_t way = 0; way < HR_WAYS; way++)
		if (HR_PAGE_TAG(t.set[at.set].tag[way]) == at.tag &&
		    HR_PAGE_STATE(t.set[at.set].tag[way]) >= HR_PAGE_READING)
			return t.set[at.set].tag[way];
	return 0;
}

/* The frame that the page gets: the last way that is FREE, or has LEFT. */
static uint32_t expected_frame(void)
{
	return position().set * HR_WAYS + (t.first ? t.first : HR_WAYS) - 1;
}

static void prepare(void)
{
	struct hr_page_set *set = &t.set[position().set];

	for (uint32_t way = t.first; way < t.first + t.others; way++)
		set->tag[way] = t.other_word + (way << (HR_TAG_SHIFT + 4));
	if (t.cached)
		set->tag[HR_WAYS - 1] = HR_PAGE_WORD(position().tag, HR_PAGE_READING);
	for (uint32_t i = 0; i < t.requests; i++)
		t.ring.entry[i] = hr_request_entry(i, t.page + i) | t.flags;
	if (t.completes)
		peer_post(&t.peer, (struct hr_cqe){ .sqhd = 1,
						    .sqid = t.qp.id,
						    .cid = (uint16_t)hr_single_next(&t.qp).cid,
						    .status = (uint16_t)(t.status_code << 1) });
	memcpy(t.set_before, t.set, sizeof t.set);
	t.qp_before = t.qp;
}

static void call(void)
{
	struct hr_io_worker *w = &t.w[hr_lane()];
	enum hr_io_one result;

	io_start(w, &t.access, 0);
	w->qp = &t.qp;
	result = hr_io_one(w);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		t.result = result;
		t.count = w->block->count;
		t.unused = w->unused;
		t.sent = w->sent;
		t.taken = w->taken;
	}
	hr_lanes_sync();
	cr_assert_eq(result, t.result, "lanes disagree");
	hr_lanes_sync();
}

/* And then the way of batches takes the completion, which comes now. */
static void call_and_reap(void)
{
	struct hr_io_worker *w = &t.w[hr_lane()];

	call();
	if (hr_lane() == 0) {
		cr_assert_eq(peer_fetch(&t.peer), 1);
		peer_complete(&t.peer, 0, 0);
	}
	hr_lanes_sync();
	cr_expect(hr_io_reap_all(w));
	hr_lanes_sync();
	if (hr_lane() == 0) {
		t.count = w->block->count;
		t.unused = w->unused;
		t.sent = w->sent;
	}
}

static void run(void (*body)(void), enum hr_io_one want)
{
	prepare();
	cr_assert(fake_lanes_run(body));
	cr_assert_eq(t.result, want, "%u", t.result);
}

/* The command of the page, as the controller gets it. */
static void check_command(uint32_t blocks)
{
	const struct hr_sqe *sqe = &t.qp.sq[0];
	const uint32_t number = COMMANDS - 1; /* the last one that is unused */
	const uint64_t at = t.access.staging ? number : expected_frame();

	cr_expect_eq(t.peer.sq_doorbell, 1);
	cr_expect_eq(sqe->opcode, nvme_cmd_read);
	cr_expect_eq(sqe->nsid, NSID);
	cr_expect_eq(sqe->cdw10, LBA + t.page * 8);
	cr_expect_eq(sqe->cdw12, blocks - 1);
	cr_expect_eq(sqe->prp1, BUS + at * HR_PAGE);
	cr_expect_eq(sqe->prp2, 0);
}

static void check_counts(void)
{
	cr_expect_eq(t.taken, 1);
	cr_expect_eq(t.ring.taken, 1, "the requester is told");
	cr_expect_eq(t.count.requests, 1);
	cr_expect_eq(t.count.reads, 1);
	cr_expect_eq(t.count.read_commands, 1);
	cr_expect_eq(t.count.serves, 1);
	cr_expect_eq(t.count.merges + t.count.errors, 0);
	cr_expect_eq(t.qp.stats.submitted, 1);
}

static void check_done(void)
{
	check_counts();
	cr_expect_eq(t.count.settles, 1);
	cr_expect_eq(HR_PAGE_STATE(word_of_page()), HR_PAGE_READY);
	cr_expect_eq(t.unused, COMMANDS);
	cr_expect_eq(t.sent, 0);
	cr_expect_eq(t.qp.stats.completed, 1);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 0);
	for (uint32_t i = 0; i < HR_PAGE; i++)
		cr_assert_eq(t.frame[expected_frame()][i],
			     t.access.staging ? 0x50 + COMMANDS - 1 : 0, "byte %u", i);
}

Test(io_one_lanes, a_missing_page_is_read_and_ready)
{
	static const struct {
		bool staging;
		uint32_t page, blocks;
	} row[] = { { false, PAGE, 8 }, { true, PAGE, 8 }, { true, LAST, 1 }, { false, 0, 8 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		up(row[i].staging);
		t.page = row[i].page;
		run(call, HR_IO_ONE_DONE);
		check_command(row[i].blocks);
		check_done();
		cr_expect_eq(t.count.evictions, 0);
		peer_fini(&t.peer);
	}
}

Test(io_one_lanes, a_page_of_another_object_is_read_where_that_lies)
{
	struct hr_page_cache *cache = &t.access.cache;

	up(true);
	cache->objects = 2;
	cache->object[1] = cache->object[0];
	cache->extent[1] = cache->extent[0];
	cache->object[0].pages = PAGE;
	cache->extent[0].lba = cache->extent[0].nsid = 1;
	cache->object[1].first_page = PAGE;
	cache->object[1].pages = PAGES - PAGE;
	cache->extent[1].lba = LBA + PAGE * 8;
	run(call, HR_IO_ONE_DONE);
	check_command(8);
	check_done();
	cr_expect_eq(t.w[0].object, 1, "most requests that follow are of the same object");
	peer_fini(&t.peer);
}

Test(io_one_lanes, the_end_and_flushes_end_the_wait_for_a_request)
{
	static const struct {
		uint32_t requests, stop, ended, epoch;
		uint64_t flush;
		enum hr_io_one want;
	} row[] = {
		{ .want = HR_IO_ONE_IDLE },
		{ .epoch = 1, .want = HR_IO_ONE_IDLE },
		{ .stop = HR_CACHE_ENDS, .want = HR_IO_ONE_NEWS },
		{ .ended = HR_CACHE_UNREAD, .want = HR_IO_ONE_NEWS },
		{ .flush = 1, .want = HR_IO_ONE_NEWS },
		{ .flush = (uint64_t)1 << 32, .want = HR_IO_ONE_NEWS },
		{ .flush = 1, .requests = 1, .want = HR_IO_ONE_DONE },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		up(true);
		t.requests = row[i].requests;
		t.completes = row[i].requests;
		t.words.epoch = row[i].epoch;
		t.words.stop = row[i].stop;
		t.words.ended = row[i].ended;
		t.words.flush_wanted = row[i].flush;
		run(call, row[i].want);
		peer_fini(&t.peer);
	}
}

Test(io_one_lanes, a_read_that_takes_long_ends_as_one_of_a_batch)
{
	for (uint32_t staging = 0; staging < 2; staging++) {
		up(staging);
		t.completes = false;
		run(call_and_reap, HR_IO_ONE_BEGUN);
		check_command(8);
		check_done();
		peer_fini(&t.peer);
	}
}

/* That is the last or the first way. */
Test(io_one_lanes, the_last_free_frame_makes_another_page_leave)
{
	for (uint32_t first = 0; first < 2; first++) {
		up(true);
		t.first = first;
		t.others = HR_WAYS - 1;
		t.other_word = HR_PAGE_WORD(0, HR_PAGE_READY) | 1u << 30;
		run(call, HR_IO_ONE_DONE);
		check_done();
		cr_expect_eq(t.count.evictions, 1, "first %u", first);
		peer_fini(&t.peer);
	}
}

/* A frame whose page has left is used when all workers have passed the epoch. */
Test(io_one_lanes, a_frame_of_a_page_that_left_waits_for_its_epoch)
{
	static const struct {
		uint32_t epoch;
		enum hr_io_one want;
	} row[] = { { HR_EPOCH_FIRST, HR_IO_ONE_DONE }, { HR_EPOCH_FIRST + 1, HR_IO_ONE_NOT } };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_page_set *set;

		up(true);
		set = &t.set[position().set];
		for (uint32_t way = 0; way < HR_WAYS; way++)
			set->tag[way] = HR_PAGE_WORD(row[i].epoch, HR_PAGE_LEFT);
		run(call, row[i].want);
		cr_expect_eq(t.sent, 0);
		peer_fini(&t.peer);
	}
}

Test(io_one_lanes, an_error_of_the_ssd_is_left_to_the_way_of_batches)
{
	up(true);
	t.status_code = 0x281;
	run(call, HR_IO_ONE_BEGUN);
	check_counts();
	cr_expect_eq(HR_PAGE_STATE(word_of_page()), HR_PAGE_READING);
	cr_expect_eq(t.sent, 1);
	cr_expect_eq(t.unused, COMMANDS - 1);
	cr_expect_eq(t.qp.stats.completed, 0);
	peer_fini(&t.peer);
}

Test(io_one_lanes, other_requests_are_left_to_the_way_of_batches)
{
	static const struct {
		uint32_t requests, page, others;
		uint64_t flags;
		bool cached;
		enum hr_io_one want;
	} row[] = {
		{ 0, PAGE, 0, 0, false, HR_IO_ONE_IDLE },
		{ 2, PAGE, 0, 0, false, HR_IO_ONE_NOT },
		{ 1, PAGE, 0, HR_REQUEST_WHOLE, false, HR_IO_ONE_NOT },
		{ 1, PAGE, 0, HR_REQUEST_WRITE, false, HR_IO_ONE_NOT },
		{ 1, PAGE, 0, 0, true, HR_IO_ONE_NOT },
		{ 1, PAGE, HR_WAYS, 0, false, HR_IO_ONE_NOT },
		{ 1, PAGES, 0, 0, false, HR_IO_ONE_NOT },
		{ 1, HR_NO_PAGE, 0, 0, false, HR_IO_ONE_NOT },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		up(true);
		t.requests = row[i].requests;
		t.page = row[i].page;
		t.others = row[i].others;
		t.other_word = HR_PAGE_WORD(0, HR_PAGE_READY) | 1u << 30;
		t.flags = row[i].flags;
		t.cached = row[i].cached;
		t.completes = false;
		run(call, row[i].want);
		cr_expect_eq(t.taken, 0, "row %zu", i);
		cr_expect_eq(t.ring.taken, 0, "row %zu", i);
		cr_expect_eq(t.count.requests + t.count.reads, 0, "row %zu", i);
		cr_expect_eq(t.unused, COMMANDS, "row %zu", i);
		cr_expect_eq(memcmp(t.set, t.set_before, sizeof t.set), 0, "row %zu", i);
		cr_expect_eq(memcmp(&t.qp, &t.qp_before, sizeof t.qp), 0, "row %zu", i);
		peer_fini(&t.peer);
	}
}
