/* SPDX-License-Identifier: Apache-2.0 */
/* The search for leaks at the end of each test case, in builds with the address sanitizer. */
#include <criterion/criterion.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#define LEAK_STATUS 1 /* of the sanitizer */
#else
#define LEAK_STATUS 0
#endif

static void *near;

/* Some of its pages are never used. */
static struct {
	char before[1 << 20];
	void *pointer;
	char after[1 << 20];
} far;

static void need_sanitizer(void)
{
#ifndef __SANITIZE_ADDRESS__
	cr_skip_test("no address sanitizer");
#endif
}

static __attribute__((noinline)) void lose(size_t bytes)
{
	char *volatile lost = malloc(bytes);

	cr_assert_not_null(lost);
	lost[0] = 1;
	lost = NULL;
}

/* After this, the stack and the registers hold no pointer to the lost memory. */
static __attribute__((noinline)) void use_stack(void)
{
	char volatile used[4096];

	for (size_t i = 0; i < sizeof used; i++)
		used[i] = (char)i;
	cr_assert_eq(used[1], 1);
}

Test(leaks, memory_that_static_memory_points_to_is_no_leak)
{
	need_sanitizer();
	near = malloc(100);
	far.pointer = malloc(sizeof(void *));
	cr_assert(near && far.pointer);
	*(void **)far.pointer = malloc(200);
	far.after[sizeof far.after - 1] = 1;
	use_stack();
}

Test(leaks, lost_memory_is_a_leak, .exit_code = LEAK_STATUS)
{
	need_sanitizer();
	for (size_t i = 0; i < 8; i++)
		lose(100 + i);
	use_stack();
}

Test(leaks, memory_is_lost_with_the_memory_that_points_to_it, .exit_code = LEAK_STATUS)
{
	need_sanitizer();
	far.pointer = malloc(sizeof(void *));
	cr_assert_not_null(far.pointer);
	*(void **)far.pointer = malloc(200);
	far.pointer = NULL;
	use_stack();
}
