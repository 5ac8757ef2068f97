/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/beside.h - ssds that running appliances of this machine drive, for a check
 * (boot/engine/devices/stand_in.h): requests on their control sockets.
 */
#ifndef BOOT_CMD_BESIDE_H
#define BOOT_CMD_BESIDE_H

#include "boot/engine/devices/stand_in.h"

/* One a process. */
extern const struct hr_elsewhere hr_beside;

#endif
