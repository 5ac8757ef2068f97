/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/qprun.h - runs the functions of a queue pair that a test calls, in this thread or
 * in a warp of a GPU (tests/gpu/queues.c), so that the same tests check both.
 *
 * A test keeps its queue pair in variables of the program, and its rings and tables in the peer.
 */
#ifndef TESTS_HARNESS_QPRUN_H
#define TESTS_HARNESS_QPRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme/queue/queue.h"

struct qprun {
	/* Before and after a test. */
	void (*up)(void);
	void (*down)(void);
	/* Zeroed pages that the owner of the queue pair can access; one allocation at a time. */
	void *(*take)(size_t bytes);
	void (*give)(void *memory);
	int (*push)(struct hr_nvme_qp *qp, bool want, const struct hr_sqe *sqe, uint32_t token);
	void (*ring)(struct hr_nvme_qp *qp);
	/* Number of completions reaped, at most one in this thread; *done is the first. */
	uint32_t (*reap)(struct hr_nvme_qp *qp, struct hr_completion *done);
	/* The i-th of them. */
	struct hr_completion (*reaped)(uint32_t i);
	bool (*expire)(struct hr_nvme_qp *qp, uint64_t now_ns, struct hr_completion *lost);
	bool has_dw0;	 /* completions carry dw0 (struct hr_completion) */
	bool looks_idle; /* polls the completion queue also when no command is outstanding */
};

/* Runs in this thread, unless a program that runs tests on a GPU sets another one. */
extern const struct qprun *qprun;

#endif
