/*
 * The feed role, function by function, in one thread with a clock that stands still: what commits,
 * orders and the end change, at each limit.
 */
/* Blocks of other roles are the test's. */
#define hr_compute_block test_compute_block
#define hr_writeback_block test_writeback_block
#define hr_tap_block test_tap_block
#include "gpu/tap/feed.c"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "config/clock.h"
#include "tests/fakes/clock.h"

#define SLOTS 5u
#define RING 8u
#define TILE 256u
#define NOW 5000000000ull

static struct hr_pipe pipe_;
/* one more than the pipeline has: no function looks there */
static struct hr_slot slot[SLOTS + 1];
static struct hr_worker_status status;
static struct hr_pipe_control control;
static struct hr_feed_role role;
static struct hr_feed_words words;
static struct hr_feed_offer offer[SLOTS + 1];
static uint64_t written[SLOTS + 1], page[3 * 512];
static uint8_t entries[3 * 4096] __attribute__((aligned(64)));
static struct hr_role_worker w;

static const struct hr_feed_offer behind = { .gen = 9, .open = 1 };

static void begin(void)
{
	fake_clock_start(NOW, NULL, NULL);
	memset(slot, 0, sizeof slot);
	memset(&status, 0, sizeof status);
	memset(&control, 0, sizeof control);
	memset(&words, 0, sizeof words);
	memset(offer, 0, sizeof offer);
	memset(written, 0, sizeof written);
	memset(page, 0, sizeof page);
	memset(entries, 0, sizeof entries);
	offer[SLOTS] = behind;
	written[SLOTS] = 3;
	role = (struct hr_feed_role){ .ring = RING,
				      .row_bytes = 4,
				      .out_num = 3,
				      .out_den = 2,
				      .entries = entries,
				      .pages = (uint8_t *)page,
				      .words = &words,
				      .offer = offer,
				      .credits = 3,
				      .offers = 1,
				      .epoch = 77 };
	pipe_ = (struct hr_pipe){ .tiles = 20,
				  .slots = SLOTS,
				  .slot = slot,
				  .sources = 1,
				  .source = { { .extent = { .bytes = 19 * TILE + 100 },
						.tile_bytes = TILE } },
				  .sink_tile_bytes = 384,
				  .status = &status,
				  .control = &control,
				  .written = written,
				  .feed = &role };
	words.total = HR_NO_TILE;
	pipe_.fed_tiles = &words.total;
	for (unsigned r = 0; r < HR_ROLES; r++)
		pipe_.blocks[r] = pipe_.workers[r] = 1;
	hr_role_worker_set(&w, &pipe_, HR_ROLE_PREFETCH, 0, 1);
}

static void end(void)
{
	fake_clock_stop();
	cr_expect(slot[SLOTS].state == HR_SLOT_FREE && !slot[SLOTS].holds && written[SLOTS] == 3 &&
			  memcmp(&offer[SLOTS], &behind, sizeof behind) == 0,
		  "a slot behind the last one");
}

TestSuite(feed_steps, .init = begin, .fini = end, .timeout = 60);

static struct hr_feed_head *head(void)
{
	return (struct hr_feed_head *)(void *)entries;
}

static struct hr_feed_page *the_page(void)
{
	return (struct hr_feed_page *)(void *)page;
}

static struct hr_tap_entry *entry(uint32_t n)
{
	return (struct hr_tap_entry *)(void *)(entries + 64) + n;
}

/* Slot s has the offer of this tile, of generation 10 + s. */
static void offered(uint32_t s, uint64_t tile)
{
	slot[s].holds = 1;
	slot[s].next_read = tile;
	offer[s] = (struct hr_feed_offer){ .gen = 10 + s, .open = 1 };
	role.holding++;
	role.held++;
	if (pipe_.next_tile <= tile)
		pipe_.next_tile = tile + 1;
}

static void commit(uint32_t s, uint32_t bytes)
{
	the_page()->commit[s] = HR_FEED_COMMIT(offer[s].gen, bytes);
}

/* ---- commits */

Test(feed_steps, only_a_word_of_the_open_offer_commits)
{
	uint32_t bytes = 5;

	offered(1, 3);
	cr_expect(!feed_committed(&pipe_, 1, &bytes) && bytes == 0);
	commit(1, 77);
	cr_expect(feed_committed(&pipe_, 1, &bytes) && bytes == 77);
	the_page()->commit[1] = HR_FEED_COMMIT(12, 77);
	cr_expect(!feed_committed(&pipe_, 1, &bytes));
	commit(1, 77);
	offer[1].open = 0;
	cr_expect(!feed_committed(&pipe_, 1, &bytes));
	offer[0].open = 1; /* generation 0, and a page that is all zero */
	cr_expect(!feed_committed(&pipe_, 0, &bytes));
}

/* Entries and page are those of the set that the host names before the offer. */
Test(feed_steps, each_producer_has_a_set)
{
	const uint32_t later = 2;
	struct hr_feed_head *its = (void *)(entries + later * hr_tap_ring_bytes(RING));
	struct hr_feed_page *others = (void *)((uint8_t *)page + later * hr_feed_page_bytes(SLOTS));
	uint32_t bytes;

	role.offers = 0;
	words.set = later;
	words.credits = 1;
	words.order = HR_FEED_ORDERS + HR_FEED_OFFER;
	its->epoch = 99;
	cr_assert(feed_carry_out(&w, words.order));
	cr_expect(role.epoch == 99 && role.set == later && words.done == words.order);
	feed_offer(&pipe_, 1);
	cr_expect_eq(((struct hr_tap_entry *)(void *)(its + 1))->sequence, 1);
	cr_expect_eq(entry(0)->sequence, 0);
	commit(1, 77);
	cr_expect_not(feed_committed(&pipe_, 1, &bytes));
	others->commit[1] = HR_FEED_COMMIT(offer[1].gen, 77);
	cr_expect(feed_committed(&pipe_, 1, &bytes) && bytes == 77);
	role.holding = role.held = 0;
}

Test(feed_steps, full_tiles_are_filled_in_any_order)
{
	offered(0, 7);
	offered(2, 5);
	offered(4, 6);
	commit(0, TILE);
	commit(4, TILE);
	w.tiles = 0;
	cr_expect(feed_collect(&w));
	cr_expect(slot[0].state == HR_SLOT_FILLED && slot[0].tile == 7 && slot[0].holds == 0);
	cr_expect(slot[4].state == HR_SLOT_FILLED && slot[2].state == HR_SLOT_FREE);
	cr_expect(!offer[0].open && offer[2].open && !offer[4].open);
	cr_expect(role.held == 1 && role.holding == 1 && role.committed == 2);
	cr_expect(words.committed == 2 && words.next == 5 && !words.fault);
	cr_expect(status.tiles == 2 && status.bytes == 2 * TILE);
	cr_expect_eq(control.first_submit_ns, NOW);
	fake_clock_advance(9);
	cr_expect(!feed_collect(&w));
	commit(2, TILE);
	cr_expect(feed_collect(&w));
	cr_expect(words.next == 8 && role.holding == 0);
	cr_expect_eq(control.first_submit_ns, NOW); /* of the first tile */
}

Test(feed_steps, the_last_tile_of_the_feed_is_full_with_the_bytes_that_it_has)
{
	offered(1, 19);
	cr_expect(feed_room(&pipe_, 19) == 100 && feed_room(&pipe_, 18) == TILE);
	commit(1, 100);
	cr_expect(feed_collect(&w));
	cr_expect(slot[1].state == HR_SLOT_FILLED && status.bytes == 100 && !role.ending);
}

Test(feed_steps, a_tile_of_another_length_is_a_fault_or_the_last)
{
	static const struct {
		uint32_t bytes;
		bool before, after; /* tile 4 is committed; tile 6 */
		uint32_t fault, ending;
	} row[] = {
		{ 8, true, false, HR_FEED_SOUND, 1 },	 { 252, true, false, HR_FEED_SOUND, 1 },
		{ 0, true, false, HR_FEED_LENGTH, 0 },	 { 6, true, false, HR_FEED_LENGTH, 0 },
		{ 260, true, false, HR_FEED_LENGTH, 0 }, { 8, false, false, HR_FEED_SOUND, 0 },
		{ 8, true, true, HR_FEED_GAP, 0 },	 { 6, false, false, HR_FEED_LENGTH, 0 },
		{ 8, false, true, HR_FEED_SOUND, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		offered(1, 4);
		offered(3, 5);
		offered(2, 6);
		commit(3, row[i].bytes);
		if (row[i].before)
			commit(1, TILE);
		if (row[i].after)
			commit(2, TILE);
		feed_collect(&w);
		cr_expect_eq(words.fault, row[i].fault, "%zu", i);
		cr_expect_eq(words.fault_tile, row[i].fault ? 5 : 0, "%zu", i);
		cr_expect_eq(role.offers, row[i].fault == 0, "%zu", i);
		cr_expect_eq(role.ending, row[i].ending, "%zu", i);
		cr_expect_eq(slot[3].state, HR_SLOT_FREE);
		cr_expect_eq(offer[3].open, !row[i].ending, "%zu", i);
		if (!row[i].ending)
			continue;
		cr_expect(role.total == 6 && role.total_bytes == 5 * TILE + row[i].bytes);
		cr_expect(role.short_slot == 4 && role.held == 1 && words.committed == 2);
	}
}

Test(feed_steps, of_several_short_tiles_the_lowest_counts)
{
	offered(0, 6);
	offered(1, 4);
	offered(2, 5);
	commit(0, 8);
	commit(1, 12);
	commit(2, 16);
	feed_collect(&w);
	cr_expect(role.ending && role.short_slot == 2 && role.total == 5);
	cr_expect_eq(role.total_bytes, 4 * TILE + 12);
}

Test(feed_steps, the_producer_ends_the_feed_before_the_first_tile_without_commit)
{
	offered(1, 4);
	offered(2, 5);
	the_page()->end = 76;
	cr_expect(!feed_collect(&w));
	the_page()->end = 77;
	cr_expect(feed_collect(&w));
	cr_expect(role.ending && role.total == 4 && role.total_bytes == 4 * TILE);
	cr_expect(role.short_slot == 0 && words.next == 4 && !words.fault);
	begin();
	offered(1, 4);
	offered(2, 5);
	commit(2, TILE); /* a later one is there */
	the_page()->end = 77;
	cr_expect(feed_collect(&w));
	cr_expect(words.fault == HR_FEED_GAP && words.fault_tile == 4 && !role.ending);
	cr_expect(!role.offers && slot[2].state == HR_SLOT_FILLED);
	begin();
	offered(1, 4);
	commit(1, 8);
	the_page()->end = 77; /* the short tile has ended it */
	cr_expect(feed_collect(&w));
	cr_expect(role.ending && role.total == 5 && !words.fault);
}

/* ---- orders */

Test(feed_steps, a_new_producer_starts_from_nothing)
{
	offered(1, 4);
	role.held = role.last = 9;
	role.sent = role.committed = 8;
	role.offers = 0;
	words.offered = words.committed = words.fault = 7;
	words.credits = 2;
	words.order = 5 * HR_FEED_ORDERS + HR_FEED_OFFER;
	head()->epoch = 99;
	cr_expect(feed_obey(&w));
	cr_expect(role.held == 0 && role.last == 0 && role.sent == 0 && role.committed == 0);
	cr_expect(role.credits == 2 && role.epoch == 99 && role.offers == 1);
	cr_expect(words.offered == 0 && words.committed == 0 && words.fault == 0);
	cr_expect(words.next == 4 && words.done == words.order && role.done == words.order);
	cr_expect(!feed_obey(&w)); /* carried out */
}

Test(feed_steps, a_producer_that_goes_leaves_its_tiles_to_the_next)
{
	offered(1, 4);
	offered(2, 5);
	offered(4, 6);
	commit(2, TILE);
	words.discarded = 3;
	words.order = HR_FEED_ORDERS + HR_FEED_CLOSE;
	cr_expect(!feed_obey(&w)); /* compute reads tile 5 */
	cr_expect(slot[2].state == HR_SLOT_FILLED && words.discarded == 5 && words.done == 0);
	cr_expect(!offer[1].open && !offer[4].open && slot[1].holds && role.offers == 0);
	slot[2].state = HR_SLOT_COMPUTED;
	cr_expect(feed_obey(&w));
	cr_expect(words.done == words.order && words.discarded == 5);
	words.order += HR_FEED_ORDERS;
	role.ending = 1; /* not published yet */
	cr_expect(!feed_obey(&w));
	role.ended = 1;
	cr_expect(feed_obey(&w));
}

/* ---- offers */

Test(feed_steps, slots_are_offered_up_to_the_credits)
{
	slot[0].state = HR_SLOT_FILLED;
	slot[3].state = HR_SLOT_COMPUTED;
	pipe_.next_tile = 4;
	cr_expect(feed_offer_all(&pipe_));
	cr_expect(role.held == 3 && role.holding == 3 && role.sent == 3 && words.offered == 3);
	cr_expect(pipe_.next_tile == 7 && words.front == 7);
	cr_expect(slot[1].next_read == 4 && slot[2].next_read == 5 && slot[4].next_read == 6);
	for (uint32_t n = 0; n < 3; n++) {
		const struct hr_tap_entry *e = entry(n);

		cr_expect(e->tile == 4 + n && e->slot == (n == 2 ? 4 : n + 1) && e->gen == 1);
		cr_expect(e->bytes == TILE && e->flags == 0 && e->lent_ns == NOW);
		cr_expect_eq(e->sequence, n + 1);
	}
	cr_expect_eq(entry(3)->sequence, 0);
	cr_expect(!feed_offer_all(&pipe_));
	role.held = 2;
	cr_expect(!feed_offer_all(&pipe_)); /* no free slot */
	slot[3].state = HR_SLOT_FREE;
	pipe_.next_tile = 20; /* no further tile */
	cr_expect(!feed_offer_all(&pipe_));
	pipe_.next_tile = 19;
	role.sent = 2 * RING + 5; /* the ring has gone round */
	offer[3].gen = UINT32_MAX;
	cr_expect(feed_offer_all(&pipe_));
	cr_expect(entry(5)->tile == 19 && entry(5)->bytes == 100 && entry(5)->gen == 1);
	cr_expect_eq(entry(5)->sequence, 2 * RING + 6);
}

Test(feed_steps, a_tile_that_has_a_slot_is_offered_first)
{
	for (uint32_t s = 0; s < SLOTS; s++)
		offered(s, 9 - s);
	offer[1].open = offer[2].open = offer[3].open = 0;
	slot[3].state = HR_SLOT_FILLED;
	cr_expect_eq(feed_choose(&pipe_), 2);
	slot[2].holds = 0;
	cr_expect_eq(feed_choose(&pipe_), 1);
	slot[1].holds = 0;
	cr_expect_eq(feed_choose(&pipe_), 1); /* the first one that is empty */
	slot[1].state = HR_SLOT_FILLED;
	cr_expect_eq(feed_choose(&pipe_), 2);
	slot[2].state = HR_SLOT_FILLED;
	cr_expect_eq(feed_choose(&pipe_), FEED_NOTHING);
	role.holding = 3;
	offer[4].open = 0;
	offer[4].gen = UINT32_MAX - 1;
	feed_offer(&pipe_, 4);
	cr_expect(offer[4].gen == UINT32_MAX && role.holding == 3 && pipe_.next_tile == 10);
	cr_expect(entry(0)->tile == 5 && words.front == 0);
}

Test(feed_steps, the_producer_is_told_when_no_further_tile_is_offered)
{
	pipe_.next_tile = 19;
	role.holding = role.held = 2;
	feed_tell_last(&pipe_);
	cr_expect(head()->last == 0);
	pipe_.next_tile = 20;
	role.held = 1; /* one waits for a producer */
	feed_tell_last(&pipe_);
	cr_expect(head()->last == 0);
	role.held = 2;
	feed_tell_last(&pipe_);
	cr_expect(head()->last == 1 && role.last == 1);
	head()->last = 7;
	feed_tell_last(&pipe_);
	cr_expect_eq(head()->last, 7); /* written once */
	role.held = 1;
	feed_tell_last(&pipe_);
	cr_expect_eq(head()->last, 0);
	role.ending = 1;
	feed_tell_last(&pipe_);
	cr_expect_eq(head()->last, 1);
}

/* ---- the end */

Test(feed_steps, the_end_is_published_when_no_worker_reads_the_lengths)
{
	uint8_t tap;

	cr_expect(!feed_finish(&w)); /* tiles are left */
	feed_end(&role, 6, 5 * TILE + 100, 3);
	slot[2].next_read = 5;
	slot[2].holds = role.holding = 1;
	slot[0].state = HR_SLOT_FILLED;
	cr_expect(!feed_finish(&w));
	slot[0].state = HR_SLOT_COMPUTED;
	cr_expect(!feed_finish(&w));
	pipe_.tap = (struct hr_tap_role *)(void *)&tap; /* it reads none */
	cr_expect(feed_finish(&w));
	cr_expect(role.ended == 1 && words.total == 6 && words.next == 6);
	cr_expect_eq(words.total_bytes, 5 * TILE + 100);
	cr_expect_eq(pipe_.source[0].extent.bytes, 5 * TILE + 100);
	cr_expect_eq(pipe_.sink.bytes, 5 * 384 + 150);
	cr_expect(slot[2].state == HR_SLOT_FILLED && slot[2].tile == 5 && status.bytes == 100);
	cr_expect_eq(role.holding, 0);
	cr_expect(!feed_finish(&w)); /* once */
}

Test(feed_steps, a_feed_ends_when_all_tiles_are_committed)
{
	pipe_.next_tile = 20;
	role.holding = 1;
	cr_expect(!feed_finish(&w));
	role.holding = 0;
	cr_expect(feed_finish(&w));
	cr_expect(words.total == 20 && words.total_bytes == 19 * TILE + 100);
	cr_expect_eq(pipe_.sink.bytes, 19 * 384 + 150);
	cr_expect_eq(status.tiles, 0); /* no slot is filled here */
	for (uint32_t s = 0; s < SLOTS; s++)
		cr_expect_eq(slot[s].state, HR_SLOT_FREE);
}

Test(feed_steps, free_slots_are_closed_and_marked_as_written)
{
	slot[1].state = HR_SLOT_FILLED;
	slot[2].spoiled = 1;
	offered(3, 6);
	pipe_.next_tile = 9;
	feed_mark(&pipe_);
	cr_expect(written[0] == 9 && written[1] == 0 && written[2] == 0 && written[3] == 6);
	cr_expect_eq(written[4], 9);
	written[0] = 5;
	feed_mark(&pipe_);
	cr_expect_eq(written[0], 5); /* nothing has changed */
	pipe_.next_tile = 10;
	feed_mark(&pipe_);
	cr_expect_eq(written[0], 10);
	pipe_.written = NULL; /* no sink */
	pipe_.next_tile = 11;
	feed_mark(&pipe_);
	cr_expect(feed_close_slots(&pipe_));
	for (uint32_t s = 0; s < SLOTS; s++)
		cr_expect_eq(slot[s].state, s == 1 ? HR_SLOT_FILLED : HR_SLOT_CLOSING);
	cr_expect(!feed_close_slots(&pipe_));
}

/* ---- rounds */

Test(feed_steps, a_round_takes_commits_then_offers_again)
{
	offered(0, 4);
	commit(0, TILE);
	role.credits = 2;
	cr_expect(feed_round(&w, false));
	cr_expect(slot[0].state == HR_SLOT_FILLED && role.held == 2 && words.offered == 2);
	cr_expect(slot[1].next_read == 5 && slot[2].next_read == 6 && written[3] == 5);
	cr_expect(!feed_round(&w, false));
	role.held = 0;
	cr_expect(!feed_round(&w, true) || slot[3].state == HR_SLOT_CLOSING);
	cr_expect(words.offered == 2 && words.total == HR_NO_TILE); /* no offer after a stop */
	begin();
	role.offers = 0; /* no producer */
	cr_expect(!feed_round(&w, false));
	cr_expect(words.offered == 0 && head()->last == 0);
	begin();
	feed_end(&role, 0, 0, 0);
	cr_expect(feed_round(&w, false));
	cr_expect(words.total == 0 && head()->last == 1 && words.offered == 0);
	cr_expect(slot[0].state == HR_SLOT_CLOSING && slot[4].state == HR_SLOT_CLOSING);
}

Test(feed_steps, a_block_ends_with_its_slots)
{
	feed_end(&role, 0, 0, 0);
	hr_feed_pipe_block(&pipe_, 0);
	cr_expect(status.done == 1 && words.total == 0 && status.cost.rounds == 1);
	cr_expect_eq(pipe_.stop, 0);
	begin();
	control.stop = HR_STOP_NEW;
	hr_feed_pipe_block(&pipe_, 0);
	cr_expect(status.done == 1 && pipe_.stop == 1 && words.total == HR_NO_TILE);
	cr_expect(slot[0].state == HR_SLOT_CLOSING && words.offered == 0);
}

static char others[64]; /* "LETTER BLOCK;" for each block of another role */

static void other(char letter, struct hr_pipe *pipe, uint32_t block)
{
	const size_t used = strlen(others);

	cr_expect_eq(pipe, &pipe_);
	snprintf(others + used, sizeof others - used, "%c%u;", letter, block);
}

HR_DEVICE void test_compute_block(struct hr_pipe *pipe, uint32_t block)
{
	other('c', pipe, block);
}

HR_DEVICE void test_writeback_block(struct hr_pipe *pipe, uint32_t block)
{
	other('w', pipe, block);
}

HR_DEVICE void test_tap_block(struct hr_pipe *pipe, uint32_t block)
{
	other('t', pipe, block);
}

Test(feed_steps, each_block_has_its_role)
{
	static struct hr_worker_status all[8];
	static struct hr_tap_role tap;

	for (int taps = 0; taps < 2; taps++) {
		begin();
		memset(all, 0, sizeof all);
		others[0] = '\0';
		pipe_.status = all;
		pipe_.blocks[HR_ROLE_PREFETCH] = pipe_.workers[HR_ROLE_PREFETCH] = 2;
		pipe_.blocks[HR_ROLE_COMPUTE] = pipe_.workers[HR_ROLE_COMPUTE] = 3;
		feed_end(&role, 0, 0, 0);
		pipe_.tap = taps ? &tap : NULL;
		for (uint32_t b = 0; b < 7; b++)
			hr_feed_pipe_block(&pipe_, b);
		cr_expect_str_eq(others, taps ? "c0;c1;c2;t0;t1;" : "c0;c1;c2;w0;w1;", "%s",
				 others);
		for (uint32_t b = 0; b < 8; b++)
			cr_expect_eq(all[b].done, b < 2, "%u", b);
	}
}

/* Each part of a round counts. */
Test(feed_steps, a_round_says_whether_it_has_done_something)
{
	cr_expect(feed_round(&w, false)); /* offers */
	cr_expect(!feed_round(&w, false));
	commit(0, TILE);
	cr_expect(feed_round(&w, false));
	cr_expect(!feed_round(&w, false));
	role.credits = 0;
	commit(1, TILE);
	cr_expect(feed_round(&w, false)); /* only takes the tile */
	cr_expect(!feed_round(&w, false));
	begin();
	role.offers = 0;
	feed_end(&role, 0, 0, 0);
	slot[0].state = slot[1].state = slot[2].state = slot[3].state = slot[4].state =
		HR_SLOT_CLOSED;
	cr_expect(feed_round(&w, false)); /* the end */
	cr_expect(!feed_round(&w, false));
	begin();
	words.order = HR_FEED_ORDERS + HR_FEED_OFFER; /* of a producer without credits */
	head()->epoch = 99;
	cr_expect(feed_round(&w, false));
	cr_expect(!feed_round(&w, false) && words.offered == 0);
	begin();
	role.offers = 0;
	cr_expect(feed_round(&w, true)); /* slots close */
	cr_expect(!feed_round(&w, true));
}
