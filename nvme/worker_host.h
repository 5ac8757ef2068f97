/*
 * nvme/worker_host.h - nvme/worker.h on the CPU: a block is one thread with one lane.
 *
 * The doorbell is a release store: on x86 that orders the SQEs before a store to an uncached BAR,
 * and for the software controller it pairs with the acquire load of its polling thread.
 */
#ifndef NVME_WORKER_HOST_H
#define NVME_WORKER_HOST_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/clock.h"
#include "config/limits.h"

#define HR_BOTH static inline
#define HR_WORKER static inline
#define HR_DEVICE
#define HR_LANES 1u

HR_WORKER uint32_t hr_lane(void)
{
	return 0;
}

HR_WORKER uint32_t hr_warp(void)
{
	return 0;
}

HR_WORKER uint32_t hr_warps(void)
{
	return 1;
}

HR_WORKER uint32_t hr_thread(void)
{
	return 0;
}

HR_WORKER uint32_t hr_threads(void)
{
	return 1;
}

/* A loop, because masks of one lane let it vanish. */
HR_BOTH uint32_t hr_count_bits(uint32_t mask)
{
	uint32_t n = 0;

	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

HR_BOTH uint32_t hr_lowest_bit(uint32_t mask)
{
	return (uint32_t)__builtin_ctz(mask);
}

HR_BOTH uint32_t hr_highest_bit_u64(uint64_t v)
{
	return 63u - (uint32_t)__builtin_clzll(v);
}

HR_WORKER uint32_t hr_ballot(bool p)
{
	return p ? 1u : 0u;
}

HR_WORKER uint32_t hr_shfl_u32(uint32_t v, uint32_t lane)
{
	return v;
}

HR_WORKER uint64_t hr_shfl_u64(uint64_t v, uint32_t lane)
{
	return v;
}

HR_WORKER uint32_t hr_match_u32(uint32_t v)
{
	return 1;
}

HR_WORKER uint64_t hr_lanes_sum_u64(uint64_t v)
{
	return v;
}

HR_WORKER float hr_lanes_sum_f32(float v)
{
	return v;
}

HR_WORKER void *hr_block_memory(void)
{
	static __thread uint8_t memory[HR_BLOCK_MEMORY] __attribute__((aligned(16)));

	return memory;
}

HR_WORKER void *hr_launch_memory(void)
{
	return NULL;
}

HR_WORKER uint32_t hr_block_xor_u32(uint32_t v)
{
	return v;
}

HR_WORKER void hr_lanes_sync(void)
{
}

HR_WORKER void hr_block_sync(void)
{
}

HR_WORKER uint32_t hr_acquire_u32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

HR_WORKER uint64_t hr_acquire_u64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

HR_WORKER void hr_release_u32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_release_u64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER uint32_t hr_acquire_sys_u32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

HR_WORKER uint64_t hr_acquire_sys_u64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

HR_WORKER void hr_release_sys_u32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_release_sys_u64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_relaxed_sys_u64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* The store to a doorbell is the release. */
HR_WORKER void hr_release_sys(void)
{
}

HR_WORKER void hr_mmio_write32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_count_up_u64(uint64_t *p)
{
	++*p;
}

HR_WORKER uint64_t hr_fetch_add_u64(uint64_t *p, uint64_t n)
{
	return __atomic_fetch_add(p, n, __ATOMIC_RELAXED);
}

HR_WORKER void hr_write_u64x2(void *p, uint64_t low, uint64_t high)
{
	((uint64_t *)p)[0] = low;
	((uint64_t *)p)[1] = high;
}

HR_WORKER uint64_t hr_cycles(void)
{
	return 0;
}

HR_WORKER uint64_t hr_clock_ns(void)
{
	return hr_now_ns();
}

/* The build's baseline is x86-64-v2, which has the CRC32 instruction; `headrace post` checks it. */
HR_WORKER uint32_t hr_crc32c_u64(uint32_t crc, uint64_t v)
{
	return (uint32_t)__builtin_ia32_crc32di(crc, v);
}

HR_WORKER uint32_t hr_crc32c_u8(uint32_t crc, uint8_t v)
{
	return __builtin_ia32_crc32qi(crc, v);
}

/*
 * Threads outnumber cores here, so spinning steals the time of the thread waited for: a few pauses,
 * then yields, then sleeps. They begin at 5 us (threads of the host backend have a timer slack of
 * 1 us) and double every HR_IDLE_STEP steps, up to HR_IDLE_MAX_NS: a sleep is about a twentieth of
 * the time waited so far, so a wait ends about that late, and a long one costs few wake-ups.
 */
#define HR_IDLE_YIELDS 256u
#define HR_IDLE_STEP 16u
#define HR_IDLE_FIRST_NS 5000ull
#define HR_IDLE_MAX_NS (HR_IDLE_FIRST_NS << 6)

HR_WORKER void hr_idle(uint32_t *spins)
{
	const uint32_t n = ++*spins, doublings = (n - HR_IDLE_YIELDS) / HR_IDLE_STEP;

	if (n < 32)
		__builtin_ia32_pause();
	else if (n < HR_IDLE_YIELDS)
		sched_yield();
	else
		hr_wait_ns(doublings < 6 ? HR_IDLE_FIRST_NS << doublings : HR_IDLE_MAX_NS);
}

#endif
