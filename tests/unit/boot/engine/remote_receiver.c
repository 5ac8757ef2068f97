/* The receiver of a stream, over a real partition and a link without a network. The test is the
 * worker. */
#include "boot/engine/remote_receiver.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/fakes/link.h"
#include "tests/fakes/shared_gpu.h"
#include "tests/harness/error.h"
#include "tests/harness/remote_rig.h"

#define TILE 65536u
#define SLOTS 4u

static const char text[] =
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=32M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"remote = { key = \"key\"; };\n"
	"pipelines = ( { name = \"take\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
	"  source = { remote = \"127.0.0.1:4791\"; name = \"s\"; bytes = \"1M\"; };\n"
	"  sink = { object = \"out\"; }; } );\n";

static struct hr_remote r;
static struct hr_link_memory memory;
static uint64_t entries; /* that the worker has written */

static struct hr_feed_head *head(void)
{
	return hr_partition_cpu(rig_app.run[0].layout.parts.partition,
				rig_app.run[0].layout.feed_entries);
}

static struct hr_feed_page *page(void)
{
	return hr_partition_cpu(rig_app.run[0].layout.parts.partition,
				rig_app.run[0].layout.feed_pages);
}

static struct hr_feed_words *words(void)
{
	return hr_partition_cpu(rig_app.run[0].layout.parts.partition,
				rig_app.run[0].layout.feed_words);
}

static void init(void)
{
	remote_rig_up(text);
	remote_rig_stream(&r, 0);
	cr_assert_eq(rig_app.run[0].slots, SLOTS);
	cr_assert_eq(hr_remote_receiver_memory(&rig_app, &r, &memory, test_error()), 0, "%s",
		     test_error_text());
	remote_rig_link(&r, &memory);
}

static void fini(void)
{
	hr_remote_receiver_forget(&r);
	remote_rig_down();
}

TestSuite(remote_receiver, .init = init, .fini = fini, .timeout = 120);

/* The worker offers a tile. */
static void offer(uint64_t tile, uint32_t slot, uint32_t gen)
{
	struct hr_tap_entry *first = (struct hr_tap_entry *)(void *)(head() + 1);
	struct hr_tap_entry *entry = &first[entries % rig_app.run[0].feed.role.ring];

	entry->tile = tile;
	entry->slot = slot;
	entry->gen = gen;
	entry->bytes = TILE;
	entry->sequence = ++entries;
}

static void came(uint64_t tile, uint32_t slot, uint32_t bytes)
{
	const struct hr_link_event event = {
		.kind = HR_LINK_TILE, .tile = tile, .slot = slot, .bytes = bytes
	};

	hr_remote_receiver_event(&r, &event);
}

static void end(uint64_t tiles, uint64_t bytes)
{
	const struct hr_link_event event = { .kind = HR_LINK_END, .tile = tiles, .total = bytes };

	hr_remote_receiver_event(&r, &event);
}

static void failed(const char *why)
{
	cr_expect(r.failed);
	cr_expect_eq(r.err, -EPROTO);
	cr_expect_eq(r.error.kind, HR_ERROR_FAILED);
	cr_expect(strstr(r.error.text, why), "%s", r.error.text);
	cr_expect(strstr(r.error.text, "remote 's' (127.0.0.1:4791): "), "%s", r.error.text);
}

Test(remote_receiver, the_memory_is_that_of_all_slots)
{
	cr_expect_eq(memory.slots, SLOTS);
	cr_expect_eq(memory.stride, TILE);
	cr_expect_eq(memory.bytes, SLOTS * TILE);
	cr_expect_eq(memory.dmabuf, -1);
	memset(memory.base, 1, memory.bytes);
	cr_expect_eq(head()->magic, 0);
	cr_expect_eq(page()->end, 0);
}

Test(remote_receiver, memory_that_cannot_be_made_is_an_error_and_leaves_none)
{
	struct rlimit few = { 0, 0 }, before;

	hr_remote_receiver_forget(&r);
	r.own = false;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	few.rlim_max = before.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	cr_expect_eq(hr_remote_receiver_memory(&rig_app, &r, &memory, test_error()), -EMFILE);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_expect(strstr(test_error_text(), "memory that processes share"), "%s",
		  test_error_text());
	cr_expect_not(r.own);
	cr_expect_eq(hr_remote_receiver_memory(&rig_app, &r, &memory, test_error()), 0);
}

Test(remote_receiver, tiles_on_a_gpu_have_a_dma_buf_and_the_words_of_bring_up)
{
	const struct hr_part *tiles =
		&rig_app.partition[0].part[rig_app.run[0].layout.source[0].part];
	struct remote_rig_gpu gpu;
	struct hr_remote other;

	remote_rig_to_gpu(&gpu, tiles, false);
	head()->magic = 77;
	remote_rig_stream(&other, 0);
	cr_expect_eq(hr_remote_receiver_memory(&rig_app, &other, &memory, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_geq(memory.dmabuf, 0);
	cr_expect_not_null(memory.flush);
	cr_expect_eq(memory.bytes, SLOTS * TILE);
	cr_expect_eq(memory.base,
		     (uint8_t *)rig_app.memory[0].region[HR_PLACE_TAP].worker + tiles->offset);
	hr_remote_receiver_forget(&other);
	cr_expect_eq(head()->magic, 77, "the words stay mapped: the GPU has them attached");
	fake_shared_gpu.export = -ENOTSUP;
	remote_rig_stream(&other, 0);
	cr_expect_eq(hr_remote_receiver_memory(&rig_app, &other, &memory, test_error()), -ENOTSUP);
	hr_remote_receiver_forget(&other);
	remote_rig_from_gpu(&gpu);
}

Test(remote_receiver, the_worker_gets_its_order_at_the_begin)
{
	hr_remote_receiver_begin(&r);
	cr_expect_eq(words()->order % HR_FEED_ORDERS, HR_FEED_OFFER);
	cr_expect_eq(words()->credits, SLOTS);
	cr_expect_eq(head()->magic, HR_TAP_MAGIC);
	cr_expect_eq(head()->version, HR_FEED_VERSION);
	cr_expect_neq(head()->epoch, 0, "a page that is all zero does not end the feed");
}

Test(remote_receiver, offers_of_the_worker_go_to_the_link)
{
	struct fake_link_seen seen;

	cr_expect_not(hr_remote_receiver_step(&r), "nothing is offered");
	for (uint32_t i = 0; i < 3 * SLOTS; i++) {
		offer(i, i % SLOTS, 9);
		cr_expect(hr_remote_receiver_step(&r));
		cr_expect_not(hr_remote_receiver_step(&r), "nothing new");
	}
	seen = fake_link_look();
	cr_assert_eq(seen.offers, 3 * SLOTS);
	for (uint32_t i = 0; i < seen.offers; i++) {
		cr_expect_eq(seen.offer[i].tile, i);
		cr_expect_eq(seen.offer[i].slot, i % SLOTS);
	}
	cr_expect_not(r.failed);
}

Test(remote_receiver, an_offer_that_the_link_refuses_ends_the_run)
{
	fake_link_fail(FAKE_LINK_OFFER, -ERANGE);
	offer(5000, 0, 1);
	hr_remote_receiver_step(&r);
	cr_expect(r.failed);
	cr_expect_eq(r.err, -ERANGE);
	cr_expect(strstr(r.error.text, "tile 5000 cannot be offered"), "%s", r.error.text);
}

Test(remote_receiver, a_full_tile_is_committed_with_the_generation_of_its_offer)
{
	offer(0, 2, 7);
	offer(1, 3, 8);
	hr_remote_receiver_step(&r);
	came(1, 3, TILE);
	cr_expect_eq(page()->commit[3], HR_FEED_COMMIT(8, TILE));
	cr_expect_eq(page()->commit[2], 0);
	came(0, 2, TILE);
	cr_expect_eq(page()->commit[2], HR_FEED_COMMIT(7, TILE));
	cr_expect_not(r.failed);
}

Test(remote_receiver, a_short_tile_waits_until_the_end_names_it_as_the_last)
{
	offer(0, 0, 1);
	offer(1, 1, 2);
	hr_remote_receiver_step(&r);
	came(0, 0, TILE);
	came(1, 1, 100);
	hr_remote_receiver_step(&r);
	cr_expect_eq(page()->commit[1], 0);
	end(2, TILE + 100);
	cr_expect_eq(page()->commit[1], 0, "the step does it");
	hr_remote_receiver_step(&r);
	cr_expect_eq(page()->commit[1], HR_FEED_COMMIT(2, 100));
	cr_expect_eq(page()->end, head()->epoch ? head()->epoch : 1);
	cr_expect(r.fed);
	cr_expect_not(r.failed);
}

Test(remote_receiver, an_end_between_tiles_ends_the_feed_once)
{
	offer(0, 0, 1);
	hr_remote_receiver_step(&r);
	came(0, 0, TILE);
	end(1, TILE);
	hr_remote_receiver_step(&r);
	cr_expect_eq(page()->end, 1);
	page()->end = 0;
	hr_remote_receiver_step(&r);
	cr_expect_eq(page()->end, 0);
	cr_expect_not(r.failed);
}

Test(remote_receiver, an_empty_stream_ends)
{
	end(0, 0);
	hr_remote_receiver_step(&r);
	cr_expect_eq(page()->end, 1);
	cr_expect_not(r.failed);
}

Test(remote_receiver, tiles_that_were_not_offered_so_end_the_run)
{
	static const struct {
		uint64_t tile;
		uint32_t slot, bytes;
	} wrong[] = {
		{ 1, 0, TILE },		 { 0, 1, TILE },
		{ 0, 0, TILE + 1 },	 { 0, 0, 0 },
		{ 0, SLOTS, TILE },	 { 0, HR_SLOTS_MAX, TILE },
		{ 0, UINT32_MAX, TILE },
	};

	offer(0, 0, 1);
	hr_remote_receiver_step(&r);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		r.failed = false;
		r.err = 0;
		hr_error_clear(&r.error);
		came(wrong[i].tile, wrong[i].slot, wrong[i].bytes);
		failed("was not offered");
		for (uint32_t s = 0; s < SLOTS; s++)
			cr_expect_eq(page()->commit[s], 0, "row %zu, slot %u", i, s);
	}
}

Test(remote_receiver, a_tile_that_comes_twice_ends_the_run)
{
	offer(0, 0, 1);
	hr_remote_receiver_step(&r);
	came(0, 0, TILE);
	cr_expect_not(r.failed);
	came(0, 0, TILE);
	failed("tile 0 of 65536 bytes was not offered");
}

/* The tiles 0, full, and 1, of 100 bytes, have come. */
static void ends_wrong(uint64_t tiles, uint64_t bytes)
{
	offer(0, 0, 1);
	offer(1, 1, 2);
	hr_remote_receiver_step(&r);
	came(0, 0, TILE);
	came(1, 1, 100);
	end(tiles, bytes);
	hr_remote_receiver_step(&r);
	failed("which are not the tiles that have come");
	cr_expect_eq(page()->end, 0);
	cr_expect_eq(page()->commit[1], 0);
	cr_expect_not(r.fed);
}

Test(remote_receiver, an_end_with_fewer_bytes_than_the_short_tile_ends_the_run)
{
	ends_wrong(2, TILE + 99);
}

Test(remote_receiver, an_end_with_more_bytes_than_the_short_tile_ends_the_run)
{
	ends_wrong(2, TILE + 101);
}

Test(remote_receiver, an_end_behind_the_short_tile_ends_the_run)
{
	ends_wrong(3, 2 * TILE + 100);
}

Test(remote_receiver, an_end_with_bytes_of_another_number_of_tiles_ends_the_run)
{
	ends_wrong(2, 2 * TILE + 1);
}

Test(remote_receiver, an_end_with_too_few_bytes_for_its_tiles_ends_the_run)
{
	ends_wrong(2, TILE);
}

Test(remote_receiver, an_empty_end_with_bytes_ends_the_run)
{
	end(0, 1);
	hr_remote_receiver_step(&r);
	failed("which are not the tiles that have come");
}

Test(remote_receiver, a_fault_that_the_worker_reports_ends_the_run)
{
	words()->fault_tile = 12;
	words()->fault = HR_FEED_LENGTH;
	hr_remote_receiver_step(&r);
	failed("tile 12 has a length that is not whole rows of operator copy");
}

Test(remote_receiver, other_events_change_nothing)
{
	static const enum hr_link_event_kind kind[] = { HR_LINK_UP, HR_LINK_DOWN, HR_LINK_NOTHING,
							HR_LINK_REFUSED_ONE };

	offer(0, 0, 1);
	hr_remote_receiver_step(&r);
	for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
		const struct hr_link_event event = { .kind = kind[i], .bytes = TILE };

		hr_remote_receiver_event(&r, &event);
	}
	cr_expect_eq(page()->commit[0], 0);
	cr_expect_not(r.failed);
	came(0, 0, TILE);
	cr_expect_eq(page()->commit[0], HR_FEED_COMMIT(1, TILE), "an offer lives over connections");
}
