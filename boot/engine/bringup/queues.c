/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/bringup/stage.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/shape/shape.h"
#include "boot/engine/objects/checksums.h"
#include "boot/engine/object_users.h"
#include "config/base/process.h"
#include "boot/engine/objects/shards.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "boot/engine/layout/sizes.h"
#include "gpu/ops/operators.h"

/* Workers count tiles in the whole data set, so byte 0 of the extent is that of the data set. It lies
 * before the object, perhaps before the ssd: addresses are modulo 2^64. */
static void widen(struct hr_extent *extent, uint64_t at, uint64_t bytes)
{
	extent->lba -= at >> extent->lba_shift;
	extent->bytes = bytes;
}

/* Set the fields of the descriptor that were unknown when it was planned. */
static void wire_work(const struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_pipeline *c = run->config;
	struct hr_pipe *pipe = &run->cpu;

	pipe->first_tile = pipe->next_tile = run->first_tile;
	for (uint32_t s = 0; s < hr_config_source_objects(c); s++) {
		hr_run_extent(engine, c->source[s].ssd, run->source[s].id, &pipe->source[s].extent);
		if (run->of_shards)
			widen(&pipe->source[s].extent, run->source[s].at, run->source[s].bytes);
		pipe->source[s].copied =
			run->copies && !engine->path[c->gpu][c->source[s].ssd].direct;
		run->layout.source[s].summed &= run->source[s].verify.check == HR_SOURCE_UNREAD;
	}
	for (uint32_t q = 0; q < run->ssds; q++)
		run->layout.read[q].bar = engine->bar[c->gpu][run->ssd[q]];
	if (c->has_sink) {
		hr_run_extent(engine, c->sink.ssd, run->sink_id, &pipe->sink);
		if (hr_run_is_divided(run))
			widen(&pipe->sink, hr_run_sink_at(run), run->sink_bytes);
		pipe->flush_at_end = engine->ssd[c->sink.ssd].ctrl->volatile_cache;
		run->layout.write.bar = engine->bar[c->gpu][c->sink.ssd];
	}
	if (hr_config_has_feed(c)) {
		pipe->source[0].extent.bytes = run->source[0].bytes;
		pipe->source[0].copied = run->copies;
	}
	if (hr_config_has_tap(c))
		pipe->sink.bytes = run->sink_bytes;
	pipe->op = hr_op_id_of(c->op);
	pipe->checksums = hr_run_checksums(run);
	pipe->out_copy_bytes = run->stages ? hr_layout_tile_bytes(run->sink_tile_bytes) : 0;
}

static int wire_access(struct hr_engine *engine, struct hr_run *run)
{
	struct hr_access_layout *layout[HR_GPUS_MAX];
	int err = 0;

	hr_access_complete(engine, run);
	for (uint32_t p = 0; !err && p < hr_run_gpus(run); p++) {
		layout[p] = &run->gpu[p].layout;
		err = hr_access_layout_wire(layout[p], &run->gpu[p].access, &engine->error);
	}
	if (!err && hr_run_gpus(run) > 1)
		hr_access_layout_join(layout);
	return err;
}

static int wire_run(struct hr_engine *engine, struct hr_run *run)
{
	if (run->config->objects)
		return wire_access(engine, run);
	wire_work(engine, run);
	return hr_pipe_layout_wire(&run->layout, &run->pipe, &engine->error);
}

bool hr_queues_fewer(struct hr_engine *engine, uint32_t d, uint32_t before)
{
	const uint32_t have = hr_ssd_queues(&engine->ssd[d]);

	if (have >= before)
		return false;
	hr_warn("%s; going on with %u", engine->error.text, have);
	hr_error_clear(&engine->error);
	return true;
}

int hr_queues_up(struct hr_engine *engine)
{
	uint32_t before[HR_SSDS_MAX] = { 0 };
	int err = 0;

	for (uint32_t d = 0; d < engine->config.ssds; d++)
		before[d] = hr_ssd_queues(&engine->ssd[d]);

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		if (engine->run[i].selected && engine->run[i].outcome == HR_RUN_WAITING)
			err = hr_signals_pending() ? -EINTR : wire_run(engine, &engine->run[i]);
	if (!err)
		hr_seal();
	for (uint32_t d = 0; err && d < engine->config.ssds; d++)
		if (hr_queues_fewer(engine, d, before[d]))
			return -EAGAIN;
	return err;
}

void hr_queues_down(struct hr_engine *engine)
{
	hr_unseal();
	for (uint32_t d = engine->config.ssds; d-- > 0;) {
		if (hr_ssd_delete_qps(&engine->ssd[d]) != 0 &&
		    hr_first_of_controller(engine, d) == d)
			hr_warn("%s: the controller does not stop; the memory of its queues stays "
				"allocated",
				engine->ssd[d].transport.name);
	}
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		engine->run[i].pipe = NULL;
		for (uint32_t p = 0; p < HR_GPUS_MAX; p++)
			engine->run[i].gpu[p].access = NULL;
	}
}
