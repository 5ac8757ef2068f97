/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/concurrency.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/derived.h"

static bool same_object(const struct hr_config_object *a, const struct hr_config_object *b)
{
	return a->ssd == b->ssd && strcmp(a->object, b->object) == 0;
}

/* A start that writes the object also changes the other one: they are one object, or the other one
 * is an older version of this sink (keep). */
static bool changes(const struct hr_config_object *written, const struct hr_config_object *other)
{
	return same_object(written, other) ||
	       (written->ssd == other->ssd &&
		hr_config_version_of(other->object, written->object, written->keep));
}

static bool touches_object(const struct hr_config_pipeline *p,
			   const struct hr_config_object *written)
{
	const struct hr_config_object *other;
	bool any = false;

	for (uint32_t k = 0; (other = hr_config_writes(p, k)) != NULL; k++)
		any |= changes(written, other);
	for (uint32_t k = 0; (other = hr_config_reads(p, k)) != NULL; k++)
		any |= changes(written, other);
	return any;
}

/* The first writes an object that the second reads or writes. */
static bool disturbs(const struct hr_config_pipeline *a, const struct hr_config_pipeline *b)
{
	const struct hr_config_object *written;

	for (uint32_t k = 0; (written = hr_config_writes(a, k)) != NULL; k++)
		if (touches_object(b, written))
			return true;
	return false;
}

bool hr_pipelines_conflict(const struct hr_config_pipeline *a, const struct hr_config_pipeline *b)
{
	return disturbs(a, b) || disturbs(b, a);
}

bool hr_pipeline_reads_from(const struct hr_config_pipeline *reader,
			    const struct hr_config_pipeline *writer)
{
	const struct hr_config_object *made, *read;

	for (uint32_t w = 0; (made = hr_config_writes(writer, w)) != NULL; w++)
		for (uint32_t r = 0; (read = hr_config_reads(reader, r)) != NULL; r++)
			if (same_object(made, read))
				return true;
	return false;
}

hr_pipeline_set hr_concurrency_before(const struct hr_engine *engine, uint32_t i)
{
	hr_pipeline_set before = 0;

	/* Start with the nearest one, because its own dependencies come before it. */
	for (uint32_t j = i; j-- > 0;) {
		bool waits = false;

		for (uint32_t k = j + 1; k <= i; k++)
			waits |= (k == i || before >> k & 1) &&
				 hr_pipelines_conflict(&engine->config.pipeline[j],
						       &engine->config.pipeline[k]);
		if (waits && engine->run[j].selected)
			before |= 1u << j;
	}
	return before;
}

static bool is_of(const struct hr_engine *engine, uint32_t i, uint32_t g)
{
	return engine->run[i].selected && hr_config_uses_gpu(&engine->config.pipeline[i], g);
}

/* One of the two waits for the end of the other one. Pipelines that repeat run when they are asked
 * for, so those between the two may not run. */
static bool exclude(const struct hr_engine *engine, uint32_t i, uint32_t j)
{
	if (hr_config_repeats(&engine->config))
		return hr_pipelines_conflict(&engine->config.pipeline[i],
					     &engine->config.pipeline[j]);
	return hr_concurrency_before(engine, i) >> j & 1 ||
	       hr_concurrency_before(engine, j) >> i & 1;
}

/* Pipelines on gpu g that may run at the same time as pipeline i. */
static hr_pipeline_set beside(const struct hr_engine *engine, uint32_t i, uint32_t g)
{
	hr_pipeline_set all = 0;

	for (uint32_t j = 0; j < engine->config.pipelines; j++)
		if (j != i && is_of(engine, j, g) && !exclude(engine, i, j))
			all |= 1u << j;
	return all;
}

/* Blocks of a set of pipelines; 0: they may not all run at the same time. */
static uint64_t blocks_of(const struct hr_engine *engine, hr_pipeline_set set,
			  const hr_pipeline_set *with, const uint32_t *blocks)
{
	uint64_t sum = 0;

	if ((uint32_t)__builtin_popcount(set) > engine->config.parallel)
		return 0;
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		if (!(set >> i & 1))
			continue;
		if (set & ~with[i] & ~(1u << i))
			return 0;
		sum += blocks[i];
	}
	return sum;
}

/* Sets of pipelines that may run at the same time, tried one by one: there are 16 at most. */
uint64_t hr_concurrency_blocks(const struct hr_engine *engine, uint32_t g, const uint32_t *blocks,
			       hr_pipeline_set *them)
{
	hr_pipeline_set with[HR_PIPELINES_MAX] = { 0 }, all = 0;
	uint64_t most = 0;

	*them = 0;
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		if (!is_of(engine, i, g))
			continue;
		all |= 1u << i;
		with[i] = beside(engine, i, g);
	}
	for (hr_pipeline_set set = all; set; set = (set - 1) & all) {
		const uint64_t sum = blocks_of(engine, set, with, blocks);

		if (sum >= most && sum) {
			most = sum;
			*them = set;
		}
	}
	return most;
}

uint32_t hr_concurrency_most(const struct hr_engine *engine, uint32_t g)
{
	uint32_t one[HR_PIPELINES_MAX];
	hr_pipeline_set them;

	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++)
		one[i] = 1;
	return (uint32_t)hr_concurrency_blocks(engine, g, one, &them);
}

uint32_t hr_concurrency_budget(const struct hr_engine *engine, uint32_t g)
{
	const uint32_t limit = engine->config.gpu[g].blocks;
	const bool gpu = engine->backend[g].lanes > 1; /* otherwise each block is a thread */
	uint32_t held = UINT32_MAX;

	if (gpu && hr_concurrency_most(engine, g) > 1)
		held = engine->backend[g].side_by_side;
	return limit && limit < held ? limit : held;
}

/* "'a' (4 blocks), 'b' (2 blocks)" */
static const char *name_them(const struct hr_engine *engine, hr_pipeline_set them,
			     const uint32_t *blocks, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < engine->config.pipelines && at < bytes; i++)
		if (them >> i & 1)
			at += (size_t)snprintf(text + at, bytes - at, "%s'%.40s' (%u)",
					       at ? ", " : "", engine->config.pipeline[i].name,
					       blocks[i]);
	return text;
}

static int check_gpu(struct hr_engine *engine, uint32_t g, const uint32_t *blocks)
{
	const struct hr_config_gpu *gpu = &engine->config.gpu[g];
	const uint32_t budget = hr_concurrency_budget(engine, g);
	char names[HR_LOG_LINE_MAX / 4], limit[80];
	hr_pipeline_set them;
	const uint64_t need = hr_concurrency_blocks(engine, g, blocks, &them);

	if (need <= budget)
		return 0;
	if (gpu->blocks && gpu->blocks == budget)
		snprintf(limit, sizeof limit, "gpus[%u].blocks allows %u", g, budget);
	else
		snprintf(limit, sizeof limit, "%.40s holds %u of several pipelines",
			 engine->backend[g].name, budget);
	return hr_error_add(
		&engine->error, HR_ERROR_USAGE, -EINVAL,
		"%s:%u: gpu '%s': pipelines that may run at the same time need %llu blocks, "
		"but %s: %s; use fewer blocks, or a smaller appliance.parallel (%u)",
		engine->config.file, gpu->line, gpu->name, (unsigned long long)need, limit,
		name_them(engine, them, blocks, names, sizeof names), engine->config.parallel);
}

int hr_concurrency_check(struct hr_engine *engine)
{
	uint32_t blocks[HR_PIPELINES_MAX] = { 0 };
	int err = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		for (int role = 0; role < HR_RUN_ROLES; role++)
			blocks[i] += engine->run[i].blocks[role];
	for (uint32_t g = 0; !err && g < engine->config.gpus; g++)
		if (engine->gpu_up[g])
			err = check_gpu(engine, g, blocks);
	return err;
}

bool hr_schedule_blocked(const struct hr_engine *engine, const struct hr_run *run,
			 hr_pipeline_set unended)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (hr_health_failed(&engine->ssd[d].health) && hr_config_uses_ssd(run->config, d))
			return true;
	for (uint32_t s = 0; s < run->config->sources + run->config->objects; s++) {
		const int from = hr_run_writer_of(run, s);

		if (from >= 0 && !(unended >> from & 1) &&
		    engine->run[from].outcome != HR_RUN_DONE &&
		    engine->run[from].outcome != HR_RUN_COMPLETE)
			return true;
	}
	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		if (engine->gpu_failed[hr_config_gpu(run->config, p)])
			return true;
	return false;
}
