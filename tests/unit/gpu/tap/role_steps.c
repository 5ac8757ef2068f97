/*
 * The tap role, function by function, in one thread with a clock that stands still: what each step
 * writes for consumers, the host and the other roles.
 */
#include "tests/harness/tap_steps_rig.h"

TestSuite(tap_steps, .init = begin, .fini = end, .timeout = 60);

/* ---- tiles that come back */

Test(tap_steps, a_tile_that_came_back_frees_its_slot_and_is_counted)
{
	has(2, 9, 3);
	tap_slot_back(&w, 2, 1, 0);
	cr_expect(lending[2].seats == 2 && lending[2].has == HR_TAP_HAS && slot[2].held == HR_HELD);
	cr_expect(tap.own[0].held == 0 && tap.own[1].held == 1 && status.tiles == 0);
	cr_expect(words.seat[0].returned == 1 && words.seat[0].hold_ns == HR_NS_PER_MS);
	cr_expect(words.seat[0].hold_max_ns == HR_NS_PER_MS && words.seat[1].returned == 0);
	lending[2].flags = lending[2].avoid = lending[2].tries = 1;
	fake_clock_advance(5);
	tap_slot_back(&w, 2, 2, 0);
	cr_expect(!lending[2].seats && lending[2].has == HR_TAP_NONE && slot[2].held == 0);
	cr_expect(!lending[2].flags && !lending[2].avoid && !lending[2].tries);
	cr_expect_eq(lending[2].freed_ns, NOW + 5);
	cr_expect_eq(words.seat[1].hold_ns, HR_NS_PER_MS + 5);
	cr_expect(status.tiles == 1 && status.bytes == 102);
	cr_expect(words.seat[1].failed == 0 && words.failed == 0);
}

Test(tap_steps, the_longest_time_of_a_seat_is_kept)
{
	tap.own[1].held = 4;
	tap_count(&tap, 1, 30, false);
	tap_count(&tap, 1, 10, true);
	tap_count(&tap, 1, 30, false);
	cr_expect(words.seat[1].hold_ns == 70 && words.seat[1].hold_max_ns == 30);
	cr_expect(words.seat[1].failed == 1 && words.seat[1].returned == 3);
	cr_expect(tap.own[1].held == 1 && tap.own[1].hold_ns == 70 && tap.own[1].hold_max_ns == 30);
	words.seat[1].hold_max_ns = 5; /* written only when it grows */
	tap_count(&tap, 1, 30, false);
	cr_expect_eq(words.seat[1].hold_max_ns, 5);
}

Test(tap_steps, a_failed_tile_goes_to_others_as_often_as_it_may)
{
	for (uint32_t i = 1; i <= 3; i++) {
		has(1, 8, 1u << i);
		tap.own[i].held = 1;
		tap_slot_back(&w, 1, 1u << i, 1u << i);
		cr_expect_eq(words.seat[i].failed, 1);
		cr_expect_eq(words.redelivered, i < 3 ? i : 2);
		if (i < 3)
			cr_expect(lending[1].flags == HR_TAP_REDELIVERED &&
				  lending[1].avoid == (i == 1 ? 2 : 6) && lending[1].tries == i);
		cr_expect_eq(lending[1].has, i < 3 ? HR_TAP_HAS : HR_TAP_NONE);
	}
	cr_expect(words.failed == 1 && words.failed_tile == 8 && slot[1].held == 0);
	cr_expect(!lending[1].avoid && !lending[1].tries && status.tiles == 1);
	cr_expect_eq(lending[1].freed_ns, 0); /* not free yet */
	/* with `each` it is done */
	tap.each = 1;
	has(1, 8, 4);
	tap_slot_back(&w, 1, 4, 4);
	cr_expect(lending[1].has == HR_TAP_NONE && words.redelivered == 2 && words.failed == 1);
	cr_expect_eq(words.seat[2].failed, 2);
}

Test(tap_steps, only_words_of_this_lending_give_a_tile_back)
{
	static const struct {
		uint64_t gen, failed, back;
		uint32_t result, bad;
	} row[] = {
		{ 12, 0, 0, 0, 0 }, { 12, 0, 1, 1, 0 }, { 12, 0, 4, 0, 0 }, { 12, 0, 7, 3, 0 },
		{ 12, 2, 3, 3, 2 }, { 12, 2, 1, 1, 0 }, { 12, 7, 7, 3, 3 }, { 13, 0, 3, 0, 0 },
		{ 11, 0, 3, 0, 0 }, { 12, 3, 0, 0, 0 },
	};

	has(2, 9, 3);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint32_t failed = 0;

		tap_watch()->back[2] = row[i].gen << 32 | row[i].failed << 16 | row[i].back;
		cr_expect_eq(tap_returned(&pipe_, 2, &failed), row[i].result, "%zu", i);
		cr_expect_eq(failed, row[i].bad, "%zu", i);
	}
}

Test(tap_steps, all_slots_are_collected)
{
	cr_expect(!tap_collect(&w));
	for (uint32_t s = 0; s < SLOTS; s++)
		has(s, s, 1);
	tap_watch()->back[0] = 10ull << 32 | 1;
	tap_watch()->back[5] = 15ull << 32 | 1ull << 16 | 1;
	cr_expect(tap_collect(&w));
	cr_expect(lending[0].has == HR_TAP_NONE && lending[5].has == HR_TAP_HAS);
	cr_expect(lending[5].seats == 0 && lending[5].flags == HR_TAP_REDELIVERED);
	cr_expect(lending[4].seats == 1 && words.seat[0].returned == 2);
	cr_expect(!tap_collect(&w));
}

/* ---- orders */

Test(tap_steps, a_seat_that_closes_gives_its_tiles_to_others)
{
	has(0, 1, 2);
	has(1, 2, 6);
	has(3, 3, 4);
	lending[3].avoid = 6;
	tap_seat_order(&w, 1, 6 * HR_TAP_ORDERS + HR_TAP_CLOSE);
	cr_expect(lending[0].seats == 0 && lending[1].seats == 4 && lending[3].seats == 4);
	cr_expect(lending[0].flags == HR_TAP_REDELIVERED && lending[3].flags == 0);
	cr_expect(lending[3].avoid == 4 && words.redelivered == 2);
	cr_expect(lending[0].has == HR_TAP_HAS && status.tiles == 0);
	cr_expect(words.seat[1].done == 26 && tap.own[1].done == 26 && !tap.own[1].lends);
}

Test(tap_steps, with_each_the_other_consumers_have_the_tiles)
{
	tap.each = 1;
	has(0, 1, 2);
	has(1, 2, 6);
	tap_take_back(&w, 1);
	cr_expect(lending[0].has == HR_TAP_NONE && lending[1].has == HR_TAP_HAS);
	cr_expect(lending[1].seats == 4 && words.redelivered == 0 && status.tiles == 1);
	cr_expect(lending[1].flags == 0);
}

Test(tap_steps, a_new_consumer_starts_from_nothing)
{
	struct hr_tap_head *head = (struct hr_tap_head *)(void *)entries[7];

	tap_watch()->set[2] = 7;
	memset(&tap.own[2], 0x11, sizeof tap.own[2]);
	memset(&words.seat[2], 0x22, sizeof words.seat[2]);
	tap.last = 1;
	tap_seat_order(&w, 2, 8 * HR_TAP_ORDERS + HR_TAP_LEND);
	cr_expect(tap.own[2].lends == 1 && tap.own[2].held == 0 && tap.own[2].sent == 0);
	cr_expect(tap.own[2].returned == 0 && tap.own[2].hold_ns == 0 &&
		  tap.own[2].hold_max_ns == 0);
	cr_expect_eq(tap.own[2].credits, 0x11111111u);
	cr_expect(words.seat[2].lent == 0 && words.seat[2].returned == 0);
	cr_expect(words.seat[2].failed == 0 && words.seat[2].redelivered == 0);
	cr_expect(words.seat[2].hold_ns == 0 && words.seat[2].hold_max_ns == 0);
	cr_expect(words.seat[2].oldest_ns == 0 && words.seat[2].order == 0x22222222u);
	cr_expect(head->last == 1 && words.seat[2].done == 32);
	cr_expect(tap.own[2].set == 7 && tap_head(&tap, 2) == head);
	cr_expect_eq(tap_entries(&tap, 2), entry(7, 0));
	tap.own[2].sent = 9;
	tap_seat_order(&w, 2, 9 * HR_TAP_ORDERS + HR_TAP_HOLD);
	cr_expect(!tap.own[2].lends && tap.own[2].sent == 9 && words.seat[2].done == 37);
}

Test(tap_steps, what_a_closing_seat_gave_back_before_is_done)
{
	has(0, 1, 2);
	has(1, 2, 2);
	tap_watch()->back[0] = 10ull << 32 | 2;
	tap_carry_out(&w, 1, HR_TAP_ORDERS + HR_TAP_HOLD);
	cr_expect_eq(words.seat[1].returned, 0);
	tap_carry_out(&w, 1, HR_TAP_ORDERS + HR_TAP_CLOSE);
	cr_expect(words.seat[1].returned == 1 && words.redelivered == 1);
	cr_expect(lending[0].has == HR_TAP_NONE && lending[1].has == HR_TAP_HAS);
}

Test(tap_steps, orders_are_carried_out_when_there_are_news)
{
	const uint32_t last = HR_TAP_SEATS - 1;
	uint32_t news = 0;

	tap.consumers = 2;
	tap_watch()->order[1] = tap_watch()->order[last] = HR_TAP_ORDERS + HR_TAP_LEND;
	tap_watch()->credits[1] = 3;
	tap_watch()->credits[2] = 9;
	tap_watch()->credits[last] = 4;
	cr_expect(!tap_obey(&w, &news));
	cr_expect(!tap.own[1].lends && !tap.began);
	tap_watch()->news = 5;
	tap_watch()->order[last] = 0;
	cr_expect(tap_obey(&w, &news));
	cr_expect(news == 5 && tap.own[1].lends && tap.own[1].credits == 3 && !tap.began);
	cr_expect(tap.own[2].credits == 0 && words.seat[2].done == 0);
	tap_watch()->order[last] = HR_TAP_ORDERS + HR_TAP_LEND;
	tap_watch()->news = 6;
	cr_expect(tap_obey(&w, &news));
	cr_expect(tap.own[last].credits == 4 && tap.began == 1);
	tap_watch()->credits[1] = 8; /* no order */
	tap_watch()->news = 7;
	cr_expect(!tap_obey(&w, &news));
	cr_expect(tap.own[1].credits == 8 && words.seat[1].done == 4);
}

/* ---- lending */

Test(tap_steps, a_tile_is_shown_to_its_consumers_with_all_words)
{
	struct hr_tap_entry e = { .tile = 9,
				  .slot = 2,
				  .gen = 13,
				  .bytes = 102,
				  .flags = 1,
				  .lent_ns = NOW,
				  .ready_ns = 4,
				  .freed_ns = 5,
				  .sequence = 1 };

	has(2, 9, 0);
	lending[2].flags = HR_TAP_REDELIVERED;
	lending[2].ready_ns = 4;
	lending[2].freed_ns = 5;
	tap.own[0].sent = 2 * RING - 1; /* the ring has gone round */
	tap_lend(&pipe_, 2, 5, NOW);
	e.gen = 13;
	for (uint32_t seat = 0; seat < 3; seat += 2) {
		e.sequence = seat ? 1 : 2 * RING;
		e.check = hr_tap_entry_check(&e, e.sequence);
		cr_expect_eq(memcmp(entry(seat, seat ? 0 : RING - 1), &e, sizeof e), 0, "%u", seat);
		cr_expect(tap.own[seat].held == 1 && tap.own[seat].sent == e.sequence);
		cr_expect(words.seat[seat].lent == e.sequence && words.seat[seat].redelivered == 1);
	}
	cr_expect(words.seat[1].lent == 0 && lending[2].seats == 5 && lending[2].gen == 13);
	cr_expect(lending[2].lent_ns == NOW && tap.front == 10 && words.front == 10);
	has(3, 8, 0); /* an earlier one, not lent before */
	lending[3].gen = HR_TAP_FAILED - 1;
	tap_lend(&pipe_, 3, 2, NOW);
	cr_expect(lending[3].gen == 1 && words.front == 10 && words.seat[1].redelivered == 0);
	has(4, 10, 0);
	lending[4].gen = HR_TAP_FAILED - 2;
	tap_lend(&pipe_, 4, 2, NOW);
	cr_expect(lending[4].gen == HR_TAP_FAILED - 1 && words.front == 11);
}

Test(tap_steps, a_seat_is_chosen_in_turn_and_not_one_that_has_failed)
{
	static const struct {
		uint32_t each, drop, next, avoid, lenders, rich, mask, then;
	} row[] = {
		{ 0, 0, 0, 0, 7, 7, 1, 1 }, { 0, 0, 1, 0, 7, 7, 2, 2 },
		{ 0, 0, 2, 0, 7, 3, 1, 1 }, { 0, 0, 3, 0, 7, 7, 1, 1 },
		{ 0, 0, 0, 1, 7, 7, 2, 2 }, { 0, 0, 0, 1, 1, 1, 1, 1 },
		{ 0, 0, 0, 1, 3, 1, 0, 0 }, { 0, 0, 0, 0, 7, 0, 0, 0 },
		{ 1, 0, 0, 0, 7, 7, 7, 0 }, { 1, 0, 0, 0, 7, 3, 0, 0 },
		{ 1, 1, 0, 0, 7, 3, 3, 0 }, { 1, 0, 0, 2, 7, 5, 5, 0 },
		{ 1, 0, 0, 7, 7, 7, 7, 0 }, { 0, 0, HR_TAP_SEATS, 0, 7, 6, 2, 2 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		tap.each = row[i].each;
		tap.drop = row[i].drop;
		tap.next = row[i].next;
		cr_expect_eq(tap_choose(&tap, row[i].avoid, row[i].lenders, row[i].rich),
			     row[i].mask, "%zu", i);
		cr_expect_eq(tap.next, row[i].each || !row[i].mask ? row[i].next : row[i].then,
			     "%zu", i);
	}
}

Test(tap_steps, a_seat_has_credit_for_fewer_tiles_than_its_limit)
{
	const uint32_t last = HR_TAP_SEATS - 1;
	uint32_t lenders, rich;

	lends(0, 2);
	lends(2, 1);
	lends(last, 3);
	tap.own[0].held = 1;
	tap.own[2].held = 1;
	tap.own[last].held = 4;
	tap.own[1].credits = 5;
	tap_masks(&tap, &lenders, &rich);
	cr_expect_eq(lenders, 5 | 1u << last);
	cr_expect_eq(rich, 1);
}

Test(tap_steps, the_oldest_tile_comes_first_up_to_the_credits)
{
	tap.began = 1;
	has(0, 12, 0);
	has(1, 11, 0);
	has(2, 10, 4);
	has(3, 13, 0);
	lending[3].has = HR_TAP_TAKEN;
	has(4, 9, 0);
	lending[4].has = HR_TAP_DROPPED;
	cr_expect_eq(tap_lend_all(&w), 0);
	lends(0, 2);
	cr_expect_eq(tap_lend_all(&w), 2);
	cr_expect(lending[1].seats == 1 && lending[0].seats == 1 && lending[3].seats == 0);
	cr_expect(entry(0, 0)->tile == 11 && entry(0, 1)->tile == 12);
	cr_expect_eq(entry(0, 0)->lent_ns, NOW);
	cr_expect_eq(tap_lend_all(&w), 0);
	tap.own[0].credits = 9;
	tap.began = 0;
	cr_expect_eq(tap_lend_all(&w), 0);
	tap.began = 1;
	cr_expect_eq(tap_lend_all(&w), 1);
	cr_expect_eq(entry(0, 2)->tile, 13);
	cr_expect_eq(tap_lend_all(&w), 0);
}

Test(tap_steps, a_batch_has_a_limit)
{
	uint32_t work = TAP_LEND, news = 0;

	tap.began = 1;
	lends(0, 100);
	pipe_.slots = MORE;
	for (uint32_t s = 0; s < MORE; s++)
		has(s, s, 0);
	cr_expect(tap_round(&w, &work, false, &news));
	cr_expect_eq(tap.own[0].held, TAP_BATCH);
	cr_expect_eq(work, TAP_LEND); /* the next round goes on */
	cr_expect(tap_round(&w, &work, false, &news));
	cr_expect(tap.own[0].held == MORE && work == 0);
	cr_expect(!tap_round(&w, &work, false, &news));
}

Test(tap_steps, without_a_credit_a_tile_waits_is_dropped_or_is_passed_by)
{
	tap.began = 1;
	lends(0, 1);
	lends(1, 1);
	has(0, 5, 0);
	has(1, 6, 0);
	tap.own[1].held = 1;
	lending[0].avoid = 1; /* seat 0 has failed, and seat 1 has no credit */
	cr_expect_eq(tap_lend_all(&w), 1);
	cr_expect(lending[0].seats == 0 && lending[1].seats == 1);
	cr_expect_eq(words.dropped, 0);
	begin();
	tap.began = tap.drop = 1;
	has(0, 5, 0);
	has(1, 6, 0);
	lends(0, 0);
	cr_expect_eq(tap_lend_all(&w), 2);
	cr_expect(words.dropped == 2 && lending[0].has == HR_TAP_NONE && slot[0].held == 0);
	cr_expect_eq(status.tiles, 2);
	begin();
	tap.began = tap.drop = 1; /* taken in this round */
	has(0, 5, 0);
	lending[0].has = HR_TAP_TAKEN;
	cr_expect_eq(tap_lend_all(&w), 1);
	cr_expect(lending[0].has == HR_TAP_DROPPED && slot[0].held == HR_HELD);
	cr_expect_eq(tap_oldest(&pipe_, 0), TAP_NOTHING);
	slot[0].state = HR_SLOT_COMPUTED;
	tap_hand_over(&pipe_);
	cr_expect(lending[0].has == HR_TAP_NONE && slot[0].held == 0);
	cr_expect_eq(slot[0].state, HR_SLOT_FREE);
}

/* ---- outputs of slots */

Test(tap_steps, computed_tiles_are_taken_over_and_their_slots_handed_on)
{
	for (uint32_t s = 0; s < SLOTS; s++) {
		slot[s].state = s < 4 ? HR_SLOT_COMPUTED : HR_SLOT_FILLED;
		slot[s].tile = 30 + s;
		slot[s].out_bytes = 200 + s;
		slot[s].computed_ns = (uint32_t)(NOW - 9);
	}
	has(1, 3, 1); /* its output is still held */
	slot[2].out_bytes = HR_OUT_BROKEN;
	cr_expect(tap_take_all(&pipe_));
	cr_expect(lending[0].has == HR_TAP_TAKEN && lending[3].has == HR_TAP_TAKEN);
	cr_expect(lending[2].has == HR_TAP_NONE && lending[4].has == HR_TAP_NONE);
	cr_expect(lending[3].tile == 33 && lending[3].bytes == 203);
	cr_expect_eq(lending[3].ready_ns, NOW - 9);
	cr_expect(lending[1].tile == 3 && slot[0].state == HR_SLOT_COMPUTED);
	tap_hand_over(&pipe_);
	for (uint32_t s = 0; s < SLOTS; s++) {
		const bool taken = s == 0 || s == 3;

		cr_expect_eq(slot[s].state, taken   ? HR_SLOT_FREE
					    : s < 4 ? HR_SLOT_COMPUTED
						    : HR_SLOT_FILLED);
		cr_expect_eq(slot[s].held, taken || s == 1 ? HR_HELD : HR_HELD_NOT);
		cr_expect_eq(lending[s].has, taken || s == 1 ? HR_TAP_HAS : HR_TAP_NONE);
	}
	slot[0].state = HR_SLOT_FILLED;
	cr_expect(!tap_take_all(&pipe_));
	fake_clock_start((NOW & ~0xffffffffull) + 5, NULL, NULL); /* the low bits have wrapped */
	slot[4].state = HR_SLOT_COMPUTED;
	slot[4].computed_ns = 0xfffffffe;
	cr_expect(tap_take_all(&pipe_));
	cr_expect_eq(lending[4].ready_ns, (NOW & ~0xffffffffull) - 2);
}

Test(tap_steps, a_slot_that_waits_gets_the_output_of_one_that_needs_none)
{
	for (uint32_t s = 0; s < SLOTS; s++)
		slot[s].out.data = (uint8_t *)(uintptr_t)s;
	has(1, 3, 1);
	slot[1].state = HR_SLOT_FILLED;
	slot[0].state = HR_SLOT_FILLED; /* it has its tile, and no output is held */
	slot[2].state = HR_SLOT_COMPUTED;
	has(3, 4, 1);
	slot[4].held = HR_HELD_COMPUTE;
	slot[5].state = HR_SLOT_COMPUTED;
	cr_expect(!tap_unblock(&pipe_));
	slot[5].state = HR_SLOT_FREE;
	cr_expect(tap_unblock(&pipe_));
	cr_expect(tap_out_of(&tap, 1) == 5 && tap_out_of(&tap, 5) == 1);
	cr_expect(tap_slot_of(&tap, 1) == 5 && tap_slot_of(&tap, 5) == 1);
	cr_expect(slot[1].out.data == (uint8_t *)5 && slot[5].out.data == (uint8_t *)1);
	cr_expect(slot[1].held == HR_HELD_NOT && slot[5].held == HR_HELD);
	cr_expect(!tap_unblock(&pipe_)); /* no slot waits */
	/* outputs that were exchanged are exchanged again */
	slot[5].state = HR_SLOT_FILLED;
	lending[3].has = HR_TAP_NONE;
	slot[3].held = HR_HELD_NOT;
	cr_expect(tap_unblock(&pipe_));
	cr_expect(tap_out_of(&tap, 5) == 3 && tap_out_of(&tap, 3) == 1);
	cr_expect(tap_slot_of(&tap, 3) == 5 && tap_slot_of(&tap, 1) == 3);
	/* the tile of output 1 comes back: slot 3 is the one that gets free */
	slot[3].state = HR_SLOT_FREE;
	tap_slot_back(&w, 1, 1, 0);
	cr_expect(slot[3].held == HR_HELD_NOT && slot[1].held == HR_HELD_NOT);
	cr_expect_eq(slot[5].held, HR_HELD_NOT);
}

/* ---- the end */

Test(tap_steps, after_a_stop_every_slot_goes_to_prefetch)
{
	has(1, 3, 1);
	has(2, 4, 0);
	slot[2].state = slot[5].state = HR_SLOT_COMPUTED;
	slot[4].state = HR_SLOT_FILLED;
	tap_abandon(&pipe_);
	cr_expect(lending[1].seats == 0 && lending[1].has == HR_TAP_NONE);
	cr_expect(slot[1].held == HR_HELD_FOR_GOOD && slot[2].held == HR_HELD_FOR_GOOD);
	cr_expect(slot[0].held == HR_HELD_NOT && slot[5].held == HR_HELD_NOT);
	cr_expect(slot[2].state == HR_SLOT_FREE && slot[5].state == HR_SLOT_FREE);
	cr_expect(slot[4].state == HR_SLOT_FILLED && status.tiles == 0);
}

Test(tap_steps, open_and_lent_slots_are_counted)
{
	cr_expect(tap_open_slots(&pipe_) == SLOTS && tap_lent_slots(&pipe_) == 0);
	for (uint32_t s = 0; s < SLOTS; s++)
		slot[s].state = HR_SLOT_CLOSED;
	cr_expect_eq(tap_open_slots(&pipe_), 0);
	has(0, 1, 0);
	has(5, 2, 4);
	slot[3].state = HR_SLOT_CLOSING;
	cr_expect_eq(tap_open_slots(&pipe_), 3);
	cr_expect_eq(tap_lent_slots(&pipe_), 1);
}

Test(tap_steps, consumers_are_told_when_each_tile_that_is_left_is_lent)
{
	struct hr_tap_head *head[2] = { (struct hr_tap_head *)(void *)entries[1],
					(struct hr_tap_head *)(void *)entries[2] };

	lends(1, 4);
	pipe_.first_tile = 10; /* 30 tiles */
	has(0, 38, 2);
	has(1, 39, 2);
	w.tiles = 27;
	tap_tell_last(&w);
	cr_expect(!tap.last && !words.last);
	w.tiles = 28;
	tap_tell_last(&w);
	cr_expect(tap.last == 1 && words.last == 1 && head[0]->last == 1 && head[1]->last == 0);
	head[0]->last = 7;
	tap_tell_last(&w);
	cr_expect_eq(head[0]->last, 7); /* written once */
	lending[0].seats = 0;		/* a consumer has ended */
	tap_tell_last(&w);
	cr_expect(tap.last == 0 && words.last == 0 && head[0]->last == 0);
	w.tiles = 24 - 1; /* more than all slots are left: it does not count them */
	tap.last = 0;
	tap_tell_last(&w);
	cr_expect_eq(tap.last, 0);
	w.tiles = 24; /* each slot has one of the tiles that are left */
	for (uint32_t s = 0; s < SLOTS; s++)
		has(s, 34 + s, 2);
	tap_tell_last(&w);
	cr_expect_eq(tap.last, 1);
}

Test(tap_steps, workers_rest_when_every_output_is_taken_or_every_slot_is_closed)
{
	cr_expect(!tap_rests(&pipe_));
	for (uint32_t s = 0; s < SLOTS; s++)
		has(s, s, s % 2);
	cr_expect(tap_rests(&pipe_));
	lending[5].has = HR_TAP_NONE;
	cr_expect(!tap_rests(&pipe_));
	for (uint32_t s = 0; s < SLOTS; s++)
		slot[s].state = HR_SLOT_CLOSED;
	cr_expect(tap_rests(&pipe_));
	slot[5].state = HR_SLOT_FREE;
	cr_expect(!tap_rests(&pipe_));
}

Test(tap_steps, a_launch_is_left_after_a_while_without_work)
{
	uint64_t since = 0;
	uint32_t news = 0;

	for (uint32_t s = 0; s < SLOTS; s++)
		has(s, s, 1);
	cr_expect(!tap_parks(&w, true, &since, &news));
	cr_expect_eq(since, NOW);
	fake_clock_advance(HR_TAP_PARK_NS - 1);
	cr_expect(!tap_parks(&w, true, &since, &news));
	cr_expect_eq(since, NOW);
	fake_clock_advance(1);
	tap_watch()->news = 1;
	tap_watch()->order[0] = HR_TAP_ORDERS + HR_TAP_LEND;
	cr_expect(!tap_parks(&w, true, &since, &news)); /* an order */
	cr_expect(tap.own[0].lends == 1 && pipe_.parked == 0);
	cr_expect(tap_parks(&w, true, &since, &news));
	cr_expect_eq(pipe_.parked, 7);
	cr_expect(!tap_parks(&w, false, &since, &news));
	cr_expect_eq(since, 0);
	tap_leave(&w);
	cr_expect_eq(words.parked, 7);
}

Test(tap_steps, a_stop_of_the_pipeline_or_the_host_is_seen)
{
	cr_expect(!tap_stopped(&w));
	tap_watch()->stop = 1;
	cr_expect(tap_stopped(&w));
	tap_watch()->stop = 0;
	tap_watch()->host_stop = HR_STOP_NEW;
	cr_expect(tap_stopped(&w));
	tap_watch()->host_stop = HR_STOP_NOT;
	w.failed = true;
	cr_expect(tap_stopped(&w));
	w.failed = false;
	tap_watch()->host_stop = HR_STOP_NEW;
	tap_check_stop(&w, false);
	cr_expect(!w.failed && !w.dead);
	tap_watch()->host_stop = HR_STOP_WAITING;
	tap_check_stop(&w, true);
	cr_expect(!w.failed);
	tap_check_stop(&w, false);
	cr_expect(w.failed && w.dead);
}
