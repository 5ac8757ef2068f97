/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/engine.h - engines that follow a script, in place of processes: fork(), waitpid() and
 * kill() of libc answer for them from fake_engine_begin() on, and are those of libc before. An engine
 * writes its phases to its pipe and publishes its record as boot/appliance/attempt/attempt.c
 * does. The clock is that of tests/fakes/clock.h.
 */
#ifndef TESTS_FAKES_ENGINE_H
#define TESTS_FAKES_ENGINE_H

#include "boot/appliance/supervisor/child.h"

#define FAKE_ENGINE_WAITS 0x7fff /* the pipeline does not run, because another one has failed */
#define FAKE_ENGINE_PID 5000000	 /* of the first engine; larger than identifiers of the kernel */

struct fake_engine {
	uint64_t post_ns, up_ns, run_ns; /* durations of the phases */
	int up;				 /* error of bring-up */
	bool refused;			 /* that error is permanent */
	int run[HR_PIPELINES_MAX]; /* of each selected pipeline: 0, an error, FAKE_ENGINE_WAITS */
	enum hr_error_kind kind;   /* of these errors; HR_ERROR_NONE: HR_ERROR_DEVICE */
	bool stuck;		   /* a controller does not stop */
	bool dies;		   /* at the end of the phase `in`, with a status of wait(2) */
	enum hr_phase in;
	int status;
	bool hangs; /* in the phase `in`: publishes nothing more, and ends only by SIGKILL */
	bool deaf;  /* it does not obey SIGTERM */
	bool unkillable;
	bool orphans;	/* its pipe stays open after its end, as if a process had inherited it */
	int fork_error; /* errno: it does not start */
	struct hr_crash crash;
	void (*last)(struct hr_record *record); /* called before its end */
};

/*
 * From now on each engine of `child` is the next row; one more engine fails the test. The caller calls
 * fake_engine_step() after each step of the clock.
 */
void fake_engine_begin(struct hr_child *child, const struct hr_engine *engine,
		       const struct fake_engine *row, unsigned count);
void fake_engine_step(void);

/* The engines so far: their pipelines, with '?' behind a suspect, and the ssds left out, "[01?-1] ". */
const char *fake_engine_log(void);

/* Times of the last start, SIGTERM and SIGKILL; 0: there was none. */
uint64_t fake_engine_started_ns(void);
uint64_t fake_engine_asked_ns(void);
uint64_t fake_engine_killed_ns(void);

#endif
