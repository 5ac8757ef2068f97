/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/calls.h - what the functions that a test replaces were called with, as one text in
 * the order of the calls. Each test begins with an empty text, because it is a process of its own.
 */
#ifndef TESTS_HARNESS_CALLS_H
#define TESTS_HARNESS_CALLS_H

/* Appends to the text, which has room for 8 KiB. */
void calls_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The text. Valid until the next call of these functions. */
const char *calls_text(void);

/* The text, which is empty afterwards. Valid until the next call of this function. */
const char *calls_take(void);

/* Expects that the text is `want`, and makes it empty. Needs criterion.h. */
#define EXPECT_CALLS(want) cr_expect_str_eq(calls_take(), want)

#endif
