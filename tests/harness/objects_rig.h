/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/objects_rig.h - one worker of cache/objects/objects.h over
 * tests/fakes/pager.h, whose waits are the steps of the I/O workers.
 */
#ifndef TESTS_HARNESS_OBJECTS_RIG_H
#define TESTS_HARNESS_OBJECTS_RIG_H

#include "cache/objects/objects.h"
#include "cache/objects/run.h"
#include "tests/fakes/pager.h"
#include "tests/harness/random.h"

#define PAGE 4096u

static struct pager pager;
static struct hr_objects objects;

static inline void idle(uint32_t *spins)
{
	++*spins;
	pager_step(&pager);
}

static inline uint64_t no_clock(void)
{
	return 0;
}

static const struct hr_worker_calls by_steps = { idle, no_clock };

/* One worker, whose waits are the steps of the I/O workers. */
static inline void make(const struct pager_shape *shape)
{
	pager_init(&pager, shape, fake_random_seed("objects"));
	hr_objects_begin(&objects, &pager.cache, 0, NULL, 0);
	objects.calls = &by_steps;
}

static inline void unmake(void)
{
	hr_objects_end(&objects);
	pager_fini(&pager);
}

static inline const struct hr_object *object(uint32_t index)
{
	return hr_get_object_map(&objects, index);
}

/* Four objects: 10 pages less 96 bytes; the same size, only read; left out; empty. */
static const struct pager_shape small = {
	.frames = 14,
	.page_shift = 12,
	.computers = 1,
	.io_workers = 2,
	.objects = 4,
	.bytes = { 10 * PAGE - 96, 10 * PAGE - 96, UINT64_MAX, 0 },
	.read_only = { false, true },
};

#endif
