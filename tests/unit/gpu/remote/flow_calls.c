/* Offers and tiles that a link posts, call by call. */
#include "tests/harness/flow_rig.h"

TestSuite(flow_calls, .init = begin, .fini = end, .timeout = 60);

/* ---- begin and end of a connection */

Test(flow_calls, a_receiver_posts_the_offers_that_it_has_kept)
{
	static const uint32_t kept[] = { 0, 3, LAST };

	up(R);
	for (uint32_t i = 0; i < ROWS(kept); i++)
		link_->slot[kept[i]] = (struct hr_link_slot){ 10 + i, true, true };
	link_->sequence_in = link_->sequence_out = link_->post_head = link_->post_count = 9;
	link_->unused = link_->flight_head = link_->flight_count = 9;
	hr_flow_begin(link_);
	cr_expect_eq(link_->post_count, 3);
	for (uint32_t i = 0; i < ROWS(kept); i++) {
		cr_expect_eq(link_->post[i], kept[i]);
		cr_expect(link_->slot[kept[i]].offered && !link_->slot[kept[i]].posted);
		cr_expect_eq(link_->slot[kept[i]].tile, 10 + i);
	}
	cr_expect_eq(link_->sequence_in + link_->sequence_out + link_->post_head + link_->unused +
			     link_->flight_head + link_->flight_count,
		     0);
	link_->setup.side = S;
	hr_flow_begin(link_);
	cr_expect_eq(link_->post_count, 0);
	for (uint32_t i = 0; i < ROWS(kept); i++)
		cr_expect_not(link_->slot[kept[i]].offered);
}

Test(flow_calls, tiles_in_flight_are_remembered_in_their_order)
{
	up(S);
	link_->flight_head = LAST;
	link_->flight_count = 3;
	link_->flight[LAST].tile = 5;
	link_->flight[0].tile = 6;
	link_->flight[1].tile = 7;
	link_->unsent[0] = 4;
	link_->unsent_count = 1;
	hr_flow_end(link_);
	cr_expect_eq(link_->unsent_count, 4);
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_eq(link_->unsent[i], 4 + i);
	cr_expect_eq(link_->flight_head + link_->flight_count, 0);
	link_->flight_count = 2;
	link_->unsent_count = LAST;
	hr_flow_end(link_);
	cr_expect_eq(link_->unsent_count, HR_LINK_SLOTS_MAX);
	cr_expect_eq(link_->unsent[LAST], 6);
}

Test(flow_calls, the_end_is_an_event_once_when_all_tiles_are_there)
{
	static const struct {
		bool heard, told;
		uint64_t low;
		uint32_t events;
	} row[] = { { true, false, 9, 1 },
		    { true, false, 10, 1 },
		    { true, false, 8, 0 },
		    { true, true, 9, 0 },
		    { false, false, 9, 0 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		up(R);
		link_->end_heard = row[i].heard;
		link_->end_told = row[i].told;
		link_->have.low = row[i].low;
		link_->end = (struct hr_link_total){ 9, 1234 };
		hr_flow_check_end(link_);
		cr_expect_eq(link_->events, row[i].events, "row %zu", i);
		cr_expect_eq(link_->end_told, row[i].told || row[i].events);
		if (!link_->events)
			continue;
		cr_expect_eq(link_->event[0].kind, HR_LINK_END);
		cr_expect_eq(link_->event[0].tile, 9);
		cr_expect_eq(link_->event[0].total, 1234);
	}
	up(R);
	for (unsigned i = 0; i < HR_LINK_EVENTS + 2; i++)
		hr_flow_event(link_, (struct hr_link_event){ .kind = HR_LINK_TILE, .tile = i });
	cr_expect_eq(link_->events, HR_LINK_EVENTS);
	cr_expect_eq(link_->event[HR_LINK_EVENTS - 1].tile, HR_LINK_EVENTS - 1);
}

/* ---- offers of a receiver */

Test(flow_calls, an_offer_is_kept_and_queued_on_a_connection)
{
	static const struct {
		uint32_t slot;
		uint64_t tile;
		int err;
	} row[] = { { 7, 9999, -ERANGE },
		    { 7, 10000, -EINVAL },
		    { 8, 100, -EINVAL },
		    { 7, 99, -EALREADY },
		    { 7, 100 + HR_LINK_WINDOW, -ERANGE },
		    { 7, 103, -EALREADY },
		    { 2, 101, -EALREADY },
		    { 7, 101, -EALREADY },
		    { 7, 100, 0 },
		    { 6, 99 + HR_LINK_WINDOW, 0 } };

	for (int flow = 0; flow < 2; flow++) {
		up(R);
		link_->state = flow ? HR_LINK_IS_FLOW : HR_LINK_IS_DOWN;
		link_->have.low = 100;
		cr_assert_eq(hr_tileset_add(&link_->have, 103), 0);
		link_->slot[2] = (struct hr_link_slot){ 101, true, true };
		link_->slot[8] = (struct hr_link_slot){ 102, true, true };
		link_->post_head = LAST;
		for (size_t i = 0; i < ROWS(row); i++)
			cr_expect_eq(hr_link_offer(link_, row[i].slot, row[i].tile), row[i].err,
				     "row %zu", i);
		cr_expect(link_->slot[7].tile == 100 && link_->slot[7].offered &&
			  !link_->slot[7].posted);
		cr_expect_eq(link_->post_count, flow ? 2 : 0);
		cr_expect_eq(link_->post[LAST], flow ? 7 : 0);
		cr_expect_eq(link_->post[0], flow ? 6 : 0);
	}
	up(S);
	cr_expect_eq(hr_link_offer(link_, 0, 0), -EINVAL);
}

static void queue(uint32_t first, uint32_t count)
{
	link_->post_head = first;
	link_->post_count = count;
	for (uint32_t i = 0; i < count; i++) {
		link_->post[(first + i) % HR_LINK_SLOTS_MAX] = i;
		link_->slot[i] = (struct hr_link_slot){ 50 + i, true, false };
	}
}

Test(flow_calls, a_message_has_up_to_four_offers_and_does_not_wrap)
{
	up(R);
	queue(LAST, 7);
	link_->sequence_out = 3 * HR_LINK_SLOTS_MAX - 2;
	link_->unused = 5;
	cr_expect_eq(hr_flow_offers(link_), 0);
	/* the offset of slot 1022 */
	EXPECT_CALLS(
		"entry >2016352/22 50:0:3070 51:1:3071 kind 2 generation 3 slot 2 sequence 3070;"
		"entry >2000000/22 52:2:3072 53:3:3073 54:4:3074 55:5:3075 "
		"kind 2 generation 3 slot 4 sequence 3072;"
		"entry >2000064/22 56:6:3076 kind 2 generation 3 slot 1 sequence 3076;");
	cr_expect_eq(link_->post_count, 0);
	cr_expect_eq(link_->post_head, 6);
	cr_expect_eq(link_->sequence_out, 3077);
	cr_expect_eq(link_->unused, 12);
	cr_expect_eq(link_->sends_ns, 77);
	for (uint32_t i = 0; i < 8; i++)
		cr_expect_eq(link_->slot[i].posted, i < 7);
}

/* Until the sender has fewer offers than half of the slots, or lacks one for the lowest tile. */
Test(flow_calls, offers_are_gathered)
{
	static const struct {
		uint32_t slots, queued, unused, messages, room;
		bool lowest;
	} row[] = {
		{ 16, 3, 8, 0, 9, true },
		{ 16, 4, 8, 1, 9, true },
		{ 16, 3, 7, 1, 9, true },
		{ 16, 3, 8, 1, 9, false },
		{ 15, 2, 8, 0, 9, true },
		{ 15, 3, 8, 1, 9, true },
		{ 15, 2, 7, 1, 9, true },
		{ 12, 2, 6, 0, 9, true },
		{ 12, 3, 6, 1, 9, true },
		{ 64, 3, 32, 0, 9, true },
		{ 64, 4, 32, 1, 9, true },
		{ 3, 1, 3, 1, 9, true },
		{ 64, 9, 0, 3, 9, false },
		{ 64, 9, 0, 2, 2, false },
		{ 64, 9, 0, 0, 0, false },
		{ 64, 0, 0, 0, 9, false },
		/* what is posted counts: five of them, and the last one waits */
		{ 20, 5, 9, 1, 9, true },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint32_t messages = 0;

		up(R);
		queue(0, row[i].queued);
		link_->setup.memory.slots = row[i].slots;
		link_->unused = row[i].unused;
		link_->have.low = 30;
		/* in the last slot; one behind it must not be looked at */
		link_->slot[row[i].slots - 1] = (struct hr_link_slot){ 30, true, row[i].lowest };
		link_->slot[row[i].slots] = (struct hr_link_slot){ 30, true, true };
		will.room = row[i].room;
		cr_expect_eq(hr_flow_offers(link_), 0);
		for (const char *at = calls_text(); (at = strstr(at, "entry")); at++)
			messages++;
		cr_expect_eq(messages, row[i].messages, "row %zu: %s", i, calls_text());
	}
}

Test(flow_calls, an_offer_that_cannot_be_posted_is_an_error)
{
	up(R);
	queue(0, 5);
	will.entry = -ENOMEM;
	cr_expect_eq(hr_flow_offers(link_), -ENOMEM);
	EXPECT_TEXT("dev0: cannot post a request: Cannot allocate memory");
	cr_expect_eq(link_->post_count, 5);
	cr_expect_eq(link_->post_head + link_->sequence_out + link_->unused, 0);
	cr_expect_eq(link_->sends_ns, 0);
}

/* ---- tiles of a sender */

Test(flow_calls, a_tile_goes_to_the_slot_that_was_offered)
{
	up(S);
	link_->slot[5] = (struct hr_link_slot){ 8, true, false };
	link_->sequence_out = 70000;
	link_->flight_head = LAST;
	link_->flight_count = 1;
	link_->flight[LAST] = (struct hr_link_flight){ .tile = 7, .slot = 1 };
	will.room = 1;
	cr_assert_eq(hr_link_send(link_, 7, 8, BYTES), 0);
	EXPECT_CALLS("tile 7000+900>1010000/11 kind 3 generation 3 slot 5 sequence 4464;");
	cr_expect_eq(link_->sequence_out, 70001);
	cr_expect_not(link_->slot[5].offered);
	cr_expect_eq(link_->sends_ns, 77);
	cr_expect_eq(link_->flight_count, 2);
	cr_expect(link_->flight[0].tile == 8 && link_->flight[0].slot == 7 &&
		  link_->flight[0].bytes == BYTES && link_->flight[0].number == 40);
}

Test(flow_calls, a_tile_is_sent_once_and_when_there_is_room)
{
	static const struct {
		uint32_t slot;
		uint64_t tile;
		uint32_t bytes, room, depth;
		enum hr_link_state state;
		int err;
	} row[] = {
		{ 7, 8, 1, 2, 3, HR_LINK_IS_FLOW, 0 },
		{ 8, 8, 1, 2, 3, HR_LINK_IS_FLOW, -EINVAL },
		{ 7, 10000, 1, 2, 3, HR_LINK_IS_FLOW, -EINVAL },
		{ 7, 9999, 1, 2, 3, HR_LINK_IS_FLOW, -EAGAIN },
		{ 7, 8, 0, 2, 3, HR_LINK_IS_FLOW, -EINVAL },
		{ 7, 8, BYTES + 1, 2, 3, HR_LINK_IS_FLOW, -EINVAL },
		{ 7, 8, 1, 2, 3, HR_LINK_IS_BROKEN, -ENOTCONN },
		{ 7, 5, 1, 2, 3, HR_LINK_IS_FLOW, -EALREADY },
		{ 7, 6, 1, 2, 3, HR_LINK_IS_FLOW, -EINVAL }, /* in flight, */
		{ 7, 7, 1, 2, 3, HR_LINK_IS_FLOW, -EINVAL },
		{ 1, 8, 1, 2, 3, HR_LINK_IS_FLOW, -EINVAL }, /* as is the slot */
		{ 2, 8, 1, 2, 3, HR_LINK_IS_FLOW, -EINVAL },
		{ 7, 9, 1, 2, 3, HR_LINK_IS_FLOW, -EAGAIN }, /* not offered: behind the slots */
		{ 7, 8, 1, 0, 3, HR_LINK_IS_FLOW, -EAGAIN },
		{ 7, 8, 1, 2, 2, HR_LINK_IS_FLOW, -EAGAIN },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		up(S);
		link_->have.low = 6;
		link_->slot[5] = (struct hr_link_slot){ 8, true, false };
		link_->slot[6] = (struct hr_link_slot){ 9, true, false };
		link_->slot[4] = (struct hr_link_slot){ 9, false, false };
		link_->flight_head = LAST;
		link_->flight_count = 2;
		link_->flight[LAST] = (struct hr_link_flight){ .tile = 6, .slot = 1 };
		link_->flight[0] = (struct hr_link_flight){ .tile = 7, .slot = 2 };
		link_->state = row[i].state;
		link_->depth = row[i].depth;
		will.room = row[i].room;
		cr_expect_eq(hr_link_send(link_, row[i].slot, row[i].tile, row[i].bytes),
			     row[i].err, "row %zu", i);
		cr_expect_eq(link_->flight_count, row[i].err ? 2 : 3, "row %zu", i);
		cr_expect_eq(calls_text()[0] != '\0', row[i].err == 0, "row %zu", i);
	}
	up(R);
	cr_expect_eq(hr_link_send(link_, 0, 0, 1), -EINVAL);
}

Test(flow_calls, a_tile_that_cannot_be_posted_breaks_the_queue_pair)
{
	up(S);
	link_->slot[0] = (struct hr_link_slot){ 8, true, false };
	will.tile = -ENOMEM;
	cr_expect_eq(hr_link_send(link_, 0, 8, 1), -ENOTCONN);
	cr_expect(strstr(calls_text(), "break;") == calls_text() + strlen(calls_text()) - 6, "%s",
		  calls_text());
	cr_expect_eq(link_->sequence_out + link_->flight_count, 0);
	cr_expect(link_->slot[0].offered);
}
