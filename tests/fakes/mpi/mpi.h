/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/mpi/mpi.h - in place of the header of an MPI library: what
 * boot/ranks/plugin_mpi.c uses. The test defines the functions.
 */
#ifndef TESTS_FAKES_MPI_MPI_H
#define TESTS_FAKES_MPI_MPI_H

typedef int MPI_Comm, MPI_Win, MPI_Request, MPI_Info, MPI_Datatype, MPI_Op, MPI_Errhandler;
typedef struct {
	int unused;
} MPI_Status;

enum {
	MPI_COMM_WORLD = 1,
	MPI_INFO_NULL,
	MPI_BYTE,
	MPI_UINT32_T,
	MPI_MAX,
	MPI_REPLACE,
	MPI_ERRORS_RETURN,
	MPI_COMM_TYPE_SHARED,
	MPI_MODE_NOCHECK,
	MPI_THREAD_SINGLE,
	MPI_THREAD_FUNNELED,
	MPI_MAX_ERROR_STRING = 64
};
#define MPI_STATUS_IGNORE ((MPI_Status *)0)

int MPI_Error_string(int error, char *text, int *length);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Finalize(void);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *to);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *to);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Test(MPI_Request *request, int *done, MPI_Status *status);
int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *request);
int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	      MPI_Request *request);
int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
		   MPI_Comm comm, MPI_Request *request);
int MPI_Win_allocate(long bytes, int unit, MPI_Info info, MPI_Comm comm, void *memory,
		     MPI_Win *win);
int MPI_Win_lock_all(int assert, MPI_Win win);
int MPI_Win_unlock_all(MPI_Win win);
int MPI_Win_flush_all(MPI_Win win);
int MPI_Win_free(MPI_Win *win);
int MPI_Barrier(MPI_Comm comm);
int MPI_Accumulate(const void *from, int count, MPI_Datatype type, int to, long at, int to_count,
		   MPI_Datatype to_type, MPI_Op op, MPI_Win win);

#endif
