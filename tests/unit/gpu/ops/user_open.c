/* SPDX-License-Identifier: Apache-2.0 */
/* What a refusal of the loader says: its text without the name of the copy. */
#include "gpu/ops/user.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/error.h"

#define COPY 7
#define PATH "/proc/self/fd/7"
#define HIDDEN __attribute__((visibility("hidden")))

static char library; /* its address is the handle */
static bool loads;   /* the file can be loaded */
static unsigned opened, closed;
static const char *text; /* of the loader */

/* ---- the loader, for the program's own calls */

HIDDEN void *dlopen(const char *path, int flags)
{
	cr_expect_str_eq(path, PATH);
	cr_expect_eq(flags, RTLD_NOW | RTLD_LOCAL);
	opened += loads;
	return loads ? &library : NULL;
}

HIDDEN void *dlsym(void *handle, const char *name)
{
	cr_expect_eq(handle, (void *)&library);
	cr_expect_str_eq(name, "hr_operator");
	return NULL;
}

HIDDEN int dlclose(void *handle)
{
	cr_expect_eq(handle, (void *)&library);
	closed++;
	return 0;
}

HIDDEN char *dlerror(void)
{
	return (char *)(uintptr_t)text;
}

TestSuite(op_open, .timeout = 60);

Test(op_open, only_the_name_and_its_colon_are_removed_from_the_text)
{
	static const struct {
		const char *text, *says;
	} row[] = {
		{ PATH ": undefined symbol: x", "undefined symbol: x" },
		{ PATH ": ", "" },
		{ PATH ":1: x", PATH ":1: x" },
		{ PATH ":", PATH ":" },
		{ PATH " is bad", PATH " is bad" },
		{ "/proc/self/fd/8: x", "/proc/self/fd/8: x" },
		{ "/proc/self/fd", "/proc/self/fd" },
		{ "", "" },
		{ NULL, "no reason given" },
	};

	for (size_t i = 0; i < 2 * (sizeof row / sizeof *row); i++) {
		const struct hr_operator *op = NULL;
		void *handle;
		char want[96];

		loads = i % 2; /* and then has no operator */
		opened = closed = 0;
		text = row[i / 2].text;
		snprintf(want, sizeof want, "cannot be loaded: %s", row[i / 2].says);
		cr_expect_eq(hr_op_user_open(COPY, &handle, &op, test_error()), -EINVAL);
		cr_expect_str_eq(test_error_text(), want, "row %zu: %s", i, test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
		cr_expect_null(op);
		cr_expect_eq(opened, closed, "row %zu", i);
	}
}
