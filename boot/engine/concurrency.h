/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/concurrency.h - which pipelines may run at the same time (appliance.parallel), and the
 * blocks that they need.
 *
 * A pipeline waits for each one before it in the configuration that writes an object which it reads
 * or writes, or that reads an object which it writes: a sink may replace it. All others may run
 * beside it. Nothing here allocates.
 */
#ifndef BOOT_ENGINE_CONCURRENCY_H
#define BOOT_ENGINE_CONCURRENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/engine.h"

/* Pipelines as a bit each, by index. */
typedef uint32_t hr_pipeline_set;

/* One of them writes an object that the other one reads or writes: they do not run at the same
 * time. A sink with older versions (keep) writes these as well, because each start renames them,
 * and drops the oldest one. */
bool hr_pipelines_conflict(const struct hr_config_pipeline *a, const struct hr_config_pipeline *b);

/* The second writes an object that the first reads. */
bool hr_pipeline_reads_from(const struct hr_config_pipeline *reader,
			    const struct hr_config_pipeline *writer);

/* True when an ssd, a gpu, or a pipeline that this one depends on has failed since bring-up. The
 * pipelines of `unended` run, or are going to. */
bool hr_schedule_blocked(const struct hr_engine *engine, const struct hr_run *run,
			 hr_pipeline_set unended);

/* The selected pipelines before pipeline i that it waits for, directly or indirectly. */
hr_pipeline_set hr_concurrency_before(const struct hr_engine *engine, uint32_t i);

/* Most pipelines that run on a gpu at the same time; 0: none is selected. */
uint32_t hr_concurrency_most(const struct hr_engine *engine, uint32_t g);

/*
 * Most blocks that pipelines which run at the same time may have on a gpu: gpus[].blocks, or the
 * limit of the backend for several launches; UINT32_MAX: pipelines run one after another, and the
 * file sets no limit. The backend is up.
 */
uint32_t hr_concurrency_budget(const struct hr_engine *engine, uint32_t g);

/* Most blocks that pipelines which run at the same time have on a gpu, when pipeline i has
 * blocks[i]; *them: the set of these pipelines. 0: none is selected. */
uint64_t hr_concurrency_blocks(const struct hr_engine *engine, uint32_t g, const uint32_t *blocks,
			       hr_pipeline_set *them);

/* Blocks of all pipelines against the budgets. 0, or -EINVAL, in engine->error. For
 * stage `partition`, once pipelines have a shape. */
int hr_concurrency_check(struct hr_engine *engine);

#endif
