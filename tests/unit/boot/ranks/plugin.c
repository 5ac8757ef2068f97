/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are no plugin, plugins of another version, and plugins that fail. */
#include "boot/ranks/plugin.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/error.h"

TestSuite(plugin, .timeout = 60);

static struct hr_ranks ranks;

static int load(const char *name, const char *how)
{
	char path[512];

	snprintf(path, sizeof path, "%s/%s", TEST_PLUGINS, name);
	setenv("HR_TEST_PLUGIN", how, 1);
	return hr_ranks_load_file(path, &ranks, test_error());
}

Test(plugin, files_that_cannot_be_used)
{
	static const struct {
		const char *name, *how;
		int want;
		enum hr_error_kind kind;
		const char *text;
	} row[] = {
		{ "absent.so", "", -ENOENT, HR_ERROR_MISSING,
		  "absent.so: cannot be opened: No such" },
		{ "no_plugin.so", "", -EINVAL, HR_ERROR_MISSING, "hr_ranks_plugin" },
		{ "other_abi.so", "", -EINVAL, HR_ERROR_MISSING,
		  "other_abi.so has version 99 of the interface, expected 2" },
		{ "other_size.so", "", -EINVAL, HR_ERROR_MISSING,
		  "has another layout of the interface" },
		{ "broken.so", "fail", -EIO, HR_ERROR_FAILED, "--mpi: xxx" },
		{ "broken.so", "alone", -ENOTCONN, HR_ERROR_USAGE,
		  "--mpi: no launcher has started it, as in: mpirun -n 4 headrace run --mpi CONFIG" },
		{ "broken.so", "2", -EPROTO, HR_ERROR_FAILED, "this is rank 2 of 2" },
		{ "broken.so", "1", 0, HR_ERROR_NONE, "" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(load(row[i].name, row[i].how), row[i].want, "row %zu", i);
		cr_expect_eq(test_error_kind(), row[i].kind, "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].text), "row %zu: %s", i,
			  test_error_text());
	}
	cr_expect_eq(ranks.rank, 1u);
	cr_expect_eq(ranks.size, 2u);
}

/* The build folder of this test has no plugin. */
Test(plugin, no_file_beside_the_program)
{
	cr_expect_eq(hr_ranks_load(&ranks, test_error()), -ENOENT);
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect(strstr(test_error_text(), "there is no headrace-mpi.so in /"), "%s",
		  test_error_text());
}
