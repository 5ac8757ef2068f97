/*
 * boot/engine/shape.h - slots, blocks and threads of a run, where the configuration leaves them open.
 */
#ifndef BOOT_ENGINE_SHAPE_H
#define BOOT_ENGINE_SHAPE_H

#include "boot/engine/appliance.h"

/*
 * Set slots, blocks, workers, threads and what follows of the tiles' way. After `objects` and the
 * paths. 0; -EINVAL, -ENOTSUP: the gpu cannot run it, which is logged with file and line.
 */
int hr_shape_run(struct hr_appliance *app, struct hr_run *run);

/* A compute block's copies of the tiles of all sources. */
uint64_t hr_run_copy_bytes(const struct hr_run *run);

/* "in place", "copied to the GPU", or NULL where tiles and workers share a memory. */
const char *hr_run_bounce(const struct hr_appliance *app, const struct hr_run *run);

#endif
