/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/calloc.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static unsigned left;
static bool failed;

/*
 * Hidden, so that the program's own calls come here and libraries, among them a sanitizer's, keep
 * their function. realloc(), because the compiler would turn malloc() and memset() into a call of
 * calloc().
 */
__attribute__((visibility("hidden"))) void *calloc(size_t count, size_t bytes)
{
	size_t all;
	void *memory;

	if (__builtin_mul_overflow(count, bytes, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	if (__atomic_load_n(&left, __ATOMIC_RELAXED) &&
	    __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) == 0) {
		failed = true;
		errno = ENOMEM;
		return NULL;
	}
	memory = realloc(NULL, all ? all : 1);
	return memory ? memset(memory, 0, all) : NULL;
}

void fake_calloc_fails(unsigned nth)
{
	failed = false;
	__atomic_store_n(&left, nth, __ATOMIC_RELAXED);
}

bool fake_calloc_failed(void)
{
	return failed;
}
