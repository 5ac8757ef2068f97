#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "config/log.h"
#include "gpu/cuda/cufile.h"

#define LIBRARY "libcufile.so.0"

static void *library;

static void *find_symbol(const char *name)
{
	return dlsym(library, name);
}

int hr_cufile_library(void *(**find)(const char *name), char *message)
{
	if (!library)
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(message, HR_LOG_LINE_MAX,
			 LIBRARY " cannot be loaded; it comes with the CUDA toolkit");
		return -ENOENT;
	}
	*find = find_symbol;
	return 0;
}
