/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/shape/shape.h - slots, blocks, threads and caches of a run, when the configuration
 * leaves them open.
 */
#ifndef BOOT_ENGINE_SHAPE_SHAPE_H
#define BOOT_ENGINE_SHAPE_SHAPE_H

#include "boot/engine/engine.h"

/* ---- slots, blocks and threads of a run, when the configuration leaves them open */

/*
 * Set slots, blocks, workers, threads and the copies of tiles. After `objects` and the paths. 0;
 * -EINVAL, -ENOTSUP: the gpu cannot run the pipeline, logged with file and line.
 */
int hr_shape_run(struct hr_engine *engine, struct hr_run *run);

/* Bytes of a compute block's copies of the tiles of all sources. */
uint64_t hr_run_copy_bytes(const struct hr_run *run);

/* "in place", "copied to the GPU", or NULL when tiles and workers use the same memory. */
const char *hr_run_bounce(const struct hr_engine *engine, const struct hr_run *run);

/* ---- blocks, page cache and commands of a pipeline with an access operator */

/*
 * Set blocks, workers, threads, and all numbers of run->gpu[].cpu and run->gpu[].layout that plan
 * needs. After `objects` and the paths. 0; -EINVAL, -ENOTSUP, in engine->error with file and line.
 */
int hr_access_shape(struct hr_engine *engine, struct hr_run *run);

/* Set the numbers that are known only when objects are created: extents, ids, doorbells. */
void hr_access_complete(const struct hr_engine *engine, struct hr_run *run);

#endif
