/*
 * boot/engine/stage_stores.h - stage `stores`: object stores are open where there is one.
 */
#ifndef BOOT_ENGINE_STAGE_STORES_H
#define BOOT_ENGINE_STAGE_STORES_H

#include "boot/engine/appliance.h"

/* 0, or as hr_ssd_open_store(), logged. */
int hr_stores_up(struct hr_appliance *app);

/* The same of one ssd, for the self-test. */
int hr_store_stage(struct hr_appliance *app, uint32_t d);

#endif
