/*
 * config/file/scan.h - checks the raw text of a configuration before libconfig parses it.
 *
 * libconfig reads C strings (a NUL would hide the rest), follows @include, nests without a limit
 * and takes time quadratic in the number of settings of a group. Text that would let a file reach
 * other files, or would take long, is refused here. Numbers are checked here, too
 * (config/file/number.h), and integers are marked as 64 bits wide.
 */
#ifndef CONFIG_FILE_SCAN_H
#define CONFIG_FILE_SCAN_H

#include <stddef.h>

#include "config/file/mistakes.h"

#define HR_SCAN_DEPTH_MAX 16u	    /* depth of brackets; the format needs 5 */
#define HR_SCAN_SETTINGS_MAX 10000u /* '=' and ':' outside of strings and comments */
#define HR_SCAN_ELEMENTS_MAX 65536u /* ',' outside of strings and comments */

/* Most bytes that hr_scan() writes: every second character may be an integer. */
#define HR_SCAN_OUT_BYTES(bytes) (2 * (bytes) + 1)

/*
 * Report forbidden text; text[bytes] must be NUL. out gets the same text for libconfig, each
 * integer with the suffix L; it ends in NUL. Line numbers do not change.
 * 0, or -EINVAL after at least one mistake.
 */
int hr_scan(struct hr_mistakes *m, const char *text, size_t bytes, char *out);

#endif
