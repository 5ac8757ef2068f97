/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/shape/gpu_sharing.h - how the pipeline of a tap and its consumers share a GPU:
 * the mode in force, and why.
 *
 * Without MPS the driver gives the GPU to one process at a time, in turns of milliseconds, and
 * workers that wait keep their turn. So:
 *
 *   mps     the processes are clients of one MPS server, and run at the same time. A GPU fault of one
 *           ends all of them
 *   park    workers leave the GPU while they have nothing to do; the engine launches again when a
 *           consumer gives a tile back
 *   slice   workers stay, and consumers on this GPU wait for their turns. Right for consumers on
 *           another GPU, and for those that only read by copies of the driver
 */
#ifndef BOOT_ENGINE_SHAPE_GPU_SHARING_H
#define BOOT_ENGINE_SHAPE_GPU_SHARING_H

#include "boot/engine/engine.h"

/*
 * The mode in force for a run with a tap, whose backend is open; *why: a sentence without a full
 * stop, constant text. Never HR_SHARE_AUTO. On the host backend worker blocks are CPU threads, so
 * only "park" changes anything there, and "slice" is in force otherwise.
 */
enum hr_tap_sharing hr_run_gpu_sharing(const struct hr_engine *engine, const struct hr_run *run,
				       const char **why);

/*
 * Bytes of all tiles that a pipeline that parks on a GPU needs for its rate. In each turn
 * consumers get the tiles that there are, and then the GPU changes between the processes twice,
 * while the link rests: about as long as 40 MB take on an H200 (tests/bench/README.md).
 */
#define HR_GPU_SHARING_PARK_BYTES ((uint64_t)256 << 20)

/* True for a pipeline that parks on a GPU, and has tiles for a part of the rate only. */
bool hr_run_gpu_sharing_is_small(const struct hr_engine *engine, const struct hr_run *run);

/* "mps", "park", "slice". */
const char *hr_gpu_sharing_name(enum hr_tap_sharing share);

/* 0; or -ENOTSUP: the configuration wants MPS, and this process is no client of an MPS server; -EINVAL:
 * it wants a pipeline with a feed to park. */
int hr_run_gpu_sharing_check(struct hr_engine *engine, const struct hr_run *run);

#endif
