/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a pipeline: each part of each kind of pipeline; the words of a tap and a feed before a
 * launch, with addresses that differ for the CPU and workers; and rings, which must be contiguous on
 * the bus: a break inside a ring is an error, one between rings is not. Queue pairs and slots are those
 * of whole runs: partition.c, tests/harness/rig.h.
 */
#include "boot/engine/layout/stream.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/layout/sizes.h"
#include "tests/harness/error.h"

TestSuite(pipe_layout, .timeout = 60);

#define SLOTS 3u
#define TILES 7u
#define MEMORY (1u << 20) /* of each place */

static struct hr_partition partition;
static const uint64_t no_limit[HR_PLACES];
static struct hr_ssd ssd[2] = { { .queue_entries = 64 }, { .queue_entries = 300 } };
static struct hr_pipe pipe_, *descriptor;
static struct hr_pipe_layout layout;
static struct hr_tap_role tap;
static struct hr_feed_role feed;
static _Alignas(HR_PAGE) uint8_t memory[HR_PLACES][MEMORY];
static const uint8_t args[5] = { 9, 8, 7, 6, 5 };

/* Two sources on two ssds, 2 x 2 prefetch workers, 3 x 1 compute, 1 x 2 write-back. */
static void begin(void)
{
	memset(&pipe_, 0, sizeof pipe_);
	memset(&layout, 0, sizeof layout);
	memset(&tap, 0, sizeof tap);
	memset(&feed, 0, sizeof feed);
	pipe_ = (struct hr_pipe){ .tiles = TILES,
				  .first_tile = 4,
				  .slots = SLOTS,
				  .sources = 2,
				  .read_queues = 2,
				  .has_sink = 1,
				  .sink_tile_bytes = 36864,
				  .state_bytes = 40,
				  .record_bytes = 6,
				  .copy_bytes = 5000,
				  .blocks = { 2, 3, 1 },
				  .workers = { 2, 1, 2 } };
	pipe_.source[0].tile_bytes = 40000;
	pipe_.source[0].extent.chunk_bytes = 16384;
	pipe_.source[1].tile_bytes = 4097;
	pipe_.source[1].extent.chunk_bytes = 4096;
	pipe_.sink.chunk_bytes = 32768;
	layout.pipe = &pipe_;
	layout.args = args;
	layout.args_bytes = sizeof args;
	layout.tap_align = 2 * HR_PAGE;
	layout.source[0] = (struct hr_pipe_tiles){ .object = "x", .place = HR_PLACE_HOST };
	layout.source[1] = (struct hr_pipe_tiles){ .object = "y", .place = HR_PLACE_GPU };
	layout.sink = (struct hr_pipe_tiles){ .object = "z", .place = HR_PLACE_HOST };
	for (uint32_t q = 0; q < 2; q++)
		layout.read[q] = (struct hr_pipe_queues){ .ssd = &ssd[q],
							  .name = q ? "b" : "a",
							  .place = q ? HR_PLACE_GPU : HR_PLACE_HOST,
							  .bar = &ssd[q] };
	layout.write = (struct hr_pipe_queues){
		.ssd = &ssd[1], .name = "b", .place = HR_PLACE_HOST, .bar = &layout
	};
	feed.ring = tap.ring = 4;
	hr_partition_init(&partition, no_limit);
	for (int place = 0; place < HR_PLACES; place++) /* of another pipeline */
		hr_partition_add(&partition, (enum hr_place)place, 100, 1, "o", "p");
}

static void plan(void)
{
	cr_assert_eq(hr_pipe_layout_plan(&layout, &partition, "pipeline p"), 0);
}

#define AT(member) offsetof(struct hr_pipe, member)
#define NONE HR_NO_POINTER
#define CPU HR_PLACE_CONTROL
#define HOST HR_PLACE_HOST
#define WORKER HR_PLACE_WORKER
#define GPU HR_PLACE_GPU
#define TAP HR_PLACE_TAP
#define WORDS HR_PLACE_TAP_WORDS
#define LINE HR_CACHE_LINE

struct row {
	const char *purpose;
	enum hr_place place;
	uint64_t bytes;
	uint32_t align;
	bool data;
	uint32_t pointer;
};

static uint32_t at; /* the part that is compared next */

static void expect(const struct row *row, size_t rows)
{
	for (size_t i = 0; i < rows; i++, at++) {
		const struct hr_part *part = &partition.part[at];

		cr_assert_lt(at, partition.count, "%s", row[i].purpose);
		cr_expect_str_eq(part->purpose, row[i].purpose);
		cr_expect_eq(part->place, row[i].place, "%s", row[i].purpose);
		cr_expect_eq(part->bytes, row[i].bytes, "%s: %llu", row[i].purpose,
			     (unsigned long long)part->bytes);
		cr_expect_eq(part->align, row[i].align, "%s", row[i].purpose);
		cr_expect_eq(part->data, row[i].data, "%s", row[i].purpose);
		cr_expect_eq(part->pointer, row[i].pointer, "%s", row[i].purpose);
		cr_expect_str_eq(part->owner, "pipeline p");
	}
}

#define EXPECT(row) expect(row, sizeof(row) / sizeof *(row))

static const struct row head[] = {
	{ "pipeline descriptor", WORKER, sizeof(struct hr_pipe), LINE, false, NONE },
	{ "slots", WORKER, SLOTS * sizeof(struct hr_slot), LINE, false, AT(slot) },
	{ "stop flag", CPU, sizeof(struct hr_pipe_control), LINE, false, AT(control) },
};

static const struct row work[] = {
	{ "operator arguments", WORKER, sizeof args, LINE, false, AT(op_args) },
	{ "operator result", WORKER, HR_OP_RESULT_MAX, LINE, false, AT(op_result) },
	{ "operator records, one a tile", WORKER, TILES * 6, LINE, false, AT(op_records) },
	{ "operator states", GPU, 3 * 40, LINE, false, AT(op_states) },
};

static const struct row copies[] = {
	{ "copies of tiles, one a block", GPU, 3 * 5000, HR_PAGE, true, AT(copy) },
};

static void set_tap_and_feed(void)
{
	begin();
	layout.tap = &tap;
	layout.feed = &feed;
	pipe_.sources = 1;
	pipe_.read_queues = 0;
}

Test(pipe_layout, a_pipeline_from_a_feed_to_a_tap_has_these_parts)
{
	const struct row words[] = { { "status of workers", CPU,
				       9 * sizeof(struct hr_worker_status), LINE, false,
				       AT(status) } };
	const struct row parked[] = { { "memory of blocks, parked", GPU, 3 * HR_BLOCK_MEMORY, LINE,
					false, AT(op_blocks) } };
	const struct row rows[] = {
		{ "tap", WORKER, sizeof tap, LINE, false, AT(tap) },
		{ "tap, lendings of slots", WORKER, SLOTS * sizeof(struct hr_tap_lending), LINE,
		  false, NONE },
		{ "tap, words of consumers", CPU, sizeof(struct hr_tap_words), LINE, false, NONE },
		{ "tap, tiles", TAP, SLOTS * 36864, 2 * HR_PAGE, true, NONE },
		{ "tap, entries of consumers", WORDS, HR_TAP_SEATS * hr_tap_ring_bytes(4), HR_PAGE,
		  true, NONE },
		{ "tap, pages of consumers", WORDS, HR_TAP_SEATS * hr_tap_page_bytes(SLOTS),
		  HR_PAGE, true, NONE },
		{ "feed", WORKER, sizeof feed, LINE, false, AT(feed) },
		{ "feed, offers of slots", WORKER, SLOTS * sizeof(struct hr_feed_offer), LINE,
		  false, NONE },
		{ "feed, words of the producer", CPU, sizeof(struct hr_feed_words), LINE, false,
		  NONE },
		{ "feed, tiles", TAP, SLOTS * 40960, 2 * HR_PAGE, true, NONE },
		{ "feed, entries of the producer", WORDS, hr_tap_ring_bytes(4), HR_PAGE, true,
		  NONE },
		{ "feed, page of the producer", WORDS, hr_feed_page_bytes(SLOTS), HR_PAGE, true,
		  NONE },
	};

	for (uint32_t park = 0; park < 2; park++) {
		set_tap_and_feed();
		tap.park = park;
		plan();
		at = layout.parts.first;
		EXPECT(head);
		EXPECT(words);
		EXPECT(work);
		if (park)
			EXPECT(parked);
		EXPECT(copies);
		EXPECT(rows);
		cr_expect_eq(at, partition.count);
		cr_expect_eq(layout.prps, -1);
		cr_expect_eq(layout.chunks, -1);
	}
}

Test(pipe_layout, clients_on_a_gpu_have_sets_of_words)
{
	set_tap_and_feed();
	layout.tap_sets = 20;
	layout.feed_sets = 7;
	plan();
	cr_expect_eq(partition.part[layout.tap_entries].bytes, 20 * hr_tap_ring_bytes(4));
	cr_expect_eq(partition.part[layout.tap_pages].bytes, 20 * hr_tap_page_bytes(SLOTS));
	cr_expect_eq(partition.part[layout.feed_entries].bytes, 7 * hr_tap_ring_bytes(4));
	cr_expect_eq(partition.part[layout.feed_pages].bytes, 7 * hr_feed_page_bytes(SLOTS));
	set_tap_and_feed();
	layout.tap_sets = layout.feed_sets = 0;
	plan();
	cr_expect(layout.tap_sets == HR_TAP_SEATS && layout.feed_sets == 1);
}

Test(pipe_layout, too_many_parts_or_bytes_are_an_error)
{
	uint32_t parts;

	begin();
	plan();
	parts = layout.parts.end - layout.parts.first;
	for (uint32_t room = 0; room <= parts; room++) {
		begin();
		partition.count = HR_PARTS_MAX - room;
		cr_expect_eq(hr_pipe_layout_plan(&layout, &partition, "p"),
			     room < parts ? -ENOSPC : 0, "%u", room);
	}
	begin();
	layout.source[0].summed = layout.source[1].summed = layout.sink.summed = true;
	pipe_.record_bytes = 0;
	pipe_.tiles = UINT64_MAX / 2; /* three times that is small again */
	cr_expect_eq(hr_pipe_layout_plan(&layout, &partition, "p"), -ENOSPC);
	begin();
	pipe_.tiles = UINT64_MAX / 4; /* of records; a queue pair still fits */
	cr_expect_eq(hr_pipe_layout_plan(&layout, &partition, "p"), -ENOSPC);
}

/* ---- contents */

static uint64_t worker_at(enum hr_place place)
{
	return ((uint64_t)place + 1) << 40;
}

static void bind(void)
{
	struct hr_region region[HR_PLACES];

	for (int i = 0; i < HR_PLACES; i++) {
		cr_assert_leq(partition.used[i], MEMORY, "%d", i);
		region[i] = (struct hr_region){ .cpu = memory[i],
						.worker = (void *)worker_at((enum hr_place)i),
						.bytes = MEMORY,
						.bus.addr = worker_at((enum hr_place)i) << 4 };
	}
	memset(memory, 0, sizeof memory);
	hr_partition_bind(&partition, region);
}

static void *cpu(int part)
{
	return hr_partition_cpu(&partition, part);
}

static void *worker(int part)
{
	return hr_partition_worker(&partition, part);
}

Test(pipe_layout, a_tap_and_a_feed_have_addresses_for_workers)
{
	const uint8_t *in, *out;
	struct hr_feed_words *words;

	set_tap_and_feed();
	plan();
	bind();
	cr_assert_eq(hr_pipe_layout_wire(&layout, &descriptor, NULL), 0);
	cr_expect_eq(pipe_.tap->ring, 4u);
	cr_expect_eq(pipe_.tap->entries, worker(layout.tap_entries));
	cr_expect_eq(pipe_.tap->pages, worker(layout.tap_pages));
	cr_expect_eq(pipe_.tap->words, worker(layout.tap_words));
	cr_expect_eq(pipe_.tap->lending, worker(layout.tap_lending));
	cr_expect_eq(pipe_.feed->ring, 4u);
	cr_expect_eq(pipe_.feed->entries, worker(layout.feed_entries));
	cr_expect_eq(pipe_.feed->pages, worker(layout.feed_pages));
	cr_expect_eq(pipe_.feed->offer, worker(layout.feed_offers));
	words = worker(layout.feed_words);
	cr_expect_eq(pipe_.feed->words, words);
	cr_expect_eq(descriptor->fed_tiles, &words->total);
	words = cpu(layout.feed_words);
	cr_expect_eq(words->total, HR_NO_TILE);
	cr_expect_eq(words->next, 4u);
	in = worker(layout.source[0].part);
	out = worker(layout.sink.part);
	for (uint32_t i = 0; i < SLOTS; i++) {
		cr_expect_eq(pipe_.slot[i].in[0].data, in + i * 40960);
		cr_expect_eq(pipe_.slot[i].in[0].bytes, 40960u);
		cr_expect_eq(pipe_.slot[i].out.data, out + i * 36864);
		cr_expect_eq(pipe_.slot[i].out.bytes, 36864u);
	}
}

/* ---- rings */

#define ENTRIES 128u /* the ring of commands has two pages, that of completions a half */
#define PAIRS 5u     /* two each for two ssds, and one for the sink */

static struct hr_bus bus[64];

static void begin_rings(void)
{
	const uint32_t bytes = hr_layout_ring_bytes(ENTRIES);

	memset(&layout, 0, sizeof layout);
	memset(&pipe_, 0, sizeof pipe_);
	hr_partition_init(&partition, no_limit);
	for (uint32_t i = 0; i < 3; i++) {
		struct hr_pipe_queues *q = i < 2 ? &layout.read[i] : &layout.write;

		*q = (struct hr_pipe_queues){ .ssd = &ssd[0], .place = HR_PLACE_HOST };
		q->rings = (int)i;
		partition.part[i].offset = (uint64_t)i * 2 * bytes;
	}
	partition.count = 3;
	ssd[0].queue_entries = ENTRIES;
	strcpy(ssd[0].transport.name, "d");
	layout.pipe = &pipe_;
	layout.parts.partition = &partition;
	pipe_.read_queues = 2;
	pipe_.blocks[HR_ROLE_PREFETCH] = 2;
	pipe_.workers[HR_ROLE_PREFETCH] = 1;
	pipe_.blocks[HR_ROLE_WRITEBACK] = 1;
	pipe_.workers[HR_ROLE_WRITEBACK] = 1;
	pipe_.has_sink = true;
	cr_assert_leq(PAIRS * bytes, sizeof bus / sizeof *bus * HR_PAGE);
	partition.region[HR_PLACE_HOST] = (struct hr_region){ .bytes = PAIRS * bytes,
							      .granule_bus = bus,
							      .granule_shift = 12 };
}

/* Pages from this one on lie elsewhere. */
static int check(uint32_t from)
{
	for (uint32_t i = 0; i < sizeof bus / sizeof *bus; i++)
		bus[i].addr = (i + (i >= from ? 1000ull : 0)) * HR_PAGE;
	return hr_pipe_layout_check_rings(&layout, test_error());
}

Test(pipe_layout, a_break_inside_a_ring_of_any_queue_pair_is_an_error)
{
	const uint32_t pages = hr_layout_ring_bytes(ENTRIES) / HR_PAGE;

	begin_rings();
	cr_expect_eq(check(64), 0, "no break");
	for (uint32_t pair = 0; pair < PAIRS; pair++)
		for (uint32_t page = 0; page < pages; page++) {
			const int want = page == 1 ? -ENOTSUP : 0;

			cr_expect_eq(check(pair * pages + page), want, "pair %u, page %u", pair,
				     page);
			if (want)
				cr_expect(strstr(test_error_text(),
						 "d: a ring of 8192 bytes is not contiguous"),
					  "%s", test_error_text());
		}
	pipe_.has_sink = false;
	cr_expect_eq(check(4 * pages + 1), 0, "there is no queue pair for a sink");
	pipe_.read_queues = 1;
	cr_expect_eq(check(2 * pages + 1), 0, "there is no second ssd");
}
