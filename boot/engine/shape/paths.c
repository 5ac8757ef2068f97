/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choose the path of each ssd and gpu: direct, in the memory of the gpu, or bounce, in host memory.
 * The rules of pci/topo/ decide about pairs of PCI functions, and the configuration may forbid either
 * path. boot/engine/bringup/loopback.c tests a direct path before a pipeline relies on it.
 */

#include "boot/engine/shape/paths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"
#include "config/derived.h"
#include "pci/path.h"

const char *hr_gpu_address(const struct hr_backend *b)
{
	if (b->peer[0])
		return b->peer;
	return b->facts && b->window ? b->facts->pci : "";
}

static bool uses(const struct hr_run *run, uint32_t g, uint32_t d)
{
	return run->selected && hr_config_uses_gpu(run->config, g) &&
	       hr_config_uses_ssd(run->config, d);
}

bool hr_pair_used(const struct hr_engine *engine, uint32_t g, uint32_t d)
{
	bool used = false;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		used |= uses(&engine->run[i], g, d);
	return used;
}

/* Address kind and doorbell writer of the pair: a GPU writes doorbells, a BAR does not. */
static enum hr_mode mode_of(const struct hr_backend *b, const struct hr_transport *t)
{
	if (b->peer[0])
		return t->kind == HR_TRANSPORT_VFIO ? HR_MODE_VFIO_HOST : HR_MODE_HOST;
	return t->kind == HR_TRANSPORT_VFIO ? HR_MODE_VFIO : HR_MODE_GPU;
}

/* False when the pair cannot have a direct path, with the reason in `why`: not two PCI
 * functions, or an unsuitable backend. */
static bool is_pair(const struct hr_engine *engine, uint32_t g, uint32_t d, struct hr_path *path)
{
	const struct hr_backend *b = &engine->backend[g];
	const struct hr_transport *t = &engine->ssd[d].transport;
	const char *why = NULL;

	if (t->kind == HR_TRANSPORT_SOFT)
		why = "the ssd is a software controller, which is no PCI function";
	else if (!*hr_gpu_address(b) && b->lanes == 1)
		why = "worker blocks are CPU threads, which use host memory";
	else if (!*hr_gpu_address(b))
		why = "no other device can access the memory of this GPU";
	else if (t->kind == HR_TRANSPORT_PCI && !b->peer[0])
		why = "the GPU's driver does not report physical addresses: use vfio: for the ssd";
	snprintf(path->why, sizeof path->why, "%s", why ? why : "");
	return !why;
}

static int choose_path(struct hr_engine *engine, uint32_t g, uint32_t d, struct hr_path *path)
{
	const struct hr_transport *t = &engine->ssd[d].transport;
	const char *gpu = hr_gpu_address(&engine->backend[g]);
	struct hr_path_choice choice;
	const int err = hr_path_choose(gpu, t->name, mode_of(&engine->backend[g], t), &choice);

	if (err)
		return hr_fail(
			&engine->error, HR_ERROR_MISSING, err == -EINVAL ? -ENODEV : err,
			"%s and %s: cannot evaluate the PCIe topology (%s); 'headrace topo' says "
			"more; memory.path = \"bounce\" does without",
			gpu, t->name, strerror(-err));
	path->direct = choice.direct && engine->config.path != HR_PATH_BOUNCE;
	snprintf(path->verdict, sizeof path->verdict, "%s", choice.verdict_text);
	snprintf(path->rule, sizeof path->rule, "%s", choice.rule);
	snprintf(path->why, sizeof path->why, "%s", choice.why);
	snprintf(path->suspect, sizeof path->suspect, "%s", choice.suspect);
	snprintf(path->suspect_why, sizeof path->suspect_why, "%s", choice.suspect_why);
	return 0;
}

/* Check memory.path = "direct" and memory.queues = "gpu", which require a direct path. */
static int check_demands(struct hr_engine *engine, uint32_t g, uint32_t d,
			 const struct hr_path *path)
{
	const struct hr_config *c = &engine->config;
	const char *gpu = hr_gpu_address(&engine->backend[g]), *ssd = engine->ssd[d].transport.name;

	if (path->direct || (c->path != HR_PATH_DIRECT && c->queues != HR_QUEUES_GPU))
		return 0;
	hr_error_add(&engine->error, HR_ERROR_MISSING, -ENOTSUP,
		     "%s: %s, but ssd '%s' and gpu '%s' meet in host memory: %s%s%s%s%s", c->file,
		     c->path == HR_PATH_DIRECT ? "memory.path is \"direct\""
					       : "memory.queues is \"gpu\"",
		     c->ssd[d].name, c->gpu[g].name, path->verdict, path->pair ? " (" : "",
		     path->rule, path->pair ? "): " : "", path->why);
	if (path->pair && c->path != HR_PATH_BOUNCE)
		hr_error_add(&engine->error, HR_ERROR_MISSING, -ENOTSUP,
			     "what can be done: headrace topo --explain %s %s", gpu, ssd);
	return -ENOTSUP;
}

int hr_path_ask(struct hr_engine *engine, uint32_t g, uint32_t d)
{
	struct hr_path *path = &engine->path[g][d];

	memset(path, 0, sizeof *path);
	path->pair = is_pair(engine, g, d, path);
	return path->pair ? choose_path(engine, g, d, path) : 0;
}

static int decide_path(struct hr_engine *engine, uint32_t g, uint32_t d)
{
	const struct hr_path *path = &engine->path[g][d];
	const char *forced = engine->config.path == HR_PATH_BOUNCE ? ", as configured" : "";
	int err = hr_path_ask(engine, g, d);

	if (!err)
		err = check_demands(engine, g, d, path);
	if (err)
		return err;
	if (path->pair)
		hr_info("ssd '%s' (%s) and gpu '%s' (%s): %s%s: %s (rule %s): %s",
			engine->config.ssd[d].name, engine->ssd[d].transport.name,
			engine->config.gpu[g].name, hr_gpu_address(&engine->backend[g]),
			path->direct ? "direct" : "bounce", path->direct ? "" : forced,
			path->verdict, path->rule, path->why);
	return 0;
}

int hr_paths_up(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < engine->config.gpus; g++)
		for (uint32_t d = 0; !err && d < engine->config.ssds; d++)
			if (hr_pair_used(engine, g, d))
				err = decide_path(engine, g, d);
	return err;
}

/* False when the configuration requires direct paths, or an ssd has failed. */
static bool may_bounce(const struct hr_engine *engine, uint32_t ssds)
{
	bool may = engine->config.path == HR_PATH_AUTO && engine->config.queues != HR_QUEUES_GPU;

	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (ssds & 1u << d)
			may &= !hr_health_failed(&engine->ssd[d].health);
	return may;
}

static const char *path_remedy(const struct hr_config *config)
{
	if (config->queues != HR_QUEUES_GPU)
		return "memory.path = \"bounce\" does without";
	if (config->path != HR_PATH_DIRECT)
		return "memory.queues = \"host\" does without";
	return "memory.path = \"bounce\" with memory.queues = \"host\" does without";
}

bool hr_paths_lost(struct hr_engine *engine, uint32_t g, uint32_t ssds, struct hr_error *e)
{
	const bool may = may_bounce(engine, ssds);

	for (uint32_t d = 0; may && d < engine->config.ssds; d++) {
		struct hr_path *path = &engine->path[g][d];
		const size_t end = strlen(path->why);

		if (!(ssds & 1u << d))
			continue;
		path->direct = false;
		snprintf(path->why + end, sizeof path->why - end, "; but %s", e->text);
	}
	hr_error_append(e, "; %s",
			may ? "tiles go through host memory instead"
			    : path_remedy(&engine->config));
	return may;
}

/* ---- in words */

const char *hr_gpu_path(const struct hr_engine *engine, uint32_t gpu)
{
	const struct hr_backend *b = &engine->backend[gpu];

	/* Workers with one lane are CPU threads, which use host memory directly. */
	return b->lanes == 1 && !b->peer[0] ? "host memory (host backend)" : "host memory (bounce)";
}

const char *hr_run_path(const struct hr_engine *engine, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint32_t direct = 0, all = 0;

	for (uint32_t k = 0; k < hr_config_gpus(p); k++) {
		const struct hr_path *path = engine->path[hr_config_gpu(p, k)];

		for (uint32_t d = 0; d < engine->config.ssds; d++) {
			if (!hr_config_uses_ssd(p, d))
				continue;
			direct += path[d].direct;
			all++;
		}
	}
	if (direct == 0)
		return hr_gpu_path(engine, p->gpu);
	return direct == all ? "direct (GPU memory)" : "direct and host memory (bounce)";
}
