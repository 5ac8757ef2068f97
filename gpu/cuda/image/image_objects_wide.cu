/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_objects.cu for launches whose blocks are all resident with 128 registers of a thread. An
 * image of its own, because each of the two takes as long to compile as all other entry points.
 */
#include "gpu/cuda/image/objects.cu"

extern "C" __global__ void __launch_bounds__(HR_THREADS_MAX / 2)
	hr_entry_access_wide(struct hr_access *access)
{
	hr_access_block(access, blockIdx.x);
}
