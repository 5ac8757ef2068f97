/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/bringup/stage.h"

#include <errno.h>
#include <stdio.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/concurrency.h"
#include "boot/engine/shape/gpu_sharing.h"
#include "config/base/log.h"
#include "config/derived.h"

static uint32_t at_least_one(uint32_t blocks)
{
	return blocks ? blocks : 1;
}

/* Blocks that the backend must provide. Only the host backend uses this, because it starts a
 * thread for each block. */
static uint32_t blocks_needed(const struct hr_engine *engine, uint32_t gpu)
{
	uint32_t blocks[HR_PIPELINES_MAX] = { 0 };
	hr_pipeline_set them;
	uint64_t most;

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_config_pipeline *p = engine->run[i].config;

		blocks[i] = at_least_one(p->compute_blocks) +
			    at_least_one(p->objects ? p->io_blocks : p->prefetch_blocks);
		if (hr_config_has_output(p))
			blocks[i] += at_least_one(p->writeback_blocks);
	}
	most = hr_concurrency_blocks(engine, gpu, blocks, &them);
	return most > engine->min_blocks ? (uint32_t)most : engine->min_blocks;
}

/* Reserve blocks for all launches that may run at the same time. */
static int reserve_launches(struct hr_engine *engine, uint32_t g)
{
	struct hr_backend *b = &engine->backend[g];
	const uint32_t beside = hr_concurrency_most(engine, g);

	return beside > 1 && b->ops->reserve ? b->ops->reserve(b, beside, &engine->error) : 0;
}

static int open_backend(struct hr_engine *engine, uint32_t g)
{
	const struct hr_config_gpu *gpu = &engine->config.gpu[g];
	struct hr_error e = { 0 };
	int err = hr_backend_open(&engine->backend[g], gpu->device, blocks_needed(engine, g), &e);

	if (err)
		return hr_fail(&engine->error, e.kind, err, "%s:%u: gpu '%s': %s",
			       engine->config.file, gpu->line, gpu->name, e.text);
	engine->gpu_up[g] = true;
	if (engine->backend[g].note[0])
		hr_info("gpu '%s': %s", gpu->name, engine->backend[g].note);
	if (engine->config.path == HR_PATH_DIRECT && engine->backend[g].lanes == 1 &&
	    !engine->backend[g].peer[0])
		return hr_fail(
			&engine->error, HR_ERROR_MISSING, -ENOTSUP,
			"%s:%u: memory.path is \"direct\", but gpu '%s' is %s: worker blocks are "
			"CPU threads and there is no GPU memory for an ssd to write to; expected "
			"\"auto\" or \"bounce\", or a device with bar=BDF",
			engine->config.file, gpu->line, gpu->name, engine->backend[g].name);
	return reserve_launches(engine, g);
}

static int check_shares(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		if (engine->run[i].selected && hr_config_has_tap(engine->run[i].config))
			err = hr_run_gpu_sharing_check(engine, &engine->run[i]);
	return err;
}

int hr_backends_up(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < engine->config.gpus; g++)
		if (engine->gpu_used[g])
			err = open_backend(engine, g);
	if (!err)
		err = check_shares(engine);
	return err ? err : hr_operators_build_images(engine);
}

void hr_backends_down(struct hr_engine *engine)
{
	for (uint32_t g = engine->config.gpus; g-- > 0;) {
		if (engine->gpu_up[g])
			engine->backend[g].ops->close(&engine->backend[g]);
		engine->gpu_up[g] = false;
	}
}
