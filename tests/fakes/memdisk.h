/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/memdisk.h - a disk in memory with a volatile write cache, for tests of users of
 * nvme/blk.h: power cuts, errors, read-only disks, and counts of operations.
 */
#ifndef TESTS_FAKES_MEMDISK_H
#define TESTS_FAKES_MEMDISK_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/blk.h"

#define MEMDISK_SECTOR 512u /* unit that a power cut never tears */

struct memdisk {
	struct hr_blk blk;
	uint8_t *media;	       /* data that survive a power cut */
	uint8_t *seen;	       /* data that reads return: media and the cache over it */
	int media_fd, seen_fd; /* files in memory, mapped there */
	bool *dirty;	       /* [sectors]: changed, not yet flushed */
	bool off;	       /* after the cut: every call returns -ENODEV */
	uint64_t reads, writes, flushes;
	uint64_t trims, trimmed_bytes;
	uint64_t cut_at;  /* the power fails during this write or flush, counted from 1; 0: never */
	uint64_t fail_at; /* this write or flush returns fail_status; 0: never */
	uint64_t bad_from, bad_to; /* range of unreadable bytes: fail_status */
	int fail_status;
	uint64_t seed; /* selects the unflushed sectors that survive the cut */
};

/* A blank disk. Aborts when memory is exhausted. */
void memdisk_init(struct memdisk *disk, uint64_t bytes, uint32_t block_bytes);
void memdisk_fini(struct memdisk *disk);

/* Lose the cache except the sectors that seed selects, and refuse every later call. */
void memdisk_cut(struct memdisk *disk);

/* Power on again, with counts from zero and without a planned cut or failure. */
void memdisk_power_on(struct memdisk *disk);

/* Copy all data written so far, durable or not, to the media of `to`, which has the same size. */
void memdisk_copy(struct memdisk *to, const struct memdisk *from);

#endif
