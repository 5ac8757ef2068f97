/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Link the user operators of the selected pipelines on the gpus that run them.
 */
#include "boot/engine/bringup/stage.h"

#include <errno.h>

#include "config/derived.h"

static const struct hr_config_operator *find_user_operator(const struct hr_config *config,
							   const struct hr_operator *op)
{
	uint32_t i = 0;

	while (config->op[i].op != op)
		i++;
	return &config->op[i];
}

static int link_part(struct hr_engine *engine, struct hr_run *run, uint32_t p)
{
	const uint32_t g = hr_config_gpu(run->config, p);
	const struct hr_operator *op = run->config->op;
	struct hr_backend *backend = &engine->backend[g];
	struct hr_run_gpu *gpu = &run->gpu[p];
	struct hr_error e = { 0 };
	int err = 0;

	gpu->entry = run->config->objects ? HR_ENTRY_ACCESS : HR_ENTRY_PIPE;
	gpu->entry_threads = 0;
	if (run->selected && !hr_op_built_in(op))
		err = backend->ops->link(backend, op, &gpu->entry, &gpu->entry_threads, &e);

	if (hr_config_has_feed(run->config))
		gpu->entry = hr_entry_with_feed(gpu->entry);
	else if (hr_config_has_tap(run->config))
		gpu->entry = hr_entry_with_tap(gpu->entry);
	if (err) {
		const struct hr_config_operator *from = find_user_operator(&engine->config, op);

		hr_error_add(&engine->error, err == -EINVAL ? HR_ERROR_USAGE : e.kind, err,
			     "%s:%u: operator '%s' of '%.400s' cannot be used on gpu '%s' (%s): %s",
			     engine->config.file, from->line, op->name, from->file,
			     engine->config.gpu[g].name, backend->name, e.text);
	}
	return err;
}

int hr_operators_build_images(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		for (uint32_t p = 0; !err && p < hr_run_gpus(&engine->run[i]); p++)
			err = link_part(engine, &engine->run[i], p);
	return err;
}
