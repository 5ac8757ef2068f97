/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU worker image for a pipeline with a user operator: the roles, relocatable, with the three
 * functions of gpu/ops/operator.h undefined. The driver's linker joins it with the GPU code of one
 * operator file, so each operator gets an image of its own. Calls are direct, and the registers of
 * one operator do not affect other operators, nor the built-in ones in gpu/cuda/image/image.cu.
 */
#include "gpu/ops/operator.h"

extern "C" __device__ void *hr_block_memory(void)
{
	static __shared__ __align__(16) uint8_t memory[HR_BLOCK_MEMORY];

	return memory;
}

HR_DEVICE void hr_op_init(uint32_t op, const void *args, void *state)
{
	hr_operator_init(args, state);
}

HR_DEVICE uint32_t hr_op_tile(uint32_t op, const void *args, void *state,
			      const struct hr_op_tile *tile)
{
	return hr_operator_tile(args, state, tile);
}

HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *all)
{
	hr_operator_finish(all);
}

#include "cache/crc32c.c"
#include "cache/object.c"
#include "gpu/worker/checksum.c"
#include "gpu/worker/pipeline.c"
#include "gpu/worker/role.c"
#include "gpu/worker/prefetch.c"
#include "gpu/worker/compute.c"
#include "gpu/worker/writeback.c"
#include "gpu/tap/feed.c"
#include "gpu/tap/role.c"

extern "C" __global__ void hr_entry_pipe(struct hr_pipe *pipe)
{
	hr_pipe_block(pipe, blockIdx.x);
}

extern "C" __global__ void hr_entry_tap(struct hr_pipe *pipe)
{
	hr_tap_pipe_block(pipe, blockIdx.x);
}

extern "C" __global__ void hr_entry_feed(struct hr_pipe *pipe)
{
	hr_feed_pipe_block(pipe, blockIdx.x);
}
