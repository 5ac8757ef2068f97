/*
 * boot/engine/bringup/stage_memory.h - stage `memory`: one allocation per place, mapped into the
 * controllers.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGE_MEMORY_H
#define BOOT_ENGINE_BRINGUP_STAGE_MEMORY_H

#include "boot/engine/engine.h"

/*
 * When an ssd cannot access GPU memory, and memory.path allows both paths, its paths become bounce,
 * the partition is laid out again, and all memory is allocated again. 0, or as hr_places_take() and
 * hr_prove(), in app->error.
 */
int hr_memory_up(struct hr_appliance *app);
void hr_memory_down(struct hr_appliance *app);

/* Attach the doorbells of ssd d for workers of gpu g: sets app->bar[g][d]. 0, or as attach of
 * struct hr_backend_ops, in app->error. */
int hr_attach_bar(struct hr_appliance *app, uint32_t g, uint32_t d);
void hr_detach_bar(struct hr_appliance *app, uint32_t g, uint32_t d);

#endif
