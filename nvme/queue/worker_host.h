/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/worker_host.h - nvme/queue/worker.h on the CPU: a block is one thread with one lane.
 *
 * A doorbell write is a release store. On x86 it orders the SQEs before a store to an uncached BAR.
 * For the software controller it pairs with the acquire load of the polling thread.
 */
#ifndef NVME_QUEUE_WORKER_HOST_H
#define NVME_QUEUE_WORKER_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/seam.h"
#include "nvme/queue/wait.h"

#define HR_BOTH static inline
#define HR_WORKER static inline
#define HR_WORKER_SLOW static __attribute__((noinline, unused))
#define HR_DEVICE
#define HR_DEVICE_SLOW
#define HR_LANES 1u

typedef uint32_t hr_mask;

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

/* A loop, because the compiler removes it for the mask of one lane. */
HR_BOTH uint32_t hr_count_bits(hr_mask mask)
{
	uint32_t n = 0;

	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

HR_BOTH uint32_t hr_lowest_bit(hr_mask mask)
{
	return (uint32_t)__builtin_ctz(mask);
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

HR_WORKER hr_mask hr_ballot(bool p)
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

HR_WORKER hr_mask hr_match_u32(uint32_t v)
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

/*
 * The memory of a block is that of its thread. The file of a user operator (HR_OP_ALONE, a flag of
 * its build) has no memory of its own: it calls hr_host_block_memory() of headrace, whose address
 * headrace stores when it loads the file (hr_op_user_load()).
 */
#ifdef HR_OP_ALONE
extern void *(*hr_op_block_memory)(void);

HR_WORKER void *hr_block_memory(void)
{
	return hr_op_block_memory();
}
#else
extern __thread uint8_t hr_host_block[HR_BLOCK_MEMORY];

HR_WORKER void *hr_block_memory(void)
{
	return hr_host_block;
}
#endif

/* As hr_block_memory() of headrace, for the files of user operators. */
void *hr_host_block_memory(void);

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

/* A load, a store or an atomic operation on one word. */
#define HR_LOAD(name, type, order)                \
	HR_WORKER type name(const type *p)        \
	{                                         \
		return __atomic_load_n(p, order); \
	}
#define HR_STORE(name, type, order)            \
	HR_WORKER void name(type *p, type v)   \
	{                                      \
		__atomic_store_n(p, v, order); \
	}
#define HR_FETCH(name, type, operation, order) \
	HR_WORKER type name(type *p, type v)   \
	{                                      \
		return operation(p, v, order); \
	}

HR_LOAD(hr_acquire_u32, uint32_t, __ATOMIC_ACQUIRE)
HR_LOAD(hr_acquire_u64, uint64_t, __ATOMIC_ACQUIRE)
HR_STORE(hr_release_u32, uint32_t, __ATOMIC_RELEASE)
HR_STORE(hr_release_u64, uint64_t, __ATOMIC_RELEASE)
HR_LOAD(hr_acquire_sys_u32, uint32_t, __ATOMIC_ACQUIRE)
HR_LOAD(hr_acquire_sys_u64, uint64_t, __ATOMIC_ACQUIRE)

/* On x86 each load is an acquire. */
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

HR_WORKER void hr_poll_u32x8(const uint32_t *p, uint32_t v[8])
{
	for (int i = 0; i < 8; i++)
		v[i] = hr_poll_u32(&p[i]);
}

HR_WORKER void hr_poll_keep_u32x8(const uint32_t *p, uint32_t v[8])
{
	hr_poll_u32x8(p, v);
}

HR_WORKER void hr_poll_sys_u32x8(const uint32_t *p, uint32_t v[8])
{
	hr_poll_u32x8(p, v);
}

HR_LOAD(hr_fresh_u32, uint32_t, __ATOMIC_RELAXED)
HR_LOAD(hr_fresh_u64, uint64_t, __ATOMIC_RELAXED)
HR_LOAD(hr_fresh_once_u32, uint32_t, __ATOMIC_RELAXED)
HR_LOAD(hr_fresh_once_u64, uint64_t, __ATOMIC_RELAXED)
HR_LOAD(hr_fresh_sys_u32, uint32_t, __ATOMIC_RELAXED)
HR_LOAD(hr_fresh_sys_u64, uint64_t, __ATOMIC_RELAXED)
HR_STORE(hr_relaxed_u32, uint32_t, __ATOMIC_RELAXED)

HR_WORKER bool hr_replace_u32(uint32_t *p, uint32_t was, uint32_t now)
{
	return __atomic_compare_exchange_n(p, &was, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

HR_STORE(hr_relaxed_u64, uint64_t, __ATOMIC_RELAXED)

/* The thread sanitizer takes memcpy() for a race with writers, so its builds load and store words. */
#ifdef __SANITIZE_THREAD__

HR_WORKER void hr_read_shared(void *to, const void *from, uint32_t bytes)
{
	const bool words = (((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0;
	uint32_t i, word;

	for (i = 0; words && i < bytes; i += 4) {
		word = __atomic_load_n((const uint32_t *)((const uint8_t *)from + i),
				       __ATOMIC_RELAXED);
		memcpy((uint8_t *)to + i, &word, 4);
	}
	for (; i < bytes; i++)
		((uint8_t *)to)[i] = __atomic_load_n((const uint8_t *)from + i, __ATOMIC_RELAXED);
}

HR_WORKER void hr_write_shared(void *to, const void *from, uint32_t bytes)
{
	const bool words = (((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0;
	uint32_t i, word;

	for (i = 0; words && i < bytes; i += 4) {
		memcpy(&word, (const uint8_t *)from + i, 4);
		__atomic_store_n((uint32_t *)((uint8_t *)to + i), word, __ATOMIC_RELAXED);
	}
	for (; i < bytes; i++)
		__atomic_store_n((uint8_t *)to + i, ((const uint8_t *)from)[i], __ATOMIC_RELAXED);
}

#else

HR_WORKER void hr_read_shared(void *to, const void *from, uint32_t bytes)
{
	memcpy(to, from, bytes);
}

HR_WORKER void hr_write_shared(void *to, const void *from, uint32_t bytes)
{
	memcpy(to, from, bytes);
}

#endif

HR_WORKER void hr_read_sys(void *to, const void *from, uint32_t bytes)
{
	hr_read_shared(to, from, bytes);
}

HR_STORE(hr_release_sys_u32, uint32_t, __ATOMIC_RELEASE)
HR_STORE(hr_release_sys_u64, uint64_t, __ATOMIC_RELEASE)
HR_STORE(hr_relaxed_sys_u32, uint32_t, __ATOMIC_RELAXED)
HR_STORE(hr_relaxed_sys_u64, uint64_t, __ATOMIC_RELAXED)

/* The store to a doorbell is the release. */
HR_WORKER void hr_release_sys(void)
{
}

/* Addresses of one page are coherent on a CPU. */
HR_WORKER void hr_release_alias(void)
{
}

HR_WORKER void hr_mmio_write32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_fenced_sys_u64(uint64_t *p, uint64_t v)
{
	hr_release_sys_u64(p, v);
}

HR_WORKER void hr_count_up_u64(uint64_t *p)
{
	++*p;
}

HR_FETCH(hr_fetch_add_u64, uint64_t, __atomic_fetch_add, __ATOMIC_RELAXED)
HR_FETCH(hr_arrive_u64, uint64_t, __atomic_fetch_add, __ATOMIC_ACQ_REL)
HR_FETCH(hr_arrive_sys_u64, uint64_t, __atomic_fetch_add, __ATOMIC_ACQ_REL)
HR_FETCH(hr_fetch_or_u32, uint32_t, __atomic_fetch_or, __ATOMIC_RELAXED)

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
}

HR_WORKER uint64_t hr_cycles(void)
{
	return 0;
}

HR_WORKER uint64_t hr_clock_ns(void)
{
	return hr_now_ns();
}

/* The build's baseline x86-64-v2 has the CRC32 instruction; `headrace post` checks it. */
HR_WORKER uint32_t hr_crc32c_u64(uint32_t crc, uint64_t v)
{
	return (uint32_t)__builtin_ia32_crc32di(crc, v);
}

HR_WORKER uint32_t hr_crc32c_u8(uint32_t crc, uint8_t v)
{
	return __builtin_ia32_crc32qi(crc, v);
}

#define HR_IDLE_YIELDS 256u

/* Threads outnumber cores, so a spinning thread takes time from the thread that it waits for: a few
 * pauses, then yields, then the sleeps of nvme/queue/wait.h. */
HR_WORKER void hr_idle(uint32_t *spins)
{
	const uint32_t n = ++*spins;

	if (n < 32)
		__builtin_ia32_pause();
	else if (n < HR_IDLE_YIELDS)
		hr_yield();
	else
		hr_wait_sleep(n - HR_IDLE_YIELDS);
}

/* Functions of headrace for operator files. */
struct hr_worker_calls {
	void (*idle)(uint32_t *spins);
	uint64_t (*clock_ns)(void);
};

HR_WORKER const struct hr_worker_calls *hr_worker_calls(void)
{
	static const struct hr_worker_calls calls = { hr_idle, hr_clock_ns };

	return &calls;
}

HR_WORKER void hr_idle_by(const struct hr_worker_calls *calls, uint32_t *spins)
{
	calls->idle(spins);
}

HR_WORKER uint64_t hr_clock_by(const struct hr_worker_calls *calls)
{
	return calls->clock_ns();
}

#ifdef __SANITIZE_ADDRESS__

/* A copy has this head, in 64 bytes. The sanitizer reports each use of a copy that was freed. */
struct hr_guard {
	struct hr_guard *next;
};

#define HR_GUARD_BYTES 64u

HR_WORKER const void *hr_guarded(void **list, const void *from, uint32_t bytes)
{
	struct hr_guard *guard =
		(struct hr_guard *)aligned_alloc(HR_GUARD_BYTES, HR_GUARD_BYTES + bytes);

	if (!guard)
		abort();
	guard->next = (struct hr_guard *)*list;
	*list = guard;
	memcpy((uint8_t *)guard + HR_GUARD_BYTES, from, bytes);
	return (uint8_t *)guard + HR_GUARD_BYTES;
}

HR_WORKER void hr_guarded_end(void **list)
{
	struct hr_guard *guard = (struct hr_guard *)*list, *next;

	for (; guard; guard = next) {
		next = guard->next;
		free(guard);
	}
	*list = NULL;
}

#else

HR_WORKER const void *hr_guarded(void **list, const void *from, uint32_t bytes)
{
	return from;
}

HR_WORKER void hr_guarded_end(void **list)
{
}

#endif

#endif
