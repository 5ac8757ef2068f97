/*
 * tests/harness/io_rig.h - one I/O worker of an access operator, step by step, in the test's thread.
 * The test is the controller of its two queue pairs, the compute workers, the other I/O workers and the
 * other gpus; the clock stands still. After a step the rig writes what has changed as one text:
 *
 *   = 1 w.taken 0>2 s9.6 FREE>READING p17 c3 SENT page 17+1 read [6] q1 #3 read n8 L1040+8 F69
 *
 * so a test compares the whole state with what it expects: all that is not in the text is as before.
 *
 *   w.NAME              a member of struct hr_io_worker           sS.W    way W of set S, a page as pN
 *   waiting, unused     lists in the block's memory               cN      command N of the worker
 *   count.NAME          struct hr_io_counters                     qN #T   an entry with the token T:
 *   LBA, number of blocks, and pages of 4 KiB in the frames (F) or in the staging memory (S)
 *   -> GhN, -> GpN      message N to gpu G, as a home's asker (h) or as its home (p)
 *   sentGh, takenGp     counters of these                         D       an entry of the directory
 *   kS.W                what a way waits for (struct hr_peer_set)
 */
#ifndef TESTS_HARNESS_IO_RIG_H
#define TESTS_HARNESS_IO_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/peers.h"
#include "gpu/worker/io.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/peer.h"
#include "tests/harness/io_rig_text.h"

#define IO_RIG_GPUS 3u
#define IO_RIG_WORKERS 3u
#define IO_RIG_COMMANDS 8u
#define IO_RIG_SETS 32u
#define IO_RIG_ENTRIES 16u /* of a queue */
#define IO_RIG_NOW 1000000000ull
#define IO_RIG_TIMEOUT (64 * 1000000ull) /* of a command, of a page that waits, of a gpu */
#define IO_RIG_EPOCH 40u
#define IO_RIG_STAGING (192 * HR_PAGE)
/* Bus addresses of frames, staging memory and PRP lists. */
#define IO_RIG_FRAME_BUS 0x100000000ull
#define IO_RIG_STAGING_BUS 0x200000000ull
#define IO_RIG_LIST_BUS 0x300000000ull

/* A member 0 has the default that its comment names. */
struct io_rig_shape {
	uint32_t index, io_workers; /* the worker; default 1 of 2 */
	bool first;		    /* the worker is number 0 */
	uint32_t computers;	    /* default 4 */
	uint32_t page_shift;	    /* default 12 */
	uint32_t group_shift;	    /* default 3: 4 rows of 8 sets; 0: use `flat` */
	bool flat;		    /* groups of one page */
	uint32_t commands, merge;   /* default 8, 8 */
	uint32_t policy;	    /* enum hr_page_policy */
	bool staging;
	uint32_t gpus, self;
};

/* All memory that the worker uses. */
struct io_rig_memory {
	struct hr_io_worker w;
	struct hr_io_block block;
	struct hr_cache_words words;
	struct hr_cache_worker worker[4 * IO_RIG_WORKERS];
	struct hr_request_ring ring[IO_RIG_WORKERS];
	struct hr_io_command command[IO_RIG_WORKERS][IO_RIG_COMMANDS];
	struct hr_page_set set[IO_RIG_SETS];
	struct hr_worker_status status[IO_RIG_WORKERS];
	struct hr_io_counters counters[IO_RIG_WORKERS];
	uint64_t flushed[IO_RIG_WORKERS];
	struct hr_pipe_control control;
	struct hr_nvme_qp qp[2 * IO_RIG_WORKERS];
	uint64_t prp_list[IO_RIG_WORKERS * IO_RIG_COMMANDS * 32];
	uint8_t peers[IO_RIG_GPUS][128 << 10] __attribute__((aligned(64)));
	uint8_t frame[IO_RIG_GPUS][IO_RIG_SETS * HR_WAYS * HR_PAGE] __attribute__((aligned(64)));
	uint8_t staging[IO_RIG_STAGING] __attribute__((aligned(64)));
};

struct io_rig {
	struct io_rig_memory m, was;
	struct hr_access access;
	struct hr_peers peers;
	struct peer peer[2]; /* controllers of the worker's queue pairs */
};

extern struct io_rig io_rig;

/* Shorter names for tests. */
#define RIG (&io_rig)
#define W (&io_rig.m.w)

/*
 * Two objects, on two ssds: object 0 (id 70) has pages 0 .. 99 on ssd 1, nsid 7, from LBA 1000 on,
 * blocks of 512 bytes, its last page has one block; object 1 (id 71) has pages 128 .. 191 on ssd 0,
 * nsid 8, from LBA 5000 on, blocks of 4 KiB. The worker is as after io_start(), and all is quiet: epoch
 * and `settled` are IO_RIG_EPOCH.
 */
void io_rig_up(const struct io_rig_shape *shape);
void io_rig_down(void);

/* The n-th page of an object in a set. */
uint32_t io_rig_page(uint32_t set, uint32_t n);
uint32_t io_rig_set(uint32_t page);

/* Put a page into a way, with a state; its frame holds the low byte of the page number. */
void io_rig_put(uint32_t page, uint32_t way, uint32_t state);
/* Make a way LEFT with an epoch. */
void io_rig_leave(uint32_t set, uint32_t way, uint32_t epoch);

/* A worker requests a page. */
void io_rig_request(uint32_t page, uint64_t flags);

/* Write all doorbells, and complete the command with that token on a queue pair. status: bits 14:1 of
 * the completion's status field. */
void io_rig_complete(uint32_t queue, uint32_t token, uint16_t status);

/* A message of a gpu to the worker. */
void io_rig_send(uint32_t gpu, struct hr_peer_message m);
/* The gpu has taken so many messages of a ring. */
void io_rig_taken(uint32_t gpu, uint32_t ring, uint64_t taken);

#endif
