/*
 * config/units.h - durations and sizes as the configuration spells them: "500ms", "5s", "2m", "1h",
 * "7d"; "64M".
 */
#ifndef CONFIG_UNITS_H
#define CONFIG_UNITS_H

#include <stdint.h>

/* 0, or -EINVAL: not a duration, -ERANGE: over 2^63 ns. */
int hr_duration_parse(const char *text, uint64_t *ns);

/* "64M" -> 67108864. 0, or -EINVAL: not a size, -ERANGE: over 2^63. */
int hr_size_parse(const char *text, uint64_t *bytes);

#endif
