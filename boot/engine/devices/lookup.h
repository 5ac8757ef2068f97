/*
 * boot/engine/names.h - checks of device strings and operators, for the reader of the
 * configuration.
 */
#ifndef BOOT_ENGINE_NAMES_H
#define BOOT_ENGINE_NAMES_H

#include "config/names.h"

extern const struct hr_config_names hr_names;

#endif
