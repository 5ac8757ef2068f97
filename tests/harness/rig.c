#include "tests/harness/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices.h"
#include "boot/engine/rings.h"
#include "config/clock.h"
#include "config/log.h"
#include "nvme/soft/soft.h"

#define PLACE_BYTES (24u << 20)
#define PATIENCE_NS (60 * HR_NS_PER_S)
#define POLL_NS 200000u

extern char __data_start[], _end[]; /* by the linker: the program's own variables */

static uint32_t number(const char *name, uint32_t otherwise)
{
	const char *value = getenv(name);

	return value ? (uint32_t)strtoul(value, NULL, 10) : otherwise;
}

static void backend_up(struct rig *rig)
{
	static const uint64_t bytes[HR_PLACES] = { PLACE_BYTES, PLACE_BYTES, PLACE_BYTES,
						   PLACE_BYTES };
	struct hr_backend *b = &rig->backend;
	const char *device = getenv("RIG_DEVICE");
	char message[HR_LOG_LINE_MAX] = "";
	enum hr_place failed;

	cr_assert_eq(hr_backend_open(b, device ? device : "host:2", RIG_BLOCKS_MAX, message), 0,
		     "%s", message);
	rig->threads = b->lanes == 1 ? 1 : number("RIG_THREADS", b->lanes);
	rig->warps = rig->threads / b->lanes;
	rig->copy = b->lanes > 1 && number("RIG_COPY", 0);
	cr_assert_eq(hr_places_take(&rig->memory, b, bytes, &failed), 0);
}

static void ssd_up(struct rig *rig, uint32_t d, const struct hr_config_ssd *config)
{
	struct hr_backend *b = &rig->backend;
	struct hr_ssd *ssd = &rig->ssd[d];
	struct hr_transport *t = &ssd->transport;

	cr_assert_eq(hr_ssd_up(ssd, config), 0);
	cr_assert_eq(t->ops->map(t, &rig->memory.region[HR_PLACE_HOST]), 0);
	cr_assert_eq(b->ops->attach(b, (void *)(uintptr_t)t->bar, t->bar_bytes, !t->bar_is_memory,
				    &rig->bar[d]),
		     0);
	rig->lba_shift = ssd->ns.lba_shift;
}

void rig_up(struct rig *rig, uint32_t ssds, const char *options, uint32_t entries,
	    uint64_t timeout_ns)
{
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = entries,
					.timeout_ns = timeout_ns };

	memset(rig, 0, sizeof *rig);
	rig->ssds = ssds;
	backend_up(rig);
	snprintf(config.device, sizeof config.device, "soft:memory,size=%u,cache=16M%s%s",
		 RIG_DISK_BYTES, *options ? "," : "", options);
	for (uint32_t d = 0; d < ssds; d++)
		ssd_up(rig, d, &config);
}

void rig_up_faulty(struct rig *rig, uint32_t ssds, const char *options, const char *script,
		   uint32_t entries, uint64_t timeout_ns)
{
	char file[] = "/tmp/headrace-faults-XXXXXX", all[HR_DEVICE_MAX];
	const int fd = mkstemp(file);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, script, strlen(script)), (ssize_t)strlen(script));
	close(fd);
	snprintf(all, sizeof all, "%s,faults=%s", options, file);
	rig_up(rig, ssds, all, entries, timeout_ns);
	unlink(file);
}

void rig_share_variables(struct rig *rig)
{
	const uintptr_t page = HR_PAGE - 1;
	const uintptr_t from = (uintptr_t)__data_start & ~page;
	const uintptr_t to = ((uintptr_t)_end + page) & ~page;
	struct hr_backend *b = &rig->backend;
	void *worker = NULL;

	if (b->lanes == 1)
		return;
	cr_assert_eq(b->ops->attach(b, (void *)from, to - from, false, &worker), 0);
	cr_assert_eq((uintptr_t)worker, from, "this GPU has other addresses for host memory");
}

void rig_down(struct rig *rig)
{
	for (uint32_t d = 0; d < rig->ssds; d++) {
		struct hr_ssd *ssd = &rig->ssd[d];

		rig->backend.ops->detach(&rig->backend, (void *)(uintptr_t)ssd->transport.bar);
		ssd->transport.ops->unmap(&ssd->transport, &rig->memory.region[HR_PLACE_HOST]);
		hr_ssd_down(ssd);
	}
	hr_places_give(&rig->memory);
	rig->backend.ops->close(&rig->backend);
}

/* Memory of a place for the current run; offset within it in *offset. */
static void *take(struct rig *rig, enum hr_place place, size_t bytes, size_t *offset)
{
	const size_t at = rig->used[place];

	rig->used[place] = at + ((bytes + HR_PAGE - 1) & ~(size_t)(HR_PAGE - 1));
	cr_assert_leq(rig->used[place], rig->memory.region[place].bytes);
	if (offset)
		*offset = at;
	if (!rig->memory.region[place].cpu) /* memory of a GPU; what lies there is noise by now */
		return NULL;
	return memset((uint8_t *)rig->memory.region[place].cpu + at, 0, bytes);
}

/* Where workers see what take() has given; NULL stays NULL. */
static void *worker_of(const struct rig *rig, enum hr_place place, const void *cpu)
{
	const struct hr_region *region = &rig->memory.region[place];

	return cpu ? (uint8_t *)region->worker + ((const uint8_t *)cpu - (uint8_t *)region->cpu)
		   : NULL;
}

static uint64_t whole_blocks(const struct rig *rig, uint64_t bytes)
{
	const uint64_t mask = ((uint64_t)1 << rig->lba_shift) - 1;

	return (bytes + mask) & ~mask;
}

static void put_source(struct rig *rig, uint32_t s, const struct rig_work *work)
{
	struct hr_blk *blk = &rig->ssd[s % rig->ssds].disk.blk;
	const uint64_t bytes = whole_blocks(rig, work->bytes[s]);
	uint8_t *data = malloc(bytes + 1);

	cr_assert_not_null(data);
	cr_assert_leq(bytes, RIG_OBJECT);
	memset(data, 0x3c, bytes + 1);
	memcpy(data, work->in[s], work->bytes[s]);
	if (bytes)
		cr_assert_eq(blk->ops->write(blk, (uint64_t)s * RIG_OBJECT, data, bytes, false), 0);
	free(data);
}

static void poison_sink(struct rig *rig)
{
	struct hr_blk *blk = &rig->ssd[0].disk.blk;
	uint8_t *data = malloc(RIG_OBJECT);

	cr_assert_not_null(data);
	memset(data, RIG_POISON, RIG_OBJECT);
	cr_assert_eq(blk->ops->write(blk, RIG_SINK_AT, data, RIG_OBJECT, false), 0);
	free(data);
}

static void wire_extent(const struct rig *rig, struct hr_extent *extent, uint32_t d, uint64_t id,
			uint64_t at, uint64_t bytes)
{
	const struct hr_ssd *ssd = &rig->ssd[d];

	extent->id = id;
	extent->lba = at >> rig->lba_shift;
	extent->bytes = bytes;
	extent->capacity = whole_blocks(rig, bytes);
	extent->nsid = ssd->ns.nsid;
	extent->lba_shift = rig->lba_shift;
	extent->ssd = d;
	extent->chunk_bytes = ssd->chunk_bytes;
}

static void wire_buffer(struct rig *rig, struct hr_buffer *buffer, uint32_t tile_bytes)
{
	const uint32_t bytes = hr_plan_tile_bytes(tile_bytes), chunk = rig->ssd[0].chunk_bytes;
	const struct hr_region *region = &rig->memory.region[HR_PLACE_HOST];
	size_t offset, prps;
	struct hr_prp *entry =
		take(rig, HR_PLACE_WORKER, hr_chunk_count(bytes, chunk) * sizeof *entry, NULL);

	memset(take(rig, HR_PLACE_HOST, bytes, &offset), 0x77, bytes);
	take(rig, HR_PLACE_HOST, hr_buffer_prp_bytes(bytes, chunk), &prps);
	hr_buffer_init(buffer, region, offset, bytes, chunk, region, prps, entry);
	buffer->chunk = worker_of(rig, HR_PLACE_WORKER, entry);
}

static void wire_slots(struct rig *rig, const struct rig_work *work)
{
	struct hr_pipe *pipe = rig->pipe;

	pipe->written = take(rig, HR_PLACE_CONTROL, work->slots * sizeof *pipe->written, NULL);
	pipe->slot = take(rig, HR_PLACE_WORKER, work->slots * sizeof *pipe->slot, NULL);
	for (uint32_t i = 0; i < work->slots; i++) {
		struct hr_slot *slot = &pipe->slot[i];

		pipe->written[i] = work->first_tile;
		for (uint32_t s = 0; s < work->sources; s++)
			wire_buffer(rig, &slot->in[s], work->tile_bytes[s]);
		if (pipe->has_sink)
			wire_buffer(rig, &slot->out, pipe->sink_tile_bytes);
	}
}

static void wire_work(struct rig *rig, const struct rig_work *work)
{
	const struct hr_operator *op = hr_op_get(work->op);
	struct hr_pipe *pipe = rig->pipe;

	pipe->op = work->op;
	pipe->tiles = (work->bytes[0] + work->tile_bytes[0] - 1) / work->tile_bytes[0];
	pipe->first_tile = pipe->next_tile = work->first_tile;
	pipe->slots = work->slots;
	pipe->sources = work->sources;
	for (uint32_t s = 0; s < work->sources; s++) {
		wire_extent(rig, &pipe->source[s].extent, s % rig->ssds, RIG_OBJECT_ID(s),
			    (uint64_t)s * RIG_OBJECT, work->bytes[s]);
		pipe->source[s].tile_bytes = work->tile_bytes[s];
		pipe->source[s].queue = s % rig->ssds;
	}
	pipe->read_queues = work->sources < rig->ssds ? work->sources : rig->ssds;
	pipe->has_sink = op->output == HR_OUT_DATA;
	if (pipe->has_sink) {
		rig->sink_bytes = work->bytes[0] / op->out_den * op->out_num;
		pipe->sink_tile_bytes = work->tile_bytes[0] / op->out_den * op->out_num;
		wire_extent(rig, &pipe->sink, 0, RIG_SINK_ID, RIG_SINK_AT, rig->sink_bytes);
		pipe->flush_at_end = rig->ssd[0].ctrl->volatile_cache;
	}
	for (int role = 0; role < HR_ROLES; role++) {
		pipe->blocks[role] = work->blocks[role];
		pipe->workers[role] = work->workers ? work->workers : rig->warps;
	}
	if (!pipe->has_sink)
		pipe->blocks[HR_ROLE_WRITEBACK] = 0;
}

static uint32_t workers(const struct hr_pipe *pipe, enum hr_role role)
{
	return pipe->blocks[role] * pipe->workers[role];
}

/* Memory that only workers reach, as they see it. */
static void *take_gpu(struct rig *rig, size_t bytes)
{
	size_t at;

	take(rig, HR_PLACE_GPU, bytes, &at);
	return (uint8_t *)rig->memory.region[HR_PLACE_GPU].worker + at;
}

/* Copies of the tiles of all sources, and of the output where it has a checksum. */
static void wire_copies(struct rig *rig, const struct rig_work *work)
{
	struct hr_pipe *pipe = rig->pipe;

	if (!work->copies && !rig->copy)
		return;
	if (pipe->has_sink && work->checksums)
		pipe->out_copy_bytes = hr_plan_tile_bytes(pipe->sink_tile_bytes);
	pipe->copy_bytes = pipe->out_copy_bytes;
	for (uint32_t s = 0; s < work->sources; s++) {
		if (work->direct >> s & 1)
			continue;
		pipe->source[s].copied = true;
		pipe->copy_bytes += hr_plan_tile_bytes(work->tile_bytes[s]);
	}
	pipe->copy = take_gpu(rig, pipe->copy_bytes * pipe->blocks[HR_ROLE_COMPUTE]);
}

/* Words of checksums, poisoned. */
static uint32_t *take_checksums(struct rig *rig)
{
	const size_t bytes = rig->pipe->tiles * sizeof(uint32_t);

	return memset(take(rig, HR_PLACE_CONTROL, bytes, NULL), RIG_POISON, bytes);
}

static void wire_checksums(struct rig *rig, const struct rig_work *work)
{
	struct hr_pipe *pipe = rig->pipe;

	pipe->checksums = work->checksums;
	if (!work->checksums)
		return;
	for (uint32_t s = 0; s < work->sources; s++)
		pipe->source[s].crc = take_checksums(rig);
	if (pipe->has_sink)
		pipe->sink_crc = take_checksums(rig);
}

static void wire_memory(struct rig *rig, const struct rig_work *work)
{
	const struct hr_operator *op = hr_op_get(work->op);
	struct hr_pipe *pipe = rig->pipe;

	pipe->state_bytes = hr_op_state_bytes(op, work->args);
	pipe->record_bytes = op->tile_record_bytes;
	pipe->op_args = take(rig, HR_PLACE_WORKER, work->args_bytes, NULL);
	if (work->args_bytes)
		memcpy(pipe->op_args, work->args, work->args_bytes);
	pipe->op_states = take_gpu(rig, (size_t)pipe->state_bytes * workers(pipe, HR_ROLE_COMPUTE));
	wire_copies(rig, work);
	wire_checksums(rig, work);
	pipe->op_records = take(rig, HR_PLACE_WORKER, pipe->record_bytes * pipe->tiles, NULL);
	memset(pipe->op_records, RIG_POISON, pipe->record_bytes * pipe->tiles);
	pipe->op_result = take(rig, HR_PLACE_WORKER, HR_OP_RESULT_MAX, NULL);
	pipe->control = take(rig, HR_PLACE_CONTROL, sizeof *pipe->control, NULL);
	pipe->status =
		take(rig, HR_PLACE_CONTROL, hr_pipe_statuses(pipe) * sizeof *pipe->status, NULL);
}

static struct hr_nvme_qp *create_qps(struct rig *rig, uint32_t workers, uint32_t queues)
{
	struct hr_nvme_qp *qp =
		take(rig, HR_PLACE_WORKER, (workers * queues + 1) * sizeof *qp, NULL);

	for (uint32_t i = 0; i < workers * queues; i++) {
		struct hr_ssd *ssd = &rig->ssd[i % queues];
		struct hr_ssd_qp_place place = {
			.rings = &rig->memory.region[HR_PLACE_HOST],
			.tables = &rig->memory.region[HR_PLACE_WORKER],
			.bar = rig->bar[i % queues],
		};

		take(rig, HR_PLACE_WORKER, hr_plan_table_bytes(ssd->queue_entries),
		     &place.table_at);
		take(rig, HR_PLACE_HOST, hr_plan_ring_bytes(ssd->queue_entries), &place.ring_at);
		cr_assert_eq(hr_ssd_create_qp(ssd, &qp[i], &place), 0);
	}
	return qp;
}

/* The descriptor as workers read it. */
static struct hr_pipe *publish(struct rig *rig)
{
	struct hr_pipe *pipe = take(rig, HR_PLACE_WORKER, sizeof *pipe, NULL);

	rig->published = pipe;
	*pipe = rig->view;
	pipe->slot = worker_of(rig, HR_PLACE_WORKER, pipe->slot);
	pipe->read_qp = worker_of(rig, HR_PLACE_WORKER, pipe->read_qp);
	pipe->write_qp = worker_of(rig, HR_PLACE_WORKER, pipe->write_qp);
	pipe->op_args = worker_of(rig, HR_PLACE_WORKER, pipe->op_args);
	pipe->op_records = worker_of(rig, HR_PLACE_WORKER, pipe->op_records);
	pipe->op_result = worker_of(rig, HR_PLACE_WORKER, pipe->op_result);
	pipe->control = worker_of(rig, HR_PLACE_CONTROL, pipe->control);
	pipe->status = worker_of(rig, HR_PLACE_CONTROL, pipe->status);
	pipe->written = worker_of(rig, HR_PLACE_CONTROL, pipe->written);
	for (uint32_t s = 0; s < pipe->sources; s++)
		pipe->source[s].crc = worker_of(rig, HR_PLACE_CONTROL, pipe->source[s].crc);
	pipe->sink_crc = worker_of(rig, HR_PLACE_CONTROL, pipe->sink_crc);
	return worker_of(rig, HR_PLACE_WORKER, pipe);
}

void rig_start(struct rig *rig, const struct rig_work *work)
{
	struct hr_pipe *pipe = &rig->view;

	memset(rig->used, 0, sizeof rig->used);
	memset(&rig->view, 0, sizeof rig->view);
	rig->pipe = &rig->view;
	for (uint32_t s = 0; s < work->sources; s++)
		put_source(rig, s, work);
	if (!work->keep_sink)
		poison_sink(rig);
	wire_work(rig, work);
	wire_memory(rig, work);
	wire_slots(rig, work);
	pipe->read_qp = create_qps(rig, workers(pipe, HR_ROLE_PREFETCH), pipe->read_queues);
	pipe->write_qp = create_qps(rig, workers(pipe, HR_ROLE_WRITEBACK), 1);
	pipe = publish(rig);
	cr_assert_eq(hr_places_upload(&rig->memory), 0);
	cr_assert_eq(rig->backend.ops->launch(&rig->backend, HR_KERNEL_PIPE, pipe,
					      hr_pipe_blocks(&rig->view), rig->threads,
					      work->checksums ? HR_CHECKSUM_MEMORY : 0),
		     0);
}

/* A lost command or a broken queue: the controller is disabled, not asked to delete queues. */
static void mark_failed(struct rig *rig)
{
	const struct hr_pipe *pipe = rig->pipe;
	const uint32_t reads = workers(pipe, HR_ROLE_PREFETCH) * pipe->read_queues;

	for (uint32_t i = 0; i < reads; i++)
		if (pipe->read_qp[i].broken || pipe->read_qp[i].stats.lost)
			hr_ssd_fail(&rig->ssd[i % pipe->read_queues]);
	for (uint32_t i = 0; i < workers(pipe, HR_ROLE_WRITEBACK); i++)
		if (pipe->write_qp[i].broken || pipe->write_qp[i].stats.lost)
			hr_ssd_fail(&rig->ssd[0]);
}

void rig_wait(struct rig *rig)
{
	const uint64_t end = hr_now_ns() + PATIENCE_NS;
	int ended;

	while ((ended = rig->backend.ops->poll(&rig->backend)) == 0 && hr_now_ns() < end)
		hr_wait_ns(POLL_NS);
	cr_assert_eq(ended, 1, "the pipeline does not end");
	for (uint32_t i = 0; i < hr_pipe_statuses(rig->pipe); i++)
		cr_assert_eq(hr_acquire_sys_u32(&rig->pipe->status[i].done), 1);
	cr_assert_eq(hr_places_download(&rig->memory), 0);
	rig->view.next_tile = rig->published->next_tile;
	mark_failed(rig);
	for (uint32_t d = 0; d < rig->ssds; d++)
		cr_assert_eq(hr_ssd_delete_qps(&rig->ssd[d]), 0);
}

const struct hr_failure *rig_failure(const struct rig *rig)
{
	for (uint32_t i = 0; i < hr_pipe_statuses(rig->pipe); i++)
		if (hr_acquire_sys_u32(&rig->pipe->status[i].failed))
			return &rig->pipe->status[i].failure;
	return NULL;
}

uint64_t rig_tiles(const struct rig *rig, enum hr_role role)
{
	const struct hr_pipe *pipe = rig->pipe;
	const uint32_t end = hr_pipe_first_status(pipe, (uint32_t)role + 1);
	uint64_t sum = 0;

	for (uint32_t i = hr_pipe_first_status(pipe, role); i < end; i++)
		sum += hr_acquire_sys_u64(&pipe->status[i].tiles);
	return sum;
}

uint64_t rig_errors(const struct rig *rig)
{
	struct hr_soft_stats stats;
	uint64_t sum = 0;

	for (uint32_t d = 0; d < rig->ssds; d++) {
		hr_soft_stats(&rig->ssd[d].transport, &stats);
		sum += stats.errors;
	}
	return sum;
}

uint8_t *rig_read_sink(struct rig *rig, uint64_t bytes)
{
	struct hr_blk *blk = &rig->ssd[0].disk.blk;
	uint8_t *data = malloc(bytes + 1);

	cr_assert_not_null(data);
	cr_assert_eq(blk->ops->read(blk, RIG_SINK_AT, data, bytes), 0);
	return data;
}
