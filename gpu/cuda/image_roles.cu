/*
 * The roles of a pipeline, each a kernel by itself, which nobody launches: they are there to be asked
 * what each role takes. hr_kernel_pipe, in which all of them are one kernel, takes what the greediest
 * needs. In an image of their own, so that they change nothing of what runs.
 */
#include "nvme/worker.h"

#include "cache/crc32c.c"
#include "cache/object.c"
#include "gpu/worker/checksum.c"
#include "gpu/cuda/operators.cu"
#include "gpu/worker/pipeline.c"
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
