/*
 * boot/engine/stage_memory.h - stage `memory`: one allocation per place, mapped into the controllers.
 */
#ifndef BOOT_ENGINE_STAGE_MEMORY_H
#define BOOT_ENGINE_STAGE_MEMORY_H

#include "boot/engine/appliance.h"

/*
 * Where GPU memory turns out to be out of the reach of an ssd, and memory.path leaves that open, paths
 * become bounce, the partition is laid out anew, and all memory is taken again. 0, or as
 * hr_places_take() and hr_prove(), logged.
 */
int hr_memory_up(struct hr_appliance *app);
void hr_memory_down(struct hr_appliance *app);

/* Let gpu g reach the doorbells of ssd d: sets app->bar[g][d]. 0, or as attach of struct
 * hr_backend_ops, logged. */
int hr_attach_bar(struct hr_appliance *app, uint32_t g, uint32_t d);
void hr_detach_bar(struct hr_appliance *app, uint32_t g, uint32_t d);

#endif
