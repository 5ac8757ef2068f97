/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/feed_rig.h - the feed role without a pipeline: a thread runs the role, another
 * plays compute and write-back, and the test plays producers and the host. It has an output of
 * half the input.
 */
#ifndef TESTS_HARNESS_FEED_RIG_H
#define TESTS_HARNESS_FEED_RIG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/clock.h"
#include "gpu/tap/feed.h"

#define SLOTS 8u
#define RING 8u
#define SETS 2u
#define TILE 256u
#define ROW 4u
#define TILES_MAX 4000u
#define EPOCH 0x1234567890abcdefull
#define LIMIT_NS (120 * HR_NS_PER_S)

struct feed_rig {
	struct hr_pipe pipe;
	struct hr_slot slot[SLOTS];
	struct hr_worker_status status;
	struct hr_pipe_control control;
	struct hr_feed_role role;
	struct hr_feed_words words;
	struct hr_feed_offer offer[SLOTS];
	uint64_t written[SLOTS];
	uint8_t tiles[SLOTS][TILE] __attribute__((aligned(64)));
	/* of the producers, one after the other */
	uint8_t entries[SETS][4096] __attribute__((aligned(64)));
	uint64_t page[SETS][512] __attribute__((aligned(64)));
	uint64_t producers; /* that have come */
	/* by compute: how often a tile came, and with how many bytes */
	uint32_t seen[TILES_MAX], seen_bytes[TILES_MAX];
	uint32_t holds; /* 1: compute takes no tile; 2: write-back keeps the tiles that it has */
	uint64_t taken; /* entries of this producer */
	pthread_t worker, computer;
};

extern struct feed_rig feed_rig;

/* Runs the role in the thread; a test may have lanes of its own. */
extern void (*feed_rig_role)(void);

/* A feed of so many bytes at most; start the threads; wait for their end. */
void feed_rig_set_up(uint64_t bytes);
void feed_rig_start(void);
void feed_rig_finish(void);

/* The host: give an order; whether the worker has carried it out; wait for that. */
void feed_rig_order(enum hr_feed_order what);
bool feed_rig_is_done(void);
void feed_rig_wait_done(void);

/* A producer with memory of its own, all zero. After detach no worker accesses it. */
void feed_rig_attach(uint32_t credits);
void feed_rig_detach(void);

/* All tiles before it are committed. */
uint64_t feed_rig_next_tile(void);

/* Whole rounds of the worker: it has seen all that was stored before. */
void feed_rig_let_it_run(void);

/* The producer: whether entry n is valid; the next one; whether no further one comes. */
bool feed_rig_is_there(uint64_t n);
struct hr_tap_entry feed_rig_next_entry(void);
uint32_t feed_rig_last(void);

/* Fill a tile and commit it; the same with the next one, which must have this number; end the feed. */
void feed_rig_commit(const struct hr_tap_entry *e, uint32_t bytes);
void feed_rig_commit_next(uint64_t tile);
void feed_rig_end(void);

struct hr_feed_commits *feed_rig_the_page(void);

/* Tiles 0 .. count - 1 were computed once, and no other one. */
void feed_rig_expect_seen(uint64_t count);

#endif
