/*
 * The GPU worker image: all worker code as one unit, so that the compiler can inline all of it and
 * nothing is linked on the device. It has the entry points of launches (enum hr_entry in
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
#include "gpu/worker/access.c"
#include "gpu/worker/io.c"
#include "gpu/worker/io_commands.c"
#include "gpu/worker/io_one.c"
#include "gpu/worker/io_peers.c"
#include "gpu/worker/io_peers_home.c"
#include "gpu/worker/io_peers_pages.c"
#include "gpu/worker/io_requests.c"
#include "gpu/worker/io_writeback.c"
#include "gpu/tap/feed.c"
#include "gpu/tap/role.c"
#include "gpu/worker/bench.c"
#include "gpu/worker/probe.c"
#include "gpu/cuda/link_rates.cu"

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

/* Many warps hide the latency of misses: with this bound a thread has 64 registers. */
extern "C" __global__ void __launch_bounds__(HR_THREADS_MAX)
	hr_entry_access(struct hr_access *access)
{
	hr_access_block(access, blockIdx.x);
}

/* For launches whose blocks are all resident with 128 registers of a thread. */
extern "C" __global__ void __launch_bounds__(HR_THREADS_MAX / 2)
	hr_entry_access_wide(struct hr_access *access)
{
	hr_access_block(access, blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(HR_BENCH_THREADS) hr_entry_bench(struct hr_bench *b)
{
	hr_bench_block(b, blockIdx.x);
}

extern "C" __global__ void hr_entry_probe(struct hr_probe *probe)
{
	hr_probe_block(probe, blockIdx.x);
}
