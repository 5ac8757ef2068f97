/*
 * boot/engine/bringup/stage_queues.h - stage `queues`: queue pairs are created, pipelines are
 * ready to launch.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGE_QUEUES_H
#define BOOT_ENGINE_BRINGUP_STAGE_QUEUES_H

#include "boot/engine/engine.h"

/*
 * 0, or as hr_ssd_create_qp(), in app->error. -EAGAIN: a controller has created fewer queue pairs
 * than it has granted, and a warning says so: take the stage down, and plan the runs again for
 * hr_ssd_queues(). Each repetition has fewer, so they end. Seals.
 */
int hr_queues_up(struct hr_appliance *app);
void hr_queues_down(struct hr_appliance *app);

/*
 * After an error of hr_ssd_create_qp(), in app->error: true when ssd d has fewer queue pairs than
 * `before`, the number of hr_ssd_queues() before it. Then the error is logged as a warning, and
 * cleared.
 */
bool hr_queues_fewer(struct hr_appliance *app, uint32_t d, uint32_t before);

#endif
