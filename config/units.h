/*
 * config/units.h - durations as they are written in a configuration: "500ms", "5s", "2m", "1h", "7d".
 * Sizes: hr_size_parse() in config/config.h.
 */
#ifndef CONFIG_UNITS_H
#define CONFIG_UNITS_H

#include <stdint.h>

/* 0, or -EINVAL: not a duration, -ERANGE: over 2^63 ns. */
int hr_duration_parse(const char *text, uint64_t *ns);

#endif
