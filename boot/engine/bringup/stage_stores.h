/*
 * boot/engine/bringup/stage_stores.h - stage `stores`: open the object stores.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGE_STORES_H
#define BOOT_ENGINE_BRINGUP_STAGE_STORES_H

#include "boot/engine/engine.h"

/* 0, or as hr_ssd_open_store(), in app->error. */
int hr_stores_up(struct hr_appliance *app);

/* The same for one ssd, for the self-test. */
int hr_store_up(struct hr_appliance *app, uint32_t d);

#endif
