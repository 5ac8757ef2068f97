/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU worker image for built-in operators that access objects. Many warps hide the latency of
 * misses: with this bound a thread has 64 registers.
 */
#include "gpu/cuda/image/objects.cu"

extern "C" __global__ void __launch_bounds__(HR_THREADS_MAX)
	hr_entry_access(struct hr_access *access)
{
	hr_access_block(access, blockIdx.x);
}
