/*
 * config/file/number.h - checks the numbers in the text of a configuration before libconfig parses it.
 *
 * libconfig 1.5 keeps integers without the suffix L in 32 bits and loses digits silently. It clamps
 * longer integers and turns floating point numbers that are too large into infinity. Therefore this
 * code reads each number first, by libconfig's own grammar.
 */
#ifndef CONFIG_FILE_NUMBER_H
#define CONFIG_FILE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#include "config/file/mistakes.h"

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
