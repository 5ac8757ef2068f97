/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/asserts.h - Criterion's assertions with less code for the compiler.
 *
 * Included before every unit test by tests/unit.mk. Criterion expands each of 19,000 assertions to the
 * code that builds its message. Here this code is a function, and an assertion that holds calls
 * nothing: the compiler takes half of the time, with the address sanitizer a third. The macros of
 * Criterion, their arguments and messages stay as they are, because all of them expand to this one.
 */
#ifndef TESTS_HARNESS_ASSERTS_H
#define TESTS_HARNESS_ASSERTS_H

#include <criterion/criterion.h>

/*
 * Report a failed assertion to the runner, as Criterion's macro does: with the text of the test after
 * its first character, or, when that is all, with `message`. Frees `message`, which
 * cr_translate_assert_msg() has allocated.
 */
void test_assert_failed(const char *file, unsigned line, char *message, const char *format, ...)
	__attribute__((format(printf, 4, 5), cold));

/* A test knows the file that is compiled, which can include the one that has the test. */
#undef Test
#define Test(...) CR_EXPAND(CR_TEST_BASE(__VA_ARGS__, .description = __BASE_FILE__, .sentinel_ = 0))

#undef cr_assert_impl
#define cr_assert_impl(Fail, Condition, ...)                                    \
	do {                                                                    \
		if (!(Condition)) {                                             \
			CR_EXPAND(TEST_ASSERT_FAILED(CR_VA_TAIL(__VA_ARGS__))); \
			Fail();                                                 \
		}                                                               \
	} while (0)

/* Index and parts of Criterion's message, then the format and the arguments of the test's text. */
#define TEST_ASSERT_FAILED(...)                                                              \
	CR_EXPAND(test_assert_failed(__FILE__, __LINE__, CR_TRANSLATE_DEF_MSG_(__VA_ARGS__), \
				     "x" CR_VA_TAIL(CR_VA_TAIL(__VA_ARGS__))))

#endif
