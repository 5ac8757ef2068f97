/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU worker image for a pipeline with a user operator that accesses objects: I/O workers and
 * compute blocks, relocatable, with the two functions of gpu/ops/operator.h undefined. As
 * gpu/cuda/image/image_user.cu, which is the image for stream operators: a file has the
 * functions of one shape only, and no symbol may stay undefined.
 */
#include "gpu/ops/operator.h"

extern "C" __device__ void *hr_block_memory(void)
{
	static __shared__ __align__(16) uint8_t memory[HR_BLOCK_MEMORY];

	return memory;
}

#include "gpu/worker/io/access.h"
#include "gpu/worker/role.h"

HR_DEVICE void hr_op_run(uint32_t op, const void *args, void *state, struct hr_objects *objects)
{
	hr_operator_run(args, state, objects);
}

HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *all)
{
	hr_operator_finish(all);
}

#include "cache/object.c"
#include "gpu/worker/io/access.c"
#include "gpu/worker/io/io.c"
#include "gpu/worker/io/commands.c"
#include "gpu/worker/io/single.c"
#include "gpu/worker/io/peers.c"
#include "gpu/worker/io/peers_home.c"
#include "gpu/worker/io/peers_pages.c"
#include "gpu/worker/io/requests.c"
#include "gpu/worker/io/writeback.c"

extern "C" __global__ void hr_entry_access(struct hr_access *access)
{
	hr_access_block(access, blockIdx.x);
}
