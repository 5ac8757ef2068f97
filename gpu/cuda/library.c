#include "gpu/cuda/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/log.h"

#define LIBRARY "libcuda.so.1"

int hr_cuda_library(PFN_cuGetProcAddress_v12000 *find, char *message)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), *symbol;

	if (!library) {
		snprintf(message, HR_LOG_LINE_MAX, "%s; install the NVIDIA driver", dlerror());
		return -ENODEV;
	}
	symbol = dlsym(library, "cuGetProcAddress_v2");
	if (!symbol) {
		snprintf(message, HR_LOG_LINE_MAX,
			 LIBRARY ": no cuGetProcAddress_v2: the NVIDIA driver is older than CUDA "
				 "12.0; install a newer one");
		return -ENOTSUP;
	}
	memcpy(find, &symbol, sizeof *find);
	return 0;
}
