/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/bringup/disks.h - detect ssds of one configuration that are the same disk.
 *
 * Two ssds that are the same namespace, reached through two controllers or two ports, would each
 * keep an object map of the same disk, and each would overwrite the commits of the other. So this
 * is an error in the configuration, reported with both lines (NVMe Base 2.0, 2.4.1: multi-path I/O
 * and shared namespaces; 4.5.1: unique identifiers).
 */
#ifndef BOOT_ENGINE_BRINGUP_DISKS_H
#define BOOT_ENGINE_BRINGUP_DISKS_H

#include "boot/engine/bringup/stages.h"

/*
 * Before any ssd is brought up: check that ssd d differs from those before it, by controller and
 * namespace. Several ssds may be namespaces of one controller when all of them use the same
 * transport. 0, or -EINVAL, engine->error with file and line.
 */
int hr_disk_check_device(struct hr_engine *engine, uint32_t d);

/* Bring ssd d up: on the controller of another ssd when that is up, otherwise on its own. As
 * hr_ssd_up(), hr_ssd_up_on(), with engine->error. */
int hr_disk_up(struct hr_engine *engine, uint32_t d);

/*
 * After ssd d has come up: check that it differs from those before it that are up, by the
 * identifiers of the namespaces. 0, or -EINVAL, engine->error with file and line.
 */
int hr_disk_check_same(struct hr_engine *engine, uint32_t d);

/* The same; also check that the ssd can be written when it has the sink of a selected pipeline.
 * Errors of hr_disk_check_same(); -EROFS: write protected, engine->error with file and line. */
int hr_disk_check(struct hr_engine *engine, uint32_t d);

/*
 * After the object store of ssd d was opened: check that it differs from those before it, by the
 * UUID of the store. Namespaces with different identifiers may hold copies of one store. 0 or
 * -EINVAL.
 */
int hr_disk_check_store(struct hr_engine *engine, uint32_t d);

#endif
