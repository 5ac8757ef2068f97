/*
 * Stage `queues`: the parts of the partition filled in (descriptor, slots, buffers, arguments), and
 * queue pairs created on the controllers. Pointers in what workers read are as workers see them.
 */
#include "boot/engine/stage_queues.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/checksums.h"
#include "boot/engine/seal.h"
#include "boot/engine/shape.h"
#include "config/log.h"
#include "boot/engine/rings.h"
#include "boot/engine/signals.h"
#include "gpu/ops/operators.h"

/* Takes chunk entries and PRP lists for one buffer after another. */
struct buffer_maker {
	const struct hr_partition *partition;
	struct hr_prp *chunk, *worker_chunk; /* the same entries */
	size_t prp_offset;
};

static size_t part_offset(const struct hr_partition *p, int part)
{
	return part < 0 ? 0 : p->part[part].offset;
}

/* Tiles lie where their part does; PRP lists where the CPU writes them and the ssd reads them. */
static void make_buffer(struct buffer_maker *maker, struct hr_buffer *buffer, int part,
			uint32_t slot, uint32_t tile_bytes, uint32_t chunk_bytes)
{
	const struct hr_partition *p = maker->partition;
	const struct hr_region *lists = &p->region[HR_PLACE_HOST];
	const struct hr_region *tiles = &p->region[p->part[part].place];
	uint32_t bytes = hr_plan_tile_bytes(tile_bytes);
	size_t offset = part_offset(p, part) + (size_t)slot * bytes;

	hr_buffer_init(buffer, tiles, offset, bytes, chunk_bytes, lists, maker->prp_offset,
		       maker->chunk);
	buffer->chunk = maker->worker_chunk;
	maker->chunk += hr_chunk_count(bytes, chunk_bytes);
	maker->worker_chunk += hr_chunk_count(bytes, chunk_bytes);
	maker->prp_offset += hr_buffer_prp_bytes(bytes, chunk_bytes);
}

static void wire_slots(const struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_config_pipeline *c = run->config;
	const struct hr_partition *p = &app->partition[c->gpu];
	struct hr_slot *slot = hr_partition_cpu(p, run->part.slots);
	struct buffer_maker maker = { p, hr_partition_cpu(p, run->part.chunks),
				      hr_partition_worker(p, run->part.chunks),
				      part_offset(p, run->part.prps) };

	for (uint32_t i = 0; i < run->slots; i++) {
		slot[i].state = HR_SLOT_FREE;
		if (c->has_sink)
			run->written[i] = run->first_tile;
		for (uint32_t s = 0; s < c->sources; s++)
			make_buffer(&maker, &slot[i].in[s], run->part.source_tiles[s], i,
				    run->source[s].tile_bytes,
				    app->ssd[c->source[s].ssd].chunk_bytes);
		if (c->has_sink)
			make_buffer(&maker, &slot[i].out, run->part.sink_tiles, i,
				    run->sink_tile_bytes, app->ssd[c->sink.ssd].chunk_bytes);
	}
}

static void wire_extent(const struct hr_appliance *app, uint32_t d, uint64_t id,
			struct hr_extent *extent)
{
	const struct hr_ssd *ssd = &app->ssd[d];
	const struct hr_object *object = hr_store_find_id(&ssd->store, id);

	extent->id = id;
	extent->lba = object->offset >> ssd->ns.lba_shift;
	extent->bytes = object->bytes;
	extent->capacity = object->capacity;
	extent->nsid = ssd->ns.nsid;
	extent->lba_shift = ssd->ns.lba_shift;
	extent->ssd = d;
	extent->chunk_bytes = ssd->chunk_bytes;
}

static void wire_work(const struct hr_appliance *app, struct hr_run *run, struct hr_pipe *pipe)
{
	const struct hr_config_pipeline *c = run->config;

	pipe->tiles = run->tiles;
	pipe->first_tile = pipe->next_tile = run->first_tile;
	pipe->slots = run->slots;
	pipe->sources = c->sources;
	for (uint32_t s = 0; s < c->sources; s++) {
		wire_extent(app, c->source[s].ssd, run->source[s].id, &pipe->source[s].extent);
		pipe->source[s].tile_bytes = run->source[s].tile_bytes;
		pipe->source[s].queue = run->source[s].queue;
		pipe->source[s].copied = run->copies && !app->path[c->gpu][c->source[s].ssd].direct;
	}
	pipe->has_sink = c->has_sink;
	if (c->has_sink) {
		wire_extent(app, c->sink.ssd, run->sink_id, &pipe->sink);
		pipe->flush_at_end = app->ssd[c->sink.ssd].ctrl->volatile_cache;
	}
	pipe->sink_tile_bytes = run->sink_tile_bytes;
	pipe->op = hr_op_id_of(c->op);
	pipe->state_bytes = hr_op_state_bytes(c->op, c->op_args);
	pipe->record_bytes = c->op->tile_record_bytes;
	memcpy(pipe->blocks, run->blocks, sizeof pipe->blocks);
	memcpy(pipe->workers, run->workers, sizeof pipe->workers);
	pipe->read_queues = run->ssds;
}

static void wire_memory(const struct hr_appliance *app, struct hr_run *run, struct hr_pipe *pipe)
{
	const struct hr_config_pipeline *c = run->config;
	const struct hr_partition *p = &app->partition[c->gpu];

	pipe->slot = hr_partition_worker(p, run->part.slots);
	pipe->control = hr_partition_worker(p, run->part.control);
	pipe->status = hr_partition_worker(p, run->part.status);
	if (run->part.written >= 0)
		pipe->written = hr_partition_worker(p, run->part.written);
	pipe->read_qp = hr_partition_worker(p, run->part.read_qps);
	pipe->op_result = hr_partition_worker(p, run->part.result);
	if (run->part.write_qps >= 0)
		pipe->write_qp = hr_partition_worker(p, run->part.write_qps);
	if (run->part.states >= 0)
		pipe->op_states = hr_partition_worker(p, run->part.states);
	if (run->part.copy >= 0) {
		pipe->copy = hr_partition_worker(p, run->part.copy);
		pipe->copy_bytes = hr_run_copy_bytes(run);
	}
	if (run->part.records >= 0)
		pipe->op_records = hr_partition_worker(p, run->part.records);
	if (run->part.args >= 0) {
		pipe->op_args = hr_partition_worker(p, run->part.args);
		memcpy(hr_partition_cpu(p, run->part.args), c->op_args, c->op_args_bytes);
	}
}

/* Where compute blocks leave the checksums of tiles. */
static void wire_checksums(const struct hr_appliance *app, struct hr_run *run, struct hr_pipe *pipe)
{
	const struct hr_config_pipeline *c = run->config;
	uint32_t *words = NULL;

	pipe->checksums = hr_run_checksums(run);
	pipe->out_copy_bytes = run->stages ? hr_plan_tile_bytes(run->sink_tile_bytes) : 0;
	if (run->part.checksums >= 0)
		words = hr_partition_worker(&app->partition[c->gpu], run->part.checksums);
	if (!words)
		return;
	for (uint32_t s = 0; s < c->sources; s++)
		if (run->source[s].check == HR_SOURCE_UNREAD &&
		    !(s == 0 && c->op->records_checksum))
			pipe->source[s].crc = words + run->source[s].words_at;
	if (c->has_sink && c->sink.checksum)
		pipe->sink_crc = words + run->sink_words_at;
}

/* `place` begins where the rings and tables of the part lie and moves on with each queue pair. */
static int create_qp(struct hr_ssd *ssd, struct hr_nvme_qp *qp, struct hr_ssd_qp_place *place)
{
	const int err = hr_ssd_create_qp(ssd, qp, place);

	place->ring_at += hr_plan_ring_bytes(ssd->queue_entries);
	place->table_at += hr_plan_table_bytes(ssd->queue_entries);
	return err;
}

static int create_readers(struct hr_appliance *app, struct hr_run *run)
{
	const uint32_t g = run->config->gpu;
	const struct hr_partition *p = &app->partition[g];
	size_t table_at = part_offset(p, run->part.read_tables);
	struct hr_nvme_qp *qp = run->read_qp;

	for (uint32_t w = 0; w < hr_run_workers(run, HR_ROLE_PREFETCH); w++) {
		for (uint32_t q = 0; q < run->ssds; q++, qp++) {
			struct hr_ssd *ssd = &app->ssd[run->ssd[q]];
			struct hr_ssd_qp_place place = {
				.rings = &p->region[hr_ring_place(app, g, run->ssd[q])],
				.ring_at = part_offset(p, run->part.source_rings[q]) +
					   w * hr_plan_ring_bytes(ssd->queue_entries),
				.tables = &p->region[HR_PLACE_WORKER],
				.table_at = table_at,
				.bar = app->bar[g][run->ssd[q]],
			};
			int err = create_qp(ssd, qp, &place);

			if (err)
				return err;
			table_at = place.table_at;
		}
	}
	return 0;
}

static int create_writers(struct hr_appliance *app, struct hr_run *run)
{
	const uint32_t g = run->config->gpu, d = run->config->sink.ssd;
	const struct hr_partition *p = &app->partition[g];
	struct hr_ssd_qp_place place = {
		.rings = &p->region[hr_ring_place(app, g, d)],
		.ring_at = part_offset(p, run->part.sink_rings),
		.tables = &p->region[HR_PLACE_WORKER],
		.table_at = part_offset(p, run->part.write_tables),
		.bar = app->bar[g][d],
	};
	int err = 0;

	for (uint32_t w = 0; !err && w < hr_run_workers(run, HR_ROLE_WRITEBACK); w++)
		err = create_qp(&app->ssd[d], &run->write_qp[w], &place);
	return err;
}

/* Where the CPU finds what it reads while the pipeline runs, and after it. */
static void wire_host(const struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_partition *p = &app->partition[run->config->gpu];

	run->pipe = hr_partition_cpu(p, run->part.pipe);
	run->control = hr_partition_cpu(p, run->part.control);
	run->status = hr_partition_cpu(p, run->part.status);
	run->read_qp = hr_partition_cpu(p, run->part.read_qps);
	if (run->config->has_sink) {
		run->write_qp = hr_partition_cpu(p, run->part.write_qps);
		run->written = hr_partition_cpu(p, run->part.written);
	}
}

static int wire_run(struct hr_appliance *app, struct hr_run *run)
{
	int err;

	wire_host(app, run);
	wire_work(app, run, run->pipe);
	wire_memory(app, run, run->pipe);
	wire_checksums(app, run, run->pipe);
	wire_slots(app, run);
	err = create_readers(app, run);
	if (!err && run->config->has_sink)
		err = create_writers(app, run);
	return err;
}

int hr_queues_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < app->config.pipelines; i++)
		if (app->run[i].selected && app->run[i].outcome == HR_RUN_WAITING)
			err = hr_signals_pending() ? -EINTR : wire_run(app, &app->run[i]);
	if (!err)
		hr_seal();
	return err;
}

void hr_queues_down(struct hr_appliance *app)
{
	hr_unseal();
	for (uint32_t d = app->config.ssds; d-- > 0;) {
		if (hr_ssd_delete_qps(&app->ssd[d]) != 0 && hr_first_of_controller(app, d) == d) {
			hr_warn("%s: does not stop; the memory of its queues stays allocated",
				app->ssd[d].transport.name);
			app->stuck = true;
		}
	}
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		app->run[i].pipe = NULL;
}
