/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <string.h>

#include "gpu/tap/client/tap_cuda.h"

hr_tap_cuda_function hr_tap_cuda_find(const char *name)
{
	static void *driver;
	hr_tap_cuda_function function = NULL;
	void *found;

	if (!driver)
		driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		return NULL;
	found = dlsym(driver, name);
	memcpy(&function, &found, sizeof function);
	return function;
}
