/*
 * boot/engine/stage_controllers.h - stage `controllers`: the ssds are up.
 */
#ifndef BOOT_ENGINE_STAGE_CONTROLLERS_H
#define BOOT_ENGINE_STAGE_CONTROLLERS_H

#include "boot/engine/appliance.h"

/* 0, or as hr_ssd_up() and hr_ssd_reserve(), logged; -EINTR: a signal asked to stop. */
int hr_controllers_up(struct hr_appliance *app);
void hr_controllers_down(struct hr_appliance *app);

/* What a stage returns after ssd d has failed with err: 0 where the appliance keeps going without. */
int hr_stage_without(struct hr_appliance *app, uint32_t d, int err);

#endif
