/*
 * tests/fakes/target.h - a disk behind tests/fakes/peer.h: it executes read, write and flush over the
 * PRPs of a command, as the specification has them, on memory whose pages are scattered.
 */
#ifndef TESTS_FAKES_TARGET_H
#define TESTS_FAKES_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/region.h"
#include "tests/fakes/peer.h"
#include "tests/harness/random.h"

#define TARGET_NSID 7u

struct target {
	struct peer peer;
	struct hr_nvme_qp qp;
	struct hr_region region; /* what it may reach; page i has the bus address granule_bus[i] */
	uint8_t *disk;
	uint64_t disk_bytes;
	uint32_t lba_shift;
	uint32_t max_bytes;	  /* of one command */
	struct fake_random order; /* of completion */
	uint32_t commands, flushes;
	uint16_t status;   /* the next failures commands end with it */
	uint32_t failures; /* counts down */
	uint32_t lose;	   /* so many of the next commands are never completed; counts down */
	struct hr_sqe last;
};

/* `pages` of memory and a disk of disk_bytes, both filled with noise. Aborts when memory is short. */
void target_init(struct target *t, uint32_t entries, uint32_t pages, uint64_t disk_bytes,
		 uint32_t lba_shift, uint32_t max_bytes);
void target_fini(struct target *t);

/* Execute all that the doorbell announced and complete it, in random order. */
void target_step(struct target *t);

#endif
