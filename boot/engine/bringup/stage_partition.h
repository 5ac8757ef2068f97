/*
 * boot/engine/bringup/stage_partition.h - stage `partition`: plan the memory of each pipeline.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGE_PARTITION_H
#define BOOT_ENGINE_BRINGUP_STAGE_PARTITION_H

#include "boot/engine/engine.h"

/* Choose paths, then lay out the partition. 0; -ENOSPC, -EINVAL, -ENOTSUP and those of
 * hr_paths_up(), logged. */
int hr_partition_up(struct hr_appliance *app);

/* Lay out the partition with the current paths, also after they have changed. */
int hr_partition_plan(struct hr_appliance *app);

#endif
