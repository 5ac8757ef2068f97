/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/cmd.h"

#include <criterion/criterion.h>
#include <errno.h>

#include "tests/harness/error.h"

TestSuite(cmd, .timeout = 60);

/*
 * Each kind of error has the documented exit code, whatever the errno is. An error without text has
 * the code of HR_ERROR_FAILED.
 */
Test(cmd, the_exit_code_is_the_kind_of_the_error)
{
	static const int error[] = { 0x281, -EIO, -EINVAL, -ENODEV, -ENOSPC };
	static const enum hr_exit documented[] = { HR_EXIT_DONE, HR_EXIT_FAILED, HR_EXIT_USAGE,
						   HR_EXIT_MISSING, HR_EXIT_DEVICE };

	for (int code = 0; code < 5; code++)
		cr_expect_eq((int)documented[code], code);
	for (size_t i = 0; i < sizeof error / sizeof *error; i++) {
		for (enum hr_error_kind kind = HR_ERROR_FAILED; kind <= HR_ERROR_DEVICE; kind++) {
			hr_fail(test_error(), kind, error[i], "told");
			cr_expect_eq(hr_error_report(&test_error_last, error[i]), (int)kind);
		}
		cr_expect_eq(hr_error_report(test_error(), error[i]), HR_EXIT_FAILED);
	}
	cr_expect_eq(hr_error_report(test_error(), -EINTR), HR_EXIT_FAILED);
	cr_expect_eq(hr_error_report(test_error(), 0), HR_EXIT_DONE);
}
