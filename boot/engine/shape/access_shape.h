/*
 * boot/engine/shape/access_shape.h - blocks, page cache and commands of a pipeline with an access
 * operator.
 */
#ifndef BOOT_ENGINE_SHAPE_ACCESS_SHAPE_H
#define BOOT_ENGINE_SHAPE_ACCESS_SHAPE_H

#include "boot/engine/engine.h"

/*
 * Set blocks, workers, threads, and all numbers of run->access_cpu and run->access_layout that plan
 * needs. After `objects` and the paths. 0; -EINVAL, -ENOTSUP, in app->error with file and line.
 */
int hr_access_shape(struct hr_appliance *app, struct hr_run *run);

/* Set the numbers that are known only when objects are created: extents, ids, doorbells. */
void hr_access_complete(const struct hr_appliance *app, struct hr_run *run);

#endif
