/*
 * config/file/tap.h - a sink that is a tap: sink = { tap = "NAME"; ... }. For
 * config/file/pipeline.c and config/file/check.c only.
 */
#ifndef CONFIG_FILE_TAP_H
#define CONFIG_FILE_TAP_H

#include "config/config.h"
#include "config/file/group.h"

/* Bytes of an element of that type, "f32", "bf16", ...; 0: there is no such type, or it is "". */
uint32_t hr_config_dtype_bytes(const char *dtype);

/* Check the keys dtype and columns of a tap or feed. */
void hr_config_dtype_check(const struct hr_group *group, const char *dtype, uint32_t columns);

/* Read the group `sink` of a pipeline whose sink has the key `tap`. */
void hr_config_tap_read(struct hr_config_tap *tap, const struct hr_group *sink);

/* Check the tap of a pipeline whose operator and tile are known. */
void hr_config_tap_check(const struct hr_config_pipeline *pipeline, const struct hr_group *group);

/* Check that no two taps have the same name. */
void hr_config_taps_check(const struct hr_config *config, struct hr_mistakes *mistakes);

#endif
