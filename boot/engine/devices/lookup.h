/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/devices/lookup.h - checks of device strings and operators, for the reader of the
 * configuration.
 */
#ifndef BOOT_ENGINE_DEVICES_LOOKUP_H
#define BOOT_ENGINE_DEVICES_LOOKUP_H

#include "config/config.h"

extern const struct hr_config_lookup hr_lookup;

#endif
