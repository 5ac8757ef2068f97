/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>

#include "config/base/error.h"
#include "tests/fakes/log.h"

static struct hr_error e;

static const char *long_text(size_t length)
{
	static char text[2 * HR_ERROR_BYTES];

	memset(text, 'x', length);
	text[length] = '\0';
	return text;
}

Test(error, fail_fills_kind_and_text_and_returns_the_code)
{
	cr_expect_eq(hr_fail(&e, HR_ERROR_MISSING, -ENODEV, "%s: no device %u", "ssd0", 3),
		     -ENODEV);
	cr_expect_eq(e.kind, HR_ERROR_MISSING);
	cr_expect_str_eq(e.text, "ssd0: no device 3");
}

Test(error, first_error_wins)
{
	hr_fail(&e, HR_ERROR_DEVICE, 0x281, "first");
	cr_expect_eq(hr_fail(&e, HR_ERROR_USAGE, -EINVAL, "second"), -EINVAL);
	cr_expect_eq(e.kind, HR_ERROR_DEVICE);
	cr_expect_str_eq(e.text, "first");
}

/* A failure that follows from a reported failure has a kind and a text, and is not printed. */
Test(error, a_known_error_is_not_printed)
{
	cr_expect_eq(hr_fail_known(&e, HR_ERROR_DEVICE, -EIO, "ssd0: %s", "failed"), -EIO);
	cr_expect_eq(e.kind, HR_ERROR_DEVICE);
	cr_expect_str_eq(e.text, "ssd0: failed");
	cr_expect_eq(hr_error_report(&e, -EIO), HR_ERROR_DEVICE);
	cr_expect_eq(fake_log_count(), 0);
	hr_error_clear(&e);
	hr_fail(&e, HR_ERROR_FAILED, -EIO, "new");
	hr_fail_known(&e, HR_ERROR_DEVICE, -EIO, "known");
	hr_error_log(&e, HR_LOG_ERROR);
	cr_expect_str_eq(fake_log_last(), "new");
}

Test(error, a_null_error_accepts_every_call)
{
	cr_expect_eq(hr_fail_known(NULL, HR_ERROR_DEVICE, 0x281, "text"), 0x281);
	cr_expect_eq(hr_fail(NULL, HR_ERROR_DEVICE, 0x281, "text"), 0x281);
	cr_expect_eq(hr_error_add(NULL, HR_ERROR_USAGE, -EINVAL, "text"), -EINVAL);
	hr_error_context(NULL, "context");
	hr_error_append(NULL, "more");
	hr_error_clear(NULL);
	hr_error_log(NULL, HR_LOG_ERROR);
	cr_expect_eq(fake_log_count(), 0);
}

Test(error, control_characters_of_a_text_are_replaced)
{
	hr_fail(&e, HR_ERROR_FAILED, -EIO, "a\x1b[2Jb\nc\x7f");
	hr_error_context(&e, "d\re");
	hr_error_add(&e, HR_ERROR_FAILED, -EIO, "f\ng");
	cr_expect_str_eq(e.text, "d?e: a?[2Jb?c?\nf?g");
}

Test(error, context_goes_in_front)
{
	hr_error_context(&e, "nothing");
	cr_expect_str_eq(e.text, "");
	cr_expect_eq(e.kind, HR_ERROR_NONE);
	hr_fail(&e, HR_ERROR_FAILED, -EIO, "inner");
	hr_error_context(&e, "middle %d", 2);
	hr_error_context(&e, "outer");
	cr_expect_str_eq(e.text, "outer: middle 2: inner");
}

Test(error, appended_text_follows_the_text_and_is_cut_at_the_limit)
{
	hr_error_append(&e, "nothing");
	cr_expect_str_eq(e.text, "");
	hr_fail(&e, HR_ERROR_FAILED, -EIO, "what");
	hr_error_append(&e, "; %s\n", "remedy");
	cr_expect_str_eq(e.text, "what; remedy?");
	hr_error_append(&e, "%s", long_text(HR_ERROR_BYTES));
	cr_expect_eq(strlen(e.text), HR_ERROR_BYTES - 1);
	cr_expect_str_eq(e.text + HR_ERROR_BYTES - 5, "x...");
}

Test(error, clear_removes_kind_and_text)
{
	hr_fail(&e, HR_ERROR_USAGE, -EINVAL, "%s", long_text(HR_ERROR_BYTES - 2));
	hr_error_add(&e, HR_ERROR_USAGE, -EINVAL, "a line");
	hr_error_log(&e, HR_LOG_ERROR);
	hr_error_clear(&e);
	cr_expect_eq(e.kind, HR_ERROR_NONE);
	cr_expect_eq(e.left_out, 0);
	hr_fail(&e, HR_ERROR_MISSING, -ENODEV, "another");
	hr_error_log(&e, HR_LOG_ERROR);
	cr_expect_str_eq(fake_log_last(), "another");
}

Test(error, an_error_is_printed_once)
{
	hr_error_log(&e, HR_LOG_ERROR);
	cr_expect_eq(fake_log_count(), 0);
	hr_fail(&e, HR_ERROR_DEVICE, -EIO, "100 %%");
	hr_error_log(&e, HR_LOG_WARN);
	hr_error_log(&e, HR_LOG_ERROR);
	cr_expect_eq(hr_error_report(&e, -EIO), HR_ERROR_DEVICE);
	cr_expect_eq(fake_log_count(), 1);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1);
	cr_expect_str_eq(fake_log_last(), "100 %");
}

Test(error, the_exit_code_is_the_kind_whatever_the_errno)
{
	cr_expect_eq(hr_error_report(&e, 0), 0);
	hr_fail(&e, HR_ERROR_MISSING, -EINVAL, "text");
	cr_expect_eq(hr_error_report(&e, -EINVAL), 3);
	cr_expect_eq(hr_error_report(&e, 0), 0, "a call that has succeeded after all");
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 1);
}

Test(error, a_failure_without_a_text_is_printed_by_its_number)
{
	cr_expect_eq(hr_error_report(&e, -EINTR), 1);
	cr_expect_eq(fake_log_count(), 0);
	cr_expect_eq(hr_error_report(&e, -ENOSPC), 1);
	cr_expect_str_eq(fake_log_last(), "No space left on device");
	cr_expect_eq(hr_error_report(NULL, 0x281), 1);
	cr_expect_str_eq(fake_log_last(), "NVMe status 281");
}

/* Neither the user nor the machine can do anything about them; a later attempt can succeed. */
Test(error, a_shortage_of_this_moment_is_no_mistake)
{
	static const struct {
		enum hr_error_kind given;
		int code;
		enum hr_error_kind kind;
	} row[] = {
		{ HR_ERROR_USAGE, -EAGAIN, HR_ERROR_FAILED },
		{ HR_ERROR_USAGE, -ENOMEM, HR_ERROR_FAILED },
		{ HR_ERROR_USAGE, -EMFILE, HR_ERROR_FAILED },
		{ HR_ERROR_USAGE, -ENOENT, HR_ERROR_USAGE },
		{ HR_ERROR_MISSING, -EAGAIN, HR_ERROR_FAILED },
		{ HR_ERROR_MISSING, -ENFILE, HR_ERROR_FAILED },
		{ HR_ERROR_MISSING, -ENOBUFS, HR_ERROR_FAILED },
		{ HR_ERROR_MISSING, -ENOMEM, HR_ERROR_MISSING }, /* a size that is not there */
		{ HR_ERROR_DEVICE, -EAGAIN, HR_ERROR_DEVICE },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_error made = { 0 };

		cr_expect_eq(hr_fail(&made, row[i].given, row[i].code, "x"), row[i].code);
		cr_expect_eq(made.kind, row[i].kind, "row %zu", i);
		hr_error_clear(&made);
		hr_error_add(&made, row[i].given, row[i].code, "x");
		cr_expect_eq(made.kind, row[i].kind, "row %zu", i);
		cr_expect_eq(hr_error_is_shortage(row[i].code), row[i].code != -ENOENT);
	}
}
