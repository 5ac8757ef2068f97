/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/driver/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"

#define LIBRARY "libcuda.so.1"

int hr_cuda_library(PFN_cuGetProcAddress_v12000 *find, struct hr_error *e)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), *symbol;

	if (!library)
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV, "%s; install the NVIDIA driver",
			       dlerror());
	symbol = dlsym(library, "cuGetProcAddress_v2");
	if (!symbol)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       LIBRARY
			       ": no cuGetProcAddress_v2: the NVIDIA driver is older than CUDA "
			       "12.0; install a newer one");
	memcpy(find, &symbol, sizeof *find);
	return 0;
}
