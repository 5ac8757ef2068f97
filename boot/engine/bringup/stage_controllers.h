/*
 * boot/engine/bringup/stage_controllers.h - stage `controllers`: the ssds are up.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGE_CONTROLLERS_H
#define BOOT_ENGINE_BRINGUP_STAGE_CONTROLLERS_H

#include "boot/engine/engine.h"

/* 0, or as hr_ssd_up() and hr_ssd_reserve(), in app->error; -EINTR: a signal asked to stop. */
int hr_controllers_up(struct hr_appliance *app);
void hr_controllers_down(struct hr_appliance *app);

/* Call up() for each ssd that is not left out. The first failure ends the stage, unless pipelines
 * remain that do not need that ssd. 0, -EINTR: a signal asked to stop, or the error of up(). */
int hr_stage_ssds(struct hr_appliance *app, int (*up)(struct hr_appliance *app, uint32_t d));

/* Put the line and the name of ssd d in front of app->error, with `what` failed: "cannot be brought
 * up". An empty app->error is a device error. Does nothing for 0 and -EINTR. Returns err. */
int hr_stage_name_ssd(struct hr_appliance *app, uint32_t d, int err, const char *what);

#endif
