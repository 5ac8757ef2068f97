/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/lanes_launch.h - part of tests/fakes/lanes.h: run a function on all lanes of workers and
 * blocks, as a launch on a GPU does.
 */
#ifndef TESTS_FAKES_LANES_LAUNCH_H
#define TESTS_FAKES_LANES_LAUNCH_H

#include <pthread.h>

#include "tests/fakes/lanes.h"
#include "tests/harness/threads.h"

#define FAKE_BLOCKS_MAX 4u

/* A worker of a block. */
struct fake_worker {
	void (*body)(void *context);
	void *context;
	struct fake_block *block;
	uint32_t warp;
};

FAKE_NOT_WATCHED void fake_lane_main(void *worker)
{
	const struct fake_worker *self = worker;

	fake_block = self->block;
	fake_warp = self->warp;
	self->body(self->context);
}

static inline void *fake_worker_main(void *worker)
{
	const struct fake_worker *self = worker;

	test_has_threads();
	fake_lanes_run_on(&self->block->warp[self->warp].lanes, fake_lane_main, worker);
	return NULL;
}

static inline bool fake_block_init(struct fake_block *block, uint32_t number, uint32_t warps)
{
	bool ok = fake_warps_init(&block->all, warps);

	block->number = number;
	block->warps = warps;
	for (uint32_t w = 0; w < warps; w++)
		ok &= fake_lanes_init(&block->warp[w].lanes);
	return ok;
}

static inline void fake_block_fini(struct fake_block *block)
{
	fake_warps_fini(&block->all);
	for (uint32_t w = 0; w < block->warps; w++)
		fake_lanes_fini(&block->warp[w].lanes);
}

/*
 * Run body(context) on all lanes of all workers of a block (fake_block->number identifies it), and
 * wait for them. False: the threads could not start.
 */
static inline bool fake_block_run(struct fake_block *block, uint32_t number, uint32_t warps,
				  void (*body)(void *context), void *context)
{
	struct fake_worker worker[FAKE_WARPS_MAX];
	pthread_t thread[FAKE_WARPS_MAX];

	if (!fake_block_init(block, number, warps))
		return false;
	for (uint32_t w = 0; w < warps; w++) {
		worker[w] = (struct fake_worker){ body, context, block, w };
		if (pthread_create(&thread[w], NULL, fake_worker_main, &worker[w]))
			return false;
	}
	for (uint32_t w = 0; w < warps; w++)
		pthread_join(thread[w], NULL);
	fake_block_fini(block);
	return true;
}

/* A block of a launch. */
struct fake_launched {
	void (*body)(void);
	struct fake_block block;
	uint32_t number, warps;
	bool ran;
};

static inline void fake_launched_body(void *launched)
{
	((const struct fake_launched *)launched)->body();
}

static inline void *fake_launched_main(void *launched)
{
	struct fake_launched *self = launched;

	self->ran =
		fake_block_run(&self->block, self->number, self->warps, fake_launched_body, self);
	return NULL;
}

/* Run body() on all lanes of `warps` workers of `blocks` blocks. False: the threads could not
 * start. */
static inline bool fake_blocks_run(void (*body)(void), uint32_t blocks, uint32_t warps)
{
	static struct fake_launched launched[FAKE_BLOCKS_MAX];
	pthread_t thread[FAKE_BLOCKS_MAX];
	bool ran = true;

	for (uint32_t i = 0; i < blocks; i++) {
		launched[i] = (struct fake_launched){ .body = body, .number = i, .warps = warps };
		if (pthread_create(&thread[i], NULL, fake_launched_main, &launched[i]))
			return false;
	}
	for (uint32_t i = 0; i < blocks; i++) {
		pthread_join(thread[i], NULL);
		ran &= launched[i].ran;
	}
	return ran;
}

/* The same with one worker. */
static inline bool fake_lanes_run(void (*body)(void))
{
	return fake_blocks_run(body, 1, 1);
}

#endif
