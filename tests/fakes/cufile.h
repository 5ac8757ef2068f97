/*
 * tests/fakes/cufile.h - a libcufile in C, in place of the real one: it reads with pread, keeps
 * account of what is open, and fails where it is told to.
 *
 * Linked before libheadrace.a, so its hr_cufile_library() is the one that is called.
 */
#ifndef TESTS_FAKES_CUFILE_H
#define TESTS_FAKES_CUFILE_H

#include <stdatomic.h>

#include "gpu/cuda/cufile.h"

struct fake_cufile {
	int no_library;		  /* hr_cufile_library() returns this */
	const char *missing[2];	  /* functions it does not have */
	const char *failing;	  /* what returns error 5011, with CUDA error 1 */
	_Atomic ssize_t short_by; /* bytes that a read is short of what was asked */
	_Atomic ssize_t answer;	  /* not 0: what a read returns (with errno EBADF) */
	atomic_bool stall;	  /* reads do not return while it is set */
	/* What was seen. */
	atomic_int opened, files, buffers; /* those that are open now */
	atomic_uint reads;
};

extern struct fake_cufile fake_cufile;

void fake_cufile_reset(void);

#endif
