/*
 * In place of gpu/cuda/ in a build without nvcc and cuda.h, and in the fully static one.
 */
#include "gpu/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>

#include "config/log.h"

int hr_cuda_open(struct hr_backend *b, int ordinal, bool compressible, char *message)
{
	snprintf(message, HR_LOG_LINE_MAX,
		 "this build has no cuda backend: it was made without nvcc, or is the static one");
	return -ENOTSUP;
}
