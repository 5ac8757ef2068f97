/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/worker_cuda.h - worker.h on a GPU: a worker is a warp, a block is a thread block.
 *
 * The primitives are PTX where CUDA C++ has none with the exact meaning. PTX ISA sections are cited
 * by title because section numbers differ between releases: "Data Movement and Conversion
 * Instructions: ld, st" and "Parallel Synchronization and Communication Instructions: membar/fence,
 * atom"; the chapter "Memory Consistency Model" defines their guarantees. Scope .gpu orders threads
 * of this GPU, scope .sys also the CPU and devices on the bus. Everything is device code.
 */
#ifndef NVME_QUEUE_WORKER_CUDA_H
#define NVME_QUEUE_WORKER_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "config/base/limits.h"

#define HR_BOTH static __device__ __forceinline__
#define HR_WORKER static __device__ __forceinline__
#define HR_WORKER_SLOW static __device__ __noinline__ __attribute__((unused))
#define HR_DEVICE __device__
#define HR_DEVICE_SLOW __device__ __noinline__
#define HR_LANES 32u
#define HR_ALL_LANES 0xffffffffu
#define HR_BLOCK_THREADS_MAX 1024u

typedef uint32_t hr_mask;

HR_WORKER uint32_t hr_thread(void)
{
	return threadIdx.x;
}

HR_WORKER uint32_t hr_threads(void)
{
	return blockDim.x;
}

HR_WORKER uint32_t hr_lane(void)
{
	return threadIdx.x % HR_LANES;
}

HR_WORKER uint32_t hr_warp(void)
{
	return threadIdx.x / HR_LANES;
}

HR_WORKER uint32_t hr_warps(void)
{
	return blockDim.x / HR_LANES;
}

HR_BOTH uint32_t hr_count_bits(hr_mask mask)
{
	return (uint32_t)__popc(mask);
}

HR_BOTH uint32_t hr_lowest_bit(hr_mask mask)
{
	return (uint32_t)__ffs((int)mask) - 1;
}

HR_BOTH uint32_t hr_highest_bit_u64(uint64_t v)
{
	return 63u - (uint32_t)__clzll((long long)v);
}

HR_BOTH void hr_copy_bytes(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

HR_BOTH void hr_zero_bytes(void *to, size_t bytes)
{
	memset(to, 0, bytes);
}

HR_WORKER hr_mask hr_ballot(bool p)
{
	return __ballot_sync(HR_ALL_LANES, p);
}

HR_WORKER uint32_t hr_shfl_u32(uint32_t v, uint32_t lane)
{
	return __shfl_sync(HR_ALL_LANES, v, (int)lane);
}

HR_WORKER uint64_t hr_shfl_u64(uint64_t v, uint32_t lane)
{
	return __shfl_sync(HR_ALL_LANES, v, (int)lane);
}

HR_WORKER hr_mask hr_match_u32(uint32_t v)
{
	return __match_any_sync(HR_ALL_LANES, v);
}

HR_WORKER uint64_t hr_lanes_sum_u64(uint64_t v)
{
	int distance;

	for (distance = HR_LANES / 2; distance; distance /= 2)
		v += __shfl_xor_sync(HR_ALL_LANES, v, distance);
	return v;
}

/* A butterfly adds the same pairs in every lane, so all lanes hold the same bits. */
HR_WORKER float hr_lanes_sum_f32(float v)
{
	int distance;

	for (distance = HR_LANES / 2; distance; distance /= 2)
		v += __shfl_xor_sync(HR_ALL_LANES, v, distance);
	return v;
}

/* Also orders memory accesses among the lanes. */
HR_WORKER void hr_lanes_sync(void)
{
	__syncwarp(HR_ALL_LANES);
}

HR_WORKER void hr_block_sync(void)
{
	__syncthreads();
}

/* An image that is linked from several units has this memory once, in gpu/cuda/image/image_user.cu. */
#ifdef __CUDACC_RDC__
extern "C" __device__ void *hr_block_memory(void);
#else
HR_WORKER void *hr_block_memory(void)
{
	static __shared__ __align__(16) uint8_t memory[HR_BLOCK_MEMORY];

	return memory;
}
#endif

HR_WORKER void *hr_launch_memory(void)
{
	extern __shared__ __align__(16) uint8_t hr_launch_shared[];

	return hr_launch_shared;
}

HR_WORKER uint32_t hr_block_xor_u32(uint32_t v)
{
	__shared__ uint32_t of_warp[HR_BLOCK_THREADS_MAX / HR_LANES];
	uint32_t i, all = 0;

	HR_STATIC_ASSERT(2 * sizeof(of_warp) <= HR_BLOCK_XOR_MEMORY, "within HR_BLOCK_SHARED");
	v = __reduce_xor_sync(HR_ALL_LANES, v);
	if (hr_lane() == 0)
		of_warp[hr_warp()] = v;
	__syncthreads();
	for (i = 0; i < hr_warps(); i++)
		all ^= of_warp[i];
	__syncthreads(); /* before the next use of of_warp */
	return all;
}

/* A load, a store or an atomic operation on one word: `how` is the PTX behind ld, st or atom. */
#define HR_LOAD(name, type, reg, how)                                                  \
	HR_WORKER type name(const type *p)                                             \
	{                                                                              \
		type v;                                                                \
                                                                                       \
		asm volatile("ld." how " %0, [%1];" : "=" reg(v) : "l"(p) : "memory"); \
		return v;                                                              \
	}
#define HR_STORE(name, type, reg, how)                                              \
	HR_WORKER void name(type *p, type v)                                        \
	{                                                                           \
		asm volatile("st." how " [%0], %1;" : : "l"(p), reg(v) : "memory"); \
	}
#define HR_FETCH(name, type, reg, how)                                  \
	HR_WORKER type name(type *p, type v)                            \
	{                                                               \
		type was;                                               \
                                                                        \
		asm volatile("atom." how " %0, [%1], %2;"               \
			     : "=" reg(was)                             \
			     : "l"(__cvta_generic_to_global(p)), reg(v) \
			     : "memory");                               \
		return was;                                             \
	}

HR_LOAD(hr_acquire_u32, uint32_t, "r", "acquire.gpu.u32")
HR_LOAD(hr_acquire_u64, uint64_t, "l", "acquire.gpu.u64")
HR_STORE(hr_release_u32, uint32_t, "r", "release.gpu.u32")
HR_STORE(hr_release_u64, uint64_t, "l", "release.gpu.u64")
HR_LOAD(hr_acquire_sys_u32, uint32_t, "r", "acquire.sys.u32")
HR_LOAD(hr_acquire_sys_u64, uint64_t, "l", "acquire.sys.u64")

/* On NVIDIA GPUs an acquire costs no more than the load, so each poll is an acquire. */
HR_WORKER uint32_t hr_poll_u32(const uint32_t *p)
{
	return hr_acquire_u32(p);
}

HR_WORKER uint64_t hr_poll_u64(const uint64_t *p)
{
	return hr_acquire_u64(p);
}

HR_WORKER uint32_t hr_poll_sys_u32(const uint32_t *p)
{
	return hr_acquire_sys_u32(p);
}

HR_WORKER uint64_t hr_poll_sys_u64(const uint64_t *p)
{
	return hr_acquire_sys_u64(p);
}

HR_WORKER void hr_polled(const void *p)
{
}

HR_WORKER void hr_polled_sys(const void *p)
{
}

#define HR_LOAD_X4(name, how)                                             \
	HR_WORKER uint4 name(const void *p)                               \
	{                                                                 \
		uint4 v;                                                  \
                                                                          \
		asm volatile("ld." how ".v4.u32 {%0, %1, %2, %3}, [%4];"  \
			     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) \
			     : "l"(p)                                     \
			     : "memory");                                 \
		return v;                                                 \
	}

HR_LOAD_X4(hr_fresh_u32x4, "relaxed.gpu")
HR_LOAD_X4(hr_fresh_sys_u32x4, "relaxed.sys")

HR_WORKER void hr_spread_u32x8(uint32_t v[8], uint4 low, uint4 high)
{
	v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
	v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

HR_WORKER void hr_poll_u32x8(const uint32_t *p, uint32_t v[8])
{
	hr_spread_u32x8(v, hr_fresh_u32x4(p), hr_fresh_u32x4(p + 4));
}

/* Hints for the L2 cache ("Data Movement and Conversion Instructions: createpolicy"). */
#define HR_HINT(name, priority)                                                            \
	HR_WORKER uint64_t name(void)                                                      \
	{                                                                                  \
		uint64_t hint;                                                             \
                                                                                           \
		asm("createpolicy.fractional.L2::" priority ".b64 %0, 1.0;" : "=l"(hint)); \
		return hint;                                                               \
	}
#define HR_LOAD_ONCE(name, type, reg, how)                                                \
	HR_WORKER type name(const type *p)                                                \
	{                                                                                 \
		type v;                                                                   \
                                                                                          \
		asm volatile("ld.relaxed.gpu.global.L2::cache_hint." how " %0, [%1], %2;" \
			     : "=" reg(v)                                                 \
			     : "l"(__cvta_generic_to_global(p)), "l"(hr_hint_once())      \
			     : "memory");                                                 \
		return v;                                                                 \
	}

HR_HINT(hr_hint_keep, "evict_last")
HR_HINT(hr_hint_once, "evict_first")
HR_LOAD_ONCE(hr_fresh_once_u32, uint32_t, "r", "u32")
HR_LOAD_ONCE(hr_fresh_once_u64, uint64_t, "l", "u64")

HR_WORKER uint4 hr_fresh_keep_u32x4(const uint32_t *p)
{
	uint4 v;

	asm volatile("ld.relaxed.gpu.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(__cvta_generic_to_global(p)), "l"(hr_hint_keep())
		     : "memory");
	return v;
}

HR_WORKER void hr_poll_keep_u32x8(const uint32_t *p, uint32_t v[8])
{
	hr_spread_u32x8(v, hr_fresh_keep_u32x4(p), hr_fresh_keep_u32x4(p + 4));
}

HR_WORKER void hr_poll_sys_u32x8(const uint32_t *p, uint32_t v[8])
{
	hr_spread_u32x8(v, hr_fresh_sys_u32x4(p), hr_fresh_sys_u32x4(p + 4));
}

/* Relaxed loads of device scope are served by the L2 cache, which all SMs share. */
HR_LOAD(hr_fresh_u32, uint32_t, "r", "relaxed.gpu.u32")
HR_LOAD(hr_fresh_u64, uint64_t, "l", "relaxed.gpu.u64")
HR_LOAD(hr_fresh_sys_u32, uint32_t, "r", "relaxed.sys.u32")
HR_LOAD(hr_fresh_sys_u64, uint64_t, "l", "relaxed.sys.u64")

HR_WORKER uint8_t hr_fresh_u8(const uint8_t *p)
{
	uint32_t v;

	asm volatile("ld.relaxed.gpu.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return (uint8_t)v;
}

HR_WORKER uint8_t hr_fresh_sys_u8(const uint8_t *p)
{
	uint32_t v;

	asm volatile("ld.relaxed.sys.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return (uint8_t)v;
}

HR_STORE(hr_relaxed_u32, uint32_t, "r", "relaxed.gpu.u32")
HR_STORE(hr_relaxed_u64, uint64_t, "l", "relaxed.gpu.u64")

/* Bytes before the first 16-byte boundary. */
HR_WORKER uint32_t hr_shared_head(const void *p, uint32_t bytes)
{
	const uint32_t head = (uint32_t) - (uintptr_t)p & 15;

	return head < bytes ? head : bytes;
}

/* Copies of other alignments: words where both addresses allow, else bytes. */
HR_WORKER_SLOW void hr_read_shared_odd(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint32_t i;

	if ((((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0) {
		for (i = hr_lane() * 4; i < bytes; i += 4 * HR_LANES)
			*(uint32_t *)(to + i) = hr_fresh_u32((const uint32_t *)(from + i));
		return;
	}
	for (i = hr_lane(); i < bytes; i += HR_LANES)
		to[i] = hr_fresh_u8(from + i);
}

HR_WORKER_SLOW void hr_write_shared_odd(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint32_t i;

	if ((((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0) {
		for (i = hr_lane() * 4; i < bytes; i += 4 * HR_LANES)
			*(uint32_t *)(to + i) = *(const uint32_t *)(from + i);
		return;
	}
	for (i = hr_lane(); i < bytes; i += HR_LANES)
		to[i] = from[i];
}

#define HR_SHARED_LOADS 8u /* loads in flight per lane: 4 KiB of a warp */

HR_WORKER void hr_read_vectors(uint4 *to, const uint4 *from, uint32_t count)
{
	uint32_t i = hr_lane(), j;
	uint4 v[HR_SHARED_LOADS];

	for (; i + (HR_SHARED_LOADS - 1) * HR_LANES < count; i += HR_SHARED_LOADS * HR_LANES) {
#pragma unroll
		for (j = 0; j < HR_SHARED_LOADS; j++)
			v[j] = hr_fresh_u32x4(from + i + j * HR_LANES);
#pragma unroll
		for (j = 0; j < HR_SHARED_LOADS; j++)
			to[i + j * HR_LANES] = v[j];
	}
	for (; i < count; i += HR_LANES)
		to[i] = hr_fresh_u32x4(from + i);
}

HR_WORKER void hr_read_shared(void *to, const void *from, uint32_t bytes)
{
	uint8_t *t = (uint8_t *)to;
	const uint8_t *f = (const uint8_t *)from;
	const uint32_t head = hr_shared_head(f, bytes), middle = (bytes - head) & ~15u;

	if (((uintptr_t)t ^ (uintptr_t)f) & 15) {
		hr_read_shared_odd(t, f, bytes);
		return;
	}
	if (head)
		hr_read_shared_odd(t, f, head);
	hr_read_vectors((uint4 *)(t + head), (const uint4 *)(f + head), middle / 16);
	if (head + middle < bytes)
		hr_read_shared_odd(t + head + middle, f + head + middle, bytes - head - middle);
}

/* Inline in its one caller, which is a call of its own. */
HR_WORKER void hr_read_sys(void *to, const void *from, uint32_t bytes)
{
	const bool vectors = (((uintptr_t)to | (uintptr_t)from | bytes) & 15) == 0;
	const bool words = (((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0;
	const uint32_t piece = HR_SHARED_LOADS * HR_LANES * (uint32_t)sizeof(uint4);
	uint8_t *t = (uint8_t *)to;
	const uint8_t *f = (const uint8_t *)from;
	uint32_t at = 0, i;
	uint4 v[HR_SHARED_LOADS];

	for (; vectors && at + piece <= bytes; at += piece) {
#pragma unroll
		for (i = 0; i < HR_SHARED_LOADS; i++)
			v[i] = hr_fresh_sys_u32x4(f + at + (i * HR_LANES + hr_lane()) * 16);
#pragma unroll
		for (i = 0; i < HR_SHARED_LOADS; i++)
			*(uint4 *)(t + at + (i * HR_LANES + hr_lane()) * 16) = v[i];
	}
	for (i = at + hr_lane() * 16; vectors && i < bytes; i += 16 * HR_LANES)
		*(uint4 *)(t + i) = hr_fresh_sys_u32x4(f + i);
	for (i = hr_lane() * 4; !vectors && words && i < bytes; i += 4 * HR_LANES)
		*(uint32_t *)(t + i) = hr_fresh_sys_u32((const uint32_t *)(f + i));
	for (i = hr_lane(); !words && i < bytes; i += HR_LANES)
		t[i] = hr_fresh_sys_u8(f + i);
}

/* Stores go to the L2 cache. */
HR_WORKER void hr_write_shared(void *to, const void *from, uint32_t bytes)
{
	uint8_t *t = (uint8_t *)to;
	const uint8_t *f = (const uint8_t *)from;
	const uint32_t head = hr_shared_head(t, bytes), middle = (bytes - head) & ~15u;
	uint32_t i;

	if (((uintptr_t)t ^ (uintptr_t)f) & 15) {
		hr_write_shared_odd(t, f, bytes);
		return;
	}
	if (head)
		hr_write_shared_odd(t, f, head);
	for (i = head + 16 * hr_lane(); i < head + middle; i += 16 * HR_LANES)
		*(uint4 *)(t + i) = *(const uint4 *)(f + i);
	if (head + middle < bytes)
		hr_write_shared_odd(t + head + middle, f + head + middle, bytes - head - middle);
}

HR_WORKER bool hr_replace_u32(uint32_t *p, uint32_t was, uint32_t now)
{
	uint32_t found;

	asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;"
		     : "=r"(found)
		     : "l"(__cvta_generic_to_global(p)), "r"(was), "r"(now)
		     : "memory");
	return found == was;
}

HR_STORE(hr_release_sys_u32, uint32_t, "r", "release.sys.u32")
HR_STORE(hr_release_sys_u64, uint64_t, "l", "release.sys.u64")
HR_STORE(hr_relaxed_sys_u32, uint32_t, "r", "relaxed.sys.u32")
HR_STORE(hr_relaxed_sys_u64, uint64_t, "l", "relaxed.sys.u64")

HR_WORKER void hr_fenced_sys_u64(uint64_t *p, uint64_t v)
{
	hr_relaxed_sys_u64(p, v);
}

HR_WORKER void hr_count_up_u64(uint64_t *p)
{
	asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;"
		     :
		     : "l"(__cvta_generic_to_global(p))
		     : "memory");
}

HR_FETCH(hr_fetch_add_u64, uint64_t, "l", "relaxed.gpu.global.add.u64")
HR_FETCH(hr_arrive_u64, uint64_t, "l", "acq_rel.gpu.global.add.u64")
HR_FETCH(hr_arrive_sys_u64, uint64_t, "l", "acq_rel.sys.global.add.u64")
HR_FETCH(hr_fetch_or_u32, uint32_t, "r", "relaxed.gpu.global.or.b32")
HR_FETCH(hr_fetch_max_u32, uint32_t, "r", "relaxed.gpu.global.max.u32")

HR_WORKER void hr_write_u64x2(void *p, uint64_t low, uint64_t high)
{
	asm volatile("st.global.v2.u64 [%0], {%1, %2};"
		     :
		     : "l"(__cvta_generic_to_global(p)), "l"(low), "l"(high)
		     : "memory");
}

/* With the store that follows, a release of all writes of the warp before hr_lanes_sync(). */
HR_WORKER void hr_release_sys(void)
{
	asm volatile("fence.acq_rel.sys;" : : : "memory");
}

HR_WORKER void hr_release_alias(void)
{
	asm volatile("fence.proxy.alias;" : : : "memory"); /* "Memory Consistency Model: proxies" */
}

/* .mmio keeps the store a single access, neither merged nor repeated, as a register needs ("Data
 * Movement and Conversion Instructions: st"). */
HR_WORKER void hr_mmio_write32(uint32_t *p, uint32_t v)
{
	asm volatile("st.mmio.relaxed.sys.global.u32 [%0], %1;"
		     :
		     : "l"(__cvta_generic_to_global(p)), "r"(v)
		     : "memory");
}

HR_WORKER uint64_t hr_cycles(void)
{
	uint64_t v;

	asm volatile("mov.u64 %0, %%clock64;" : "=l"(v) : : "memory");
	return v;
}

/* Nanoseconds, in steps of up to 1 us: precise enough for deadlines. */
HR_WORKER uint64_t hr_clock_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns) : : "memory");
	return ns;
}

/* Polling takes memory bandwidth from working warps: sleep, in steps that grow to 1 us. */
HR_WORKER void hr_idle(uint32_t *spins)
{
	const uint32_t n = ++*spins;

	if (n > 4)
		__nanosleep(n < 64 ? n * 16 : 1000);
}

struct hr_worker_calls;

HR_WORKER const struct hr_worker_calls *hr_worker_calls(void)
{
	return NULL;
}

HR_WORKER void hr_idle_by(const struct hr_worker_calls *calls, uint32_t *spins)
{
	hr_idle(spins);
}

HR_WORKER uint64_t hr_clock_by(const struct hr_worker_calls *calls)
{
	return hr_clock_ns();
}

HR_WORKER const void *hr_guarded(void **list, const void *from, uint32_t bytes)
{
	return from;
}

HR_WORKER void hr_guarded_end(void **list)
{
}

/* CRC-32C by tables ("slicing by 8"): of[k][b] is the CRC of byte b with k zero bytes behind it. */
struct hr_crc32c_tables {
	uint32_t of[8][256];
};

constexpr struct hr_crc32c_tables hr_crc32c_make_tables()
{
	struct hr_crc32c_tables t = {};

	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
		t.of[0][b] = crc;
	}
	for (uint32_t k = 1; k < 8; k++)
		for (uint32_t b = 0; b < 256; b++)
			t.of[k][b] = t.of[k - 1][b] >> 8 ^ t.of[0][t.of[k - 1][b] & 255];
	return t;
}

static __device__ const struct hr_crc32c_tables hr_crc32c_table = hr_crc32c_make_tables();

HR_WORKER uint32_t hr_crc32c_u8(uint32_t crc, uint8_t v)
{
	return crc >> 8 ^ hr_crc32c_table.of[0][(crc ^ v) & 255];
}

HR_WORKER uint32_t hr_crc32c_u64(uint32_t crc, uint64_t v)
{
	uint32_t next = 0;
	int k;

	v ^= crc;
	for (k = 7; k >= 0; k--, v >>= 8)
		next ^= hr_crc32c_table.of[k][v & 255];
	return next;
}

#endif
