/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/layout/sizes.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "gpu/backend.h"
#include "nvme/soft/soft.h"
#include "tests/harness/error.h"

#define PLACE_BYTES (1u << 20)
#define TIMEOUT_NS (60 * HR_NS_PER_S)
#define POLL_NS 200000u

uint64_t rig_place_bytes[HR_PLACES] = { PLACE_BYTES, PLACE_BYTES, PLACE_BYTES, PLACE_BYTES };

extern char __data_start[], _end[]; /* from the linker: the program's own variables */

static uint32_t number(const char *name, uint32_t otherwise)
{
	const char *value = getenv(name);

	return value ? (uint32_t)strtoul(value, NULL, 10) : otherwise;
}

static void backend_up(struct rig *rig)
{
	uint64_t bytes[HR_PLACES];
	struct hr_backend *b = &rig->backend;
	const char *device = getenv("RIG_DEVICE");

	cr_assert_eq(hr_backend_open(b, device ? device : "host:2", RIG_BLOCKS_MAX, test_error()),
		     0, "%s", test_error_text());
	rig->threads = b->lanes == 1 ? 1 : number("RIG_THREADS", b->lanes);
	rig->warps = rig->threads / b->lanes;
	rig->copy = b->lanes > 1 && number("RIG_COPY", 0);
	for (int place = 0; place < HR_PLACES; place++)
		bytes[place] = rig_place_bytes[place] * rig->warps;
	cr_assert_eq(hr_places_alloc(&rig->memory, b, bytes, NULL), 0);
}

static void ssd_up(struct rig *rig, uint32_t d, const struct hr_config_ssd *config)
{
	struct hr_backend *b = &rig->backend;
	struct hr_ssd *ssd = &rig->ssd[d];
	struct hr_transport *t = &ssd->transport;

	cr_assert_eq(hr_ssd_up(ssd, config, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(t->ops->map(t, &rig->memory.region[HR_PLACE_HOST], NULL), 0);
	cr_assert_eq(b->ops->attach(b, (void *)(uintptr_t)t->bar, t->bar_bytes, !t->bar_is_memory,
				    &rig->bar[d], NULL),
		     0);
	rig->lba_shift = ssd->ns.lba_shift;
}

void rig_up(struct rig *rig, uint32_t ssds, const char *options, uint32_t entries,
	    uint64_t timeout_ns)
{
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = entries,
					.timeout_ns = timeout_ns,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };

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
	cr_assert_eq(b->ops->attach(b, (void *)from, to - from, false, &worker, NULL), 0);
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
	hr_places_free(&rig->memory);
	rig->backend.ops->close(&rig->backend);
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
		cr_assert_eq(
			blk->ops->write(blk, (uint64_t)s * RIG_OBJECT, data, bytes, false, NULL),
			0);
	free(data);
}

static void poison_sink(struct rig *rig)
{
	struct hr_blk *blk = &rig->ssd[0].disk.blk;
	uint8_t *data;

	rig->sink_room = whole_blocks(rig, rig->sink_bytes) + RIG_BEHIND;
	data = malloc(rig->sink_room);
	cr_assert_not_null(data);
	memset(data, RIG_POISON, rig->sink_room);
	cr_assert_eq(blk->ops->write(blk, RIG_SINK_AT, data, rig->sink_room, false, NULL), 0);
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
	pipe->state_bytes = hr_op_state_bytes(op, work->args);
	pipe->record_bytes = op->tile_record_bytes;
}

/* Set up copies of the tiles of all sources, and of the output if it has a checksum. */
static void wire_copies(struct rig *rig, const struct rig_work *work)
{
	struct hr_pipe *pipe = rig->pipe;

	if (!work->copies && !rig->copy)
		return;
	if (pipe->has_sink && work->checksums)
		pipe->out_copy_bytes = hr_layout_tile_bytes(pipe->sink_tile_bytes);
	pipe->copy_bytes = pipe->out_copy_bytes;
	for (uint32_t s = 0; s < work->sources; s++) {
		if (work->direct >> s & 1)
			continue;
		pipe->source[s].copied = true;
		pipe->copy_bytes += hr_layout_tile_bytes(work->tile_bytes[s]);
	}
}

static void plan(struct rig *rig, const struct rig_work *work)
{
	static const uint64_t no_limit[HR_PLACES];
	struct hr_pipe_layout *layout = &rig->layout;
	struct hr_pipe *pipe = rig->pipe;

	*layout = (struct hr_pipe_layout){ .pipe = pipe,
					   .args = work->args,
					   .args_bytes = work->args_bytes };
	pipe->checksums = work->checksums;
	for (uint32_t s = 0; s < work->sources; s++)
		layout->source[s] = (struct hr_pipe_tiles){ .object = "source",
							    .place = HR_PLACE_HOST,
							    .summed = work->checksums };
	layout->sink = (struct hr_pipe_tiles){ .object = "sink",
					       .place = HR_PLACE_HOST,
					       .summed = work->checksums && pipe->has_sink };
	for (uint32_t d = 0; d < rig->ssds; d++)
		layout->read[d] = (struct hr_pipe_queues){ .ssd = &rig->ssd[d],
							   .name = "ssd",
							   .place = HR_PLACE_HOST,
							   .bar = rig->bar[d] };
	layout->write = layout->read[0];
	hr_partition_init(&rig->partition, no_limit);
	cr_assert_eq(hr_pipe_layout_plan(layout, &rig->partition, "rig"), 0);
	for (int place = 0; place < HR_PLACES; place++)
		cr_assert_leq(rig->partition.used[place], rig->memory.region[place].bytes);
	hr_partition_bind(&rig->partition, rig->memory.region);
}

/* Zero the memory: an earlier run has left random data in GPU memory. */
static void clear(const struct rig *rig)
{
	for (int place = 0; place < HR_PLACES; place++)
		if (rig->memory.region[place].cpu)
			memset(rig->memory.region[place].cpu, 0, rig->partition.used[place]);
}

static void fill_part(const struct rig *rig, int part, int byte)
{
	memset(hr_partition_cpu(&rig->partition, part), byte, rig->partition.part[part].bytes);
}

/* Fill the memory with a pattern, so that bytes which workers do not write are detected. */
static void poison(const struct rig *rig)
{
	const struct hr_pipe *pipe = rig->pipe;

	for (uint32_t s = 0; s < pipe->sources; s++)
		fill_part(rig, rig->layout.source[s].part, 0x77);
	if (pipe->has_sink)
		fill_part(rig, rig->layout.sink.part, 0x77);
	if (rig->layout.checksums >= 0)
		fill_part(rig, rig->layout.checksums, RIG_POISON);
	if (pipe->op_records)
		memset(pipe->op_records, RIG_POISON, pipe->record_bytes * pipe->tiles);
}

static uint32_t blocks_of(const struct hr_pipe *pipe)
{
	uint32_t blocks = 0;

	for (uint32_t role = 0; role < HR_ROLES; role++)
		blocks += pipe->blocks[role];
	return blocks;
}

void rig_start(struct rig *rig, const struct rig_work *work)
{
	struct hr_launch_args args;

	memset(&rig->view, 0, sizeof rig->view);
	rig->pipe = &rig->view;
	for (uint32_t s = 0; s < work->sources; s++)
		put_source(rig, s, work);
	wire_work(rig, work);
	if (rig->view.has_sink && !work->keep_sink)
		poison_sink(rig);
	wire_copies(rig, work);
	plan(rig, work);
	clear(rig);
	cr_assert_eq(hr_pipe_layout_wire(&rig->layout, &rig->published, NULL), 0);
	poison(rig);
	args = (struct hr_launch_args){
		.entry = HR_ENTRY_PIPE,
		.argument = hr_partition_worker(&rig->partition, rig->layout.descriptor),
		.blocks = blocks_of(&rig->view),
		.threads = rig->threads,
		.shared_bytes = work->checksums ? HR_CHECKSUM_MEMORY : 0,
	};
	cr_assert_eq(hr_layout_upload(&rig->layout.parts, &rig->memory, NULL), 0);
	cr_assert_eq(rig->backend.ops->launch(&rig->backend, &args, &rig->launch, NULL), 0);
}

/*
 * After a lost command or a broken queue the controller is disabled, and not asked to delete
 * queues.
 */
static void mark_failed(struct rig *rig)
{
	const struct hr_pipe *pipe = rig->pipe;
	const uint32_t reads = hr_pipe_workers(pipe, HR_ROLE_PREFETCH) * pipe->read_queues;

	for (uint32_t i = 0; i < reads; i++)
		hr_health_take_qp(&rig->ssd[i % pipe->read_queues].health, &pipe->read_qp[i]);
	for (uint32_t i = 0; i < hr_pipe_workers(pipe, HR_ROLE_WRITEBACK); i++)
		hr_health_take_qp(&rig->ssd[0].health, &pipe->write_qp[i]);
}

void rig_wait(struct rig *rig)
{
	const uint64_t end = hr_now_ns() + TIMEOUT_NS;

	cr_assert_eq(hr_launch_wait(rig->launch, end, POLL_NS, NULL), 1,
		     "the pipeline does not end");
	hr_launch_free(rig->launch);
	for (uint32_t i = 0; i < hr_pipe_statuses(rig->pipe); i++)
		cr_assert_eq(hr_acquire_sys_u32(&rig->pipe->status[i].ended), 1);
	cr_assert_eq(hr_layout_download(&rig->layout.parts, &rig->memory, NULL), 0);
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
	cr_assert_eq(blk->ops->read(blk, RIG_SINK_AT, data, bytes, NULL), 0);
	return data;
}
