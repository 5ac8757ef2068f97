/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's calls of MPI, as text, in their order: a library that the test plays. Each call may
 * fail.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/ranks/ranks.h"
#include "tests/fakes/mpi/mpi.h"

/* Of boot/ranks/plugin_mpi.c, which is compiled with the header of this library. */
extern const struct hr_ranks_plugin hr_ranks_plugin;

TestSuite(mpi, .timeout = 60);

/* ---- the library */

static char said[4096];
static unsigned calls, fails_at; /* the call after so many fails; 0: none */
static int my_rank, all_ranks, given,
	waits; /* given: the support of threads; waits: of each request */
static int waited;
static const uint8_t *base; /* addresses in the text count from here */
static uint32_t window_word;
static MPI_Win my_window;

static int say(const char *format, ...)
{
	const size_t at = strlen(said);
	va_list args;

	va_start(args, format);
	vsnprintf(said + at, sizeof said - at, format, args);
	va_end(args);
	return ++calls == fails_at ? 5 : 0;
}

static int began(MPI_Request *request)
{
	*request = 70;
	waited = 0;
	return 0;
}

int MPI_Error_string(int error, char *text, int *length)
{
	*length = snprintf(text, MPI_MAX_ERROR_STRING, "error %d", error);
	return 0;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	*provided = given;
	return say("init %d\n", required == MPI_THREAD_FUNNELED);
}

int MPI_Finalize(void)
{
	return say("finalize\n");
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *to)
{
	*to = 50;
	return say("dup %d\n", comm);
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
	return say("errors of %d %s\n", comm, handler == MPI_ERRORS_RETURN ? "return" : "?");
}

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
	*rank = comm == 50 ? my_rank : 3;
	return say("rank %d\n", comm);
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
	*size = all_ranks;
	return say("size %d\n", comm);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *to)
{
	*to = 60;
	return say("split %d %s by %d\n", comm, type == MPI_COMM_TYPE_SHARED ? "machines" : "?",
		   key);
}

int MPI_Comm_free(MPI_Comm *comm)
{
	return say("free %d\n", *comm);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
	*done = waited++ == waits;
	return *request == 70 && !status ? (*done ? say("done\n") : 0) : 6;
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	began(request);
	return say("send %ld+%d to %d by %d\n", (long)((const uint8_t *)from - base),
		   type == MPI_BYTE && tag == 0 ? count : -1, to, comm);
}

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	began(request);
	return say("take %ld+%d from %d by %d\n", (long)((uint8_t *)to - base),
		   type == MPI_BYTE && tag == 0 ? count : -1, from, comm);
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
		   MPI_Comm comm, MPI_Request *request)
{
	began(request);
	*(uint32_t *)to = *(const uint32_t *)from + 100;
	return say("max of %d %s by %d\n", count,
		   type == MPI_UINT32_T && op == MPI_MAX ? "words" : "?", comm);
}

int MPI_Win_allocate(long bytes, int unit, MPI_Info info, MPI_Comm comm, void *memory, MPI_Win *win)
{
	*(uint32_t **)memory = &window_word;
	*win = my_window;
	return say("window %ld by %d of %d\n", bytes, unit, comm);
}

int MPI_Win_lock_all(int assert, MPI_Win win)
{
	return say("lock %d %s\n", win, assert == MPI_MODE_NOCHECK ? "unchecked" : "?");
}

int MPI_Win_unlock_all(MPI_Win win)
{
	return say("unlock %d\n", win);
}

int MPI_Win_flush_all(MPI_Win win)
{
	return say("flush %d\n", win);
}

int MPI_Win_free(MPI_Win *win)
{
	return say("free window %d\n", *win);
}

int MPI_Barrier(MPI_Comm comm)
{
	return say("barrier %d\n", comm);
}

int MPI_Accumulate(const void *from, int count, MPI_Datatype type, int to, long at, int to_count,
		   MPI_Datatype to_type, MPI_Op op, MPI_Win win)
{
	return say("put %u in %d at %ld of %d\n",
		   count == 1 && to_count == 1 && type == MPI_UINT32_T && to_type == type &&
				   op == MPI_REPLACE
			   ? *(const uint32_t *)from
			   : 99,
		   to, at, win);
}

/* ---- joining and leaving */

static struct hr_ranks ranks;

static void forget(void)
{
	said[0] = '\0';
	calls = fails_at = 0;
}

static int open_as(int rank, int size)
{
	memset(&ranks, 0, sizeof ranks);
	my_rank = rank;
	all_ranks = size;
	given = MPI_THREAD_FUNNELED;
	my_window = 80;
	window_word = 9;
	waits = 0;
	setenv("PMI_RANK", "0", 1);
	return hr_ranks_plugin.open(&ranks);
}

static const char *const open_calls[] = {
	"init 1\n",
	"errors of 1 return\n",
	"dup 1\n",
	"errors of 50 return\n",
	"rank 50\n",
	"size 50\n",
	"split 50 machines by 2\n",
	"rank 60\n",
	"free 60\n",
	"window 4 by 4 of 50\n",
	"lock 80 unchecked\n",
	"barrier 50\n",
};

Test(mpi, a_process_joins_and_leaves)
{
	char want[512] = "";

	for (size_t i = 0; i < sizeof open_calls / sizeof *open_calls; i++)
		strcat(want, open_calls[i]);
	forget();
	cr_expect_eq(open_as(2, 7), 0, "%s", ranks.why);
	cr_expect_str_eq(said, want, "%s", said);
	cr_expect_eq(ranks.rank, 2u);
	cr_expect_eq(ranks.size, 7u);
	cr_expect_eq(ranks.local_rank, 3u);
	cr_expect_eq(hr_ranks_plugin.abi, HR_RANKS_ABI);
	cr_expect_eq(hr_ranks_plugin.bytes, sizeof ranks);
	cr_expect_eq(window_word, 0u);
	cr_expect_not(ranks.ops->stopped(&ranks));
	window_word = 1;
	cr_expect(ranks.ops->stopped(&ranks));
	forget();
	ranks.ops->close(&ranks);
	cr_expect_str_eq(said, "unlock 80\nfree window 80\nfree 50\nfinalize\n", "%s", said);
}

Test(mpi, each_call_of_joining_may_fail)
{
	static const struct {
		unsigned call;
		const char *name;
	} row[] = {
		{ 1, "MPI_Init_thread" },     { 3, "MPI_Comm_dup" },
		{ 7, "MPI_Comm_split_type" }, { 10, "MPI_Win_allocate" },
		{ 11, "MPI_Win_lock_all" },   { 12, "MPI_Win_lock_all" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char want[64];

		forget();
		fails_at = row[i].call;
		cr_expect_eq(open_as(0, 2), -EIO, "row %zu", i);
		snprintf(want, sizeof want, "%s: error 5", row[i].name);
		cr_expect_str_eq(ranks.why, want, "row %zu: %s", i, ranks.why);
		cr_expect_eq(calls, row[i].call, "row %zu", i);
	}
	forget();
	my_rank = 0;
	memset(&ranks, 0, sizeof ranks);
	given = MPI_THREAD_SINGLE;
	cr_expect_eq(hr_ranks_plugin.open(&ranks), -ENOTSUP);
	cr_expect_str_eq(ranks.why, "this MPI library does not support processes with threads");
	cr_expect_eq(calls, 2u);
	cr_expect_null(ranks.ops);
}

Test(mpi, a_process_without_a_launcher_does_not_call_the_library)
{
	static const char *const variable[] = { "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
						"PMIX_NAMESPACE", "PMI_RANK", "PMI_FD" };

	for (size_t i = 0; i < 5; i++)
		unsetenv(variable[i]);
	forget();
	cr_expect_eq(hr_ranks_plugin.open(&ranks), -ENOTCONN);
	cr_expect_str_eq(ranks.why, "not started by mpirun or srun");
	cr_expect_str_eq(said, "");
	given = MPI_THREAD_FUNNELED;
	all_ranks = 1;
	for (size_t i = 0; i < 5; i++) {
		setenv(variable[i], "", 1);
		cr_expect_eq(hr_ranks_plugin.open(&ranks), 0, "%s", variable[i]);
		unsetenv(variable[i]);
	}
}

/* ---- data */

static void said_is(const char *want)
{
	cr_expect_str_eq(said, want, "%s", said);
	forget();
}

Test(mpi, data_of_all_ranks_lie_in_their_order)
{
	static const uint64_t lengths[] = { 3, 0, (1ull << 30) + 5, 7 };
	uint8_t mine[3] = { 1, 2, 3 }, to[4] = { 0 };

	open_as(0, 4);
	forget();
	base = to;
	cr_expect_eq(ranks.ops->gather(&ranks, mine, 3, to, lengths), 0);
	cr_expect(memcmp(to, mine, 3) == 0 && to[3] == 0);
	said_is("take 3+536870912 from 2 by 50\ndone\ntake 536870915+536870912 from 2 by 50\ndone\n"
		"take 1073741827+5 from 2 by 50\ndone\ntake 1073741832+7 from 3 by 50\ndone\n");
	fails_at = 3;
	cr_expect_eq(ranks.ops->gather(&ranks, mine, 3, to, lengths), -EIO);
	cr_expect_str_eq(ranks.why, "MPI_Irecv: error 5");
	said_is("take 3+536870912 from 2 by 50\ndone\ntake 536870915+536870912 from 2 by 50\n");
	fails_at = 2;
	cr_expect_eq(ranks.ops->gather(&ranks, mine, 3, to, lengths), -EIO);
	said_is("take 3+536870912 from 2 by 50\ndone\n");
	cr_expect_eq(ranks.ops->gather(&ranks, NULL, 0, NULL, (const uint64_t[4]){ 0 }), 0);
	said_is("");
	open_as(3, 4);
	forget();
	base = mine;
	cr_expect_eq(ranks.ops->gather(&ranks, mine, (1ull << 29) + 1, NULL, NULL), 0);
	said_is("send 0+536870912 to 0 by 50\ndone\nsend 536870912+1 to 0 by 50\ndone\n");
	fails_at = 1;
	cr_expect_eq(ranks.ops->gather(&ranks, mine, 1ull << 30, NULL, NULL), -EIO);
	cr_expect_str_eq(ranks.why, "MPI_Isend: error 5");
	said_is("send 0+536870912 to 0 by 50\n");
	fails_at = 2;
	cr_expect_eq(ranks.ops->gather(&ranks, mine, 1ull << 30, NULL, NULL), -EIO);
	said_is("send 0+536870912 to 0 by 50\ndone\n");
}

static void note(void *arg, void *into, const void *from)
{
	say("merge %ld into %ld for %s\n", (long)((const uint8_t *)from - base),
	    (long)((uint8_t *)into - base), (char *)arg);
}

Test(mpi, a_tree_merges_neighbours)
{
	static const struct {
		int rank, size;
		const char *want;
	} row[] = {
		{ 0, 1, "" },
		{ 0, 2, "take 8+4 from 1 by 50\ndone\nmerge 8 into 0 for x\n" },
		{ 1, 2, "send 0+4 to 0 by 50\ndone\n" },
		{ 0, 6,
		  "take 8+4 from 1 by 50\ndone\nmerge 8 into 0 for x\ntake 8+4 from 2 by 50\ndone\n"
		  "merge 8 into 0 for x\ntake 8+4 from 4 by 50\ndone\nmerge 8 into 0 for x\n" },
		{ 2, 6,
		  "take 8+4 from 3 by 50\ndone\nmerge 8 into 0 for x\nsend 0+4 to 0 by 50\ndone\n" },
		{ 3, 6, "send 0+4 to 2 by 50\ndone\n" },
		{ 4, 6,
		  "take 8+4 from 5 by 50\ndone\nmerge 8 into 0 for x\nsend 0+4 to 0 by 50\ndone\n" },
		{ 4, 5, "send 0+4 to 0 by 50\ndone\n" },
		{ 2, 3, "send 0+4 to 0 by 50\ndone\n" },
	};
	uint8_t data[16];
	char x[] = "x";

	base = data;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		open_as(row[i].rank, row[i].size);
		forget();
		cr_expect_eq(ranks.ops->reduce(&ranks, data, data + 8, 4, note, x), 0);
		cr_expect_str_eq(said, row[i].want, "row %zu: %s", i, said);
	}
	open_as(0, 2);
	forget();
	fails_at = 1;
	cr_expect_eq(ranks.ops->reduce(&ranks, data, data + 8, 4, note, x), -EIO);
	said_is("take 8+4 from 1 by 50\n");
}

/* ---- waits */

static unsigned idles;

static void idle(void *to)
{
	cr_assert_eq(to, &idles);
	idles++;
}

Test(mpi, a_rank_serves_while_it_waits)
{
	uint32_t most = 0;

	open_as(1, 2);
	forget();
	ranks.idle = idle;
	ranks.idle_to = &idles;
	waits = 32 + 9;
	cr_expect_eq(ranks.ops->max(&ranks, 5, &most), 0);
	cr_expect_eq(most, 105u);
	cr_expect_eq(idles, 41u);
	said_is("max of 1 words by 50\ndone\n");
	ranks.idle = NULL;
	cr_expect_eq(ranks.ops->max(&ranks, 5, &most), 0);
	forget();
	for (fails_at = 1; fails_at < 3; fails_at++) {
		const unsigned at = fails_at;

		forget();
		fails_at = at;
		cr_expect_eq(ranks.ops->max(&ranks, 5, &most), -EIO);
		cr_expect_str_eq(ranks.why, "MPI_Iallreduce: error 5");
	}
}

Test(mpi, a_stop_writes_to_the_word_of_each_rank)
{
	open_as(1, 3);
	forget();
	ranks.ops->stop(&ranks);
	said_is("put 1 in 0 at 0 of 80\nput 1 in 1 at 0 of 80\nput 1 in 2 at 0 of 80\nflush 80\n");
}
