/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/file/scan.h - checks the raw text of a configuration, and its numbers, before libconfig
 * parses it.
 */
#ifndef CONFIG_FILE_SCAN_H
#define CONFIG_FILE_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "config/file/mistakes.h"

/* ---- checks the raw text of a configuration before libconfig parses it.
 *
 * libconfig reads C strings (a NUL would hide the rest), follows @include, nests without a limit
 * and takes time quadratic in the number of settings of a group. Text that would let a file reach
 * other files, or would take long, is refused here. Numbers are checked here, too, and
 * integers are marked as 64 bits wide.
 */

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

/* ---- checks the numbers in the text of a configuration before libconfig parses it.
 *
 * libconfig 1.5 keeps integers without the suffix L in 32 bits and loses digits silently. It clamps
 * longer integers and turns floating point numbers that are too large into infinity. Therefore this
 * code reads each number first, by libconfig's own grammar.
 */

/* A number at the start of a text. */
struct hr_number {
	size_t length; /* characters; 0: no number */
	bool integer;  /* decimal or hexadecimal, else floating point */
	bool suffix;   /* an integer that ends in L or LL */
};

/* The longest number at the start of text that libconfig's scanner accepts. */
struct hr_number hr_number_find(const char *text);

/*
 * Report a number that a 64-bit integer or a double does not hold: integers, and floating point
 * numbers without an exponent, that would lose digits; numbers that would become infinite, zero or
 * denormal. Fractions are rounded to the nearest double without a report.
 */
void hr_number_check(struct hr_mistakes *m, unsigned line, const char *text,
		     const struct hr_number *number);

#endif
