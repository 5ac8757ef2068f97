/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/cufile.h - a libcufile in C that replaces the real one: it reads with pread, counts
 * open resources, and injects failures.
 *
 * Linked before libheadrace.a, so its hr_cufile_library() is called.
 */
#ifndef TESTS_FAKES_CUFILE_H
#define TESTS_FAKES_CUFILE_H

#include <stdatomic.h>

#include "gpu/cuda/measure/cufile.h"

struct fake_cufile {
	int no_library;		  /* result of hr_cufile_library() */
	const char *missing[2];	  /* functions that the library lacks */
	const char *failing;	  /* function that returns error 5011, with CUDA error 1 */
	_Atomic ssize_t short_by; /* number of bytes by which reads are short */
	_Atomic ssize_t answer;	  /* not 0: result of a read (with errno EBADF) */
	atomic_bool stall;	  /* reads do not return while this is set */
	/* Observations. */
	atomic_int opened, files, buffers; /* open resources */
	atomic_uint reads;
};

extern struct fake_cufile fake_cufile;

void fake_cufile_reset(void);

#endif
