/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU worker image of stream pipelines: their worker code as one unit, so that the compiler can
 * inline all of it and nothing is linked on the device. Entry points of launches (enum hr_entry in
 * gpu/backend.h) have one thread block, of whole warps, per worker block. image_objects.cu,
 * image_objects_wide.cu and image_tools.cu have the other entry points, so that these are compiled at
 * the same time.
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
