/*
 * tests/harness/writes.h - the pipeline of the tests that hold and fail writes by script: it copies
 * TILES tiles, of COMMANDS commands each, to a sink whose blocks are compared with the data.
 */
#ifndef TESTS_HARNESS_WRITES_H
#define TESTS_HARNESS_WRITES_H

#include <criterion/criterion.h>
#include <errno.h>
#include <nvme/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
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
#define HELD "status 0x021 crd 3" /* not carried out, and sent again after 60 s */

static struct rig rig;
static uint8_t data[BYTES];

/* One controller that obeys the script, and fresh data; rig_down() is its end. */
static inline void up(const char *script, uint64_t timeout_ns)
{
	struct fake_random random = { fake_random_seed("writes") };

	rig_up_faulty(&rig, 1, "lba=4096,mdts=1", script, 32, timeout_ns);
	for (uint32_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(fake_random_u64(&random) >> 56);
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

/* A rule for writes to blocks [from, to) of the sink, but for the rig's poison. */
static inline char *rule(char *text, size_t bytes, uint64_t from, uint64_t to, uint32_t count,
			 const char *action)
{
	snprintf(text, bytes, "on write lba %llu-%llu nth %llu count %u: %s\n",
		 (unsigned long long)(SINK_LBA + from), (unsigned long long)(SINK_LBA + to - 1),
		 (unsigned long long)((to - from) / COMMAND_BLOCKS + 1), count, action);
	return text;
}

/* The tiles of the sink whose data are on the disk whole, a bit each. */
static inline uint32_t tiles_on_disk(void)
{
	uint8_t *sink = rig_read_sink(&rig, BYTES);
	uint32_t tiles = 0;

	for (uint32_t t = 0; t < TILES; t++)
		tiles |= (uint32_t)(memcmp(sink + t * TILE, data + t * TILE, TILE) == 0) << t;
	free(sink);
	return tiles;
}

/* The first tile that is not among them. */
static inline uint64_t first_missing(uint32_t tiles)
{
	return (uint64_t)__builtin_ctz(~tiles);
}

static inline uint64_t written(void)
{
	return hr_pipe_written(rig.pipe, rig.pipe->written);
}

static inline uint64_t settled(void)
{
	return hr_pipe_settled(rig.pipe, rig.pipe->slot);
}

static inline void stop(enum hr_pipe_stop how)
{
	hr_release_sys_u32(&rig.pipe->control->stop, how);
}

static inline bool has_ended(void)
{
	return rig.backend.ops->poll(&rig.backend) != 0;
}

/* Until so many commands have failed, all in all, and so many tiles are written. */
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
 * What the controller has taken so far is answered, and every worker has looked at its queues after
 * that: nothing is under way but what a script holds. The controller's only thread serves one queue
 * after the other, so reads of the rig's own come behind the rest.
 */
static inline void settle_down(void)
{
	free(rig_read_sink(&rig, LBA));
	free(rig_read_sink(&rig, LBA));
	for (uint32_t i = 0; i < hr_pipe_statuses(rig.pipe); i++) {
		const uint64_t seen = heartbeat(i);

		while (heartbeat(i) < seen + 5 && !hr_acquire_sys_u32(&rig.pipe->status[i].done))
			hr_wait_ns(50000);
	}
}

/* The end of a run, with what is on the disk then: a queue that broke ends with its controller. */
static inline uint32_t wait_end(void)
{
	uint32_t tiles;

	while (!has_ended())
		hr_wait_ns(50000);
	tiles = tiles_on_disk();
	rig_wait(&rig);
	for (uint32_t i = 0; i < rig.pipe->slots; i++) {
		cr_assert_eq(rig.pipe->slot[i].state, HR_SLOT_CLOSED, "slot %u", i);
		cr_assert_eq(rig.pipe->slot[i].parked, 0, "slot %u", i);
	}
	return tiles;
}

/* Flushes that the controller has carried out. */
static inline uint64_t flushes(void)
{
	struct hr_soft_stats stats;

	hr_soft_stats(&rig.ssd[0].transport, &stats);
	return stats.flushes;
}

/* The failure of the run: of write-back and the sink, with this error. */
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
