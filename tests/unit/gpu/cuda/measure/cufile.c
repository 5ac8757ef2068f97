/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real libcufile: either all its functions are found, or its absence is reported in one line.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>

#include "config/base/log.h"
#include "gpu/cuda/measure/cufile.h"
#include "tests/harness/error.h"

Test(cuda_cufile, the_library_is_found_or_its_absence_named)
{
	const bool have = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL) != NULL;
	void *(*find)(const char *name) = NULL;

	cr_assert_eq(hr_cufile_library(&find, test_error()), have ? 0 : -ENOENT);
	if (have) {
		cr_expect_not_null(find("cuFileRead"));
		cr_expect_null(find("cuFileNobody"));
	} else {
		cr_expect_str_eq(test_error_text(),
				 "libcufile.so.0 cannot be loaded; it comes with the CUDA "
				 "toolkit");
		cr_expect_null(find);
	}
}
