/*
 * nvme/worker_cuda.h - nvme/worker.h on a GPU: a worker is a warp, a block is a thread block.
 *
 * The words are PTX where CUDA C++ has none with the exact meaning. PTX ISA, by title because
 * section numbers differ between releases: "Data Movement and Conversion Instructions: ld, st" and
 * "Parallel Synchronization and Communication Instructions: membar/fence, atom"; what they promise
 * is the chapter "Memory Consistency Model". Scope .gpu orders threads of this GPU, scope .sys also
 * the CPU and devices on the bus.
 *
 * Everything is device code: the image has no host part.
 */
#ifndef NVME_WORKER_CUDA_H
#define NVME_WORKER_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include "config/limits.h"

#define HR_BOTH static __device__ __forceinline__
#define HR_WORKER static __device__ __forceinline__
#define HR_DEVICE __device__
#define HR_LANES 32u
#define HR_ALL_LANES 0xffffffffu
#define HR_BLOCK_THREADS_MAX 1024u

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

HR_BOTH uint32_t hr_count_bits(uint32_t mask)
{
	return (uint32_t)__popc(mask);
}

HR_BOTH uint32_t hr_lowest_bit(uint32_t mask)
{
	return (uint32_t)__ffs((int)mask) - 1;
}

HR_BOTH uint32_t hr_highest_bit_u64(uint64_t v)
{
	return 63u - (uint32_t)__clzll((long long)v);
}

HR_WORKER uint32_t hr_ballot(bool p)
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

HR_WORKER uint32_t hr_match_u32(uint32_t v)
{
	return __match_any_sync(HR_ALL_LANES, v);
}

HR_WORKER uint64_t hr_lanes_sum_u64(uint64_t v)
{
	int distance;

	for (distance = 16; distance; distance /= 2)
		v += __shfl_xor_sync(HR_ALL_LANES, v, distance);
	return v;
}

/* A butterfly adds the same pairs in every lane, so all lanes hold the same bits. */
HR_WORKER float hr_lanes_sum_f32(float v)
{
	int distance;

	for (distance = 16; distance; distance /= 2)
		v += __shfl_xor_sync(HR_ALL_LANES, v, distance);
	return v;
}

/* Orders memory among the lanes, too. */
HR_WORKER void hr_lanes_sync(void)
{
	__syncwarp(HR_ALL_LANES);
}

HR_WORKER void hr_block_sync(void)
{
	__syncthreads();
}

HR_WORKER void *hr_block_memory(void)
{
	static __shared__ __align__(16) uint8_t memory[HR_BLOCK_MEMORY];

	return memory;
}

HR_WORKER void *hr_launch_memory(void)
{
	extern __shared__ __align__(16) uint8_t hr_launch_shared[];

	return hr_launch_shared;
}

HR_WORKER uint32_t hr_block_xor_u32(uint32_t v)
{
	__shared__ uint32_t of_warp[HR_BLOCK_THREADS_MAX / HR_LANES];
	uint32_t i, all = 0;

	v = __reduce_xor_sync(HR_ALL_LANES, v);
	if (hr_lane() == 0)
		of_warp[hr_warp()] = v;
	__syncthreads();
	for (i = 0; i < hr_warps(); i++)
		all ^= of_warp[i];
	__syncthreads(); /* before of_warp is used again */
	return all;
}

HR_WORKER uint32_t hr_acquire_u32(const uint32_t *p)
{
	uint32_t v;

	asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

HR_WORKER uint64_t hr_acquire_u64(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

HR_WORKER void hr_release_u32(uint32_t *p, uint32_t v)
{
	asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

HR_WORKER void hr_release_u64(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.gpu.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

HR_WORKER uint32_t hr_acquire_sys_u32(const uint32_t *p)
{
	uint32_t v;

	asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

HR_WORKER uint64_t hr_acquire_sys_u64(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

HR_WORKER void hr_release_sys_u32(uint32_t *p, uint32_t v)
{
	asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

HR_WORKER void hr_release_sys_u64(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

HR_WORKER void hr_relaxed_sys_u64(uint64_t *p, uint64_t v)
{
	asm volatile("st.relaxed.sys.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

HR_WORKER void hr_count_up_u64(uint64_t *p)
{
	asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;"
		     :
		     : "l"(__cvta_generic_to_global(p))
		     : "memory");
}

HR_WORKER uint64_t hr_fetch_add_u64(uint64_t *p, uint64_t n)
{
	uint64_t was;

	asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(was)
		     : "l"(__cvta_generic_to_global(p)), "l"(n)
		     : "memory");
	return was;
}

HR_WORKER void hr_write_u64x2(void *p, uint64_t low, uint64_t high)
{
	asm volatile("st.global.v2.u64 [%0], {%1, %2};"
		     :
		     : "l"(__cvta_generic_to_global(p)), "l"(low), "l"(high)
		     : "memory");
}

/*
 * With the store that follows, a release of all that the warp wrote: its lanes have met in
 * hr_lanes_sync(), and causality order is transitive.
 */
HR_WORKER void hr_release_sys(void)
{
	asm volatile("fence.acq_rel.sys;" : : : "memory");
}

/* .mmio keeps the store one access of its own, neither merged nor repeated, which a register needs
 * ("Data Movement and Conversion Instructions: st"). */
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

/* Nanoseconds, but it may count in steps of up to 1 us: good for deadlines. */
HR_WORKER uint64_t hr_clock_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns) : : "memory");
	return ns;
}

/* Polling costs memory bandwidth of whoever works: sleep in steps that grow to 1 us. */
HR_WORKER void hr_idle(uint32_t *spins)
{
	const uint32_t n = ++*spins;

	if (n > 4)
		__nanosleep(n < 32 ? n * 32 : 1000);
}

/* CRC-32C by tables ("slicing by 8"): of[k][b] is what byte b gives with k bytes behind it. */
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
