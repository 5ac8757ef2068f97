/*
 * boot/engine/disks.h - what the ssds of one configuration are to each other.
 *
 * Two of them that are one namespace, behind two controllers or two ports, would each keep an object
 * map of the same disk and overwrite what the other has committed. So that is a mistake in the
 * configuration, named with both lines (NVMe Base 2.0, 2.4.1: multi-path I/O and shared namespaces;
 * 4.5.1: unique identifiers).
 */
#ifndef BOOT_ENGINE_DISKS_H
#define BOOT_ENGINE_DISKS_H

#include "boot/engine/stages.h"

/*
 * Before any ssd is brought up: it is none of those before it, by controller and namespace. Several
 * ssds may be namespaces of one controller, if all reach it the same way. 0, or -EINVAL, logged with
 * file and line.
 */
int hr_disk_check_device(struct hr_appliance *app, uint32_t d);

/* Bring ssd d up: on the controller of another ssd that is up on it, or on its own. As hr_ssd_up(),
 * hr_ssd_up_beside(). */
int hr_disk_up(struct hr_appliance *app, uint32_t d);

/*
 * After ssd d has come up: it is none of those before it that are up, by the identifiers of the
 * namespaces. 0, or -EINVAL, logged with file and line.
 */
int hr_disk_check_same(struct hr_appliance *app, uint32_t d);

/* The same, and it can be written where a selected pipeline has its sink. Errors of
 * hr_disk_check_same(); -EROFS: write protected, logged with file and line. */
int hr_disk_check(struct hr_appliance *app, uint32_t d);

/*
 * After the object store of ssd d was opened: it is none of those before it, by the UUID of the
 * store. Namespaces whose identifiers say that they are two may hold copies of one store. 0 or
 * -EINVAL.
 */
int hr_disk_check_store(struct hr_appliance *app, uint32_t d);

#endif
