/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/worker.h - the primitives that differ between a GPU and the CPU, and between GPUs
 * of different makers.
 *
 * Worker code (queues, objects, pipeline, operators) is written once, in the common subset of C11
 * and CUDA C++17 (no designated initialisers, _Atomic, compound literals, VLAs or implicit casts
 * from void *), and compiled twice: by gcc for `host`, by nvcc for `cuda`.
 *
 *   block   unit that the pipeline launches: a CUDA thread block | one thread
 *   worker  owner of queue pairs: a warp                         | that thread
 *   lane    HR_LANES lanes in lock-step are a worker             | 1
 *
 * All lanes of a worker must call a "collective" function together. All threads of a block must
 * call a "block-collective" function together.
 */
#ifndef NVME_QUEUE_WORKER_H
#define NVME_QUEUE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

/* Only these lines ask which compiler this is. */
#ifdef __CUDACC__
#define HR_DEVICE_CODE
#include "nvme/queue/worker_cuda.h"
#else
#include "nvme/queue/worker_host.h"
#endif

/*
 * Both files define:
 *
 *   HR_BOTH                        prefix of a pure inline function, for CPU and GPU
 *   HR_WORKER                      prefix of an inline function that only workers call
 *   HR_WORKER_SLOW                 prefix of a function that only workers call, not inline: for code
 *                                  that seldom runs
 *   HR_DEVICE                      prefix of an external worker function defined in a .c file
 *   HR_DEVICE_SLOW                 the same, not inline: it has registers of its own, or seldom runs
 *   HR_DEVICE_CODE                 defined when the compiler makes code for a GPU of any maker
 *   HR_LANES                       lanes in a worker, at most 64
 *   hr_mask                        an unsigned integer with a bit for each lane
 *   uint32_t hr_lane(), hr_warp(), hr_warps()        this lane; worker, workers in the block
 *   uint32_t hr_thread(), hr_threads()               = hr_warp() * HR_LANES + hr_lane(); count
 *   hr_mask hr_ballot(bool p)                        collective: bit i is p of lane i
 *   uint32_t hr_shfl_u32(v, lane), uint64_t hr_shfl_u64(v, lane)   collective: v of that lane
 *   hr_mask hr_match_u32(v)                          collective: mask of lanes with the same v
 *   uint64_t hr_lanes_sum_u64(v), float hr_lanes_sum_f32(v)        collective: sum, in every lane
 *   uint32_t hr_block_xor_u32(v)                     block-collective: xor over all threads
 *   void *hr_block_memory()        HR_BLOCK_MEMORY bytes that the threads of a block share, 16-byte
 *                                  aligned. Compute blocks: for the operator, kept from its init
 *                                  to its finish. Other blocks: queue pairs (gpu/worker/block_qp.h)
 *   void *hr_launch_memory()       shared_bytes of the launch for each block, 16-byte aligned.
 *                                  Compute blocks: tables for checksums; of an access operator:
 *                                  the descriptor of the cache. May be NULL where a worker has
 *                                  one lane
 *   void hr_lanes_sync(), hr_block_sync()            collective; block-collective
 *   uint32_t hr_acquire_u32(p), uint64_t hr_acquire_u64(p)     device scope
 *   void hr_release_u32(p, v), hr_release_u64(p, v)          device scope
 *   ... hr_acquire_sys_u32/u64, hr_release_sys_u32/u64        system scope: for data
 *                                                    shared with CPU and SSD (CQEs, stop flags)
 *   uint32_t hr_poll_u32(p), uint64_t hr_poll_u64(p), hr_poll_sys_u32/u64(p)
 *                                  load of a word that is polled; no order
 *   void hr_polled(p), hr_polled_sys(p)              makes the last poll of *p by this lane an
 *                                  acquire; for a poll that found a new value. A separate primitive,
 *                                  because an acquire empties caches of some GPUs
 *   void hr_poll_u32x8(p, v)       the same for 8 words in 32 aligned bytes, into v[8]; each word is
 *                                  loaded at once. No order on any GPU: an acquire is a further
 *                                  hr_acquire_u32() of the word. hr_polled() makes the CPU's an acquire
 *   uint32_t hr_fresh_u32(p), uint64_t hr_fresh_u64(p)   load of data that other workers change; no
 *                                  order. It bypasses caches that do not see their writes
 *   hr_poll_keep_u32x8(p, v), hr_fresh_once_u32(p), hr_fresh_once_u64(p)   hr_poll_u32x8(),
 *                                  hr_fresh_u32() and hr_fresh_u64() with a hint for the cache of a
 *                                  GPU: to keep the line longer than others, to drop it before others
 *   hr_poll_sys_u32x8(p, v), hr_fresh_sys_u32(p), hr_fresh_sys_u64(p), hr_read_sys(to, from, bytes)
 *                                  hr_poll_u32x8(), hr_fresh_u32(), hr_fresh_u64() and hr_read_shared()
 *                                  of memory of another gpu, or that another gpu changes
 *   void hr_relaxed_u32(p, v), hr_relaxed_u64(p, v)      store of a word that others poll or load by
 *                                  hr_fresh_u32(); device scope, no order
 *   void hr_read_shared(to, from, bytes), hr_write_shared(to, from, bytes)     collective: copy out
 *                                  of, into memory that other workers access at the same time; no
 *                                  order. Each aligned 4-byte word is read or written at once, when
 *                                  both addresses have the same offset in it. The other address is
 *                                  memory that all lanes access
 *   void hr_relaxed_sys_u32(p, v), hr_relaxed_sys_u64(p, v)      store of a word that the CPU reads;
 *                                              no order
 *   void hr_fenced_sys_u64(p, v)               store after hr_release_sys() of this lane, which makes
 *                                              it a release at system scope: many stores share the
 *                                              fence. On the CPU the store itself is the release
 *   void hr_count_up_u64(p)                          *p += 1, for a counter that one lane at a time
 *                                                    changes; no order
 *   uint64_t hr_fetch_add_u64(p, n)                  *p += n; returns the former *p; device
 *                                                    scope, no order
 *   uint64_t hr_arrive_u64(p, n)                     the same, acquire and release
 *   uint64_t hr_arrive_sys_u64(p, n)                 the same at system scope, also for another gpu's
 *                                                    memory
 *   bool hr_replace_u32(p, was, now)                 compare and swap: *p = now if it is `was`; true
 *                                                    when it was; device scope, acquire and release
 *   uint32_t hr_fetch_or_u32(p, v), hr_fetch_max_u32(p, v)   *p |= v; *p = the greater of *p and v;
 *                                                    returns the former *p; device scope, no order
 *   void hr_write_u64x2(p, low, high)                store 16 aligned bytes, if possible at once
 *   void hr_release_sys()          orders all earlier accesses of this worker before the next
 *                                  hr_mmio_write32() of the calling lane
 *   void hr_release_alias()        before a release, or one that follows it in another worker: makes
 *                                  data of this worker, and of workers that it has acquired data from,
 *                                  visible to readers that have the same memory at another address, as
 *                                  other processes do; after an acquire: makes what they wrote there
 *                                  visible here
 *   void hr_mmio_write32(p, v)     write a doorbell register in one access, after hr_release_sys()
 *   uint64_t hr_clock_ns()         nanoseconds since a moment that the backend chooses, the same for
 *                                  all workers of a gpu; for deadlines and durations. The host does
 *                                  not compare it with its own clock, except on the host backend,
 *                                  where both are one clock. A GPU whose counter has another unit
 *                                  converts in its definition of this word: the host writes the
 *                                  nanoseconds per tick to the image before the first launch, and
 *                                  all other code knows nanoseconds only
 *   uint64_t hr_cycles()           cycle counter of the worker's processor: for shares of time, never
 *                                  converted to time. 0 on the CPU, where reading it costs too much
 *   void hr_idle(uint32_t *spins)  one step of waiting; *spins is 0 after progress
 *   hr_worker_calls(), hr_idle_by(calls, spins), uint64_t hr_clock_by(calls)   the same two for code
 *                                  in operator files, which has no symbols of headrace: through the
 *                                  functions that headrace passes in. A GPU needs and has none (NULL)
 *   const void *hr_guarded(list, from, bytes)        `from`; with the address sanitizer a copy of it,
 *                                  which hr_guarded_end(list) makes inaccessible. void **list: NULL
 *                                  at first
 *   void hr_copy_bytes(to, from, bytes), hr_zero_bytes(to, bytes)  memcpy(), memset() with 0
 *   uint32_t hr_count_bits(mask)                     number of set bits
 *   uint32_t hr_lowest_bit(mask), hr_highest_bit_u64(v)   index of a bit of a value that is not 0
 *   uint32_t hr_crc32c_u64(crc, v), hr_crc32c_u8(crc, v)   one step of CRC-32C (cache/crc32c.h)
 */

/* Whether the calling lane is in a mask. */
HR_WORKER bool hr_in_mask(hr_mask mask)
{
	return mask >> hr_lane() & 1;
}

/* How many lanes of a mask have a lower number than the calling lane. */
HR_WORKER uint32_t hr_lanes_before(hr_mask mask)
{
	return hr_count_bits(mask & (((hr_mask)1 << hr_lane()) - 1));
}

/* The bits of a float, and the float of these bits. Collective primitives move integers only. */
HR_BOTH uint32_t hr_f32_bits(float v)
{
	uint32_t bits;

	hr_copy_bytes(&bits, &v, sizeof(bits));
	return bits;
}

HR_BOTH float hr_f32_of_bits(uint32_t bits)
{
	float v;

	hr_copy_bytes(&v, &bits, sizeof(v));
	return v;
}

#endif
