/*
 * nvme/worker.h - the few words that differ between a GPU and the CPU standing in for one.
 *
 * Worker code (queues, objects, pipeline, operators) is written once, in the common subset of C11
 * and CUDA C++17 (no designated initialisers, _Atomic, compound literals, VLAs or implicit casts
 * from void *), and compiled twice: by gcc for `host`, by nvcc for `cuda`.
 *
 *   block   what the pipeline launches: a CUDA thread block | one thread
 *   worker  what owns queue pairs: a warp                   | that thread
 *   lane    HR_LANES of them in lock-step make a worker     | 1
 *
 * Functions named "collective" must be called by all lanes of a worker together; "block-collective"
 * ones by all threads of a block.
 */
#ifndef NVME_WORKER_H
#define NVME_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#include "nvme/worker_cuda.h"
#else
#include "nvme/worker_host.h"
#endif

/*
 * Provided by both (see the two files for how):
 *
 *   HR_BOTH                        prefix of a pure inline function, for CPU and GPU
 *   HR_WORKER                      prefix of an inline function that only workers call
 *   HR_DEVICE                      prefix of an external worker function defined in a .c file
 *   HR_LANES                       lanes in a worker
 *   uint32_t hr_lane(), hr_warp(), hr_warps()        my lane; my worker and workers in the block
 *   uint32_t hr_thread(), hr_threads()               = hr_warp() * HR_LANES + hr_lane(), and count
 *   uint32_t hr_ballot(bool p)                       collective: bit i set when lane i says p
 *   uint32_t hr_shfl_u32(v, lane), uint64_t hr_shfl_u64(v, lane)   collective: lane's value
 *   uint32_t hr_match_u32(v)                         collective: mask of lanes with the same v
 *   uint64_t hr_lanes_sum_u64(v), float hr_lanes_sum_f32(v)        collective: sum, in every lane
 *   uint32_t hr_block_xor_u32(v)                     block-collective: xor over all threads
 *   void *hr_block_memory()        HR_BLOCK_MEMORY bytes that the threads of a block share, 16-byte
 *                                  aligned: of compute, for the operator, kept from its init to
 *                                  its finish; of others, for queue pairs (gpu/worker/block_qp.h)
 *   void *hr_launch_memory()       the shared_bytes that the launch gives each block besides, 16-byte
 *                                  aligned: of compute, for tables of checksums; may be NULL where
 *                                  workers have one lane
 *   void hr_lanes_sync(), hr_block_sync()            collective; block-collective
 *   uint32_t hr_acquire_u32(p), uint64_t hr_acquire_u64(p)     device scope
 *   void hr_release_u32(p, v), hr_release_u64(p, v)          device scope
 *   ... hr_acquire_sys_u32/u64, hr_release_sys_u32/u64        system scope: what CPU,
 *                                                    GPU and SSD exchange (CQEs, stop flags)
 *   void hr_relaxed_sys_u64(p, v)              a counter for the CPU to look at; no order
 *   void hr_count_up_u64(p)                          *p += 1, of a counter that one lane at a time
 *                                                    changes; no order
 *   uint64_t hr_fetch_add_u64(p, n)                  add n to *p; what *p was before; device scope,
 *                                                    no order
 *   void hr_write_u64x2(p, low, high)                16 bytes, aligned, by one access if possible
 *   void hr_release_sys()          what this worker has read and written comes before what the
 *                                  calling lane writes next with hr_mmio_write32()
 *   void hr_mmio_write32(p, v)     doorbell: one access to a register, after hr_release_sys()
 *   uint64_t hr_clock_ns()         the backend's nanosecond clock, for deadlines
 *   uint64_t hr_cycles()           of the processor that the worker runs on, for its cost; 0 on
 *                                  the CPU, where looking costs more than it tells
 *   void hr_idle(uint32_t *spins)  one step of waiting; pass a counter zeroed on progress
 *   uint32_t hr_count_bits(mask)                     number of set bits
 *   uint32_t hr_lowest_bit(mask), hr_highest_bit_u64(v)   index of a bit of a value that is not 0
 *   uint32_t hr_crc32c_u64(crc, v), hr_crc32c_u8(crc, v)   one step of CRC-32C (cache/crc32c.h)
 */

#endif
