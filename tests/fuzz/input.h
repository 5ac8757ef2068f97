/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/input.h - the input of a fuzz target, taken byte by byte; 0 after its end */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct input {
	const uint8_t *at;
	size_t left;
};

/* Ends the process when it does not hold: that is a finding. */
static inline void must(bool holds)
{
	if (!holds)
		abort();
}

static inline uint8_t take(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static inline void take_bytes(struct input *in, void *to, size_t bytes)
{
	const size_t n = bytes < in->left ? bytes : in->left;

	memcpy(to, in->at, n);
	in->at += n;
	in->left -= n;
}

#endif
