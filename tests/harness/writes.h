/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/writes.h - the pipeline of tests that hold and fail writes by a script. It copies
 * TILES tiles of COMMANDS commands each to a sink, whose blocks are compared with the data.
 */
#ifndef TESTS_HARNESS_WRITES_H
#define TESTS_HARNESS_WRITES_H

#include <criterion/criterion.h>
#include <errno.h>
#include <nvme/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "gpu/backend.h"
#include "nvme/soft/soft.h"
#include "tests/fakes/clock.h"
#include "tests/harness/random.h"
#include "tests/harness/rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS (20 * HR_NS_PER_S)	    /* less than the pause of CRD 3, 60 s */
#define LONG_TIMEOUT_NS (600 * HR_NS_PER_S) /* more than any pause */
#define LBA 4096u
#define TILE_BLOCKS 4u
#define COMMAND_BLOCKS 2u /* with mdts=1: a tile has two commands */
#define COMMANDS (TILE_BLOCKS / COMMAND_BLOCKS)
#define TILE (TILE_BLOCKS * LBA)
#define TILES 12u
#define BYTES (TILES * TILE)
#define SINK_LBA (RIG_SINK_AT / LBA)
#define HELD "status 0x021 crd 3" /* not executed, and sent again after 60 s */

static struct rig rig;
static uint8_t data[BYTES];

/* Start one controller with the script and queues of so many entries, and make new data; rig_down()
 * stops it. */
static inline void up_with(const char *script, uint32_t entries, uint64_t timeout_ns)
{
	struct fake_random random = { fake_random_seed("writes") };

	rig_up_faulty(&rig, 1, "lba=4096,mdts=1", script, entries, timeout_ns);
	for (uint32_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(fake_random_u64(&random) >> 56);
}

static inline void up(const char *script, uint64_t timeout_ns)
{
	up_with(script, 32, timeout_ns);
}

static inline struct rig_work copy_work(uint32_t slots, uint32_t writers)
{
	const struct rig_work work = { .op = HR_OP_copy,
				       .sources = 1,
				       .in = { data },
				       .bytes = { BYTES },
				       .tile_bytes = { TILE },
				       .slots = slots,
				       .blocks = { 1, 1, writers } };

	return work;
}

/* A rule for writes to blocks [from, to) of the sink, except the rig's own write. */
static inline char *rule(char *text, size_t bytes, uint64_t from, uint64_t to, uint32_t count,
			 const char *action)
{
	snprintf(text, bytes, "on write lba %llu-%llu nth %llu count %u: %s\n",
		 (unsigned long long)(SINK_LBA + from), (unsigned long long)(SINK_LBA + to - 1),
		 (unsigned long long)((to - from) / COMMAND_BLOCKS + 1), count, action);
	return text;
}

/* The tiles of the sink whose data are completely on the disk, a bit each. */
static inline uint32_t tiles_on_disk(void)
{
	uint8_t *sink = rig_read_sink(&rig, BYTES);
	uint32_t tiles = 0;

	for (uint32_t t = 0; t < TILES; t++)
		tiles |= (uint32_t)(memcmp(sink + t * TILE, data + t * TILE, TILE) == 0) << t;
	free(sink);
	return tiles;
}

/* The first tile whose bit is not set. */
static inline uint64_t first_missing(uint32_t tiles)
{
	return (uint64_t)__builtin_ctz(~tiles);
}

static inline uint64_t written(void)
{
	return hr_pipe_written_prefix(rig.pipe, rig.pipe->written);
}

static inline uint64_t settled(void)
{
	return hr_pipe_final_prefix(rig.pipe, rig.pipe->slot);
}

static inline void stop(enum hr_pipe_stop how)
{
	hr_release_sys_u32(&rig.pipe->control->stop, how);
}

static inline bool has_ended(void)
{
	return hr_launch_poll(rig.launch, NULL) != 0;
}

/* Wait until so many commands in total have failed, and so many tiles are written. */
static inline void wait_for(uint64_t errors, uint64_t tiles)
{
	while ((rig_errors(&rig) < errors || rig_tiles(&rig, HR_ROLE_WRITEBACK) < tiles) &&
	       !has_ended())
		hr_wait_ns(50000);
	cr_assert_geq(rig_errors(&rig), errors);
	cr_assert_geq(rig_tiles(&rig, HR_ROLE_WRITEBACK), tiles);
}

static inline uint64_t heartbeat(uint32_t worker)
{
	return hr_acquire_sys_u64(&rig.pipe->status[worker].heartbeat);
}

/*
 * Wait until the controller has answered all commands it has fetched, and every worker has polled
 * its queues after that. Then only commands that a script holds are outstanding. The controller's
 * only thread serves one queue after the other, so reads by the rig complete after the others.
 */
static inline void settle_down(void)
{
	free(rig_read_sink(&rig, LBA));
	free(rig_read_sink(&rig, LBA));
	for (uint32_t i = 0; i < hr_pipe_statuses(rig.pipe); i++) {
		const uint64_t seen = heartbeat(i);

		while (heartbeat(i) < seen + 5 && !hr_acquire_sys_u32(&rig.pipe->status[i].ended))
			hr_wait_ns(50000);
	}
}

/*
 * Wait for the end of a run; returns the tiles on the disk at that time. A broken queue ends with
 * its controller.
 */
static inline uint32_t wait_end(void)
{
	uint32_t tiles;

	while (!has_ended())
		hr_wait_ns(50000);
	tiles = tiles_on_disk();
	rig_wait(&rig);
	for (uint32_t i = 0; i < rig.pipe->slots; i++) {
		cr_assert_eq(rig.pipe->slot[i].state, HR_SLOT_CLOSED, "slot %u", i);
		cr_assert_eq(rig.pipe->slot[i].deferred, 0, "slot %u", i);
	}
	return tiles;
}

/* Flushes that the controller has executed. */
static inline uint64_t flushes(void)
{
	struct hr_soft_stats stats;

	hr_soft_stats(&rig.ssd[0].transport, &stats);
	return stats.flushes;
}

/* Check the failure of the run: of write-back and the sink, with this error. */
static inline const struct hr_failure *failed_with(const char *what, int error)
{
	const struct hr_failure *failure = rig_failure(&rig);

	cr_assert_not_null(failure, "%s: nothing has failed", what);
	cr_expect_eq(failure->error, error, "%s: %d", what, failure->error);
	cr_expect_eq(failure->role, HR_ROLE_WRITEBACK, "%s", what);
	cr_expect_eq(failure->object, RIG_SINK_ID, "%s", what);
	return failure;
}

#endif
