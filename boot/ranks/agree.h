/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/ranks/agree.h - checks before a job runs: what ranks cannot run yet, and whether all ranks
 * have the same work.
 */
#ifndef BOOT_RANKS_AGREE_H
#define BOOT_RANKS_AGREE_H

#include "boot/engine/engine.h"
#include "boot/ranks/job.h"
#include "cache/store/store.h"
#include "config/base/error.h"

/*
 * Not collective: refuse the selected pipelines that ranks do not run: with a tap or a feed, with an
 * access operator, or without shard. 0, or -EINVAL: *e has a line for each.
 */
int hr_ranks_check(const struct hr_engine *engine, struct hr_error *e);

/* Not collective: give each selected pipeline its part of the tiles, and the appliance a name of its
 * own, NAME.RANK, for `headrace status`. Before the stage `objects`. */
void hr_ranks_divide(struct hr_engine *engine, const struct hr_ranks *ranks);

/*
 * Collective, after the stage `partition`: compare the pipelines (operator, its code and arguments,
 * tile, verify) and their sources with those of rank 0: length and CRC-32C of whole objects, and
 * whether shards are one data set. Objects are copies, so their ids and places may
 * differ; stores with a sink must be different ones. 0; -EINVAL on all ranks: they differ, and
 * rank 0 has a line for each difference, which names the rank; as hr_job_collect().
 */
int hr_ranks_same(struct hr_job *job, const struct hr_engine *engine, struct hr_error *e);

/*
 * Collective, after hr_ranks_same(): rehearse the sinks of all ranks, so that no rank writes when one
 * of them cannot; and make a run whose result is that of all parts run again on all ranks, when the
 * sink of some part is not complete. As hr_sinks_check(), or -ECANCELED.
 */
int hr_ranks_sinks(struct hr_job *job, struct hr_engine *engine, struct hr_error *e);

/* ---- whether the shards of all ranks are one data set */

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
