/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/calloc.h - a calloc() that fails when a test asks for it.
 *
 * It replaces libc's function in the test and in headrace, not in libraries.
 */
#ifndef TESTS_FAKES_CALLOC_H
#define TESTS_FAKES_CALLOC_H

#include <stdbool.h>

/* The nth call from now on fails, once (1: the next call; 0: none). */
void fake_calloc_fails(unsigned nth);

/* True when the call that was to fail has been made since. */
bool fake_calloc_failed(void);

#endif
