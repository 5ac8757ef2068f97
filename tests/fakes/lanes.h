/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/lanes.h - nvme/queue/worker.h with several lanes per worker and several workers
 * per block, instead of the host's single lane. Each worker is a thread; its lanes share it
 * and run in a random order (tests/fakes/lanes_fibers.h).
 *
 * HR_LANES is 8 unless defined before (at most 64). Include this header before all headers of
 * headrace: it replaces nvme/queue/worker_host.h. Lanes meet in collective functions, so the
 * collective code of the headers runs as on a GPU, and the thread sanitizer detects accesses of
 * lanes to each other's data without hr_lanes_sync() in between. A lane that waits for another one in
 * any other way calls hr_idle() or fake_pause().
 *
 * The functions also check the memory order that a GPU needs and that the CPU provides anyway: a
 * program that writes a doorbell without hr_release_sys() after its last access to a ring aborts.
 */
#ifndef TESTS_FAKES_LANES_H
#define TESTS_FAKES_LANES_H

#define NVME_QUEUE_WORKER_HOST_H /* replaced by this header */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "tests/fakes/lanes_fibers.h"

#define HR_BOTH static inline
#define HR_WORKER static inline
#define HR_WORKER_SLOW static __attribute__((noinline, unused))
#define HR_DEVICE
#define HR_DEVICE_SLOW
#define FAKE_WARPS_MAX 4u

#if HR_LANES > 32
typedef uint64_t hr_mask;
#else
typedef uint32_t hr_mask;
#endif

struct fake_warp {
	struct fake_lanes lanes;
	uint64_t word[HR_LANES]; /* each lane's contribution to a collective function */
	bool unreleased;	 /* a ring was accessed since the last hr_release_sys() */
};

struct fake_block {
	struct fake_warps all;
	uint32_t warps, number;
	struct fake_warp warp[FAKE_WARPS_MAX];
	uint32_t word[FAKE_WARPS_MAX * HR_LANES];
	uint8_t memory[HR_BLOCK_MEMORY] __attribute__((aligned(16)));
	uint8_t launch_memory[HR_CHECKSUM_MEMORY] __attribute__((aligned(16)));
};

static _Thread_local uint32_t fake_warp;
static _Thread_local struct fake_block *fake_block;

/*
 * One load from that address returns `value`, and later loads return the memory's value: the first
 * of two accesses of a machine that does not load 8 bytes at once. NULL: none.
 */
static struct {
	const uint64_t *at;
	uint64_t value;
} fake_torn;

static inline void fake_order_broken(const char *rule)
{
	fprintf(stderr, "order: %s\n", rule);
	abort();
}

static inline void fake_ring_access(void)
{
	__atomic_store_n(&fake_block->warp[fake_warp].unreleased, true, __ATOMIC_RELAXED);
}

HR_WORKER uint32_t hr_lane(void)
{
	return fake_lane;
}

HR_WORKER uint32_t hr_warp(void)
{
	return fake_warp;
}

HR_WORKER uint32_t hr_warps(void)
{
	return fake_block->warps;
}

HR_WORKER uint32_t hr_thread(void)
{
	return fake_warp * HR_LANES + fake_lane;
}

HR_WORKER uint32_t hr_threads(void)
{
	return fake_block->warps * HR_LANES;
}

HR_BOTH uint32_t hr_count_bits(hr_mask mask)
{
	return (uint32_t)__builtin_popcountll(mask);
}

HR_BOTH uint32_t hr_lowest_bit(hr_mask mask)
{
	return (uint32_t)__builtin_ctzll(mask);
}

HR_BOTH uint32_t hr_highest_bit_u64(uint64_t v)
{
	return 63u - (uint32_t)__builtin_clzll(v);
}

HR_BOTH void hr_copy_bytes(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

HR_BOTH void hr_zero_bytes(void *to, size_t bytes)
{
	memset(to, 0, bytes);
}

HR_WORKER void hr_lanes_sync(void)
{
	fake_lanes_meet(&fake_block->warp[fake_warp].lanes);
}

HR_WORKER void hr_block_sync(void)
{
	fake_warps_meet(&fake_block->all, &fake_block->warp[fake_warp].lanes);
}

HR_WORKER void *hr_block_memory(void)
{
	return fake_block->memory;
}

HR_WORKER void *hr_launch_memory(void)
{
	return fake_block->launch_memory;
}

HR_WORKER uint64_t hr_shfl_u64(uint64_t v, uint32_t lane)
{
	uint64_t *word = fake_block->warp[fake_warp].word, got;

	word[fake_lane] = v;
	hr_lanes_sync();
	got = word[lane];
	hr_lanes_sync();
	return got;
}

HR_WORKER uint32_t hr_shfl_u32(uint32_t v, uint32_t lane)
{
	return (uint32_t)hr_shfl_u64(v, lane);
}

HR_WORKER hr_mask hr_ballot(bool p)
{
	uint64_t *word = fake_block->warp[fake_warp].word;
	hr_mask mask = 0;

	word[fake_lane] = p;
	hr_lanes_sync();
	for (uint32_t i = 0; i < HR_LANES; i++)
		mask |= (hr_mask)(word[i] != 0) << i;
	hr_lanes_sync();
	return mask;
}

HR_WORKER hr_mask hr_match_u32(uint32_t v)
{
	uint64_t *word = fake_block->warp[fake_warp].word;
	hr_mask mask = 0;

	word[fake_lane] = v;
	hr_lanes_sync();
	for (uint32_t i = 0; i < HR_LANES; i++)
		mask |= (hr_mask)(word[i] == v) << i;
	hr_lanes_sync();
	return mask;
}

HR_WORKER uint64_t hr_lanes_sum_u64(uint64_t v)
{
	uint64_t *word = fake_block->warp[fake_warp].word, sum = 0;

	word[fake_lane] = v;
	hr_lanes_sync();
	for (uint32_t i = 0; i < HR_LANES; i++)
		sum += word[i];
	hr_lanes_sync();
	return sum;
}

HR_WORKER float hr_lanes_sum_f32(float v)
{
	float sum = 0;
	union {
		float f;
		uint32_t u;
	} bits = { .f = v };

	for (uint32_t i = 0; i < HR_LANES; i++) {
		bits.f = v;
		bits.u = hr_shfl_u32(bits.u, i);
		sum += bits.f;
	}
	return sum;
}

HR_WORKER uint32_t hr_block_xor_u32(uint32_t v)
{
	uint32_t all = 0;

	fake_block->word[hr_thread()] = v;
	hr_block_sync();
	for (uint32_t i = 0; i < hr_threads(); i++)
		all ^= fake_block->word[i];
	hr_block_sync();
	return all;
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
	if (fake_block)
		fake_ring_access();
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* Polls do not order other accesses, as on a GPU whose acquire invalidates caches. */
HR_WORKER uint32_t hr_poll_u32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

HR_WORKER uint64_t hr_poll_u64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

HR_WORKER uint32_t hr_poll_sys_u32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

HR_WORKER uint64_t hr_poll_sys_u64(const uint64_t *p)
{
	if (fake_block)
		fake_ring_access();
	if (__atomic_load_n(&fake_torn.at, __ATOMIC_RELAXED) == p) {
		__atomic_store_n(&fake_torn.at, NULL, __ATOMIC_RELAXED);
		return fake_torn.value;
	}
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* A fence on a GPU. The thread sanitizer knows no fences, so this is an acquiring load of the word's
 * first 4 bytes. */
HR_WORKER void hr_polled(const void *p)
{
	(void)__atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
}

HR_WORKER void hr_polled_sys(const void *p)
{
	hr_polled(p);
}

HR_WORKER void hr_poll_u32x8(const uint32_t *p, uint32_t v[8])
{
	for (int i = 0; i < 8; i++)
		v[i] = hr_poll_u32(&p[i]);
}

#define hr_poll_keep_u32x8 hr_poll_u32x8
#define hr_fresh_once_u32 hr_fresh_u32
#define hr_fresh_once_u64 hr_fresh_u64
#define hr_fresh_sys_u32 hr_fresh_u32
#define hr_fresh_sys_u64 hr_fresh_u64
#define hr_read_sys hr_read_shared

HR_WORKER void hr_poll_sys_u32x8(const uint32_t *p, uint32_t v[8])
{
	for (int i = 0; i < 8; i++)
		v[i] = hr_poll_sys_u32(&p[i]);
}

HR_WORKER uint32_t hr_fresh_u32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

HR_WORKER uint64_t hr_fresh_u64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

HR_WORKER void hr_relaxed_u32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

HR_WORKER bool hr_replace_u32(uint32_t *p, uint32_t was, uint32_t now)
{
	return __atomic_compare_exchange_n(p, &was, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

HR_WORKER void hr_relaxed_u64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* Each lane copies every HR_LANES-th word, or byte. */
HR_WORKER void hr_read_shared(void *to, const void *from, uint32_t bytes)
{
	const bool words = (((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0;
	const uint32_t step = words ? 4 : 1;

	for (uint32_t i = hr_lane() * step; i < bytes; i += HR_LANES * step) {
		uint8_t *t = (uint8_t *)to + i;
		const uint8_t *f = (const uint8_t *)from + i;

		if (words)
			*(uint32_t *)(void *)t = __atomic_load_n((const uint32_t *)(const void *)f,
								 __ATOMIC_RELAXED);
		else
			*t = __atomic_load_n(f, __ATOMIC_RELAXED);
	}
}

HR_WORKER void hr_write_shared(void *to, const void *from, uint32_t bytes)
{
	const bool words = (((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0;
	const uint32_t step = words ? 4 : 1;

	for (uint32_t i = hr_lane() * step; i < bytes; i += HR_LANES * step) {
		uint8_t *t = (uint8_t *)to + i;
		const uint8_t *f = (const uint8_t *)from + i;

		if (words)
			__atomic_store_n((uint32_t *)(void *)t, *(const uint32_t *)(const void *)f,
					 __ATOMIC_RELAXED);
		else
			__atomic_store_n(t, *f, __ATOMIC_RELAXED);
	}
}

HR_WORKER void hr_release_sys_u32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_release_sys_u64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_relaxed_sys_u32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

HR_WORKER void hr_relaxed_sys_u64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

HR_WORKER void hr_fenced_sys_u64(uint64_t *p, uint64_t v)
{
	hr_release_sys_u64(p, v);
}

HR_WORKER void hr_count_up_u64(uint64_t *p)
{
	++*p;
}

HR_WORKER uint64_t hr_fetch_add_u64(uint64_t *p, uint64_t n)
{
	return __atomic_fetch_add(p, n, __ATOMIC_RELAXED);
}

HR_WORKER uint64_t hr_arrive_u64(uint64_t *p, uint64_t n)
{
	return __atomic_fetch_add(p, n, __ATOMIC_ACQ_REL);
}

HR_WORKER uint64_t hr_arrive_sys_u64(uint64_t *p, uint64_t n)
{
	return __atomic_fetch_add(p, n, __ATOMIC_ACQ_REL);
}

HR_WORKER uint32_t hr_fetch_or_u32(uint32_t *p, uint32_t v)
{
	return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);
}

HR_WORKER uint32_t hr_fetch_max_u32(uint32_t *p, uint32_t v)
{
	uint32_t was = __atomic_load_n(p, __ATOMIC_RELAXED);

	while (was < v &&
	       !__atomic_compare_exchange_n(p, &was, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return was;
}

HR_WORKER void hr_write_u64x2(void *p, uint64_t low, uint64_t high)
{
	((uint64_t *)p)[0] = low;
	((uint64_t *)p)[1] = high;
	fake_ring_access();
}

HR_WORKER void hr_release_sys(void)
{
	__atomic_store_n(&fake_block->warp[fake_warp].unreleased, false, __ATOMIC_RELAXED);
}

HR_WORKER void hr_release_alias(void)
{
}

HR_WORKER void hr_mmio_write32(uint32_t *p, uint32_t v)
{
	if (__atomic_load_n(&fake_block->warp[fake_warp].unreleased, __ATOMIC_RELAXED))
		fake_order_broken("a doorbell is written before hr_release_sys()");
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER uint64_t hr_cycles(void)
{
	return 0;
}

HR_WORKER uint64_t hr_clock_ns(void)
{
	return hr_now_ns();
}

/* The lane waits for another lane or thread, for about ns (0: as short as possible). */
static inline void fake_pause(uint64_t ns)
{
	fake_lanes_wait(&fake_block->warp[fake_warp].lanes, ns);
}

#ifndef FAKE_OWN_IDLE /* a test may define its own */
HR_WORKER void hr_idle(uint32_t *spins)
{
	++*spins;
	fake_pause(0);
}
#endif

HR_WORKER void hr_idle(uint32_t *spins);

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

HR_WORKER uint32_t hr_crc32c_u64(uint32_t crc, uint64_t v)
{
	return (uint32_t)__builtin_ia32_crc32di(crc, v);
}

HR_WORKER uint32_t hr_crc32c_u8(uint32_t crc, uint8_t v)
{
	return __builtin_ia32_crc32qi(crc, v);
}

#include "tests/fakes/lanes_launch.h"

#endif
