/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-mpi.so: the ranks of boot/ranks/ranks.h as processes of MPI. Compiled by mpicc, because
 * the binary interfaces of MPI libraries differ.
 *
 * MPI libraries spin while they wait. A rank that waits for another one must not take a processor
 * from it, so all waits here test, and yield, then sleep in between.
 */
#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "boot/ranks/ranks.h"

#define PIECE_BYTES (512ull << 20) /* counts of MPI are int */
#define YIELDS 32u		   /* tests of a request before the first pause */
#define PAUSE_MIN_NS 10000l	   /* between two tests of a request; doubles */
#define PAUSE_MAX_NS 1000000l
#define TAG 0

struct job {
	MPI_Comm world;
	MPI_Win window;
	uint32_t *stopped; /* in the window: other ranks write 1 */
	uint32_t one;
};

/* One per process, as MPI itself. */
static struct job job;

static int fail_mpi_call(struct hr_ranks *ranks, const char *call, int error)
{
	char text[MPI_MAX_ERROR_STRING] = "no text";
	int length;

	MPI_Error_string(error, text, &length);
	snprintf(ranks->why, sizeof ranks->why, "%s: %s", call, text);
	return -EIO;
}

/* Wait for a request. */
static int await(struct hr_ranks *ranks, MPI_Request *request, const char *call)
{
	struct timespec pause = { 0, PAUSE_MIN_NS };
	uint32_t tests = 0;
	int done = 0, error;

	for (;;) {
		error = MPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (error)
			return fail_mpi_call(ranks, call, error);
		if (done)
			return 0;
		if (ranks->idle)
			ranks->idle(ranks->idle_to);
		if (tests++ < YIELDS) {
			sched_yield();
			continue;
		}
		nanosleep(&pause, NULL);
		pause.tv_nsec = pause.tv_nsec < PAUSE_MAX_NS / 2 ? 2 * pause.tv_nsec : PAUSE_MAX_NS;
	}
}

static int send_all(struct hr_ranks *ranks, const uint8_t *from, uint64_t bytes, uint32_t to)
{
	int err = 0;

	for (uint64_t at = 0; !err && at < bytes; at += PIECE_BYTES) {
		const uint64_t left = bytes - at;
		MPI_Request request;
		const int error =
			MPI_Isend(from + at, (int)(left < PIECE_BYTES ? left : PIECE_BYTES),
				  MPI_BYTE, (int)to, TAG, job.world, &request);

		err = error ? fail_mpi_call(ranks, "MPI_Isend", error)
			    : await(ranks, &request, "MPI_Isend");
	}
	return err;
}

static int receive_all(struct hr_ranks *ranks, uint8_t *to, uint64_t bytes, uint32_t from)
{
	int err = 0;

	for (uint64_t at = 0; !err && at < bytes; at += PIECE_BYTES) {
		const uint64_t left = bytes - at;
		MPI_Request request;
		const int error = MPI_Irecv(to + at, (int)(left < PIECE_BYTES ? left : PIECE_BYTES),
					    MPI_BYTE, (int)from, TAG, job.world, &request);

		err = error ? fail_mpi_call(ranks, "MPI_Irecv", error)
			    : await(ranks, &request, "MPI_Irecv");
	}
	return err;
}

static int gather(struct hr_ranks *ranks, const void *from, uint64_t bytes, void *to,
		  const uint64_t *lengths)
{
	uint8_t *at = to;
	int err = 0;

	if (ranks->rank)
		return send_all(ranks, from, bytes, 0);
	if (bytes)
		memcpy(at, from, bytes);
	for (uint32_t r = 1; !err && r < ranks->size; r++) {
		at += lengths[r - 1];
		err = receive_all(ranks, at, lengths[r], r);
	}
	return err;
}

/* A binomial tree: in each round every other of the remaining ranks gets the data of its neighbour, and
 * so has the data of twice as many ranks that follow each other. */
static int reduce(struct hr_ranks *ranks, void *data, void *other, uint64_t bytes,
		  void (*merge)(void *arg, void *into, const void *from), void *arg)
{
	for (uint64_t step = 1; step < ranks->size; step *= 2) {
		const uint64_t from = ranks->rank + step;
		int err;

		if (ranks->rank & step)
			return send_all(ranks, data, bytes, (uint32_t)(ranks->rank - step));
		if (from >= ranks->size)
			continue;
		err = receive_all(ranks, other, bytes, (uint32_t)from);
		if (err)
			return err;
		merge(arg, data, other);
	}
	return 0;
}

static int max(struct hr_ranks *ranks, uint32_t value, uint32_t *most)
{
	MPI_Request request;
	const int error =
		MPI_Iallreduce(&value, most, 1, MPI_UINT32_T, MPI_MAX, job.world, &request);

	return error ? fail_mpi_call(ranks, "MPI_Iallreduce", error)
		     : await(ranks, &request, "MPI_Iallreduce");
}

static void stop(struct hr_ranks *ranks)
{
	for (uint32_t r = 0; r < ranks->size; r++)
		MPI_Accumulate(&job.one, 1, MPI_UINT32_T, (int)r, 0, 1, MPI_UINT32_T, MPI_REPLACE,
			       job.window);
	MPI_Win_flush_all(job.window);
}

static bool stopped(const struct hr_ranks *ranks)
{
	return __atomic_load_n(job.stopped, __ATOMIC_ACQUIRE) != 0;
}

static void leave_mpi(struct hr_ranks *ranks)
{
	MPI_Win_unlock_all(job.window);
	MPI_Win_free(&job.window);
	MPI_Comm_free(&job.world);
	MPI_Finalize();
}

static const struct hr_ranks_ops ops = { .gather = gather,
					 .reduce = reduce,
					 .max = max,
					 .stop = stop,
					 .stopped = stopped,
					 .close = leave_mpi };

/* Variables that launchers set: Open MPI, PMIx (mpirun, srun --mpi=pmix), PMI-1 and PMI-2. Without
 * them MPI_Init() makes a job of one process. */
static bool was_launched(void)
{
	static const char *const variable[] = { "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
						"PMIX_NAMESPACE", "PMI_RANK", "PMI_FD" };

	for (size_t i = 0; i < sizeof variable / sizeof *variable; i++)
		if (getenv(variable[i]))
			return true;
	return false;
}

/* The word that stop() of other ranks writes. */
static int open_window(struct hr_ranks *ranks)
{
	int error = MPI_Win_allocate(sizeof *job.stopped, sizeof *job.stopped, MPI_INFO_NULL,
				     job.world, &job.stopped, &job.window);

	if (error)
		return fail_mpi_call(ranks, "MPI_Win_allocate", error);
	job.one = 1;
	__atomic_store_n(job.stopped, 0, __ATOMIC_RELEASE);
	error = MPI_Win_lock_all(MPI_MODE_NOCHECK, job.window);
	if (!error) /* no rank writes before all have stored 0 */
		error = MPI_Barrier(job.world);
	return error ? fail_mpi_call(ranks, "MPI_Win_lock_all", error) : 0;
}

static int open_world(struct hr_ranks *ranks)
{
	int error = MPI_Comm_dup(MPI_COMM_WORLD, &job.world), rank = 0, size = 0, local = 0;
	MPI_Comm machine;

	if (error)
		return fail_mpi_call(ranks, "MPI_Comm_dup", error);
	MPI_Comm_set_errhandler(job.world, MPI_ERRORS_RETURN);
	MPI_Comm_rank(job.world, &rank);
	MPI_Comm_size(job.world, &size);
	error = MPI_Comm_split_type(job.world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
	if (error)
		return fail_mpi_call(ranks, "MPI_Comm_split_type", error);
	MPI_Comm_rank(machine, &local);
	MPI_Comm_free(&machine);
	ranks->rank = (uint32_t)rank;
	ranks->size = (uint32_t)size;
	ranks->local_rank = (uint32_t)local;
	return 0;
}

static int join_mpi(struct hr_ranks *ranks)
{
	int provided = MPI_THREAD_SINGLE, error, err;

	if (!was_launched()) {
		snprintf(ranks->why, sizeof ranks->why, "not started by mpirun or srun");
		return -ENOTCONN;
	}
	/* The engine has threads, but only this one calls MPI. */
	error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
	if (error)
		return fail_mpi_call(ranks, "MPI_Init_thread", error);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (provided < MPI_THREAD_FUNNELED) {
		snprintf(ranks->why, sizeof ranks->why,
			 "this MPI library does not support processes with threads");
		return -ENOTSUP;
	}
	ranks->ops = &ops;
	err = open_world(ranks);
	return err ? err : open_window(ranks);
}

extern const struct hr_ranks_plugin hr_ranks_plugin __attribute__((visibility("default")));
const struct hr_ranks_plugin hr_ranks_plugin = { HR_RANKS_ABI, sizeof(struct hr_ranks), join_mpi };
