/*
 * tests/fake/lanes.h - gpu/worker.h with eight lanes, each a thread, in place of the host's one.
 *
 * Include before anything of ours: it takes the place of gpu/host/worker_host.h. Collective words
 * meet at a barrier, so the collective code of the headers runs as on a GPU, and the thread
 * sanitizer sees whatever lanes do to each other without hr_lanes_sync() between.
 */
#ifndef TESTS_FAKE_LANES_H
#define TESTS_FAKE_LANES_H

#define GPU_HOST_WORKER_HOST_H /* these words instead */

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "boot/clock.h"

#define HR_BOTH static inline
#define HR_WORKER static inline
#define HR_DEVICE
#define HR_LANES 8u

static struct {
	pthread_barrier_t barrier;
	uint64_t word[HR_LANES]; /* what each lane contributes to a collective */
} fake_lanes;

static _Thread_local uint32_t fake_lane;

HR_WORKER uint32_t hr_lane(void)
{
	return fake_lane;
}

HR_WORKER void hr_lanes_sync(void)
{
	pthread_barrier_wait(&fake_lanes.barrier);
}

HR_WORKER uint64_t hr_shfl_u64(uint64_t v, uint32_t lane)
{
	uint64_t got;

	fake_lanes.word[fake_lane] = v;
	hr_lanes_sync();
	got = fake_lanes.word[lane];
	hr_lanes_sync();
	return got;
}

HR_WORKER uint32_t hr_shfl_u32(uint32_t v, uint32_t lane)
{
	return (uint32_t)hr_shfl_u64(v, lane);
}

HR_WORKER uint32_t hr_ballot(bool p)
{
	uint32_t mask = 0;

	fake_lanes.word[fake_lane] = p;
	hr_lanes_sync();
	for (uint32_t i = 0; i < HR_LANES; i++)
		mask |= fake_lanes.word[i] ? 1u << i : 0;
	hr_lanes_sync();
	return mask;
}

HR_WORKER uint32_t hr_load_acquire_sys_u32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

HR_WORKER void hr_store_release_sys_u32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_store_relaxed_sys_u64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

HR_WORKER void hr_mmio_release32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_mmio_write32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

HR_WORKER void hr_fence_sys(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

HR_WORKER uint64_t hr_cycles(void)
{
	return 0;
}

HR_WORKER uint64_t hr_clock_ns(void)
{
	return hr_now_ns();
}

struct fake_lanes_start {
	void (*body)(void);
	uint32_t lane;
};

static inline void *fake_lanes_main(void *context)
{
	const struct fake_lanes_start *start = context;

	fake_lane = start->lane;
	start->body();
	return NULL;
}

/* Run body() on all lanes, and wait for them. Returns false when the threads could not start. */
static inline bool fake_lanes_run(void (*body)(void))
{
	struct fake_lanes_start start[HR_LANES];
	pthread_t thread[HR_LANES];

	if (pthread_barrier_init(&fake_lanes.barrier, NULL, HR_LANES))
		return false;
	for (uint32_t i = 0; i < HR_LANES; i++) {
		start[i] = (struct fake_lanes_start){ body, i };
		if (pthread_create(&thread[i], NULL, fake_lanes_main, &start[i]))
			return false;
	}
	for (uint32_t i = 0; i < HR_LANES; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&fake_lanes.barrier);
	return true;
}

#endif
