/*
 * The memory of a pipeline: each part of each kind of pipeline, and what is written into them before
 * a launch, with addresses that differ for the CPU, workers and controllers.
 */
#include "boot/engine/pipe_layout.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/rings.h"
#include "tests/harness/calls.h"

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
static unsigned calls, fails_at;

static size_t at_of(const struct hr_region *region, size_t at)
{
	return (size_t)(region - partition.region) * MEMORY + at;
}

int hr_ssd_create_qp(struct hr_ssd *of, struct hr_nvme_qp *qp, const struct hr_ssd_qp_memory *m,
		     struct hr_error *e)
{
	cr_expect_eq(m->owner, &layout.parts);
	calls_note("%td %p %zx %zx %p\n", of - ssd, (void *)qp, at_of(m->rings, m->ring_at),
		   at_of(m->tables, m->table_at), m->bar);
	return ++calls == fails_at ? -EIO : 0;
}

int hr_ssd_check_rings(const struct hr_ssd *of, const struct hr_region *rings, size_t ring_at,
		       struct hr_error *e)
{
	calls_note("%td %zx\n", of - ssd, at_of(rings, ring_at));
	return ++calls == fails_at ? -ENOTSUP : 0;
}

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
	calls = fails_at = 0;
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

Test(pipe_layout, a_pipeline_from_two_objects_to_one_has_these_parts)
{
	const struct row words[] = {
		{ "status of workers", CPU, (4 + 3 + 2) * sizeof(struct hr_worker_status), LINE,
		  false, AT(status) },
		{ "watermarks of slots", CPU, SLOTS * 8, LINE, false, AT(written) },
		{ "checksums, one a tile and object", CPU, 2 * TILES * 4, LINE, false, NONE },
	};
	const struct row queues[] = {
		{ "4 read queue pairs to a, 64 entries", HOST, 4 * 8192, 8192, false, NONE },
		{ "4 read queue pairs to b, 300 entries", GPU, 4 * 32768, 32768, false, NONE },
		{ "commands in flight, read", WORKER,
		  4 * (hr_plan_table_bytes(64) + hr_plan_table_bytes(300)), LINE, false, NONE },
		{ "queue pairs, read", WORKER, 4 * 2 * sizeof(struct hr_nvme_qp), LINE, false,
		  AT(read_qp) },
		{ "2 write queue pairs to b, 300 entries", HOST, 2 * 32768, 32768, false, NONE },
		{ "commands in flight, write", WORKER, 2 * hr_plan_table_bytes(300), LINE, false,
		  NONE },
		{ "queue pairs, write", WORKER, 2 * sizeof(struct hr_nvme_qp), LINE, false,
		  AT(write_qp) },
		{ "3 tiles of x", HOST, SLOTS * 40960, HR_PAGE, true, NONE },
		{ "3 tiles of y", GPU, SLOTS * 8192, HR_PAGE, true, NONE },
		{ "3 tiles for z", HOST, SLOTS * 36864, HR_PAGE, true, NONE },
		{ "PRP lists", HOST, 3 * 2 * HR_PAGE, HR_PAGE, false, NONE },
		{ "PRP entries of commands", WORKER, SLOTS * (3 + 2 + 2) * sizeof(struct hr_prp),
		  LINE, false, NONE },
	};

	begin();
	layout.source[1].summed = layout.sink.summed = true;
	layout.source[2].summed = true; /* behind the last */
	plan();
	at = layout.parts.first;
	cr_expect_eq(at, (uint32_t)HR_PLACES);
	EXPECT(head);
	EXPECT(words);
	EXPECT(work);
	EXPECT(copies);
	EXPECT(queues);
	cr_expect_eq(at, partition.count);
	cr_expect_eq(layout.source[1].words, 0u);
	cr_expect_eq(layout.sink.words, (uint64_t)TILES);
	cr_expect_eq(layout.tap_words + layout.feed_words, 0, "as before");
}

/* One slot, one worker and one tile: no plural. */
Test(pipe_layout, a_small_pipeline_without_a_sink_has_few_parts)
{
	const struct row rows[] = {
		{ "status of workers", CPU, 2 * sizeof(struct hr_worker_status), LINE, false,
		  AT(status) },
		{ "operator result", WORKER, HR_OP_RESULT_MAX, LINE, false, AT(op_result) },
		{ "1 read queue pair to a, 64 entries", HOST, 8192, 8192, false, NONE },
		{ "commands in flight, read", WORKER, hr_plan_table_bytes(64), LINE, false, NONE },
		{ "queue pairs, read", WORKER, sizeof(struct hr_nvme_qp), LINE, false,
		  AT(read_qp) },
		{ "1 tile of x", HOST, 40960, HR_PAGE, true, NONE },
		{ "PRP lists", HOST, HR_PAGE, HR_PAGE, false, NONE },
		{ "PRP entries of commands", WORKER, 3 * sizeof(struct hr_prp), LINE, false, NONE },
	};

	begin();
	pipe_.has_sink = pipe_.state_bytes = pipe_.record_bytes = 0;
	pipe_.slots = pipe_.sources = pipe_.read_queues = 1;
	pipe_.copy_bytes = layout.args_bytes = 0;
	for (int role = 0; role < HR_ROLES; role++)
		pipe_.blocks[role] = pipe_.workers[role] = role < 2;
	plan();
	at = layout.parts.first + 1;
	cr_expect_eq(partition.part[at++].bytes, sizeof(struct hr_slot));
	at++;
	EXPECT(rows);
	cr_expect_eq(at, partition.count);
	cr_expect_eq(layout.checksums, -1);
}

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

/* The buffer of slot i, behind the PRP entries and lists that others before it have. */
static void expect_buffer(const struct hr_buffer *buffer, int part, uint32_t i, uint32_t bytes,
			  uint32_t chunk_bytes, uint32_t *chunks, size_t *lists)
{
	const struct hr_part *tiles = &partition.part[part];
	const uint32_t count = hr_chunk_count(bytes, chunk_bytes);
	struct hr_prp prp[8];
	struct hr_buffer want;

	hr_buffer_init(&want, &partition.region[tiles->place], tiles->offset + (size_t)i * bytes,
		       bytes, chunk_bytes, &partition.region[HOST],
		       partition.part[layout.prps].offset + *lists, prp);
	cr_expect_eq(buffer->data, want.data, "slot %u", i);
	cr_expect_eq(buffer->bytes, bytes);
	cr_expect_eq(buffer->chunk_bytes, chunk_bytes);
	cr_expect_eq(buffer->chunk, (struct hr_prp *)worker(layout.chunks) + *chunks);
	cr_expect_eq(
		memcmp((struct hr_prp *)cpu(layout.chunks) + *chunks, prp, count * sizeof *prp), 0,
		"slot %u", i);
	*chunks += count;
	*lists += hr_buffer_prp_bytes(bytes, chunk_bytes);
}

/* All queue pairs in their order, up to the one that fails. */
static void expect_queues(unsigned fails)
{
	size_t table[2] = { partition.part[layout.read_tables].offset,
			    partition.part[layout.write_tables].offset };
	char want[2048] = "";
	size_t end = 0;
	unsigned n = 0;

	for (uint32_t w = 0; w < 6; w++)
		for (uint32_t q = w < 4 ? 0 : 1; q < 2 && (!fails || n < fails); q++, n++) {
			const struct hr_pipe_queues *of = w < 4 ? &layout.read[q] : &layout.write;
			const uint32_t ring = q ? 32768 : 8192;
			void *qp = w < 4 ? &pipe_.read_qp[2 * w + q] : &pipe_.write_qp[w - 4];

			end += (size_t)snprintf(
				want + end, sizeof want - end, "%u %p %zx %zx %p\n", q, qp,
				of->place * MEMORY + partition.part[of->rings].offset +
					(size_t)(w & 3) * ring,
				WORKER * MEMORY + table[w / 4], of->bar);
			table[w / 4] += hr_plan_table_bytes(q ? 300 : 64);
		}
	cr_expect_str_eq(calls_take(), want);
}

Test(pipe_layout, the_slots_of_a_pipeline_have_their_buffers)
{
	uint32_t chunks = 0;
	size_t lists = 0;

	begin();
	plan();
	bind();
	cr_assert_eq(hr_pipe_layout_wire(&layout, &descriptor, NULL), 0);
	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct hr_slot *slot = &pipe_.slot[i];

		cr_expect_eq(slot->state, HR_SLOT_FREE);
		expect_buffer(&slot->in[0], layout.source[0].part, i, 40960, 16384, &chunks,
			      &lists);
		expect_buffer(&slot->in[1], layout.source[1].part, i, 8192, 4096, &chunks, &lists);
		expect_buffer(&slot->out, layout.sink.part, i, 36864, 32768, &chunks, &lists);
		cr_expect_eq(pipe_.written[i], 4u);
	}
	expect_queues(0);
	cr_expect_eq(calls, 10u);
	pipe_.has_sink = 0;
	cr_assert_eq(hr_pipe_layout_wire(&layout, &descriptor, NULL), 0);
	cr_expect_eq(calls, 18u, "no queue pair writes");
	calls_take();
	pipe_.has_sink = 1;
	for (unsigned n = 1; n <= 10; n++) {
		calls = 0;
		fails_at = n;
		cr_expect_eq(hr_pipe_layout_wire(&layout, &descriptor, NULL), -EIO, "%u", n);
		expect_queues(n);
	}
}

Test(pipe_layout, the_descriptor_has_addresses_for_workers)
{
	uint32_t *words;

	begin();
	layout.source[1].summed = layout.sink.summed = true;
	plan();
	bind();
	cr_assert_eq(hr_pipe_layout_wire(&layout, &descriptor, NULL), 0);
	cr_expect_eq(descriptor, cpu(layout.descriptor));
	cr_expect_eq(descriptor->tiles, TILES);
	for (uint32_t i = layout.parts.first; i < layout.parts.end; i++) {
		const uint32_t pointer = partition.part[i].pointer;
		void *of[2];

		if (pointer == HR_NO_POINTER)
			continue;
		memcpy(&of[0], (uint8_t *)&pipe_ + pointer, sizeof of[0]);
		memcpy(&of[1], (uint8_t *)descriptor + pointer, sizeof of[1]);
		cr_expect_eq(of[0], cpu((int)i), "%s", partition.part[i].purpose);
		cr_expect_eq(of[1], worker((int)i), "%s", partition.part[i].purpose);
	}
	words = cpu(layout.checksums);
	cr_expect_null(pipe_.source[0].crc);
	cr_expect_eq(pipe_.source[1].crc, words);
	cr_expect_eq(pipe_.sink_crc, words + TILES);
	words = worker(layout.checksums);
	cr_expect_null(descriptor->source[0].crc);
	cr_expect_eq(descriptor->source[1].crc, words);
	cr_expect_eq(descriptor->sink_crc, words + TILES);
	cr_expect_eq(memcmp(pipe_.op_args, "\x09\x08\x07\x06\x05", sizeof args + 1), 0);
	layout.source[1].summed = layout.sink.summed = false; /* not wanted any more */
	cr_assert_eq(hr_pipe_layout_wire(&layout, &descriptor, NULL), 0);
	cr_expect(!pipe_.source[1].crc && !pipe_.sink_crc);
	cr_expect(!descriptor->source[1].crc && !descriptor->sink_crc);
}

Test(pipe_layout, a_tap_and_a_feed_have_addresses_for_workers)
{
	const uint8_t *in, *out;
	struct hr_feed_words *words;

	set_tap_and_feed();
	plan();
	bind();
	cr_assert_eq(hr_pipe_layout_wire(&layout, &descriptor, NULL), 0);
	cr_expect_eq(calls, 0u, "no queue pair");
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

Test(pipe_layout, the_rings_of_each_queue_pair_are_checked)
{
	char want[512] = "";
	size_t end = 0;

	begin();
	plan();
	bind();
	for (uint32_t q = 0; q < 3; q++) {
		const struct hr_pipe_queues *of = q < 2 ? &layout.read[q] : &layout.write;

		for (uint32_t w = 0; w < (q < 2 ? 4 : 2); w++)
			end += (size_t)snprintf(
				want + end, sizeof want - end, "%u %zx\n", q ? 1 : 0,
				of->place * MEMORY + partition.part[of->rings].offset +
					(size_t)w * (q ? 32768 : 8192));
	}
	cr_expect_eq(hr_pipe_layout_check_rings(&layout, NULL), 0);
	cr_expect_str_eq(calls_take(), want);
	for (unsigned n = 1; n <= 10; n++) {
		calls = 0;
		fails_at = n;
		cr_expect_eq(hr_pipe_layout_check_rings(&layout, NULL), -ENOTSUP);
		cr_expect_eq(calls, n);
	}
	fails_at = calls = 0;
	layout.tap = &tap;
	cr_expect_eq(hr_pipe_layout_check_rings(&layout, NULL), 0);
	cr_expect_eq(calls, 8u, "no queue pair writes");
}
