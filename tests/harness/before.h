/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/before.h - a call before each test of one file, in a program with the tests of several
 * files: a fake that must be switched on has such a call in its header.
 */
#ifndef TESTS_HARNESS_BEFORE_H
#define TESTS_HARNESS_BEFORE_H

struct test_before {
	const char *file; /* as the compiler gets its name */
	void (*call)(void);
};

/* The runner calls `function` before each test of the file that is compiled. */
#define BEFORE_EACH_TEST(function)                                                       \
	static const struct test_before function##_before = { __BASE_FILE__, function }; \
	static const struct test_before *const function##_before_at                      \
		__attribute__((used, section("tests_before"))) = &function##_before

#endif
