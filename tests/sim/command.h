/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/command.h - commands of headrace as processes of a world, and faults that end it.
 */
#ifndef TESTS_SIM_COMMAND_H
#define TESTS_SIM_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

#define SIM_ARGUMENTS 12u

/* Written by the director, read by the process that starts the world. */
struct sim_result {
	char fault[2048]; /* the invariant that does not hold; "": all hold */
	char told[256];	  /* what the world was */
	unsigned events;  /* number of events of the plan */
};
extern struct sim_result *sim_result;

/* An invariant does not hold: end the world. */
void sim_fault(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/*
 * Start `headrace WORDS...`, words separated by blanks. Its output is appended to the files out and
 * err of the folder, and err has a line with the words before it; NULL: out.
 */
pid_t sim_start(const char *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Wait for its end: the exit code, or 128 + the signal that ended it. */
int sim_end(pid_t pid);
/* Both. */
int sim_command(const char *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
