/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/layout/stream.h"

#include <stdio.h>
#include <string.h>

#include "boot/engine/layout/sizes.h"

#define ROWS(row) (row), sizeof(row) / sizeof *(row)
#define AT(member) .pointer = offsetof(struct hr_pipe, member)

/* Number of words for checksums, one per tile and object; UINT64_MAX: overflow. */
static uint64_t count_words(struct hr_pipe_layout *l)
{
	const uint64_t tiles = l->pipe->tiles;
	uint64_t objects = 0, words;

	for (uint32_t s = 0; s < l->pipe->sources; s++)
		if (l->source[s].summed)
			l->source[s].words = objects++ * tiles;
	if (l->sink.summed)
		l->sink.words = objects++ * tiles;
	return __builtin_mul_overflow(tiles, objects, &words) ? UINT64_MAX : words;
}

/* True when write-back takes the results. */
static bool writes(const struct hr_pipe_layout *l)
{
	return l->pipe->has_sink && !l->tap;
}

static int plan_work(struct hr_pipe_layout *l)
{
	const struct hr_pipe *p = l->pipe;
	const struct hr_layout_row row[] = {
		{ "pipeline descriptor", HR_PLACE_WORKER, 1, sizeof *p, .part = &l->descriptor },
		{ "slots", HR_PLACE_WORKER, p->slots, sizeof *p->slot, AT(slot) },
		{ "stop flag", HR_PLACE_CONTROL, 1, sizeof *p->control, AT(control) },
		{ "status of workers", HR_PLACE_CONTROL, hr_pipe_statuses(p), sizeof *p->status,
		  AT(status) },
		{ "watermarks of slots", HR_PLACE_CONTROL, writes(l) ? p->slots : 0,
		  sizeof *p->written, AT(written) },
		{ "checksums, one a tile and object", HR_PLACE_CONTROL, count_words(l),
		  sizeof(uint32_t), .part = &l->checksums },
		{ "operator arguments", HR_PLACE_WORKER, l->args_bytes, 1, AT(op_args) },
		{ "operator result", HR_PLACE_WORKER, HR_OP_RESULT_MAX, 1, AT(op_result) },
		{ "operator records, one a tile", HR_PLACE_WORKER, p->tiles, p->record_bytes,
		  AT(op_records) },
		{ "operator states", HR_PLACE_GPU, hr_pipe_workers(p, HR_ROLE_COMPUTE),
		  p->state_bytes, AT(op_states) },
		{ "memory of blocks, parked", HR_PLACE_GPU,
		  l->tap && l->tap->park ? p->blocks[HR_ROLE_COMPUTE] : 0, HR_BLOCK_MEMORY,
		  AT(op_blocks) },
		{ "copies of tiles, one a block", HR_PLACE_GPU, p->blocks[HR_ROLE_COMPUTE],
		  p->copy_bytes, AT(copy), .align = HR_PAGE, .data = true },
	};

	return hr_layout_add(&l->parts, ROWS(row));
}

int hr_pipe_queues_plan(struct hr_layout *parts, struct hr_pipe_queues *q, const char *what,
			uint32_t pairs)
{
	const uint32_t bytes = hr_layout_ring_bytes(q->ssd->queue_entries);
	char purpose[HR_NAME_MAX];
	const struct hr_layout_row row = { purpose, q->place,	    pairs,
					   bytes,   .align = bytes, .part = &q->rings };

	snprintf(purpose, sizeof purpose, "%u %squeue pair%s to %.20s, %u entries", pairs, what,
		 pairs == 1 ? "" : "s", q->name, q->ssd->queue_entries);
	return hr_layout_add(parts, &row, 1);
}

static int plan_readers(struct hr_pipe_layout *l)
{
	const struct hr_pipe *p = l->pipe;
	const uint32_t readers = hr_pipe_workers(p, HR_ROLE_PREFETCH);
	uint64_t tables = 0;
	int err = 0;

	for (uint32_t q = 0; !err && q < p->read_queues; q++) {
		err = hr_pipe_queues_plan(&l->parts, &l->read[q], "read ", readers);
		tables += hr_layout_table_bytes(l->read[q].ssd->queue_entries);
	}
	const struct hr_layout_row row[] = {
		{ "commands in flight, read", HR_PLACE_WORKER, readers, tables,
		  .part = &l->read_tables },
		{ "queue pairs, read", HR_PLACE_WORKER, readers,
		  p->read_queues * sizeof *p->read_qp, AT(read_qp) },
	};

	return err ? err : hr_layout_add(&l->parts, ROWS(row));
}

static int plan_writers(struct hr_pipe_layout *l)
{
	const struct hr_pipe *p = l->pipe;
	const uint32_t writers = hr_pipe_workers(p, HR_ROLE_WRITEBACK);
	const int err = hr_pipe_queues_plan(&l->parts, &l->write, "write ", writers);
	const struct hr_layout_row row[] = {
		{ "commands in flight, write", HR_PLACE_WORKER, writers,
		  hr_layout_table_bytes(l->write.ssd->queue_entries), .part = &l->write_tables },
		{ "queue pairs, write", HR_PLACE_WORKER, writers, sizeof *p->write_qp,
		  AT(write_qp) },
	};

	return err ? err : hr_layout_add(&l->parts, ROWS(row));
}

/* The parts of a tap. Those that consumers map are whole pages, each a memory object of its own. */
static int plan_tap(struct hr_pipe_layout *l)
{
	const struct hr_pipe *p = l->pipe;
	const uint32_t sets = l->tap_sets ? l->tap_sets : HR_TAP_SEATS;
	const struct hr_layout_row row[] = {
		{ "tap", HR_PLACE_WORKER, 1, sizeof *p->tap, AT(tap) },
		{ "tap, lendings of slots", HR_PLACE_WORKER, p->slots, sizeof *p->tap->lending,
		  .part = &l->tap_lending },
		{ "tap, words of consumers", HR_PLACE_CONTROL, 1, sizeof *p->tap->words,
		  .part = &l->tap_words },
		{ "tap, tiles", HR_PLACE_TAP, p->slots, hr_layout_tile_bytes(p->sink_tile_bytes),
		  .align = l->tap_align, .data = true, .part = &l->sink.part },
		{ "tap, entries of consumers", HR_PLACE_TAP_WORDS, sets,
		  hr_tap_ring_bytes(l->tap->ring), .align = HR_PAGE, .data = true,
		  .part = &l->tap_entries },
		{ "tap, pages of consumers", HR_PLACE_TAP_WORDS, sets, hr_tap_page_bytes(p->slots),
		  .align = HR_PAGE, .data = true, .part = &l->tap_pages },
	};

	l->tap_sets = sets;
	return hr_layout_add(&l->parts, ROWS(row));
}

/* The parts of a feed. A producer maps tiles, entries and page, each a memory object of its own. */
static int plan_feed(struct hr_pipe_layout *l)
{
	const struct hr_pipe *p = l->pipe;
	const uint32_t sets = l->feed_sets ? l->feed_sets : 1;
	const struct hr_layout_row row[] = {
		{ "feed", HR_PLACE_WORKER, 1, sizeof *p->feed, AT(feed) },
		{ "feed, offers of slots", HR_PLACE_WORKER, p->slots, sizeof *p->feed->offer,
		  .part = &l->feed_offers },
		{ "feed, words of the producer", HR_PLACE_CONTROL, 1, sizeof *p->feed->words,
		  .part = &l->feed_words },
		{ "feed, tiles", HR_PLACE_TAP, p->slots,
		  hr_layout_tile_bytes(p->source[0].tile_bytes), .align = l->tap_align,
		  .data = true, .part = &l->source[0].part },
		{ "feed, entries of the producer", HR_PLACE_TAP_WORDS, sets,
		  hr_tap_ring_bytes(l->feed->ring), .align = HR_PAGE, .data = true,
		  .part = &l->feed_entries },
		{ "feed, page of the producer", HR_PLACE_TAP_WORDS, sets,
		  hr_feed_page_bytes(p->slots), .align = HR_PAGE, .data = true,
		  .part = &l->feed_pages },
	};

	l->feed_sets = sets;
	return hr_layout_add(&l->parts, ROWS(row));
}

/* Memory for the buffers of a slot, besides the tiles: number of PRP entries, and bytes of PRP
 * lists. */
struct lists {
	uint64_t chunks, prp_bytes;
};

static int plan_tiles_of(struct hr_pipe_layout *l, struct hr_pipe_tiles *tiles, const char *what,
			 uint32_t tile_bytes, uint32_t chunk_bytes, struct lists *lists)
{
	const uint32_t bytes = hr_layout_tile_bytes(tile_bytes), slots = l->pipe->slots;
	char purpose[HR_NAME_MAX];
	const struct hr_layout_row row = {
		purpose,      tiles->place,	   slots, bytes, .align = HR_PAGE,
		.data = true, .part = &tiles->part
	};

	snprintf(purpose, sizeof purpose, "%u tile%s %s %.40s", slots, slots == 1 ? "" : "s", what,
		 tiles->object);
	lists->chunks += hr_chunk_count(bytes, chunk_bytes);
	lists->prp_bytes += hr_buffer_prp_bytes(bytes, chunk_bytes);
	return hr_layout_add(&l->parts, &row, 1);
}

static int plan_tiles(struct hr_pipe_layout *l)
{
	const struct hr_pipe *p = l->pipe;
	struct lists lists = { 0, 0 };
	int err = 0;

	for (uint32_t s = 0; !err && !l->feed && s < p->sources; s++)
		err = plan_tiles_of(l, &l->source[s], "of", p->source[s].tile_bytes,
				    p->source[s].extent.chunk_bytes, &lists);
	if (!err && writes(l))
		err = plan_tiles_of(l, &l->sink, "for", p->sink_tile_bytes, p->sink.chunk_bytes,
				    &lists);
	const struct hr_layout_row row[] = {
		{ "PRP lists", HR_PLACE_HOST, p->slots, lists.prp_bytes, .align = HR_PAGE,
		  .part = &l->prps },
		{ "PRP entries of commands", HR_PLACE_WORKER, p->slots,
		  lists.chunks * sizeof(struct hr_prp), .part = &l->chunks },
	};

	return err ? err : hr_layout_add(&l->parts, ROWS(row));
}

int hr_pipe_layout_plan(struct hr_pipe_layout *l, struct hr_partition *partition, const char *owner)
{
	int err;

	hr_layout_begin(&l->parts, partition, owner);
	err = plan_work(l);
	if (!err)
		err = plan_readers(l);
	if (!err && writes(l))
		err = plan_writers(l);
	if (!err && l->tap)
		err = plan_tap(l);
	if (!err && l->feed)
		err = plan_feed(l);
	return err ? err : plan_tiles(l);
}

/* Assigns PRP entries and PRP lists to one buffer after another. */
struct buffer_maker {
	const struct hr_partition *partition;
	/* the same entries, at their address for workers */
	struct hr_prp *chunk, *worker_chunk;
	size_t prp_offset;
};

static size_t part_offset(const struct hr_pipe_layout *l, int part)
{
	return part < 0 ? 0 : l->parts.partition->part[part].offset;
}

/* Build a buffer: its tile lies in `part`; its PRP lists lie where the CPU writes them and the
 * ssd reads them. */
static void make_buffer(struct buffer_maker *maker, struct hr_buffer *buffer, int part,
			uint32_t slot, uint32_t tile_bytes, uint32_t chunk_bytes)
{
	const struct hr_partition *p = maker->partition;
	const struct hr_region *lists = &p->region[HR_PLACE_HOST];
	const struct hr_region *tiles = &p->region[p->part[part].place];
	const uint32_t bytes = hr_layout_tile_bytes(tile_bytes);
	const size_t offset = p->part[part].offset + (size_t)slot * bytes;

	hr_buffer_init(buffer, tiles, offset, bytes, chunk_bytes, lists, maker->prp_offset,
		       maker->chunk);
	buffer->chunk = maker->worker_chunk;
	maker->chunk += hr_chunk_count(bytes, chunk_bytes);
	maker->worker_chunk += hr_chunk_count(bytes, chunk_bytes);
	maker->prp_offset += hr_buffer_prp_bytes(bytes, chunk_bytes);
}

/* The tile of a slot in memory that no controller accesses. */
static struct hr_buffer tap_tile(const struct hr_pipe_layout *l, int part, uint32_t tile_bytes,
				 uint32_t slot)
{
	const uint32_t bytes = hr_layout_tile_bytes(tile_bytes);
	uint8_t *tiles = hr_partition_worker(l->parts.partition, part);

	return (struct hr_buffer){ .data = tiles + (size_t)slot * bytes, .bytes = bytes };
}

static void wire_tap(const struct hr_pipe_layout *l)
{
	const struct hr_partition *p = l->parts.partition;
	struct hr_tap_role *tap = l->pipe->tap;

	*tap = *l->tap;
	tap->entries = hr_partition_worker(p, l->tap_entries);
	tap->pages = hr_partition_worker(p, l->tap_pages);
	tap->words = hr_partition_worker(p, l->tap_words);
	tap->lending = hr_partition_worker(p, l->tap_lending);
}

static void wire_feed(const struct hr_pipe_layout *l, struct hr_pipe *descriptor)
{
	const struct hr_partition *p = l->parts.partition;
	struct hr_feed_words *words = hr_partition_cpu(p, l->feed_words);
	struct hr_feed_role *feed = l->pipe->feed;

	*feed = *l->feed;
	feed->entries = hr_partition_worker(p, l->feed_entries);
	feed->pages = hr_partition_worker(p, l->feed_pages);
	feed->words = hr_partition_worker(p, l->feed_words);
	feed->offer = hr_partition_worker(p, l->feed_offers);
	words->total = HR_NO_TILE;
	words->next = l->pipe->first_tile;
	descriptor->fed_tiles = &feed->words->total;
}

/* The tiles of the sources, and of a tap, in slot i. */
static void wire_tiles(const struct hr_pipe_layout *l, struct buffer_maker *maker, uint32_t i)
{
	const struct hr_pipe *p = l->pipe;
	struct hr_slot *slot = &p->slot[i];

	for (uint32_t s = 0; s < p->sources && !l->feed; s++)
		make_buffer(maker, &slot->in[s], l->source[s].part, i, p->source[s].tile_bytes,
			    p->source[s].extent.chunk_bytes);
	if (l->feed)
		slot->in[0] = tap_tile(l, l->source[0].part, p->source[0].tile_bytes, i);
	if (l->tap)
		slot->out = tap_tile(l, l->sink.part, p->sink_tile_bytes, i);
}

static void wire_slots(const struct hr_pipe_layout *l)
{
	const struct hr_partition *partition = l->parts.partition;
	const struct hr_pipe *p = l->pipe;
	struct buffer_maker maker = { .partition = partition,
				      .prp_offset = part_offset(l, l->prps) };

	/* no controller accesses the tiles from a feed to a tap, or to a result */
	if (l->chunks >= 0) {
		maker.chunk = hr_partition_cpu(partition, l->chunks);
		maker.worker_chunk = hr_partition_worker(partition, l->chunks);
	}

	for (uint32_t i = 0; i < p->slots; i++) {
		struct hr_slot *slot = &p->slot[i];

		slot->state = HR_SLOT_FREE;
		wire_tiles(l, &maker, i);
		if (!writes(l))
			continue;
		p->written[i] = p->first_tile;
		make_buffer(&maker, &slot->out, l->sink.part, i, p->sink_tile_bytes,
			    p->sink.chunk_bytes);
	}
}

/* Set the location of the checksums of tiles, in words, for compute blocks. */
static void wire_checksums(const struct hr_pipe_layout *l, struct hr_pipe *p, uint32_t *words)
{
	for (uint32_t s = 0; s < p->sources; s++)
		p->source[s].crc = l->source[s].summed ? words + l->source[s].words : NULL;
	p->sink_crc = l->sink.summed ? words + l->sink.words : NULL;
}

static void wire_descriptor(const struct hr_pipe_layout *l, struct hr_pipe *descriptor)
{
	const struct hr_partition *partition = l->parts.partition;

	hr_layout_point_cpu(&l->parts, l->pipe);
	*descriptor = *l->pipe;
	hr_layout_point_workers(&l->parts, descriptor);
	if (l->checksums >= 0) {
		wire_checksums(l, l->pipe, hr_partition_cpu(partition, l->checksums));
		wire_checksums(l, descriptor, hr_partition_worker(partition, l->checksums));
	}
	if (l->args_bytes)
		memcpy(l->pipe->op_args, l->args, l->args_bytes);
}

/* Create the queue pair of worker w. Its table is at *table_at, which is advanced. */
static int create_qp(const struct hr_pipe_layout *l, const struct hr_pipe_queues *q, uint32_t w,
		     size_t *table_at, struct hr_nvme_qp *qp, struct hr_error *e)
{
	const struct hr_partition *p = l->parts.partition;
	const uint32_t entries = q->ssd->queue_entries;
	const struct hr_ssd_qp_memory memory = {
		.rings = &p->region[q->place],
		.ring_at = part_offset(l, q->rings) + (size_t)w * hr_layout_ring_bytes(entries),
		.tables = &p->region[HR_PLACE_WORKER],
		.table_at = *table_at,
		.bar = q->bar,
		.owner = &l->parts,
	};

	*table_at += hr_layout_table_bytes(entries);
	return hr_ssd_create_qp(q->ssd, qp, &memory, e);
}

static int create_queues(const struct hr_pipe_layout *l, struct hr_error *e)
{
	const struct hr_pipe *p = l->pipe;
	size_t table_at = part_offset(l, l->read_tables);
	struct hr_nvme_qp *qp = p->read_qp;
	int err = 0;

	for (uint32_t w = 0; w < hr_pipe_workers(p, HR_ROLE_PREFETCH); w++)
		for (uint32_t q = 0; !err && q < p->read_queues; q++)
			err = create_qp(l, &l->read[q], w, &table_at, qp++, e);
	if (err || !writes(l))
		return err;
	table_at = part_offset(l, l->write_tables);
	for (uint32_t w = 0; !err && w < hr_pipe_workers(p, HR_ROLE_WRITEBACK); w++)
		err = create_qp(l, &l->write, w, &table_at, &p->write_qp[w], e);
	return err;
}

int hr_pipe_layout_wire(struct hr_pipe_layout *l, struct hr_pipe **descriptor, struct hr_error *e)
{
	*descriptor = hr_partition_cpu(l->parts.partition, l->descriptor);
	wire_descriptor(l, *descriptor);
	wire_slots(l);
	if (l->tap)
		wire_tap(l);
	if (l->feed)
		wire_feed(l, *descriptor);
	return create_queues(l, e);
}

static int check_rings(const struct hr_pipe_layout *l, const struct hr_pipe_queues *q,
		       uint32_t pairs, struct hr_error *e)
{
	const uint32_t bytes = hr_layout_ring_bytes(q->ssd->queue_entries);
	int err = 0;

	for (uint32_t i = 0; !err && i < pairs; i++)
		err = hr_ssd_check_rings(q->ssd, &l->parts.partition->region[q->place],
					 part_offset(l, q->rings) + (size_t)i * bytes, e);
	return err;
}

int hr_pipe_layout_check_rings(const struct hr_pipe_layout *l, struct hr_error *e)
{
	const struct hr_pipe *p = l->pipe;
	int err = 0;

	for (uint32_t q = 0; !err && q < p->read_queues; q++)
		err = check_rings(l, &l->read[q], hr_pipe_workers(p, HR_ROLE_PREFETCH), e);
	if (!err && writes(l))
		err = check_rings(l, &l->write, hr_pipe_workers(p, HR_ROLE_WRITEBACK), e);
	return err;
}
