/*
 * boot/engine/bringup/stage.h - stage `backends`: the gpus of selected pipelines are open.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGE_H
#define BOOT_ENGINE_BRINGUP_STAGE_H

#include "boot/engine/engine.h"

/* 0, or as hr_backend_open() and hr_operators_link(), logged. */
int hr_backends_up(struct hr_appliance *app);
void hr_backends_down(struct hr_appliance *app);

#endif
