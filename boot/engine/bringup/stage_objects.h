/*
 * boot/engine/bringup/stage_objects.h - stage `objects`: find sources, derive sizes and tiles.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGE_OBJECTS_H
#define BOOT_ENGINE_BRINGUP_STAGE_OBJECTS_H

#include "boot/engine/engine.h"

/* 0; -EINVAL, -ENOENT: an error of the configuration that only the stores reveal, logged with
 * file and line. */
int hr_objects_up(struct hr_appliance *app);

#endif
