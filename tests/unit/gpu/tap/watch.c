/*
 * The watcher of a tap: what it mirrors of pages and words of the host, and the times that it tells;
 * and what a round of the worker does with it.
 */
#include "tests/harness/tap_steps_rig.h"

TestSuite(tap_watch, .init = begin, .fini = end, .timeout = 60);

/* The word of a slot in the page of a seat. Pages lie one behind the other, as the role's `pages`. */
static uint32_t *gen(uint32_t seat, uint32_t s)
{
	return &pages[seat][16 + s];
}

Test(tap_watch, only_the_generation_that_is_lent_is_given_back)
{
	has(2, 9, 5);
	cr_expect_eq(tap_watch_returned(&lending[2], (uint8_t *)gen(0, 2), 4096, tap_watch()->set),
		     12ull << 32);
	*gen(0, 2) = 12;
	*gen(1, 2) = 12; /* it does not have the tile */
	cr_expect_eq(tap_watch_returned(&lending[2], (uint8_t *)gen(0, 2), 4096, tap_watch()->set),
		     12ull << 32 | 1);
	*gen(2, 2) = 12 | HR_TAP_FAILED;
	cr_expect_eq(tap_watch_returned(&lending[2], (uint8_t *)gen(0, 2), 4096, tap_watch()->set),
		     12ull << 32 | 4ull << 16 | 5);
	*gen(0, 2) = 11;
	cr_expect_eq(tap_watch_returned(&lending[2], (uint8_t *)gen(0, 2), 4096, tap_watch()->set),
		     12ull << 32 | 4ull << 16 | 4);
}

Test(tap_watch, what_was_given_back_stays_for_its_lending)
{
	uint64_t *back = tap_watch()->back;

	has(0, 1, 3);
	has(5, 9, 3);
	*gen(0, 5) = 15;
	tap_watch_slots(&pipe_, 1);
	cr_expect(back[5] == (15ull << 32 | 1) && back[0] == 10ull << 32 && back[1] == 0);
	*gen(0, 5) = 0;
	*gen(1, 5) = 15 | HR_TAP_FAILED;
	tap_watch_slots(&pipe_, 2);
	cr_expect_eq(back[5], 15ull << 32 | 2ull << 16 | 3);
	lending[5].gen = 16; /* lent again */
	tap_watch_slots(&pipe_, 1);
	cr_expect_eq(back[5], 16ull << 32);
	*gen(0, 0) = 10;
	tap_watch_slots(&pipe_, 0);
	cr_expect_eq(back[0], 10ull << 32);
}

/* For tiles with one consumer each: a slot in each lane, so slot 0 here. */
Test(tap_watch, a_lane_watches_the_page_of_the_only_consumer)
{
	uint64_t *back = tap_watch()->back;

	tap_watch_lanes(&pipe_, 2);
	cr_expect_eq(back[0], 0);
	has(0, 1, 4);
	*gen(0, 0) = 10; /* another seat */
	tap_watch_lanes(&pipe_, 1);
	cr_expect_eq(back[0], 0);
	*gen(2, 0) = 10;
	tap_watch_lanes(&pipe_, 0);
	cr_expect_eq(back[0], 0);
	tap_watch_lanes(&pipe_, 1);
	cr_expect_eq(back[0], 10ull << 32 | 4);
	*gen(2, 0) = 10 | HR_TAP_FAILED;
	tap_watch_lanes(&pipe_, 3);
	cr_expect_eq(back[0], 10ull << 32 | 4ull << 16 | 4);
	*gen(2, 0) = 9;
	tap_watch_lanes(&pipe_, 1);
	cr_expect_eq(back[0], 10ull << 32 | 4ull << 16 | 4);
	pipe_.slots = 0;
	back[0] = 0;
	*gen(2, 0) = 10;
	tap_watch_lanes(&pipe_, 1);
	cr_expect_eq(back[0], 0);
}

Test(tap_watch, changed_orders_and_credits_are_news)
{
	const uint32_t last = HR_TAP_SEATS - 1;
	struct tap_watch *watch = tap_watch();

	tap_watch_orders(&pipe_);
	cr_expect_eq(watch->news, 0);
	words.seat[1].order = 4;
	words.seat[last].credits = 6;
	tap_watch_orders(&pipe_);
	cr_expect(watch->news == 1 && watch->order[1] == 4 && watch->credits[last] == 6);
	cr_expect(watch->credits[1] == 0 && watch->order[last] == 0);
	tap_watch_orders(&pipe_);
	cr_expect_eq(watch->news, 1);
	words.seat[1].credits = 2;
	tap_watch_orders(&pipe_);
	cr_expect(watch->news == 2 && watch->order[1] == 4 && watch->credits[1] == 2);
	/* an order comes after what was given back before it */
	has(3, 7, 2);
	*gen(1, 3) = 13;
	words.seat[1].order = 10;
	tap_watch_orders(&pipe_);
	cr_expect(watch->news == 3 && watch->back[3] == (13ull << 32 | 2));
}

/* The next consumer of a seat has another set; what others write to the former page counts no more. */
Test(tap_watch, a_seat_has_the_page_of_the_set_that_an_order_names)
{
	struct tap_watch *watch = tap_watch();

	words.seat[1].set = 5;
	tap_watch_orders(&pipe_);
	cr_expect_eq(watch->set[1], 1, "an order has to come first");
	words.seat[1].order = 4;
	tap_watch_orders(&pipe_);
	cr_expect(watch->set[1] == 5 && watch->set[0] == 0 && watch->set[2] == 2);
	has(0, 1, 2);
	has(3, 7, 2);
	*gen(1, 0) = 10;
	*gen(1, 3) = 13;
	tap_watch_slots(&pipe_, 1);
	tap_watch_lanes(&pipe_, 1);
	cr_expect(watch->back[0] == 10ull << 32 && watch->back[3] == 13ull << 32);
	*gen(5, 0) = 10;
	*gen(5, 3) = 13;
	tap_watch_lanes(&pipe_, 1);
	cr_expect_eq(watch->back[0], (10ull << 32 | 2));
	tap_watch_slots(&pipe_, 1);
	cr_expect_eq(watch->back[3], (13ull << 32 | 2));
}

Test(tap_watch, a_step_mirrors_the_stops)
{
	pipe_.stop = 3;
	control.stop = HR_STOP_WAITING;
	words.seat[0].order = 4;
	tap_watch_step(&pipe_);
	cr_expect(tap_watch()->stop == 3 && tap_watch()->host_stop == HR_STOP_WAITING);
	cr_expect_eq(tap_watch()->news, 1);
	cr_expect_eq(tap.looked_ns, NOW);
}

/* ---- what consumers hold */

Test(tap_watch, the_oldest_tile_of_each_seat_is_told_each_millisecond)
{
	const uint32_t last = HR_TAP_SEATS - 1;

	for (uint32_t s = 0; s < SLOTS; s++)
		has(s, 20 + s, s < 3 ? 1 : s == 3 ? 2 : 0);
	lending[1].lent_ns = NOW - 3 * HR_NS_PER_MS;
	lending[2].lent_ns = NOW + 5; /* by the worker, just now */
	lending[3].lent_ns = NOW - 9;
	tap.own[0].sent = tap.own[last].sent = 1;
	words.seat[1].oldest_ns = words.seat[last].oldest_ns = 77;
	tap.looked_ns = NOW - 999999;
	tap_look(&pipe_);
	cr_expect_eq(words.seat[0].oldest_ns, 0); /* too early */
	fake_clock_advance(1);
	tap_look(&pipe_);
	cr_expect(words.seat[0].oldest_ns == 3 * HR_NS_PER_MS + 1);
	cr_expect_eq(words.seat[0].oldest_tile, 21);
	cr_expect_eq(words.seat[1].oldest_ns, 77); /* nothing was sent there */
	cr_expect(words.seat[last].oldest_ns == 0 && words.seat[last].oldest_tile == 0);
	cr_expect_eq(words.waiting, 2);
	cr_expect_eq(tap.looked_ns, NOW + 1);
	tap.own[1].sent = 5;
	fake_clock_advance(1000000);
	tap_look(&pipe_);
	cr_expect_eq(words.seat[1].oldest_ns, 1000010);
	cr_expect_eq(words.seat[1].oldest_tile, 23);
}

/* ---- copies of the descriptors */

Test(tap_watch, the_block_has_copies_and_writes_its_state_back)
{
	struct tap_watch *watch = tap_watch();
	struct hr_pipe *near;

	memset(watch, 0x5a, sizeof *watch);
	tap.own[3].done = 9;
	tap.own[15].credits = 4;
	has(5, 8, 1);
	words.seat[15].set = 40; /* a consumer that came before this launch */
	near = tap_watch_begin(&pipe_);
	cr_expect(watch->set[15] == 40 && watch->set[3] == 3);
	cr_expect(near == &watch->pipe && watch->far == &pipe_ && near->tap == &watch->role);
	cr_expect(near->tiles == 40 && near->slot == slot && near->tap->ring == RING);
	cr_expect(near->tap->lending == watch->lending && watch->lending[5].tile == 8);
	cr_expect(watch->order[3] == 9 && watch->order[0] == 0 && watch->credits[15] == 4);
	for (uint32_t s = 0; s < SLOTS; s++)
		cr_expect_eq(watch->back[s], 0);
	cr_expect(!watch->over && !watch->stop && !watch->host_stop && !watch->news);
	near->tap->front = 12;
	near->tap->lending[5].gen = 99;
	tap_watch_keep();
	cr_expect(tap.front == 12 && lending[5].gen == 99 && tap.lending == lending);
	/* many slots stay where they are */
	cr_expect_eq(tap_near_lendings(&pipe_), SLOTS * sizeof(struct hr_tap_lending));
	pipe_.slots = TAP_NEAR_SLOTS;
	cr_expect_eq(tap_near_lendings(&pipe_), TAP_NEAR_SLOTS * sizeof(struct hr_tap_lending));
	pipe_.slots++;
	cr_expect_eq(tap_near_lendings(&pipe_), 0);
}

/* ---- rounds */

Test(tap_watch, a_round_does_what_there_is_to_do)
{
	uint32_t work, news = 0;

	/* { work, what it does } */
	slot[0].state = HR_SLOT_COMPUTED;
	slot[0].tile = 3;
	lends(0, 2);
	tap.began = 1;
	has(1, 4, 1);
	tap_watch()->back[1] = 11ull << 32 | 1;
	tap_watch()->news = 1;
	tap_watch()->credits[0] = 2;
	work = TAP_NEWS;
	cr_expect(!tap_round(&w, &work, false, &news)); /* credits only */
	cr_expect(news == 1 && work == 0 && lending[0].has == HR_TAP_NONE);
	cr_expect_eq(lending[1].seats, 1);
	work = TAP_BACK;
	cr_expect(tap_round(&w, &work, false, &news));
	cr_expect(lending[1].has == HR_TAP_NONE && slot[0].state == HR_SLOT_COMPUTED);
	work = TAP_COMPUTED;
	cr_expect(tap_round(&w, &work, false, &news));
	cr_expect(lending[0].has == HR_TAP_HAS && lending[0].seats == 1);
	cr_expect(slot[0].state == HR_SLOT_FREE && slot[0].held == HR_HELD && work == 0);
	work = 0;
	cr_expect(!tap_round(&w, &work, false, &news));
	has(2, 5, 0);
	cr_expect(!tap_round(&w, &work, false, &news)); /* without work nothing is lent */
	cr_expect_eq(lending[2].seats, 0);
	work = TAP_LEND;
	cr_expect(tap_round(&w, &work, false, &news));
	cr_expect_eq(lending[2].seats, 1);
	slot[3].state = HR_SLOT_COMPUTED;
	work = TAP_ALL;
	cr_expect(!tap_round(&w, &work, true, &news)); /* a stop */
	cr_expect(lending[2].has == HR_TAP_NONE && slot[3].state == HR_SLOT_FREE && work == 0);
	cr_expect_eq(slot[2].held, HR_HELD_FOR_GOOD);
}

Test(tap_watch, a_round_unblocks_slots_and_tells_the_last_tile)
{
	uint32_t work = 0, news = 0;

	has(1, 3, 1);
	slot[1].state = HR_SLOT_FILLED;
	cr_expect(tap_round(&w, &work, false, &news));
	cr_expect(slot[1].held == HR_HELD_NOT && tap_out_of(&tap, 1) == 0);
	w.tiles = 39;
	cr_expect(!tap_round(&w, &work, false, &news));
	cr_expect_eq(words.last, 1);
}

/* The worker alone: the test closes all slots, then the role has ended. */
Test(tap_watch, a_role_whose_slots_are_closed_ends)
{
	static struct hr_worker_status all[4];

	memset(all, 0, sizeof all);
	pipe_.tiles = 0;
	pipe_.status = all;
	pipe_.blocks[HR_ROLE_PREFETCH] = pipe_.workers[HR_ROLE_PREFETCH] = 1;
	pipe_.blocks[HR_ROLE_COMPUTE] = 2;
	for (uint32_t s = 0; s < SLOTS; s++)
		slot[s].state = HR_SLOT_CLOSED;
	for (uint32_t b = 0; b < 3; b++)
		hr_tap_pipe_block(&pipe_, b);
	cr_expect(others == 7 && !all[3].done);
	hr_tap_pipe_block(&pipe_, 3);
	cr_expect_eq(others, 7);
	cr_expect(all[3].done == 1 && all[3].tiles == 0 && tap_watch()->over == 1);
	cr_expect_eq(words.parked, 0);
	cr_expect(all[3].cost.rounds == 1 && !all[0].done && !all[2].done);
}

Test(tap_watch, a_role_with_nothing_to_do_parks)
{
	pipe_.tiles = 40;
	tap.park = 1;
	control.launch = 3;
	for (uint32_t s = 0; s < SLOTS; s++)
		has(s, s, 1);
	hr_tap_block(&pipe_, 0);
	cr_expect(status.done == 0 && words.parked == 3 && pipe_.parked == 3);
	cr_expect_geq(hr_now_ns(), NOW + HR_TAP_PARK_NS);
}

/* What lanes look at while they wait. */
Test(tap_watch, a_look_at_the_slots_finds_work)
{
	cr_expect_eq(tap_look_at_slots(&pipe_), 0);
	slot[5].state = HR_SLOT_COMPUTED;
	cr_expect_eq(tap_look_at_slots(&pipe_), TAP_COMPUTED);
	slot[5].state = HR_SLOT_FILLED;
	cr_expect_eq(tap_look_at_slots(&pipe_), 0);
	has(0, 4, 2);
	slot[0].state = HR_SLOT_COMPUTED; /* its output is in use */
	cr_expect_eq(tap_look_at_slots(&pipe_), 0);
	tap_watch()->back[0] = (uint64_t)lending[0].gen << 32 | 1; /* of another seat */
	cr_expect_eq(tap_look_at_slots(&pipe_), 0);
	tap_watch()->back[0] = (uint64_t)(lending[0].gen + 1) << 32 | 2; /* of another lending */
	cr_expect_eq(tap_look_at_slots(&pipe_), 0);
	tap_watch()->back[0] = (uint64_t)lending[0].gen << 32 | 2;
	cr_expect_eq(tap_look_at_slots(&pipe_), TAP_BACK);
	slot[1].state = HR_SLOT_COMPUTED;
	cr_expect_eq(tap_look_at_slots(&pipe_), TAP_BACK | TAP_COMPUTED);
	lending[0].seats = 0;
	cr_expect_eq(tap_look_at_slots(&pipe_), TAP_COMPUTED);
	for (uint32_t bit = TAP_NEWS; bit <= TAP_STOP; bit *= 2)
		cr_expect_eq(tap_all_lanes(bit), bit);
	cr_expect_eq(tap_all_lanes(TAP_BACK | TAP_STOP), TAP_BACK | TAP_STOP);
	cr_expect_eq(tap_all_lanes(0), 0);
}
