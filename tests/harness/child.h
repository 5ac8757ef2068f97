/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/child.h - run a part of a test that ends its process, in a child process.
 */
#ifndef TESTS_HARNESS_CHILD_H
#define TESTS_HARNESS_CHILD_H

#include <stddef.h>

/*
 * Fork; the child runs body() and exits with 99 when body() returns. text[capacity] gets what the
 * child writes to standard error, truncated. Returns the exit code of the child, or -1 when a
 * signal ended it.
 */
int child_run(void (*body)(void), char *text, size_t capacity);

#endif
