/* Completions that a link takes, one by one. */
#include "tests/harness/flow_rig.h"

TestSuite(flow_done, .init = begin, .fini = end, .timeout = 60);

static void arrives(enum hr_link_immediate kind, uint64_t generation, uint32_t slot,
		    uint32_t sequence)
{
	will.poll = 1;
	will.done = (struct hr_rdma_done){ .receive = true,
					   .has_immediate = true,
					   .bytes = 5,
					   .immediate = hr_link_immediate(kind, generation, slot,
									  sequence) };
}

static void put_offer(uint32_t at, uint64_t tile, uint32_t slot, uint32_t sequence)
{
	const struct hr_link_offer offer = { tile, slot, sequence };

	memcpy(table + at * sizeof offer, &offer, sizeof offer);
}

Test(flow_done, offers_are_taken_in_their_sequence)
{
	up(S);
	link_->sequence_in = 2 * HR_LINK_SLOTS_MAX - 1;
	put_offer(LAST, 20, 5, 2 * HR_LINK_SLOTS_MAX - 1);
	put_offer(0, 8191, 0, 2 * HR_LINK_SLOTS_MAX);
	arrives(HR_LINK_IMM_OFFER, 5, 2, 2 * HR_LINK_SLOTS_MAX - 1);
	cr_expect_eq(hr_flow_poll(link_), 1, "%s", link_->text);
	EXPECT_CALLS("receive 1;");
	cr_expect_eq(link_->sequence_in, 2 * HR_LINK_SLOTS_MAX + 1);
	cr_expect_eq(link_->events, 2);
	cr_expect(link_->event[0].kind == HR_LINK_OFFERED && link_->event[0].tile == 20);
	cr_expect(link_->event[1].kind == HR_LINK_OFFERED && link_->event[1].tile == 8191);
	cr_expect(link_->slot[5].offered && link_->slot[5].tile == 20);
	cr_expect(link_->slot[0].offered && link_->slot[0].tile == 8191);
}

#define BROKEN "the other side has broken the protocol: "

Test(flow_done, a_wrong_offer_is_refused)
{
	static const struct {
		uint32_t count, slot, sequence;
		uint64_t tile;
		const char *text;
	} row[] = {
		{ 1, 5, 0, 31, "" },
		{ 0, 5, 0, 31, BROKEN "a wrong number of offers" },
		{ HR_LINK_OFFERS + 1, 5, 0, 31, BROKEN "a wrong number of offers" },
		{ HR_LINK_OFFERS, 5, 0, 31, BROKEN "an offer for another slot" },
		{ 1, 6, 0, 31, BROKEN "an offer for another slot" },
		{ 1, 5, 1, 31, BROKEN "an offer for another slot" },
		{ 1, 4, 0, 31, BROKEN "a slot is offered twice" },
		{ 1, 5, 0, 29, BROKEN "an offer for a tile out of its window" },
		{ 1, 5, 0, 30 + HR_TILESET_WINDOW, BROKEN "an offer for a tile out of its window" },
		{ 1, 5, 0, 29 + HR_TILESET_WINDOW, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		up(S);
		link_->have.low = 30;
		link_->slot[4].offered = true;
		put_offer(0, row[i].tile, row[i].slot, row[i].sequence);
		arrives(HR_LINK_IMM_OFFER, 5, row[i].count, 0);
		cr_expect_eq(hr_flow_poll(link_), row[i].text[0] ? -EPROTO : 1, "row %zu", i);
		EXPECT_TEXT(row[i].text);
	}
}

static void receiver(void)
{
	up(R);
	link_->sequence_in = 6;
	link_->have.low = 33;
	link_->unused = 3;
	link_->slot[2] = (struct hr_link_slot){ 33, true, true };
	link_->slot[SLOTS] = (struct hr_link_slot){ 33, true, true };
	arrives(HR_LINK_IMM_TILE, 5, 2, 6);
}

Test(flow_done, a_tile_is_an_event)
{
	struct hr_link_event *got = link_->event;

	receiver();
	link_->end_heard = true;
	link_->end = (struct hr_link_total){ 34, 1 };
	cr_expect_eq(hr_flow_poll(link_), 1, "%s", link_->text);
	EXPECT_CALLS("receive 1;");
	cr_expect(got->kind == HR_LINK_TILE && got->slot == 2 && got->tile == 33);
	cr_expect_eq(got->bytes, 5);
	cr_expect_eq(link_->event[1].kind, HR_LINK_END);
	cr_expect_eq(link_->events, 2);
	cr_expect_eq(link_->sequence_in, 7);
	cr_expect_eq(link_->unused, 2);
	cr_expect(!link_->slot[2].offered && !link_->slot[2].posted);
	cr_expect_eq(link_->have.low, 34);
	cr_expect(link_->count.tiles == 1 && link_->count.bytes == got->bytes);
}

Test(flow_done, a_wrong_tile_is_refused)
{
	static const char of_offer[] = BROKEN "a tile that the slot was not offered for";
	static const char of_size[] = BROKEN "a tile with a wrong size";

#define REFUSED(change, text)                               \
	do {                                                \
		receiver();                                 \
		change;                                     \
		cr_expect_eq(hr_flow_poll(link_), -EPROTO); \
		EXPECT_TEXT(text);                          \
		cr_expect_eq(link_->events, 0);             \
	} while (0)
	REFUSED(link_->setup.memory.slots = 2, BROKEN "a tile for another slot");
	REFUSED(link_->slot[2].offered = false, of_offer);
	REFUSED(link_->slot[2].posted = false, of_offer);
	REFUSED(will.done.bytes = 0, of_size);
	REFUSED(will.done.bytes = BYTES + 1, of_size);
	REFUSED(link_->have.low = 34, BROKEN "a tile that has arrived already");
	REFUSED(will.receive = -ENOMEM, BROKEN "cannot post a receive");
	REFUSED(will.done.has_immediate = false, BROKEN "an immediate out of sequence");
	REFUSED(arrives(HR_LINK_IMM_TILE, 4, 2, 6), BROKEN "an immediate out of sequence");
	REFUSED(arrives(HR_LINK_IMM_TILE, 5, 2, 5), BROKEN "an immediate out of sequence");
	REFUSED(arrives(HR_LINK_IMM_OFFER, 5, 2, 6), BROKEN "an immediate out of sequence");
	REFUSED(link_->setup.side = S, BROKEN "an immediate out of sequence");
}

Test(flow_done, a_receive_is_posted_again_while_the_connection_lives)
{
	static const struct {
		enum hr_link_state state;
		const char *log;
	} row[] = { { HR_LINK_IS_FLOW, "receive 1;" },
		    { HR_LINK_IS_OPENING, "receive 1;" },
		    { HR_LINK_IS_BROKEN, "" } };

	for (size_t i = 0; i < ROWS(row); i++) {
		receiver();
		link_->state = row[i].state;
		cr_expect_eq(hr_flow_poll(link_), 1);
		EXPECT_CALLS(row[i].log);
	}
}

static int flush(void *to)
{
	calls_note("flush;");
	return *(const int *)to;
}

Test(flow_done, writes_are_flushed_before_a_tile_is_an_event)
{
	static const struct {
		int flushed, err;
		const char *text;
	} row[] = { { 0, 1, "" },
		    { -ENODEV, -ENODEV, "cannot flush writes to GPU memory: No such device" },
		    { 7, 7, "cannot flush writes to GPU memory: Input/output error" } };

	for (size_t i = 0; i < ROWS(row); i++) {
		int result = row[i].flushed;

		receiver();
		link_->setup.memory.flush = flush;
		link_->setup.memory.to = &result;
		cr_expect_eq(hr_flow_poll(link_), row[i].err);
		EXPECT_CALLS("receive 1;flush;");
		EXPECT_TEXT(row[i].text);
		cr_expect_eq(link_->count.flushes, 1);
		cr_expect_eq(link_->events, result ? 0 : 1);
	}
}

Test(flow_done, a_tile_is_sent_when_its_completion_comes_in_order)
{
	up(S);
	link_->flight_head = LAST;
	link_->flight_count = 2;
	link_->flight[LAST] = (struct hr_link_flight){ 3, 12, 6, 700 };
	link_->flight[0] = (struct hr_link_flight){ 0, 13, 5, 800 };
	will.poll = 1;
	for (uint32_t i = 0; i < 2; i++) {
		will.done = (struct hr_rdma_done){ .number = 12 + i };
		cr_expect_eq(hr_flow_poll(link_), 1);
		cr_expect_eq(link_->flight_head, i);
		cr_expect_eq(link_->flight_count, 1 - i);
		cr_expect_eq(link_->sends_ns, 77);
		cr_expect(hr_tileset_has(&link_->have, i ? 0 : 3));
		cr_expect_eq(link_->event[i].kind, HR_LINK_SENT);
		cr_expect_eq(link_->event[i].slot, 6 - i);
		cr_expect_eq(link_->event[i].bytes, 700 + 100 * i);
		cr_expect_eq(link_->event[i].tile, i ? 0 : 3);
	}
	cr_expect(link_->count.tiles == 2 && link_->count.bytes == 1500);
	/* none is in flight; then another one is expected */
	for (uint32_t i = 0; i < 2; i++) {
		link_->flight_count = i;
		link_->flight[1].number = i ? 15 : 14;
		will.done.number = 14;
		cr_expect_eq(hr_flow_poll(link_), -EIO);
		EXPECT_TEXT("dev0: a completion is lost");
	}
}

Test(flow_done, a_failed_completion_is_named)
{
	static const struct {
		int poll;
		enum ibv_wc_status status;
		int err;
		unsigned not_ready;
		const char *text;
	} row[] = { { 1, IBV_WC_RNR_RETRY_EXC_ERR, -EIO, 1, "dev0: not ready" },
		    { 1, IBV_WC_WR_FLUSH_ERR, -EIO, 0, "dev0: flushed" },
		    { 0, IBV_WC_WR_FLUSH_ERR, 0, 0, "" },
		    { -ENODEV, IBV_WC_SUCCESS, -ENODEV, 0, "dev0: cannot poll for completions" },
		    { 1, IBV_WC_SUCCESS, 1, 0, "" } };

	for (size_t i = 0; i < ROWS(row); i++) {
		up(R); /* whose own writes need no more than that */
		will.poll = row[i].poll;
		will.done.status = row[i].status;
		cr_expect_eq(hr_flow_poll(link_), row[i].err, "row %zu", i);
		cr_expect_eq(link_->count.not_ready, row[i].not_ready);
		EXPECT_TEXT(row[i].text);
		cr_expect_eq(link_->events, 0);
		/* the limit for a lost completion begins again */
		cr_expect_eq(link_->sends_ns, row[i].err == 1 ? 77 : 0);
	}
}
