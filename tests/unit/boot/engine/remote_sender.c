/* The sender of a stream, over a real partition and a link without a network. The test is the
 * worker. */
#include "boot/engine/remote_sender.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "boot/engine/run_tap.h"
#include "tests/fakes/link.h"
#include "tests/fakes/shared_gpu.h"
#include "tests/harness/error.h"
#include "tests/harness/remote_rig.h"

#define TILE 65536u
#define SLOTS 4u
#define TILES 10u
#define BYTES ((TILES - 1) * TILE + 8)

static const char text[] =
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=32M\";\n"
	"  objects = ( { name = \"in\"; bytes = \"589832\"; } ); } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"remote = { key = \"key\"; };\n"
	"pipelines = ( { name = \"send\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
	"  source = { object = \"in\"; };\n"
	"  sink = { remote = \"127.0.0.1:4791\"; name = \"s\"; }; } );\n";
/* The tiles of the source end when its producer says so. */
static const char fed[] =
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=32M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"remote = { key = \"key\"; };\n"
	"pipelines = ( { name = \"send\"; operator = \"cast_f32_bf16\"; tile = \"128K\"; slots = 4;\n"
	"  source = { feed = \"f\"; bytes = \"4M\"; };\n"
	"  sink = { remote = \"127.0.0.1:4791\"; name = \"s\"; }; } );\n";

static struct hr_remote r;
static struct hr_link_memory memory;
static uint64_t entries; /* that the worker has written */

static void up(const char *config)
{
	remote_rig_up(config);
	remote_rig_stream(&r, 0);
	cr_assert_eq(rig_app.run[0].slots, SLOTS);
	cr_assert_eq(hr_remote_sender_memory(&rig_app, &r, &memory, test_error()), 0, "%s",
		     test_error_text());
	remote_rig_link(&r, &memory);
	r.up = true;
}

static void init(void)
{
	up(text);
	cr_assert_eq(rig_app.run[0].tiles, TILES);
	cr_assert_eq(rig_app.run[0].sink_bytes, BYTES);
}

static void fini(void)
{
	hr_remote_sender_forget(&r);
	remote_rig_down();
}

TestSuite(remote_sender, .init = init, .fini = fini, .timeout = 120);
TestSuite(remote_sender_fed, .fini = fini, .timeout = 120);

static uint32_t *gens(void)
{
	return (uint32_t *)(void *)(hr_run_tap_pages(&rig_app.run[0]) + sizeof(struct hr_tap_page));
}

/* The worker lends a tile. */
static void lend(uint64_t tile, uint32_t slot, uint32_t gen)
{
	uint8_t *first = hr_run_tap_entries(&rig_app.run[0]) + sizeof(struct hr_tap_head);
	struct hr_tap_entry *entry =
		(struct hr_tap_entry *)(void *)first + entries % rig_app.run[0].tap.role.ring;

	entry->tile = tile;
	entry->slot = slot;
	entry->gen = gen;
	entry->bytes = tile + 1 == TILES ? 8 : TILE;
	entry->check = hr_tap_entry_check(entry, entries + 1);
	entry->sequence = ++entries;
}

static void event(enum hr_link_event_kind kind, uint32_t slot)
{
	const struct hr_link_event it = { .kind = kind, .slot = slot };

	hr_remote_sender_event(&r, &it);
}

Test(remote_sender, the_memory_is_that_of_all_slots_and_words_are_zero)
{
	cr_expect_eq(memory.slots, SLOTS);
	cr_expect_eq(memory.stride, TILE);
	cr_expect_eq(memory.bytes, SLOTS * TILE);
	cr_expect_eq(memory.dmabuf, -1);
	for (uint32_t s = 0; s < SLOTS; s++)
		cr_expect_eq(gens()[s], 0);
}

Test(remote_sender, memory_that_cannot_be_made_is_an_error_and_leaves_none)
{
	struct rlimit few = { 0, 0 }, before;
	struct hr_remote other;

	hr_remote_sender_forget(&r);
	r.own = false;
	remote_rig_stream(&other, 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	few.rlim_max = before.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	cr_expect_eq(hr_remote_sender_memory(&rig_app, &other, &memory, test_error()), -EMFILE);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_expect_not(other.own);
	hr_remote_sender_forget(&other);
	cr_expect_eq(hr_remote_sender_memory(&rig_app, &r, &memory, test_error()), 0);
}

Test(remote_sender, tiles_on_a_gpu_have_a_dma_buf_and_the_words_of_bring_up)
{
	const struct hr_part *tiles = &rig_app.partition[0].part[rig_app.run[0].layout.sink.part];
	struct remote_rig_gpu gpu;
	struct hr_remote other;

	remote_rig_to_gpu(&gpu, tiles, true);
	gens()[0] = 77;
	remote_rig_stream(&other, 0);
	cr_expect_eq(hr_remote_sender_memory(&rig_app, &other, &memory, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_geq(memory.dmabuf, 0);
	cr_expect_null(memory.flush);
	cr_expect_eq(memory.bytes, SLOTS * TILE);
	cr_expect_eq(memory.base,
		     (uint8_t *)rig_app.memory[0].region[HR_PLACE_TAP].worker + tiles->offset);
	hr_remote_sender_forget(&other);
	cr_expect_eq(gens()[0], 77, "the words stay mapped: the GPU has them attached");
	fake_shared_gpu.export = -ENOTSUP;
	remote_rig_stream(&other, 0);
	cr_expect_eq(hr_remote_sender_memory(&rig_app, &other, &memory, test_error()), -ENOTSUP);
	hr_remote_sender_forget(&other);
	remote_rig_from_gpu(&gpu);
}

Test(remote_sender, the_worker_gets_its_order_at_the_begin)
{
	const struct hr_tap_seat *seat = &hr_run_tap_words(&rig_app.run[0])->seat[0];
	const struct hr_tap_head *head = (void *)hr_run_tap_entries(&rig_app.run[0]);

	hr_remote_sender_begin(&r);
	cr_expect_eq(seat->order % HR_TAP_ORDERS, HR_TAP_LEND);
	cr_expect_eq(seat->credits, SLOTS, "all slots");
	cr_expect_eq(head->magic, HR_TAP_MAGIC);
	cr_expect_eq(head->version, HR_TAP_VERSION);
}

Test(remote_sender, the_length_of_an_object_is_said_at_once_and_once)
{
	hr_remote_sender_step(&r);
	cr_expect(fake_link_look().ended);
	cr_expect_eq(fake_link_look().end_tiles, TILES);
	cr_expect_eq(fake_link_look().end_bytes, BYTES);
	fake_link_reset();
	hr_remote_sender_step(&r);
	cr_expect_not(fake_link_look().ended);
}

Test(remote_sender, lent_tiles_are_sent_and_given_back_when_they_have_arrived)
{
	struct fake_link_seen seen;

	lend(0, 1, 5);
	lend(1, 0, 6);
	cr_expect(hr_remote_sender_step(&r));
	cr_expect_not(hr_remote_sender_step(&r), "nothing new");
	seen = fake_link_look();
	cr_assert_eq(seen.sends, 2);
	cr_expect_eq(seen.send[0].tile, 0);
	cr_expect_eq(seen.send[0].slot, 1);
	cr_expect_eq(seen.send[0].bytes, TILE);
	cr_expect_eq(seen.send[1].tile, 1);
	cr_expect_eq(gens()[1], 0, "the device still reads it");
	event(HR_LINK_SENT, 1);
	cr_expect_eq(gens()[1], 5);
	cr_expect_eq(gens()[0], 0);
	event(HR_LINK_SENT, 0);
	cr_expect_eq(gens()[0], 6);
}

Test(remote_sender, the_lowest_tile_goes_first)
{
	lend(7, 0, 1);
	lend(3, 1, 1);
	lend(5, 2, 1);
	hr_remote_sender_step(&r);
	cr_assert_eq(fake_link_look().sends, 3);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(fake_link_look().send[i].tile, 3 + 2 * i);
}

Test(remote_sender, nothing_is_sent_without_a_connection)
{
	r.up = false;
	lend(0, 0, 1);
	hr_remote_sender_step(&r);
	cr_expect_eq(fake_link_look().tries, 0);
	r.up = true;
	fake_link_fail(FAKE_LINK_SEND, -ENOTCONN);
	lend(1, 1, 1);
	hr_remote_sender_step(&r);
	cr_expect_eq(fake_link_look().tries, 1, "the others would fail, too");
	cr_expect_not(r.failed);
	fake_link_fail(FAKE_LINK_SEND, 0);
	hr_remote_sender_step(&r);
	cr_expect_eq(fake_link_look().sends, 2);
}

Test(remote_sender, tiles_without_an_offer_are_tried_again_at_each_step)
{
	fake_link_fail(FAKE_LINK_SEND, -EAGAIN);
	for (uint32_t s = 0; s < SLOTS; s++)
		lend(s, s, 1);
	cr_expect(hr_remote_sender_step(&r), "entries were taken");
	cr_expect_eq(fake_link_look().tries, SLOTS);
	cr_expect_not(hr_remote_sender_step(&r));
	cr_expect_eq(fake_link_look().tries, 2 * SLOTS);
	fake_link_fail(FAKE_LINK_SEND, 0);
	cr_expect(hr_remote_sender_step(&r));
	cr_expect_eq(fake_link_look().sends, SLOTS);
	cr_expect_not(r.failed);
}

Test(remote_sender, a_tile_that_the_receiver_has_is_given_back_at_once)
{
	fake_link_fail(FAKE_LINK_SEND, -EALREADY);
	lend(0, 3, 9);
	cr_expect(hr_remote_sender_step(&r));
	cr_expect_eq(gens()[3], 9);
	cr_expect_not(r.failed);
}

Test(remote_sender, a_tile_that_the_link_refuses_ends_the_run)
{
	fake_link_fail(FAKE_LINK_SEND, -EINVAL);
	lend(4, 0, 1);
	hr_remote_sender_step(&r);
	cr_expect(r.failed);
	cr_expect_eq(r.err, -EINVAL);
	cr_expect_eq(r.error.kind, HR_ERROR_FAILED);
	cr_expect(strstr(r.error.text, "remote 's' (127.0.0.1:4791): tile 4 cannot be sent"), "%s",
		  r.error.text);
	cr_expect_eq(gens()[0], 0);
}

Test(remote_sender, tiles_in_flight_are_sent_again_on_the_next_connection)
{
	lend(0, 0, 1);
	lend(1, 1, 1);
	hr_remote_sender_step(&r);
	event(HR_LINK_SENT, 0);
	event(HR_LINK_DOWN, 0);
	event(HR_LINK_SENT, 1); /* of no tile that moves */
	cr_expect_eq(gens()[1], 0);
	hr_remote_sender_step(&r);
	cr_assert_eq(fake_link_look().sends, 3);
	cr_expect_eq(fake_link_look().send[2].tile, 1);
	event(HR_LINK_SENT, 1);
	cr_expect_eq(gens()[1], 1);
}

Test(remote_sender, events_of_slots_that_do_not_exist_or_move_change_nothing)
{
	event(HR_LINK_SENT, 0);
	event(HR_LINK_SENT, SLOTS);
	event(HR_LINK_SENT, UINT32_MAX);
	event(HR_LINK_OFFERED, 0);
	for (uint32_t s = 0; s < SLOTS; s++)
		cr_expect_eq(gens()[s], 0);
	cr_expect_not(r.failed);
}

/* Send all tiles but the last. */
static void send_most(void)
{
	for (uint32_t t = 0; t + 1 < TILES; t++) {
		lend(t, t % SLOTS, t + 1);
		hr_remote_sender_step(&r);
		event(HR_LINK_SENT, t % SLOTS);
		cr_expect_eq(gens()[t % SLOTS], t + 1);
	}
}

Test(remote_sender, the_last_tile_is_kept_until_the_run_of_the_receiver_has_ended)
{
	const uint32_t slot = (TILES - 1) % SLOTS;

	send_most();
	lend(TILES - 1, slot, 99);
	hr_remote_sender_step(&r);
	cr_expect_eq(fake_link_look().send[TILES - 1].bytes, 8);
	event(HR_LINK_SENT, slot);
	hr_remote_sender_step(&r);
	cr_expect_neq(gens()[slot], 99);
	r.peer_done = true;
	hr_remote_sender_step(&r);
	cr_expect_eq(gens()[slot], 99);
}

Test(remote_sender, the_first_tile_of_a_run_that_continues_counts)
{
	rig_app.run[0].first_tile = TILES - 2;
	lend(TILES - 2, 0, 1);
	lend(TILES - 1, 1, 2);
	hr_remote_sender_step(&r);
	event(HR_LINK_SENT, 0);
	event(HR_LINK_SENT, 1);
	cr_expect_eq(gens()[0], 1);
	cr_expect_eq(gens()[1], 0, "the last one");
}

Test(remote_sender, after_the_end_of_the_receiver_all_tiles_are_given_back_unsent)
{
	lend(0, 0, 1);
	hr_remote_sender_step(&r);
	lend(1, 1, 2);
	r.peer_done = true;
	r.up = false;
	cr_expect(hr_remote_sender_step(&r));
	cr_expect_eq(gens()[0], 1, "it was in flight");
	cr_expect_eq(gens()[1], 2);
	cr_expect_eq(fake_link_look().sends, 1);
}

/* ---- a source that is a feed */

static struct hr_feed_words *fed_words(void)
{
	return hr_partition_cpu(rig_app.run[0].layout.parts.partition,
				rig_app.run[0].layout.feed_words);
}

static void fed_up(void)
{
	static struct hr_feed_role role;

	up(fed);
	/* as stage `queues` does */
	role.words = fed_words();
	fed_words()->total = HR_NO_TILE;
	rig_app.run[0].cpu.feed = &role;
}

Test(remote_sender_fed, the_newest_tile_is_kept_while_it_may_be_the_last)
{
	fed_up();
	for (uint32_t t = 0; t < 3; t++) {
		lend(t, t, t + 1);
		hr_remote_sender_step(&r);
		event(HR_LINK_SENT, t);
		cr_expect_eq(gens()[t], 0);
		if (t)
			cr_expect_eq(gens()[t - 1], t);
	}
	cr_expect_not(fake_link_look().ended);
	fed_words()->total_bytes = 3 * 2 * TILE;
	fed_words()->total = 3;
	hr_remote_sender_step(&r);
	cr_expect(fake_link_look().ended);
	cr_expect_eq(fake_link_look().end_tiles, 3);
	cr_expect_eq(fake_link_look().end_bytes, 3 * TILE, "of the output");
	cr_expect_eq(gens()[2], 0);
	r.peer_done = true;
	hr_remote_sender_step(&r);
	cr_expect_eq(gens()[2], 3);
}
