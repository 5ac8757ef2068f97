/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU worker image of measurements and of the self-test (gpu/worker/bench.h, gpu/worker/probe.h,
 * gpu/measuring.h).
 */
#include "nvme/queue/worker.h"

#include "cache/crc32c.c"
#include "cache/object.c"
#include "gpu/worker/bench.c"
#include "gpu/worker/probe.c"
#include "gpu/cuda/image/link_rates.cu"

extern "C" __global__ void __launch_bounds__(HR_BENCH_THREADS) hr_entry_bench(struct hr_bench *b)
{
	hr_bench_block(b, blockIdx.x);
}

extern "C" __global__ void hr_entry_probe(struct hr_probe *probe)
{
	hr_probe_block(probe, blockIdx.x);
}
