/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/access_rig.h - a run of an access operator over real parts: software controllers,
 * driver, queue pairs, page cache, I/O workers. A thread per block runs the worker code; the operator
 * is tests/op/callback.c, which calls functions of the test. Objects hold random data, of which the rig
 * keeps a copy; object i is on ssd i mod ssds, ACCESS_OBJECT bytes after the one before it there.
 *
 * A failed set-up ends the test.
 */
#ifndef TESTS_HARNESS_ACCESS_RIG_H
#define TESTS_HARNESS_ACCESS_RIG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpu/worker/io/access.h"
#include "tests/op/callback.h"
#include "tests/harness/rig.h"

#define ACCESS_OBJECT (2u << 20)
#define ACCESS_OBJECT_ID(i) (300u + (i))
#define ACCESS_BLOCKS_MAX 16u /* of all gpus */
#define ACCESS_GPUS_MAX 3u

/* The access pipeline of a test. A member 0 has the default that its comment names. */
struct access_work {
	uint32_t objects;
	uint64_t bytes[HR_OBJECTS_MAX];
	uint32_t writable;   /* a bit for each object that the operator may write to */
	uint32_t page_shift; /* default 12 */
	uint32_t frames;     /* default 56: 8 rows of the smallest size */
	uint32_t policy;
	uint32_t io, compute; /* number of blocks; default 1 each */
	uint32_t warps;	      /* workers of a block; default 1 */
	uint32_t commands;    /* default 32 */
	uint32_t merge_pages; /* default: the limit of a group and an ssd */
	bool staging;
	bool keep;	     /* do not write new random data to the objects */
	uint64_t timeout_ns; /* longest wait of a page for a frame; default 60 s */
	/* Gpus, each with a cache of this shape and these blocks; default 1. Several: cache/peers.h */
	uint32_t gpus;
	uint64_t peer_timeout_ns; /* longest wait for an answer of a gpu; default 60 s */
	uint32_t state_bytes;	  /* of a worker */
	bool scripted;		  /* only gpu 0 has threads; the test acts as the other gpus */
};

/* Bytes of host and of worker memory that access_up() takes: 8 MiB, unless the test sets more. */
extern uint64_t access_memory;

struct access_rig {
	struct rig rig;
	struct hr_access *access; /* of gpu 0 */
	struct hr_access *gpu[ACCESS_GPUS_MAX];
	uint32_t gpus;
	bool scripted;
	/* What the disk has at the place of an object: its blocks, and RIG_BEHIND random bytes.
	 * NULL: no work has had the object. */
	uint8_t *model[HR_OBJECTS_MAX];
	uint64_t model_bytes[HR_OBJECTS_MAX];
	uint64_t used[HR_PLACES];
	uint64_t seed;
	/* The operator, set after access_up(). */
	struct callback_args op;
	/* Runs a block; access_up() sets it to hr_access_block(). */
	void (*block)(struct hr_access *access, uint32_t block);
	/* Called before the threads start, or NULL: may put other mailboxes between gpus. */
	void (*wired)(struct access_rig *r);
	pthread_t thread[ACCESS_BLOCKS_MAX];
	uint32_t threads;
};

/* As rig_up_faulty(); script NULL: no faults. */
void access_up(struct access_rig *r, uint32_t ssds, const char *options, const char *script,
	       uint32_t entries, uint64_t timeout_ns);
void access_down(struct access_rig *r);

/* Write random data, set up the descriptor, create the queues, start the threads. */
void access_start(struct access_rig *r, const struct access_work *work);

/* Wait for the end of all threads, then delete the queue pairs. */
void access_wait(struct access_rig *r);

/* The first failure that a worker recorded, or NULL. */
const struct hr_failure *access_failure(const struct access_rig *r);

/* Sums over all I/O workers of all gpus. */
struct hr_io_counters access_counters(const struct access_rig *r);

/* Compare an object on its disk with the model. */
void access_check_disk(struct access_rig *r, uint32_t object);

/* The thread sanitizer has the same races to find with each policy, and takes long: its builds leave
 * out all but one number of I/O workers, 1 to 3, for each policy. */
static inline bool access_leaves_out(uint32_t policy, uint32_t io)
{
#ifdef __SANITIZE_THREAD__
	return io != 1 + policy % 3;
#else
	return false;
#endif
}

#endif
