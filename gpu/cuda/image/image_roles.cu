/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles of a pipeline, each as an entry point of its own. These are never launched: the driver
 * reports their registers. hr_entry_pipe, which combines all roles, needs as many registers as the
 * largest role. They have an image of their own, so that they do not affect the entry points that
 * run.
 *
 * The build cannot replace this report. Registers belong to an entry point: roles as functions that
 * are not inlined would add calls to hr_entry_pipe and change its registers, and `ptxas -v` prints
 * the registers of entry points only. Registers also differ by architecture: for a GPU newer than
 * the machine code the driver compiles PTX, so only the driver knows them.
 */
#include "nvme/queue/worker.h"

#include "cache/crc32c.c"
#include "cache/object.c"
#include "gpu/worker/checksum.c"
#include "gpu/cuda/image/operators.cu"
#include "gpu/worker/pipeline.c"
#include "gpu/worker/role.c"
#include "gpu/worker/prefetch.c"
#include "gpu/worker/compute.c"
#include "gpu/worker/writeback.c"

extern "C" __global__ void hr_role_prefetch(struct hr_pipe *pipe)
{
	hr_prefetch_block(pipe, blockIdx.x);
}

extern "C" __global__ void hr_role_compute(struct hr_pipe *pipe)
{
	hr_compute_block(pipe, blockIdx.x);
}

extern "C" __global__ void hr_role_writeback(struct hr_pipe *pipe)
{
	hr_writeback_block(pipe, blockIdx.x);
}
