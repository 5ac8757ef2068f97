/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/ranks/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 64u

/* The error of a call of the library. */
static int fail_job_call(struct hr_job *job, int err, struct hr_error *e)
{
	job->broken = true;
	job->ranks.why[sizeof job->ranks.why - 1] = '\0';
	return hr_fail(e, HR_ERROR_FAILED, err, "--mpi: %s", job->ranks.why);
}

static int greatest(struct hr_job *job, uint32_t value, uint32_t *most, struct hr_error *e)
{
	int err;

	*most = value;
	if (job->broken)
		return hr_fail_known(e, HR_ERROR_FAILED, -EIO, "--mpi: the job is broken");
	err = job->ranks.ops->max(&job->ranks, value, most);
	return err ? fail_job_call(job, err, e) : 0;
}

int hr_job_agree(struct hr_job *job, int err, struct hr_error *e)
{
	const uint32_t mine = err ? (uint32_t)(e->kind ? e->kind : HR_ERROR_FAILED) : 0;
	uint32_t most;
	int failed;

	if (!job)
		return err;
	failed = greatest(job, mine, &most, err ? NULL : e);
	if (err || failed)
		return err ? err : failed;
	if (most == 0)
		return 0;
	return hr_fail_known(e,
			     most <= HR_ERROR_DEVICE ? (enum hr_error_kind)most : HR_ERROR_FAILED,
			     -ECANCELED, "another rank has failed");
}

int hr_job_any(struct hr_job *job, bool mine, bool *any, struct hr_error *e)
{
	uint32_t most;
	const int err = greatest(job, mine, &most, e);

	*any = most != 0;
	return err;
}

int hr_job_reduce(struct hr_job *job, void *data, uint64_t bytes,
		  void (*merge)(void *to, void *into, const void *from), void *to,
		  struct hr_error *e)
{
	void *other = NULL;
	int err = 0;

	if (bytes <= SIZE_MAX - ALIGN)
		other = aligned_alloc(ALIGN, (size_t)(bytes + ALIGN) / ALIGN * ALIGN);
	if (!other)
		err = hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			      "out of memory for the state of another rank: %llu bytes",
			      (unsigned long long)bytes);
	err = hr_job_agree(job, err, e);
	if (!err) {
		err = job->ranks.ops->reduce(&job->ranks, data, other, bytes, merge, to);
		err = err ? fail_job_call(job, err, e) : 0;
	}
	free(other);
	return err;
}

int hr_job_code(struct hr_job *job, int code)
{
	struct hr_error e = { 0 };
	uint32_t most;

	if (!job)
		return code;
	if (greatest(job, (uint32_t)code, &most, &e) != 0) {
		hr_error_log(&e, HR_LOG_ERROR);
		return code ? code : HR_ERROR_FAILED;
	}
	return most <= HR_ERROR_DEVICE ? (int)most : HR_ERROR_FAILED;
}

static int check_lengths(const struct hr_job *job, const struct hr_collected *to, uint64_t bytes,
			 struct hr_error *e)
{
	for (uint32_t r = 0; r < job->ranks.size; r++)
		if (to->lengths[r] != bytes)
			return hr_fail(e, HR_ERROR_USAGE, -EPROTO,
				       "rank %u runs another version of headrace than rank 0", r);
	return 0;
}

/* Rank 0: memory for all data, whose lengths are known. */
static int reserve_collected(const struct hr_job *job, struct hr_collected *to, struct hr_error *e)
{
	bool over = false;

	for (uint32_t r = 0; r < job->ranks.size; r++)
		over |= __builtin_add_overflow(to->bytes, to->lengths[r], &to->bytes);
	if (!over && to->bytes <= SIZE_MAX - ALIGN && to->bytes)
		to->data = aligned_alloc(ALIGN, (size_t)(to->bytes + ALIGN - 1) / ALIGN * ALIGN);
	if (!over && (to->data || !to->bytes))
		return 0;
	return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
		       "out of memory for the results of all ranks: %llu bytes",
		       (unsigned long long)to->bytes);
}

static int gather_bytes(struct hr_job *job, const void *from, uint64_t bytes, void *to,
			const uint64_t *lengths, struct hr_error *e)
{
	const int err = job->ranks.ops->gather(&job->ranks, from, bytes, to, lengths);

	return err ? fail_job_call(job, err, e) : 0;
}

/* Rank 0: memory for the lengths, and the lengths of the lengths behind them. */
static int begin_lengths(const struct hr_job *job, struct hr_collected *to, struct hr_error *e)
{
	const size_t size = job->ranks.size;

	memset(to, 0, sizeof *to);
	if (job->ranks.rank)
		return 0;
	to->lengths = calloc(2 * size, sizeof *to->lengths);
	if (!to->lengths)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "out of memory for the lengths of the data of %zu ranks", size);
	for (size_t r = 0; r < size; r++)
		to->lengths[size + r] = sizeof *to->lengths;
	return 0;
}

static int collect_bytes(struct hr_job *job, const void *from, uint64_t bytes, bool same,
			 struct hr_collected *to, struct hr_error *e)
{
	const bool root = job->ranks.rank == 0;
	int err = begin_lengths(job, to, e), failed = 0;

	err = hr_job_agree(job, err, e);
	if (!err)
		err = gather_bytes(job, &bytes, sizeof bytes, to->lengths,
				   root ? to->lengths + job->ranks.size : NULL, e);
	if (!err && root)
		failed = same ? check_lengths(job, to, bytes, e) : 0;
	if (!err && root && !failed)
		failed = reserve_collected(job, to, e);
	if (!err)
		err = hr_job_agree(job, failed, e);
	if (!err)
		err = gather_bytes(job, from, bytes, to->data, to->lengths, e);
	if (err)
		hr_collected_free(to);
	return err;
}

int hr_job_collect(struct hr_job *job, const void *from, uint64_t bytes, struct hr_collected *to,
		   struct hr_error *e)
{
	return collect_bytes(job, from, bytes, false, to, e);
}

int hr_job_collect_same(struct hr_job *job, const void *from, uint64_t bytes,
			struct hr_collected *to, struct hr_error *e)
{
	return collect_bytes(job, from, bytes, true, to, e);
}

void hr_collected_free(struct hr_collected *collected)
{
	free(collected->data);
	free(collected->lengths);
	memset(collected, 0, sizeof *collected);
}

void hr_job_stop(struct hr_job *job)
{
	if (!job || job->told || job->broken)
		return;
	job->told = true;
	job->ranks.ops->stop(&job->ranks);
}

bool hr_job_stops(struct hr_job *job)
{
	if (!job || job->obeyed || job->told || !job->ranks.ops->stopped(&job->ranks))
		return false;
	job->obeyed = true;
	return true;
}

int hr_job_close(struct hr_job *job, int code)
{
	const int most = hr_job_code(job, code);

	if (job && !job->broken)
		job->ranks.ops->close(&job->ranks);
	return most;
}
