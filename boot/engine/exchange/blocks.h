/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/exchange/blocks.h - the blocks of an ssd whose data a comparison moves to a gpu:
 * existing blocks, which are only read, or a scratch area, which is written.
 *
 * Constant blocks prove little: pages may be exchanged, and the memory may have held the same data
 * before. So a range is chosen whose sample pages differ from one another. When there is none, and a
 * scratch area exists, that area gets a pattern, and a transfer that is larger reads it repeatedly,
 * each time from another page on.
 */
#ifndef BOOT_ENGINE_EXCHANGE_BLOCKS_H
#define BOOT_ENGINE_EXCHANGE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme/blk.h"

struct hr_exchange_blocks {
	struct hr_blk *blk;
	uint64_t most;	      /* bytes of the largest transfer; at most those of the disk */
	uint64_t range;	      /* existing blocks: byte offset on the disk */
	bool good;	      /* its sample pages are not constant and differ from one another */
	uint64_t scratch;     /* scratch area: byte offset on the disk */
	size_t scratch_bytes; /* whole pages; 0: there is none */
	uint8_t *pattern;     /* [scratch_bytes]: its contents */
	uint64_t constant;    /* pages of hr_exchange_blocks_expect() that hold one value only */
};

/* A pattern that differs in each 8 bytes, and for each seed; byte 0 of data is byte `at` of it. */
void hr_exchange_pattern(uint8_t *data, size_t bytes, uint64_t seed, uint64_t at);

/* True when all 8-byte words of the page are equal. */
bool hr_exchange_constant(const uint8_t page[HR_PAGE]);

/* Choose the range. page: memory for HR_EXCHANGE_SAMPLES pages. 0, or an error of the disk but a
 * status: blocks that cannot be read are not used. */
#define HR_EXCHANGE_SAMPLES 16u
int hr_exchange_blocks_choose(struct hr_exchange_blocks *b, uint8_t *page, struct hr_error *e);

/* True when the transfers use the scratch area. */
static inline bool hr_exchange_blocks_scratch(const struct hr_exchange_blocks *b)
{
	return b->scratch_bytes && !b->good;
}

/* Write a pattern to the scratch area. Errors of the disk. */
int hr_exchange_blocks_write(struct hr_exchange_blocks *b, uint64_t seed, struct hr_error *e);

/*
 * The blocks of a transfer of `bytes` from byte `at` on: *offset on the disk; returns the bytes that
 * are consecutive there.
 */
uint64_t hr_exchange_blocks_at(const struct hr_exchange_blocks *b, uint64_t at, uint64_t bytes,
			       uint64_t *offset);

/* Read [at, at + bytes) of the transfer's data through host memory. Errors of the disk. */
int hr_exchange_blocks_expect(struct hr_exchange_blocks *b, uint64_t at, uint8_t *data,
			      size_t bytes, struct hr_error *e);

#endif
