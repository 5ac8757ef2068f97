/*
 * tests/fakes/memdisk.h - a disk in memory with a volatile write cache, for tests of what stands on
 * nvme/blk.h: power cuts, errors, read-only disks, and a count of what was done.
 */
#ifndef TESTS_FAKES_MEMDISK_H
#define TESTS_FAKES_MEMDISK_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/blk.h"

#define MEMDISK_SECTOR 512u /* what a power cut never tears */

struct memdisk {
	struct hr_blk blk;
	uint8_t *media; /* what survives a power cut */
	uint8_t *seen;	/* what reads return: media and the cache over it */
	bool *dirty;	/* [sectors]: differs, not yet flushed */
	bool off;	/* after the cut: every call returns -ENODEV */
	uint64_t reads, writes, flushes;
	uint64_t cut_at;  /* the power fails during this write or flush, counted from 1; 0: never */
	uint64_t fail_at; /* this write or flush returns fail_status; 0: never */
	uint64_t bad_from, bad_to; /* bytes that cannot be read: fail_status */
	int fail_status;
	uint64_t seed; /* which unflushed sectors survive the cut */
};

/* A blank disk. Aborts when memory is short. */
void memdisk_init(struct memdisk *disk, uint64_t bytes, uint32_t block_bytes);
void memdisk_fini(struct memdisk *disk);

/* Lose the cache but for sectors that seed chooses, and refuse everything from then on. */
void memdisk_cut(struct memdisk *disk);

/* Power on again, counting from zero, with no cut or failure planned. */
void memdisk_power_on(struct memdisk *disk);

/* Everything written so far, durable or not, as the media of `to`, which has the same size. */
void memdisk_copy(struct memdisk *to, const struct memdisk *from);

#endif
