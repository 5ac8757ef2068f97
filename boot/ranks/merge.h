/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/ranks/merge.h - the results of all ranks become the result of rank 0.
 *
 * The operator's finish() reduces states of any workers and the records of all tiles. So rank 0
 * collects the states and records of all ranks, and calls finish() once, in the form for the CPU.
 * The result has the same bytes as that of one process over all tiles.
 */
#ifndef BOOT_RANKS_MERGE_H
#define BOOT_RANKS_MERGE_H

#include "boot/engine/engine.h"
#include "boot/ranks/job.h"

/* Memory that the merged runs of rank 0 refer to. All zero: none. */
struct hr_merged {
	struct {
		struct hr_collected records, words[HR_SOURCES_MAX];
		bool whole; /* rank 0: the run has the result of all ranks */
	} pipeline[HR_PIPELINES_MAX];
};

/*
 * Collective, when the pipelines have ended, queues are up, and the process is not sealed: merge each
 * selected pipeline. On rank 0 the run then has the result, records and checksums of all tiles, the
 * sum of read_bytes, done_tiles and durable_tiles, and the longest duration; its sources are
 * verified, and after that the sinks of all ranks are completed, or removed when data differ. A run
 * that has failed or was interrupted on any rank counts as failed or interrupted on rank 0 as well.
 * 0 also then; or the error of the merge on this rank, or -ECANCELED for one on another.
 * hr_merged_free() frees the memory after the report.
 */
int hr_ranks_merge(struct hr_job *job, struct hr_engine *engine, struct hr_merged *merged,
		   struct hr_error *e);
void hr_merged_free(struct hr_merged *merged);

#endif
