/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces gpu/cuda/ in a build without nvcc and cuda.h, and in the fully static binary.
 */
#include "gpu/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>

#include "config/base/log.h"

int hr_cuda_open(struct hr_backend *b, int ordinal, bool compressible, struct hr_error *e)
{
	return hr_fail(
		e, HR_ERROR_MISSING, -ENOTSUP,
		"this build has no cuda backend: it was made without nvcc, or is the static one");
}

int hr_cuda_await(int ordinal, struct hr_error *e)
{
	return 0;
}
