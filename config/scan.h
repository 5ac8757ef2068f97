/*
 * config/scan.h - a first look at the raw text, before libconfig sees it.
 *
 * libconfig reads C strings (a NUL would hide the rest), follows @include, nests without a bound
 * and takes time quadratic in the number of settings of a group: what would let a file reach other
 * files, or take long, is refused here. Numbers are judged here, too (config/number.h), and integers
 * are marked as 64 bits wide.
 */
#ifndef CONFIG_SCAN_H
#define CONFIG_SCAN_H

#include <stddef.h>

#include "config/mistakes.h"

#define HR_SCAN_DEPTH_MAX 16u	    /* of brackets; our format needs 5 */
#define HR_SCAN_SETTINGS_MAX 10000u /* '=' and ':' outside of strings and comments */
#define HR_SCAN_ELEMENTS_MAX 65536u /* ',' likewise */

/* Bytes that hr_scan() writes at most: each second character may be an integer. */
#define HR_SCAN_OUT_BYTES(bytes) (2 * (bytes) + 1)

/*
 * Report what is refused; text[bytes] must be NUL. In out: the same text for
 * libconfig, each integer with the suffix L, which ends in NUL. The lines are the same.
 * 0, or -EINVAL after at least one mistake.
 */
int hr_scan(struct hr_mistakes *m, const char *text, size_t bytes, char *out);

#endif
