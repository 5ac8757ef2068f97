/*
 * boot/ranks/cover.h - whether the shards of all ranks are one data set.
 */
#ifndef BOOT_RANKS_COVER_H
#define BOOT_RANKS_COVER_H

#include "cache/store/store.h"
#include "config/base/error.h"

/* A source of one rank. */
struct hr_shard_of {
	uint64_t is_shard;   /* 0: an object that is no shard; all else does not matter then */
	uint64_t bytes;	     /* of the object */
	uint64_t tile_bytes; /* of a tile in this source */
	struct hr_store_shard shard;
};

/*
 * The shards of one object: of[r] is that of rank r, at of + r * step bytes. They must be number r of
 * `ranks` of the same data set, with rows of the same length, that begin at a tile, and follow each
 * other without a gap from the first row of the data set to the last. 0, or -EINVAL with one line,
 * which begins with `what` and names rank and rows.
 */
int hr_shards_cover(const struct hr_shard_of *of, size_t step, uint32_t ranks, const char *what,
		    struct hr_error *e);

/* The same for the sources of one rank: all of them begin and end with the same tiles. names: of the
 * sources. */
int hr_shards_agree(const struct hr_shard_of *const of[], const char *const names[],
		    uint32_t sources, uint32_t rank, const char *what, struct hr_error *e);

#endif
