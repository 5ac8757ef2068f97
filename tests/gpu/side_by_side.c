/* SPDX-License-Identifier: Apache-2.0 */
/* Several launches of the backend on a GPU at the same time, each with a handle of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "gpu/worker/probe.h"
#include "tests/harness/error.h"
#include "tests/harness/launch.h"

#define LAUNCHES 4u
#define BLOCKS_MAX 64u
#define MIB ((size_t)1 << 20)
#define TIMEOUT_NS (20 * HR_NS_PER_S)

TestSuite(side_by_side, .timeout = 300);

/* In memory that CPU and GPU share. */
struct ground {
	struct hr_probe probe[LAUNCHES];
	uint32_t ping[LAUNCHES], pong[LAUNCHES], end[LAUNCHES][BLOCKS_MAX];
};

static struct hr_backend backend;
static struct ground *ground, *worker; /* the same, as the CPU and as workers see it */
static struct hr_launch *handle[LAUNCHES];

static void up(void)
{
	void *seen = NULL;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(backend.ops->reserve(&backend, LAUNCHES, NULL), 0);
	ground = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(ground, MAP_FAILED);
	cr_assert_eq(backend.ops->attach(&backend, ground, MIB, false, &seen, NULL), 0);
	worker = seen;
}

static void down(void)
{
	backend.ops->detach(&backend, ground);
	munmap(ground, MIB);
	backend.ops->close(&backend);
}

/* Block 0 answers one question; until then the launch runs. */
static int start(uint32_t i, uint32_t blocks, uint32_t threads)
{
	ground->ping[i] = ground->pong[i] = 0;
	memset(ground->end[i], 0, sizeof ground->end[i]);
	ground->probe[i] = (struct hr_probe){ .blocks = blocks,
					      .rounds = 1,
					      .timeout_ns = TIMEOUT_NS,
					      .ping = &worker->ping[i],
					      .pong = &worker->pong[i],
					      .end = worker->end[i] };
	return launch_start(&backend, HR_ENTRY_PROBE, &worker->probe[i], blocks, threads,
			    &handle[i]);
}

/* Other launches continue. */
static void end(uint32_t i, uint32_t blocks)
{
	hr_release_sys_u32(&ground->ping[i], 1);
	cr_assert_eq(hr_launch_wait(handle[i], hr_now_ns() + TIMEOUT_NS / 2, HR_NS_PER_MS, NULL), 1,
		     "launch %u does not end beside others", i);
	hr_launch_free(handle[i]);
	cr_expect_eq(hr_acquire_sys_u32(&ground->pong[i]), 1);
	for (uint32_t b = 0; b < blocks; b++)
		cr_expect_eq(hr_acquire_sys_u32(&ground->end[i][b]), HR_PROBE_DONE);
}

/* Launches use all blocks that the backend promises, and end in another order than they started. */
Test(side_by_side, launches_are_resident_together_and_end_in_any_order)
{
	static const uint32_t threads[] = { 32, 256, 512 };
	static const uint32_t order[LAUNCHES] = { 2, 0, 3, 1 };

	up();
	for (uint32_t t = 0; t < sizeof threads / sizeof *threads; t++) {
		uint32_t blocks = backend.side_by_side / LAUNCHES;

		blocks = blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
		for (uint32_t i = 0; i < LAUNCHES; i++)
			cr_assert_eq(start(i, blocks, threads[t]), 0);
		for (uint32_t n = 0; n < LAUNCHES; n++) {
			for (uint32_t left = n; left < LAUNCHES; left++)
				cr_expect_eq(hr_launch_poll(handle[order[left]], NULL), 0);
			end(order[n], blocks);
		}
	}
	down();
}

Test(side_by_side, copies_complete_while_launches_run)
{
	static uint8_t data[MIB], back[MIB];
	struct hr_region region;

	up();
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region, NULL), 0);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(start(i, 8, 64), 0);
	memset(data, 0x3c, sizeof data);
	cr_assert_eq(backend.ops->upload(&backend, region.worker, data, sizeof data, NULL), 0);
	cr_assert_eq(backend.ops->download(&backend, back, region.worker, sizeof back, NULL), 0);
	cr_expect_eq(memcmp(data, back, sizeof data), 0);
	for (uint32_t i = 0; i < 2; i++) {
		cr_expect_eq(hr_launch_poll(handle[i], NULL), 0);
		end(i, 8);
	}
	backend.ops->free(&backend, &region);
	down();
}

Test(side_by_side, a_launch_beyond_the_promised_blocks_is_refused)
{
	struct hr_launch *more;
	uint32_t half;

	up();
	half = backend.side_by_side / 2 < BLOCKS_MAX ? backend.side_by_side / 2 : BLOCKS_MAX;
	cr_assert_eq(start(0, half, 64), 0);
	cr_expect_eq(start(1, backend.side_by_side - half + 1, 64), -EBUSY);
	for (uint32_t i = 1; i < LAUNCHES; i++)
		cr_assert_eq(start(i, 1, 64), 0);
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PROBE, &worker->probe[0], 1, 64, &more),
		     -EBUSY, "all handles are in use");
	for (uint32_t i = 0; i < LAUNCHES; i++)
		end(i, i ? 1 : half);
	down();
}
