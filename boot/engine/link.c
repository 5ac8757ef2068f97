/*
 * User operators of the selected pipelines, made ready on the gpus that run them.
 */
#include "boot/engine/link.h"

#include <errno.h>

#include "boot/engine/mistake.h"

static const struct hr_config_operator *find(const struct hr_config *config,
					     const struct hr_operator *op)
{
	uint32_t i = 0;

	while (config->op[i].op != op)
		i++;
	return &config->op[i];
}

static int link_run(struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_operator *op = run->config->op;
	struct hr_backend *backend = &app->backend[run->config->gpu];
	char message[HR_LOG_LINE_MAX] = "";
	int err = backend->ops->link(backend, op, &run->kernel, &run->kernel_threads, message);

	if (err) {
		const struct hr_config_operator *from = find(&app->config, op);

		hr_mistake_at(app, from->line,
			      "operator '%s' of '%.400s' cannot be used on gpu '%s' (%s): %s",
			      op->name, from->file, app->config.gpu[run->config->gpu].name,
			      backend->name, message);
	}
	return err;
}

int hr_operators_link(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < app->config.pipelines; i++) {
		struct hr_run *run = &app->run[i];

		run->kernel = HR_KERNEL_PIPE;
		run->kernel_threads = 0;
		if (run->selected && !hr_op_built_in(run->config->op))
			err = link_run(app, run);
	}
	return err;
}
