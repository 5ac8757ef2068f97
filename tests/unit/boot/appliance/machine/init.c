/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel command line of `headrace boot` as the first process. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "boot/appliance/machine/machine.h"

TestSuite(boot, .timeout = 60);

Test(boot, options_of_the_kernel_command_line)
{
	static const struct {
		const char *cmdline, *value; /* NULL: there is no value */
	} row[] = {
		{ "quiet headrace.config=/a.conf rw\n", "/a.conf" },
		{ "headrace.config=/a.conf headrace.config=/b.conf", "/b.conf" },
		{ "headrace.config=\n", NULL },
		{ "headrace.configs=/a.conf xheadrace.config=/a.conf", NULL },
		{ "headrace.config", NULL },
		{ "", NULL },
		{ "headrace.config=/0123456789abcdef", NULL }, /* longer than the buffer */
	};
	char value[16];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *got =
			hr_pid1_option(row[i].cmdline, "headrace.config", value, sizeof value);

		if (row[i].value)
			cr_expect(got && strcmp(got, row[i].value) == 0, "row %zu: %s", i,
				  got ? got : "none");
		else
			cr_expect_null(got, "row %zu", i);
	}
}
