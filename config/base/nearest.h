/*
 * config/base/nearest.h - "did you mean": the known word closest to a mistyped one.
 */
#ifndef CONFIG_BASE_NEAREST_H
#define CONFIG_BASE_NEAREST_H

#include <stddef.h>

/*
 * The word of known[0..count) within two edits (insert, delete, replace, swap of neighbours) of
 * `word`, or a known word that begins with `word`; NULL when there is none. Never allocates.
 */
const char *hr_nearest(const char *word, const char *const *known, size_t count);

#endif
