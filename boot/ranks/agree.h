/*
 * boot/ranks/agree.h - checks before a job runs: what ranks cannot run yet, and whether all ranks
 * have the same work.
 */
#ifndef BOOT_RANKS_AGREE_H
#define BOOT_RANKS_AGREE_H

#include "boot/engine/engine.h"
#include "boot/ranks/job.h"

/*
 * Not collective: refuse the selected pipelines that ranks do not run: with a tap or a feed, with an
 * access operator, or without shard. 0, or -EINVAL: *e has a line for each.
 */
int hr_ranks_check(const struct hr_appliance *app, struct hr_error *e);

/* Not collective: give each selected pipeline its part of the tiles, and the appliance a name of its
 * own, NAME.RANK, for `headrace status`. Before the stage `objects`. */
void hr_ranks_divide(struct hr_appliance *app, const struct hr_ranks *ranks);

/*
 * Collective, after the stage `partition`: compare the pipelines (operator, its code and arguments,
 * tile, verify) and their sources with those of rank 0: length and CRC-32C of whole objects, and
 * whether shards are one data set (boot/ranks/cover.h). Objects are copies, so their ids and places may
 * differ; stores with a sink must be different ones. 0; -EINVAL on all ranks: they differ, and
 * rank 0 has a line for each difference, which names the rank; as hr_job_collect().
 */
int hr_ranks_same(struct hr_job *job, const struct hr_appliance *app, struct hr_error *e);

/*
 * Collective, after hr_ranks_same(): rehearse the sinks of all ranks, so that no rank writes when one
 * of them cannot; and make a run whose result is that of all parts run again on all ranks, when the
 * sink of some part is not complete. As hr_sinks_check(), or -ECANCELED.
 */
int hr_ranks_sinks(struct hr_job *job, struct hr_appliance *app, struct hr_error *e);

#endif
