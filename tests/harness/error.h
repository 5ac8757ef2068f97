/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/error.h - an error for calls under test, empty for each.
 */
#ifndef TESTS_HARNESS_ERROR_H
#define TESTS_HARNESS_ERROR_H

#include <stdio.h>
#include <string.h>

#include "config/base/error.h"

static _Thread_local struct hr_error test_error_last;

/* Clear the error, and return it for the next call. */
static inline struct hr_error *test_error(void)
{
	hr_error_clear(&test_error_last);
	return &test_error_last;
}

/* Text of the error that the last call with test_error() has filled in. */
static inline const char *test_error_text(void)
{
	return test_error_last.text;
}

static inline enum hr_error_kind test_error_kind(void)
{
	return test_error_last.kind;
}

/* Copy the text with a newline after each line. Returns the number of lines. */
static inline unsigned test_error_lines(char *to, size_t bytes)
{
	unsigned lines = 0;

	snprintf(to, bytes, "%s%s", test_error_last.text, test_error_last.text[0] ? "\n" : "");
	for (const char *at = to; (at = strchr(at, '\n')); at++)
		lines++;
	return lines;
}

#endif
