/*
 * boot/engine/stage_queues.h - stage `queues`: queue pairs are created, pipelines are ready to launch.
 */
#ifndef BOOT_ENGINE_STAGE_QUEUES_H
#define BOOT_ENGINE_STAGE_QUEUES_H

#include "boot/engine/appliance.h"

/* 0, or as hr_ssd_create_qp(), in app->error. Seals. */
int hr_queues_up(struct hr_appliance *app);
void hr_queues_down(struct hr_appliance *app);

/* The extent of an object of ssd d, for workers. */
void hr_run_extent(const struct hr_appliance *app, uint32_t d, uint64_t id,
		   struct hr_extent *extent);

#endif
