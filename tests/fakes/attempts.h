/*
 * tests/fakes/attempts.h - an appliance that does what a script says, for the supervisor: what each
 * attempt's self-test, bring-up and pipelines come to, and how long they take on the fake clock.
 *
 * Linked before libheadrace.a in place of boot/engine/stages.c, boot/engine/runner.c,
 * boot/cmd/post/post.c and boot/cmd/report/runs.c. What it keeps is shared with child processes, so
 * that an engine which is forked goes on in the script where the one before ended.
 */
#ifndef TESTS_FAKES_ATTEMPTS_H
#define TESTS_FAKES_ATTEMPTS_H

#include "boot/engine/stages.h"

#define FAKE_HANGS 0x1000   /* it waits for ever, and tells nothing */
#define FAKE_WAITS 0x1001   /* it waits for a signal, and tells that it lives */
#define FAKE_BLOCKED 0x7fff /* of a pipeline: what it needs has failed; it waits */

struct fake_attempt {
	int machine;			 /* of the self-test: error of a step of the machine */
	int ssd[HR_SSDS_MAX];		 /* and of an ssd */
	int up;				 /* of the whole bring-up */
	int run[HR_PIPELINES_MAX];	 /* 0: done; FAKE_BLOCKED; or its error */
	uint64_t post_ns, up_ns, run_ns; /* how long each takes */
	bool stuck;			 /* a controller does not stop on the way down */
	bool stop;			 /* SIGTERM while pipelines run */
	/* The engine dies in the self-test ('P'), in bring-up ('U') or while pipelines run ('R'). */
	char dies_in;
	int dies;	    /* of that signal; with exit code -dies; or FAKE_HANGS, FAKE_WAITS */
	void (*last)(void); /* what it does before, or NULL */
};

/* From now on attempts come to these, one after another; a further one fails the test. */
void fake_attempts_begin(const struct fake_attempt *attempt, unsigned count);

/*
 * What was called: for each attempt "P" (self-test), "U" (bring-up), "R" with the numbers of the
 * selected pipelines, suspects behind a '/', and "D" (down), as in "PUR01D PUR/0D". A failed
 * bring-up has no "D": it goes down by itself.
 */
const char *fake_attempts_log(void);

/* How an engine dies: replaced by tests/fakes/inline.c, where it is no process of its own. */
void fake_attempt_dies(int dies) __attribute__((noreturn));

/* Fake time at the begin of each attempt's bring-up. */
uint64_t fake_attempts_up_ns(unsigned attempt);

#endif
