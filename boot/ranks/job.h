/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/ranks/job.h - what the ranks of a job decide together: whether to go on, and data at rank 0.
 *
 * Each function is collective (boot/ranks/ranks.h), except where its comment says otherwise. NULL in
 * place of a job stands for a process alone: nothing is exchanged.
 */
#ifndef BOOT_RANKS_JOB_H
#define BOOT_RANKS_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/ranks/ranks.h"
#include "config/base/error.h"

/* ranks is open; all else is zero. */
struct hr_job {
	struct hr_ranks ranks;
	bool told;   /* this rank has asked the others to stop */
	bool obeyed; /* this rank stops because another one asked */
	bool broken; /* a call of the library failed: no more calls */
};

/*
 * Exchange how a step has ended: err and *e are the outcome of this rank, printed already. Returns
 * err when it is not 0. Else 0 when all ranks have succeeded, or -ECANCELED when another one has
 * failed: *e then has the greatest kind of all ranks and is not printed, because the failed rank has
 * printed its own. -EIO: the library failed.
 */
int hr_job_agree(struct hr_job *job, int err, struct hr_error *e);

/* *any: true on all ranks when `mine` is true on one of them. 0, or -EIO: the library failed. */
int hr_job_any(struct hr_job *job, bool mine, bool *any, struct hr_error *e);

/*
 * Merge `bytes` of all ranks, the same number on each, into those of rank 0: merge(to, into, from)
 * makes `into`, data of ranks r to s - 1, that of ranks r to t - 1, with `from`, data of ranks s to
 * t - 1. Changes `data` on the other ranks, too. 0; -ENOMEM, on all ranks; -EIO: the library failed.
 */
int hr_job_reduce(struct hr_job *job, void *data, uint64_t bytes,
		  void (*merge)(void *to, void *into, const void *from), void *to,
		  struct hr_error *e);

/* The greatest of the exit codes of all ranks; HR_ERROR_FAILED, logged, when the library fails. */
int hr_job_code(struct hr_job *job, int code);

/*
 * Data of all ranks, one after another: lengths[i] bytes of rank i. On other ranks than 0 all is
 * zero. hr_collected_free() frees it.
 */
struct hr_collected {
	uint8_t *data; /* aligned to 64 bytes; NULL: no bytes */
	uint64_t bytes;
	uint64_t *lengths; /* [size] */
};

/* Collect `bytes` of each rank at rank 0. 0; -ENOMEM, on all ranks; -EIO: the library failed. */
int hr_job_collect(struct hr_job *job, const void *from, uint64_t bytes, struct hr_collected *to,
		   struct hr_error *e);

/* The same for a struct that has the same length on all ranks. -EPROTO: it has another on some rank. */
int hr_job_collect_same(struct hr_job *job, const void *from, uint64_t bytes,
			struct hr_collected *to, struct hr_error *e);
void hr_collected_free(struct hr_collected *collected);

/* Not collective: ask the other ranks to stop, once. Not while the process is sealed. */
void hr_job_stop(struct hr_job *job);

/* Not collective: true once when another rank has asked this one to stop. Also while sealed. */
bool hr_job_stops(struct hr_job *job);

/* Agree on the exit code, and leave the job: all devices are down, and the process ends. Returns the
 * greatest exit code of all ranks. */
int hr_job_close(struct hr_job *job, int code);

#endif
