/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/heap.h - calls that must give back all the memory that they take, in builds without
 * the address sanitizer, too.
 */
#ifndef TESTS_HARNESS_HEAP_H
#define TESTS_HARNESS_HEAP_H

#include <malloc.h>
#include <stddef.h>

/*
 * Bytes that each further call of `once` keeps of the heap, after calls that fill the allocator's
 * lists of free pieces. A build with a sanitizer has another allocator: 0.
 */
static inline size_t heap_kept_by(void (*once)(void))
{
	size_t before;

	for (int i = 0; i < 10; i++)
		once();
	before = mallinfo2().uordblks;
	for (int i = 0; i < 4; i++)
		once();
	return (mallinfo2().uordblks - before) / 4;
}

#endif
