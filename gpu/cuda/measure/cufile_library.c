/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "config/base/log.h"
#include "gpu/cuda/measure/cufile.h"

#define LIBRARY "libcufile.so.0"

static void *library;

static void *find_symbol(const char *name)
{
	return dlsym(library, name);
}

int hr_cufile_library(void *(**find)(const char *name), struct hr_error *e)
{
	if (!library)
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return hr_fail(e, HR_ERROR_MISSING, -ENOENT,
			       LIBRARY " cannot be loaded; it comes with the CUDA toolkit");
	*find = find_symbol;
	return 0;
}
