/*
 * boot/engine/bringup/link.h - link user operators into the worker code of gpus.
 */
#ifndef BOOT_ENGINE_BRINGUP_LINK_H
#define BOOT_ENGINE_BRINGUP_LINK_H

#include "boot/engine/engine.h"

/* Link each operator once for each gpu that runs it; part of stage `backends`. 0, or as link of
 * struct hr_backend_ops, logged with file and line. */
int hr_operators_link(struct hr_appliance *app);

#endif
