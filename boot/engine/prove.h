/*
 * boot/engine/prove.h - a loopback through the ssd, before a pipeline relies on a place of memory.
 */
#ifndef BOOT_ENGINE_PROVE_H
#define BOOT_ENGINE_PROVE_H

#include "boot/engine/paths.h"

/*
 * A place that is mapped into ssd d, tried: a part of memory. 0, also where there is nothing to be
 * tried. -EIO: what arrived is something else; a status: the ssd could not move the data; both are
 * told in *obstacle and not logged. Other errors of the disk or the backend are, without an obstacle.
 * When a command was lost the controller is disabled, or app->stuck is set.
 */
int hr_prove(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place,
	     struct hr_obstacle *obstacle);

#endif
