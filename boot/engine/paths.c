/*
 * How each ssd and gpu meet: directly, in the memory of the gpu, or in host memory. The topology
 * engine decides about pairs of PCI functions, the configuration may forbid one or the other, and
 * boot/engine/prove.c tries what was decided before a pipeline relies on it.
 */

#include "boot/engine/paths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/log.h"
#include "pci/path.h"

const char *hr_gpu_address(const struct hr_backend *b)
{
	if (b->peer[0])
		return b->peer;
	return b->facts && b->window ? b->facts->pci : "";
}

static bool uses(const struct hr_run *run, uint32_t g, uint32_t d)
{
	const struct hr_config_pipeline *p = run->config;

	if (!run->selected || p->gpu != g)
		return false;
	for (uint32_t s = 0; s < p->sources; s++)
		if (p->source[s].ssd == d)
			return true;
	return p->has_sink && p->sink.ssd == d;
}

bool hr_pair_used(const struct hr_appliance *app, uint32_t g, uint32_t d)
{
	bool used = false;

	for (uint32_t i = 0; i < app->config.pipelines; i++)
		used |= uses(&app->run[i], g, d);
	return used;
}

/* Which addresses the pair puts on the bus, and who rings doorbells: a GPU does, a BAR does not. */
static enum hr_mode mode_of(const struct hr_backend *b, const struct hr_transport *t)
{
	if (b->peer[0])
		return t->kind == HR_TRANSPORT_VFIO ? HR_MODE_VFIO_HOST : HR_MODE_HOST;
	return t->kind == HR_TRANSPORT_VFIO ? HR_MODE_VFIO : HR_MODE_GPU;
}

/* No pair of functions to ask about, or none that could do it: why, in `why`. */
static bool is_pair(const struct hr_appliance *app, uint32_t g, uint32_t d, struct hr_path *path)
{
	const struct hr_backend *b = &app->backend[g];
	const struct hr_transport *t = &app->ssd[d].transport;
	const char *why = NULL;

	if (t->kind == HR_TRANSPORT_SOFT)
		why = "the ssd is a software controller, which is no PCI function";
	else if (!*hr_gpu_address(b) && b->lanes == 1)
		why = "worker blocks are CPU threads, and host memory is their own";
	else if (!*hr_gpu_address(b))
		why = "no other device can reach the memory of this GPU";
	else if (t->kind == HR_TRANSPORT_PCI && !b->peer[0])
		why = "the GPU's driver does not tell physical addresses: reach the ssd by vfio:";
	snprintf(path->why, sizeof path->why, "%s", why ? why : "");
	return !why;
}

static int ask(const struct hr_appliance *app, uint32_t g, uint32_t d, struct hr_path *path)
{
	const struct hr_transport *t = &app->ssd[d].transport;
	const char *gpu = hr_gpu_address(&app->backend[g]);
	struct hr_path_choice choice;
	const int err = hr_path_choose(gpu, t->name, mode_of(&app->backend[g], t), &choice);

	if (err) {
		hr_error("%s and %s: the topology cannot be judged (%s); 'headrace topo' says "
			 "more; memory.path = \"bounce\" does without",
			 gpu, t->name, strerror(-err));
		return err == -EINVAL ? -ENODEV : err;
	}
	path->direct = choice.direct && app->config.path != HR_PATH_BOUNCE;
	snprintf(path->verdict, sizeof path->verdict, "%s", choice.verdict_text);
	snprintf(path->rule, sizeof path->rule, "%s", choice.rule);
	snprintf(path->why, sizeof path->why, "%s", choice.why);
	snprintf(path->suspect, sizeof path->suspect, "%s", choice.suspect);
	snprintf(path->suspect_why, sizeof path->suspect_why, "%s", choice.suspect_why);
	return 0;
}

/* memory.path = "direct" and memory.queues = "gpu" are demands. */
static int check_demands(const struct hr_appliance *app, uint32_t g, uint32_t d,
			 const struct hr_path *path)
{
	const struct hr_config *c = &app->config;
	const char *gpu = hr_gpu_address(&app->backend[g]), *ssd = app->ssd[d].transport.name;

	if (path->direct || (c->path != HR_PATH_DIRECT && c->queues != HR_QUEUES_GPU))
		return 0;
	hr_error("%s: %s, but ssd '%s' and gpu '%s' meet in host memory: %s%s%s%s%s", c->file,
		 c->path == HR_PATH_DIRECT ? "memory.path is \"direct\""
					   : "memory.queues is \"gpu\"",
		 c->ssd[d].name, c->gpu[g].name, path->verdict, path->pair ? " (" : "", path->rule,
		 path->pair ? "): " : "", path->why);
	if (path->pair && c->path != HR_PATH_BOUNCE)
		hr_error("what can be done: headrace topo --explain %s %s", gpu, ssd);
	return -ENOTSUP;
}

static int decide(struct hr_appliance *app, uint32_t g, uint32_t d)
{
	struct hr_path *path = &app->path[g][d];
	const char *forced = app->config.path == HR_PATH_BOUNCE ? ", as configured" : "";
	int err;

	memset(path, 0, sizeof *path);
	path->pair = is_pair(app, g, d, path);
	err = path->pair ? ask(app, g, d, path) : 0;
	if (!err)
		err = check_demands(app, g, d, path);
	if (err)
		return err;
	if (path->pair)
		hr_info("ssd '%s' (%s) and gpu '%s' (%s): %s%s: %s (rule %s): %s",
			app->config.ssd[d].name, app->ssd[d].transport.name,
			app->config.gpu[g].name, hr_gpu_address(&app->backend[g]),
			path->direct ? "direct" : "bounce", path->direct ? "" : forced,
			path->verdict, path->rule, path->why);
	return 0;
}

int hr_paths_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < app->config.gpus; g++)
		for (uint32_t d = 0; !err && d < app->config.ssds; d++)
			if (hr_pair_used(app, g, d))
				err = decide(app, g, d);
	return err;
}

/* Demands, and an ssd that does not work any more, leave nothing to go on with. */
static bool may_bounce(const struct hr_appliance *app, uint32_t ssds)
{
	bool may = app->config.path == HR_PATH_AUTO && app->config.queues != HR_QUEUES_GPU;

	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (ssds & 1u << d)
			may &= !app->ssd[d].failed && !app->ssd[d].disk.dead;
	return may;
}

static const char *remedy(const struct hr_config *config)
{
	if (config->queues != HR_QUEUES_GPU)
		return "memory.path = \"bounce\" does without";
	if (config->path != HR_PATH_DIRECT)
		return "memory.queues = \"host\" does without";
	return "memory.path = \"bounce\" with memory.queues = \"host\" does without";
}

bool hr_paths_lost(struct hr_appliance *app, uint32_t g, uint32_t ssds, const char *object,
		   const struct hr_obstacle *obstacle)
{
	const bool may = may_bounce(app, ssds);

	hr_log(may ? HR_LOG_WARN : HR_LOG_ERROR, "%s: %s%s%s; %s", object, obstacle->what,
	       obstacle->suspect[0] ? "; " : "", obstacle->suspect,
	       may ? "tiles go through host memory instead" : remedy(&app->config));
	for (uint32_t d = 0; may && d < app->config.ssds; d++) {
		struct hr_path *path = &app->path[g][d];
		const size_t end = strlen(path->why);

		if (!(ssds & 1u << d))
			continue;
		path->direct = false;
		snprintf(path->why + end, sizeof path->why - end, "; but %s", obstacle->what);
	}
	return may;
}

/* ---- in words */

const char *hr_gpu_path(const struct hr_appliance *app, uint32_t gpu)
{
	const struct hr_backend *b = &app->backend[gpu];

	/* Workers with one lane are threads of the CPU: host memory is their own. */
	return b->lanes == 1 && !b->peer[0] ? "host memory (host backend)" : "host memory (bounce)";
}

const char *hr_run_path(const struct hr_appliance *app, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	const struct hr_path *path = app->path[p->gpu];
	uint32_t direct = 0, all = p->sources + p->has_sink;

	for (uint32_t s = 0; s < p->sources; s++)
		direct += path[p->source[s].ssd].direct;
	if (p->has_sink)
		direct += path[p->sink.ssd].direct;
	if (direct == 0)
		return hr_gpu_path(app, p->gpu);
	return direct == all ? "direct (GPU memory)" : "direct and host memory (bounce)";
}
