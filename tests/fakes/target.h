/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/target.h - a disk on tests/fakes/peer.h: it executes read, write and flush over the
 * PRPs of a command as specified, on memory whose pages are scattered.
 */
#ifndef TESTS_FAKES_TARGET_H
#define TESTS_FAKES_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/dma/region.h"
#include "tests/fakes/peer.h"
#include "tests/harness/random.h"

#define TARGET_NSID 7u

struct target {
	struct peer peer;
	struct hr_nvme_qp qp;
	/* Memory of the disk's commands; page i has the bus address granule_bus[i]. */
	struct hr_region region;
	uint8_t *disk;
	uint64_t disk_bytes;
	uint32_t lba_shift;
	uint32_t max_bytes;	  /* bytes of one command */
	struct fake_random order; /* random order of completions */
	uint32_t commands, flushes;
	uint16_t status;   /* status of the next `failures` commands */
	uint32_t failures; /* counts down */
	uint32_t lose;	   /* number of the next commands that are never completed; counts down */
	struct hr_sqe last;
};

/*
 * `pages` of memory and a disk of disk_bytes, both with random contents. Aborts when memory is
 * exhausted.
 */
void target_init(struct target *t, uint32_t entries, uint32_t pages, uint64_t disk_bytes,
		 uint32_t lba_shift, uint32_t max_bytes);
void target_fini(struct target *t);

/* Execute all commands that the doorbell announced, and complete them in random order. */
void target_step(struct target *t);

#endif
