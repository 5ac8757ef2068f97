/*
 * boot/engine/link.h - worker code of gpus with the user operators of their pipelines in it.
 */
#ifndef BOOT_ENGINE_LINK_H
#define BOOT_ENGINE_LINK_H

#include "boot/engine/appliance.h"

/* Link each operator once into each gpu that runs it; a part of stage `backends`. 0, or as link of
 * struct hr_backend_ops, logged with file and line. */
int hr_operators_link(struct hr_appliance *app);

#endif
