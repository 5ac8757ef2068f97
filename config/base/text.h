/*
 * config/base/text.h - durations and sizes as the configuration spells them: "500ms", "5s", "2m", "1h",
 * "7d"; "64M"; and durations as reports print them.
 */
#ifndef CONFIG_BASE_TEXT_H
#define CONFIG_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* 0, or -EINVAL: not a duration, -ERANGE: over 2^63 ns. */
int hr_duration_parse(const char *text, uint64_t *ns);

/* "64M" -> 67108864. 0, or -EINVAL: not a size, -ERANGE: over 2^63. */
int hr_size_parse(const char *text, uint64_t *bytes);

/* "3 d 4 h", "20 h 29 min", "4 min 10 s", "12.5 s", "517 ms", without rounding up. Returns text. */
const char *hr_span_format(char *text, size_t bytes, uint64_t ns);

#endif
