/*
 * boot/engine/stage_partition.h - stage `partition`: what each pipeline needs of the memory of its gpu.
 */
#ifndef BOOT_ENGINE_STAGE_PARTITION_H
#define BOOT_ENGINE_STAGE_PARTITION_H

#include "boot/engine/appliance.h"

/* Choose paths, then lay out. 0; -ENOSPC, -EINVAL, -ENOTSUP and those of hr_paths_up(), logged. */
int hr_partition_up(struct hr_appliance *app);

/* Lay out over the paths as they are, again after they have changed. */
int hr_partition_plan(struct hr_appliance *app);

#endif
