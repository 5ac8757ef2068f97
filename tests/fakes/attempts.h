/*
 * tests/fakes/attempts.h - a scripted appliance for tests of the supervisor: the results of each
 * attempt's self-test, bring-up and pipelines, and their duration on the fake clock.
 *
 * Linked before libheadrace.a in place of boot/engine/stages.c, boot/engine/runner.c,
 * boot/cmd/post/post.c and boot/cmd/report/runs.c. Its data are shared with child processes, so
 * that a forked engine continues the script where the previous engine ended.
 */
#ifndef TESTS_FAKES_ATTEMPTS_H
#define TESTS_FAKES_ATTEMPTS_H

#include "boot/engine/stages.h"

#define FAKE_HANGS 0x1000   /* waits for ever, and publishes nothing */
#define FAKE_WAITS 0x1001   /* waits for a signal, and publishes progress */
#define FAKE_BLOCKED 0x7fff /* the pipeline waits, because a pipeline before it has failed */

struct fake_attempt {
	int machine;			 /* error of a machine step of the self-test */
	int ssd[HR_SSDS_MAX];		 /* errors of an ssd step */
	int up;				 /* error of the whole bring-up */
	int run[HR_PIPELINES_MAX];	 /* 0: done; FAKE_BLOCKED; or the error */
	uint64_t post_ns, up_ns, run_ns; /* durations */
	bool stuck;			 /* a controller does not stop when going down */
	enum hr_error_kind kind;	 /* kind of errors; HR_ERROR_NONE: the engine's choice */
	bool stop;			 /* SIGTERM while pipelines run */
	/* The engine dies in the self-test ('P'), in bring-up ('U') or while pipelines run ('R'). */
	char dies_in;
	int dies;	    /* > 0: signal; < 0: exit code -dies; or FAKE_HANGS, FAKE_WAITS */
	void (*last)(void); /* called before the death, or NULL */
};

/* From now on attempts have these results, one after another; a further attempt fails the test. */
void fake_attempts_begin(const struct fake_attempt *attempt, unsigned count);

/*
 * The calls so far. For each attempt: "P" (self-test), "U" (bring-up), "R" with the numbers of the
 * selected pipelines, suspects after a '/', and "D" (down), as in "PUR01D PUR/0D". A failed
 * bring-up has no "D", because it undoes its own stages.
 */
const char *fake_attempts_log(void);

/* The death of an engine; replaced by tests/fakes/inline.c, where the engine is not a process. */
void fake_attempt_dies(int dies) __attribute__((noreturn));

/* Fake time at the beginning of each attempt's bring-up. */
uint64_t fake_attempts_up_ns(unsigned attempt);

#endif
