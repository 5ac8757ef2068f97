/*
 * boot/engine/stage_objects.h - stage `objects`: sources are found; sizes and tiles are known.
 */
#ifndef BOOT_ENGINE_STAGE_OBJECTS_H
#define BOOT_ENGINE_STAGE_OBJECTS_H

#include "boot/engine/appliance.h"

/* 0; -EINVAL, -ENOENT: a mistake in the configuration that only the stores show, logged with file and
 * line. */
int hr_objects_up(struct hr_appliance *app);

#endif
