/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/crash.h - which pipeline ends this process: noted in memory that outlives the process.
 *
 * Handlers of signals note the thread that crashes, with its work (config/base/work.h): on the host
 * backend the code of operators runs in threads of this process. A worker that hangs is noted by the
 * function that has found it. Also noted is a call of exit(3) in the code of an operator. A process
 * that something else kills notes nothing.
 */
#ifndef BOOT_ENGINE_CRASH_H
#define BOOT_ENGINE_CRASH_H

#include "boot/engine/engine.h"
#include "config/base/work.h"

/* Words of 8 bytes only. */
struct hr_crash {
	uint64_t known;	   /* 0 or 1; 0: all else is 0 */
	uint64_t pipeline; /* index */
	uint64_t call;	   /* enum hr_work_call */
	uint64_t tile;	   /* of HR_WORK_TILE */
	uint64_t hangs;	   /* 0 or 1: the code did not return in time, it did not crash */
};

/* From now on note crashes of this process in *crash. Both arguments are valid until its end. */
void hr_crash_catch(struct hr_crash *crash, const struct hr_engine *engine);

/* The worker of a pipeline hangs. Nothing happens before hr_crash_catch(). */
void hr_crash_hangs(const struct hr_run *run, enum hr_work_call call, uint64_t tile);

/* A crash of an engine that may have overwritten its memory. False: nothing is known, or a value
 * is out of range. */
bool hr_crash_check(const struct hr_crash *crash, uint32_t pipelines);

#endif
