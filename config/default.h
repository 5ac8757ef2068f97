/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/default.h - the embedded configuration config/default.conf, which needs no hardware and no
 * file.
 */
#ifndef CONFIG_DEFAULT_H
#define CONFIG_DEFAULT_H

#include <stdint.h>

/* The embedded configuration, and its file name in messages about mistakes. */
#define HR_CONFIG_DEFAULT_NAME "(built-in configuration)"
extern const char hr_config_default[];
extern const uint32_t hr_config_default_bytes;

#endif
