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
static uint32_t blocks_needed(const struct hr_appliance *app, uint32_t gpu)
{
	uint32_t blocks[HR_PIPELINES_MAX] = { 0 };
	hr_pipelines them;
	uint64_t most;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_config_pipeline *p = app->run[i].config;

		blocks[i] = at_least_one(p->compute_blocks) +
			    at_least_one(p->objects ? p->io_blocks : p->prefetch_blocks);
		if (hr_config_has_output(p))
			blocks[i] += at_least_one(p->writeback_blocks);
	}
	most = hr_schedule_blocks(app, gpu, blocks, &them);
	return most > app->min_blocks ? (uint32_t)most : app->min_blocks;
}

/* Reserve blocks for all launches that may run at the same time. */
static int reserve(struct hr_appliance *app, uint32_t g)
{
	struct hr_backend *b = &app->backend[g];
	const uint32_t beside = hr_schedule_beside(app, g);

	return beside > 1 && b->ops->reserve ? b->ops->reserve(b, beside, &app->error) : 0;
}

static int open_backend(struct hr_appliance *app, uint32_t g)
{
	const struct hr_config_gpu *gpu = &app->config.gpu[g];
	struct hr_error e = { 0 };
	int err = hr_backend_open(&app->backend[g], gpu->device, blocks_needed(app, g), &e);

	if (err)
		return hr_fail(&app->error, e.kind, err, "%s:%u: gpu '%s': %s", app->config.file,
			       gpu->line, gpu->name, e.text);
	app->gpu_up[g] = true;
	if (app->backend[g].note[0])
		hr_info("gpu '%s': %s", gpu->name, app->backend[g].note);
	if (app->config.path == HR_PATH_DIRECT && app->backend[g].lanes == 1 &&
	    !app->backend[g].peer[0])
		return hr_fail(
			&app->error, HR_ERROR_MISSING, -ENOTSUP,
			"%s:%u: memory.path is \"direct\", but gpu '%s' is %s: worker blocks are "
			"CPU threads and there is no GPU memory for an ssd to write to; expected "
			"\"auto\" or \"bounce\", or a device with bar=BDF",
			app->config.file, gpu->line, gpu->name, app->backend[g].name);
	return reserve(app, g);
}

static int check_shares(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < app->config.pipelines; i++)
		if (app->run[i].selected && hr_config_has_tap(app->run[i].config))
			err = hr_run_share_check(app, &app->run[i]);
	return err;
}

int hr_backends_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < app->config.gpus; g++)
		if (app->gpu_used[g])
			err = open_backend(app, g);
	if (!err)
		err = check_shares(app);
	return err ? err : hr_operators_link(app);
}

void hr_backends_down(struct hr_appliance *app)
{
	for (uint32_t g = app->config.gpus; g-- > 0;) {
		if (app->gpu_up[g])
			app->backend[g].ops->close(&app->backend[g]);
		app->gpu_up[g] = false;
	}
}
