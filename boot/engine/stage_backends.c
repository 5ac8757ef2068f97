#include "boot/engine/stage_backends.h"

#include <errno.h>
#include <stdio.h>

#include "boot/engine/link.h"
#include "boot/engine/devices.h"
#include "config/log.h"

static uint32_t at_least_one(uint32_t blocks)
{
	return blocks ? blocks : 1;
}

/* Of a backend that starts a thread for each; a GPU has as many as it holds. */
static uint32_t blocks_needed(const struct hr_appliance *app, uint32_t gpu)
{
	uint32_t most = app->min_blocks;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_config_pipeline *p = app->run[i].config;
		uint32_t blocks =
			at_least_one(p->prefetch_blocks) + at_least_one(p->compute_blocks);

		if (p->has_sink)
			blocks += at_least_one(p->writeback_blocks);
		if (app->run[i].selected && p->gpu == gpu && blocks > most)
			most = blocks;
	}
	return most;
}

static int open_backend(struct hr_appliance *app, uint32_t g)
{
	const struct hr_config_gpu *gpu = &app->config.gpu[g];
	char message[HR_LOG_LINE_MAX] = "";
	int err = hr_backend_open(&app->backend[g], gpu->device, blocks_needed(app, g), message);

	if (err) {
		hr_error("%s:%u: gpu '%s': %s", app->config.file, gpu->line, gpu->name, message);
		return err;
	}
	app->gpu_up[g] = true;
	snprintf(app->gpu_note[g], sizeof app->gpu_note[g], "%s", message);
	if (message[0])
		hr_info("gpu '%s': %s", gpu->name, message);
	if (app->config.path == HR_PATH_DIRECT && app->backend[g].lanes == 1 &&
	    !app->backend[g].peer[0]) {
		hr_error("%s:%u: memory.path is \"direct\", but gpu '%s' is %s: worker blocks are "
			 "CPU threads and there is no GPU memory for an ssd to write to; expected "
			 "\"auto\" or \"bounce\", or a device with bar=BDF",
			 app->config.file, gpu->line, gpu->name, app->backend[g].name);
		return -ENOTSUP;
	}
	return 0;
}

int hr_backends_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < app->config.gpus; g++)
		if (app->gpu_used[g])
			err = open_backend(app, g);
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
