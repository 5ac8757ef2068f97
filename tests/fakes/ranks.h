/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/ranks.h - the ranks of a job as threads of this process, without MPI.
 */
#ifndef TESTS_FAKES_RANKS_H
#define TESTS_FAKES_RANKS_H

#include <stdint.h>

#include "boot/ranks/ranks.h"

#define FAKE_RANKS_MAX 32u
#define FAKE_RANKS_ALL UINT32_MAX

/*
 * Run rank() in `size` threads, each with a job of its own, which is open. The collective calls after
 * the first `calls` fail on all ranks with -EIO and the text "the fake fails". (FAKE_RANKS_ALL: none
 * fails.) Returns when all threads have ended. The rank does not assert, because a test framework
 * asserts in one thread only.
 */
void fake_ranks_run(uint32_t size, uint32_t calls, void (*rank)(struct hr_ranks *ranks, void *to),
		    void *to);

/* Collective calls of the last run, on each rank; and ranks that have called close(). */
uint32_t fake_ranks_calls(void);
uint32_t fake_ranks_closed(void);

#endif
