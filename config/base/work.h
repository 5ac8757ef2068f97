/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/work.h - what a thread works on, so that a crash can be blamed on a pipeline and on its
 * operator.
 *
 * Each thread notes its own work with plain stores, and only functions that run in the same thread
 * read it: handlers of signals, and of exit(3).
 */
#ifndef CONFIG_BASE_WORK_H
#define CONFIG_BASE_WORK_H

#include <stdint.h>

/* The function of an operator that a thread calls. */
enum hr_work_call {
	HR_WORK_NO_CALL, /* none: it runs code of headrace */
	HR_WORK_INIT,
	HR_WORK_TILE,
	HR_WORK_RUN,
	HR_WORK_FINISH,
	HR_WORK_REPORT,
	HR_WORK_CALLS,
};

struct hr_work {
	const void *of; /* argument of the launch, or configuration of the pipeline; NULL: none */
	enum hr_work_call call;
	uint64_t tile; /* of HR_WORK_TILE */
};

extern _Thread_local struct hr_work hr_work_now;

/* Note the beginning and the end of a call. */
static inline void hr_work_begin(enum hr_work_call call, uint64_t tile)
{
	hr_work_now.tile = tile;
	hr_work_now.call = call;
}
static inline void hr_work_end(void)
{
	hr_work_now.call = HR_WORK_NO_CALL;
}

#endif
