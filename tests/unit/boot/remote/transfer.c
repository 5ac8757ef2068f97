/* SPDX-License-Identifier: Apache-2.0 */
/* Offers and tiles between two links that stay connected. */
#include <criterion/criterion.h>
#include <errno.h>

#include "boot/remote/internal.h"
#include "tests/harness/link_rig.h"

#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER

static struct link_rig rig;

static void init(void)
{
	link_rig_init(&rig);
}

static void fini(void)
{
	link_rig_fini(&rig);
}

TestSuite(flow, .init = init, .fini = fini, .timeout = 300);

Test(flow, a_tile_arrives_in_the_slot_that_was_offered_for_it)
{
	struct hr_link_event got;

	link_rig_up(&rig);
	cr_expect_eq(link_rig_send(&rig, 1, 0, RIG_TILE), -EAGAIN);
	cr_assert_eq(hr_link_offer(rig.link[HR_LINK_RECEIVER], 5, 0), 0);
	got = link_rig_until(&rig, HR_LINK_SENDER, HR_LINK_OFFERED);
	cr_expect_eq(got.tile, 0);
	cr_assert_eq(link_rig_send(&rig, 1, 0, RIG_TILE), 0);
	got = link_rig_until(&rig, HR_LINK_RECEIVER, HR_LINK_RECEIVED);
	cr_expect_eq(got.slot, 5);
	cr_expect_eq(got.tile, 0);
	cr_expect_eq(got.bytes, RIG_TILE);
	cr_expect(link_rig_holds(&rig, 5, 0, RIG_TILE));
	got = link_rig_until(&rig, HR_LINK_SENDER, HR_LINK_SENT);
	cr_expect_eq(got.slot, 1);
	cr_expect_eq(got.tile, 0);
	cr_expect(hr_link_receiver_has(rig.link[HR_LINK_SENDER], 0));
	cr_expect_eq(link_rig_send(&rig, 1, 0, RIG_TILE), -EALREADY);
}

/* As two pipelines: each side has a window of slots, tiles go round. */
struct run {
	uint64_t tiles, next_offer, next_send, received, sent;
	uint64_t of_slot[RIG_SLOTS];
	bool busy[RIG_SLOTS];
	uint32_t last_bytes;
	bool end;
};

static uint32_t bytes_of(const struct run *run, uint64_t tile)
{
	return tile + 1 == run->tiles ? run->last_bytes : RIG_TILE;
}

static void offer_free(struct run *run, uint32_t slots)
{
	for (; run->next_offer < run->received + slots && run->next_offer < run->tiles;
	     run->next_offer++)
		cr_assert_eq(hr_link_offer(rig.link[HR_LINK_RECEIVER],
					   (uint32_t)(run->next_offer % slots), run->next_offer),
			     0);
}

static void receive(struct run *run, const struct hr_link_event *event)
{
	run->end |= event->kind == HR_LINK_END;
	if (event->kind != HR_LINK_RECEIVED)
		return;
	cr_assert_eq(event->tile, run->received);
	cr_assert_eq(event->bytes, bytes_of(run, event->tile));
	cr_assert(link_rig_holds(&rig, event->slot, event->tile, event->bytes));
	run->received++;
}

static void send_more(struct run *run)
{
	for (uint32_t slot = 0; slot < RIG_SLOTS && run->next_send < run->tiles; slot++) {
		if (run->busy[slot])
			continue;
		if (link_rig_send(&rig, slot, run->next_send, bytes_of(run, run->next_send)) != 0)
			return;
		run->busy[slot] = true;
		run->next_send++;
	}
}

static void run_tiles(struct run *run, uint32_t slots)
{
	hr_link_end(rig.link[HR_LINK_SENDER], run->tiles,
		    (run->tiles - 1) * RIG_TILE + run->last_bytes);
	while (!run->end || run->sent < run->tiles) {
		offer_free(run, slots);
		send_more(run);
		if (link_rig_step(&rig, HR_LINK_RECEIVER))
			receive(run, &rig.last[HR_LINK_RECEIVER]);
		if (link_rig_step(&rig, HR_LINK_SENDER) &&
		    rig.last[HR_LINK_SENDER].kind == HR_LINK_SENT) {
			run->busy[rig.last[HR_LINK_SENDER].slot] = false;
			run->sent++;
		}
	}
}

Test(flow, many_tiles_arrive_once_each_and_then_the_end)
{
	struct run run = { .tiles = 300, .last_bytes = 13 };
	struct hr_link_counters count;

	link_rig_up(&rig);
	run_tiles(&run, RIG_SLOTS);
	cr_expect_eq(run.received, 300);
	count = hr_link_read_counters(rig.link[HR_LINK_RECEIVER]);
	cr_expect_eq(count.tiles, 300);
	cr_expect_eq(count.bytes, 299ull * RIG_TILE + 13);
	count = hr_link_read_counters(rig.link[HR_LINK_SENDER]);
	cr_expect_eq(count.tiles, 300);
	cr_expect_eq(count.not_ready + count.repeated + count.broken, 0);
	cr_expect_eq(link_rig_fake()->not_ready + link_rig_fake()->refused_keys, 0);
}

Test(flow, one_credit_is_enough)
{
	struct run run = { .tiles = 20, .last_bytes = RIG_TILE };

	link_rig_up(&rig);
	run_tiles(&run, 1);
	cr_expect_eq(run.received, 20);
}

/* A tile without a checksum goes from slot t to slot t. */
static void move(uint64_t tile)
{
	const uint32_t slot = (uint32_t)tile % RIG_SLOTS;

	link_rig_fill(&rig, slot, tile, RIG_TILE);
	cr_assert_eq(hr_link_send(rig.link[S], slot, tile, RIG_TILE), 0);
	cr_assert_eq(link_rig_until(&rig, R, HR_LINK_RECEIVED).tile, tile);
	link_rig_until(&rig, S, HR_LINK_SENT);
}

static void offer(uint32_t slot, uint64_t tile)
{
	cr_assert_eq(hr_link_offer(rig.link[R], slot, tile), 0);
}

Test(flow, a_tile_is_one_request)
{
	struct hr_link_event got;
	unsigned before;

	link_rig_up(&rig);
	offer(5, 0);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	before = link_rig_fake()->requests;
	link_rig_fill(&rig, 1, 0, 70001);
	cr_assert_eq(hr_link_send(rig.link[S], 1, 0, 70001), 0);
	got = link_rig_until(&rig, R, HR_LINK_RECEIVED);
	cr_expect_eq(got.slot, 5);
	cr_expect_eq(got.tile, 0);
	cr_expect_eq(got.bytes, 70001);
	cr_expect(link_rig_holds(&rig, 5, 0, 70001));
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_SENT).slot, 1);
	cr_expect_eq(link_rig_fake()->requests, before + 1);
}

static void offer_all(void)
{
	link_rig_up(&rig);
	for (uint32_t s = 0; s < RIG_SLOTS; s++)
		offer(s, s);
	for (uint64_t t = 0; t < RIG_SLOTS; t++)
		cr_assert_eq(link_rig_until(&rig, S, HR_LINK_OFFERED).tile, t);
}

Test(flow, offers_are_gathered_while_the_sender_has_enough)
{
	unsigned before;

	offer_all();
	before = link_rig_fake()->requests;
	move(0);
	offer(0, 8);
	link_rig_idle(&rig, 300);
	cr_expect_eq(link_rig_fake()->requests, before + 1);
	move(1);
	offer(1, 9);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_OFFERED).tile, 8);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_OFFERED).tile, 9);
	cr_expect_eq(link_rig_fake()->requests, before + 3);
}

Test(flow, a_sender_with_few_offers_gets_each_one_at_once)
{
	offer_all();
	for (uint64_t t = 0; t < 5; t++)
		move(t);
	offer(0, 8);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_OFFERED).tile, 8);
}

Test(flow, an_offer_for_the_lowest_missing_tile_does_not_wait)
{
	link_rig_up(&rig);
	for (uint32_t s = 0; s + 1 < RIG_SLOTS; s++)
		offer(s, s + 1);
	for (uint64_t t = 1; t < RIG_SLOTS; t++)
		cr_assert_eq(link_rig_until(&rig, S, HR_LINK_OFFERED).tile, t);
	/* Another one does not wait either, while the sender cannot send the lowest tile. */
	move(1);
	offer(0, 8);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_OFFERED).tile, 8);
	offer(RIG_SLOTS - 1, 0);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_OFFERED).tile, 0);
}

/* The victim alone is stepped, so that it is the first one to break the connection. */
static void expect_broken(enum hr_link_side victim, const char *text)
{
	while (!link_rig_step(&rig, victim) || rig.last[victim].kind != HR_LINK_DOWN)
		;
	cr_expect_str_eq(rig.text[victim], text);
	rig.kept_count[S] = rig.kept_count[R] = 0;
	link_rig_until(&rig, victim == S ? R : S, HR_LINK_UP);
	link_rig_until(&rig, victim, HR_LINK_UP);
	link_rig_idle(&rig, 100);
}

Test(flow, a_sender_that_breaks_the_protocol_ends_the_connection)
{
	static const struct {
		uint32_t kind, slot, sequence, bytes;
		const char *text;
	} row[] = {
#define BROKEN "the other side has broken the protocol: "
		{ HR_LINK_IMM_TILE, 2, 0, 10, BROKEN "a tile that the slot was not offered for" },
		{ HR_LINK_IMM_TILE, 1000, 0, 10, BROKEN "a tile for another slot" },
		{ HR_LINK_IMM_TILE, 1, 0, 0, BROKEN "a tile with a wrong size" },
		{ HR_LINK_IMM_TILE, 1, 0, RIG_TILE + 1, BROKEN "a tile with a wrong size" },
		{ HR_LINK_IMM_TILE, 1, 1, 10, BROKEN "an immediate out of sequence" },
		{ HR_LINK_IMM_OFFER, 1, 0, 10, BROKEN "an immediate out of sequence" },
		{ 1, 1, 0, 10, BROKEN "an immediate out of sequence" },
	};

	link_rig_up(&rig);
	offer(1, 0);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_link *s = rig.link[S];
		const uint32_t immediate =
			hr_link_immediate((enum hr_link_immediate)row[i].kind, s->generation,
					  row[i].slot, row[i].sequence);

		cr_assert_eq(hr_rdma_qp_post_write(&rig.link[S]->qp, 0, row[i].bytes,
						   s->remote_qp.tile_address, s->remote_qp.tile_key,
						   &immediate),
			     0);
		expect_broken(R, row[i].text);
	}
	cr_expect_eq(hr_link_read_counters(rig.link[R]).tiles, 0);
}

Test(flow, a_receiver_that_breaks_the_protocol_ends_the_connection)
{
	static const struct {
		uint32_t count;
		struct hr_link_offer_entry offer[2];
		const char *text;
	} row[] = {
		{ 0, { { 0 } }, BROKEN "a wrong number of offers" },
		{ HR_LINK_OFFERS + 1, { { 0 } }, BROKEN "a wrong number of offers" },
		{ 1, { { .slot = RIG_SLOTS } }, BROKEN "an offer for another slot" },
		{ 1, { { .sequence = 1 } }, BROKEN "an offer for another slot" },
		{ 2, { { .slot = 3 }, { .slot = 4 } }, BROKEN "an offer for another slot" },
		{ 2,
		  { { .slot = 3 }, { .slot = 3, .tile = 1, .sequence = 1 } },
		  BROKEN "a slot is offered twice" },
		{ 1, { { .tile = 1ull << 40 } }, BROKEN "an offer for a tile out of its window" },
	};

	link_rig_up(&rig);
	link_rig_until(&rig, S, HR_LINK_UP);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_link *r = rig.link[R];

		cr_assert_eq(hr_rdma_qp_post_write_imm(
				     &rig.link[R]->qp, row[i].offer, sizeof(row[i].offer),
				     r->remote_qp.table_address, r->remote_qp.table_key,
				     hr_link_immediate(HR_LINK_IMM_OFFER, r->generation,
						       row[i].count, 0)),
			     0);
		expect_broken(S, row[i].text);
	}
}
