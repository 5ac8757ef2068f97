/* SPDX-License-Identifier: Apache-2.0 */
/* libgdrapi loaded at run time: a library that lacks a function, or has another version, is refused. */
#include "gpu/window.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/error.h"

#define HIDDEN __attribute__((visibility("hidden")))

static const char *const symbol[] = { "gdr_open",	 "gdr_close",
				      "gdr_pin_buffer",	 "gdr_unpin_buffer",
				      "gdr_map",	 "gdr_unmap",
				      "gdr_get_info_v2", "gdr_runtime_get_version" };
#define SYMBOLS (sizeof symbol / sizeof *symbol)

static char library;   /* its address is the handle */
static int open_count; /* of the library */
static bool installed;
static const char *missing; /* the library has no such function */
static int major, minor;

/* ---- the loader, for the program's own calls */

HIDDEN void *dlopen(const char *name, int flags)
{
	cr_expect_str_eq(name, "libgdrapi.so.2");
	cr_expect_eq(flags, RTLD_NOW | RTLD_LOCAL);
	open_count += installed;
	return installed ? &library : NULL;
}

HIDDEN int dlclose(void *handle)
{
	cr_expect_eq(handle, (void *)&library);
	open_count--;
	return 0;
}

static void version(int *to_major, int *to_minor)
{
	*to_major = major;
	*to_minor = minor;
}

/* Function i, as a number: none but the version is called. */
HIDDEN void *dlsym(void *handle, const char *name)
{
	void (*const call)(int *, int *) = version;
	void *at;

	cr_expect_eq(handle, (void *)&library);
	if (missing && strcmp(name, missing) == 0)
		return NULL;
	for (size_t i = 0; i + 1 < SYMBOLS; i++)
		if (strcmp(name, symbol[i]) == 0)
			return (void *)(0x1000 + i);
	cr_expect_str_eq(name, symbol[SYMBOLS - 1]);
	memcpy(&at, &call, sizeof at);
	return at;
}

static void begin(void)
{
	installed = true;
	missing = NULL;
	major = 2;
	minor = 5;
	open_count = 0;
}

TestSuite(window_gdr, .init = begin, .timeout = 60);

/* A function pointer as dlsym() has returned it. */
static uintptr_t number(const void *function)
{
	uintptr_t value;

	memcpy(&value, function, sizeof value);
	return value;
}

Test(window_gdr, each_function_is_found_by_its_name)
{
	static const struct hr_gdr none;
	struct hr_gdr gdr;

	memset(&gdr, 0x55, sizeof gdr);
	cr_assert_eq(hr_gdr_load(&gdr, test_error()), 0, "%s", test_error_text());
	cr_expect_eq(open_count, 1);
	cr_expect_eq(gdr.library, (void *)&library);
	cr_expect_eq(number(&gdr.open), 0x1000);
	cr_expect_eq(number(&gdr.close), 0x1001);
	cr_expect_eq(number(&gdr.pin), 0x1002);
	cr_expect_eq(number(&gdr.unpin), 0x1003);
	cr_expect_eq(number(&gdr.map), 0x1004);
	cr_expect_eq(number(&gdr.unmap), 0x1005);
	cr_expect_eq(number(&gdr.info), 0x1006);
	cr_expect(gdr.version == version);
	hr_gdr_unload(&gdr);
	cr_expect_eq(open_count, 0);
	cr_expect_eq(memcmp(&gdr, &none, sizeof gdr), 0);
	hr_gdr_unload(&gdr); /* nothing is loaded */
	cr_expect_eq(open_count, 0);
}

Test(window_gdr, a_library_that_lacks_a_function_is_closed)
{
	struct hr_gdr gdr;
	char text[128];

	for (size_t i = 0; i < SYMBOLS; i++) {
		missing = symbol[i];
		cr_expect_eq(hr_gdr_load(&gdr, test_error()), -ENOTSUP);
		snprintf(text, sizeof text, "libgdrapi.so.2: has no %s; expected gdrcopy 2.x",
			 missing);
		cr_expect_str_eq(test_error_text(), text);
		cr_expect_eq(open_count, 0);
		cr_expect_null(gdr.library);
	}
}

Test(window_gdr, only_the_second_version_is_known)
{
	struct hr_gdr gdr;

	for (major = 1; major <= 3; major += 2) {
		cr_expect_eq(hr_gdr_load(&gdr, test_error()), -ENOTSUP);
		cr_expect_str_eq(test_error_text(),
				 major == 1 ? "libgdrapi.so.2: version 1.5; expected 2.x"
					    : "libgdrapi.so.2: version 3.5; expected 2.x");
		cr_expect_eq(open_count, 0);
		cr_expect_null(gdr.library);
	}
}

Test(window_gdr, a_machine_without_the_library)
{
	struct hr_gdr gdr;

	installed = false;
	cr_expect_eq(hr_gdr_load(&gdr, test_error()), -ENOENT);
	cr_expect_str_eq(test_error_text(),
			 "libgdrapi.so.2: cannot be loaded; install gdrcopy 2.x");
	hr_gdr_unload(&gdr);
	cr_expect_eq(open_count, 0);
}
