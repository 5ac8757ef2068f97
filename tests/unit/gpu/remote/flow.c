/* Offers and tiles between two links that stay connected. */
#include <criterion/criterion.h>
#include <errno.h>

#include "gpu/remote/flow.h"
#include "tests/harness/link_rig.h"

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
	got = link_rig_until(&rig, HR_LINK_RECEIVER, HR_LINK_TILE);
	cr_expect_eq(got.slot, 5);
	cr_expect_eq(got.tile, 0);
	cr_expect_eq(got.bytes, RIG_TILE);
	cr_expect(got.has_crc && got.crc == 0);
	cr_expect(link_rig_holds(&rig, 5, 0, RIG_TILE));
	got = link_rig_until(&rig, HR_LINK_SENDER, HR_LINK_SENT);
	cr_expect_eq(got.slot, 1);
	cr_expect_eq(got.tile, 0);
	cr_expect(hr_link_has(rig.link[HR_LINK_SENDER], 0));
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
	if (event->kind != HR_LINK_TILE)
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
	count = hr_link_count(rig.link[HR_LINK_RECEIVER]);
	cr_expect_eq(count.tiles, 300);
	cr_expect_eq(count.bytes, 299ull * RIG_TILE + 13);
	count = hr_link_count(rig.link[HR_LINK_SENDER]);
	cr_expect_eq(count.tiles, 300);
	cr_expect_eq(count.not_ready + count.again + count.broken, 0);
	cr_expect_eq(link_rig_fake()->not_ready + link_rig_fake()->refused_keys, 0);
}

Test(flow, one_credit_is_enough)
{
	struct run run = { .tiles = 20, .last_bytes = RIG_TILE };

	link_rig_up(&rig);
	run_tiles(&run, 1);
	cr_expect_eq(run.received, 20);
}
