/*
 * The GPU worker image: all worker code as one unit, so that everything can be inlined and nothing
 * has to be linked on the device. The kernels are what a launch runs (enum hr_kernel in
 * gpu/backend.h): one thread block, of whole warps, per worker block.
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
#include "gpu/worker/bench.c"
#include "gpu/worker/probe.c"
#include "gpu/cuda/link_rates.cu"

extern "C" __global__ void hr_kernel_pipe(struct hr_pipe *pipe)
{
	hr_pipe_block(pipe, blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(HR_BENCH_THREADS) hr_kernel_bench(struct hr_bench *b)
{
	hr_bench_block(b, blockIdx.x);
}

extern "C" __global__ void hr_kernel_probe(struct hr_probe *probe)
{
	hr_probe_block(probe, blockIdx.x);
}
