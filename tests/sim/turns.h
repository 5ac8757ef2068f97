/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/turns.h - whose turn it is, and the deaths of processes. Private to schedule.c and
 * referee.c.
 */
#ifndef TESTS_SIM_TURNS_H
#define TESTS_SIM_TURNS_H

#include "tests/sim/schedule.h"

/* Sleep until the word may differ from `value`; wake one process that sleeps there. */
void sim_sleep_at(uint32_t *word, uint32_t value);
void sim_wake_at(uint32_t *word);

/* Sleep until the process has the turn: sim_world->current is its thread. */
void sim_await_turn(unsigned process);
/* Only the process that has the turn may give it away. */
void sim_give_turn(unsigned thread);

/*
 * The next thread, drawn from those that can go on, after the clock was moved when all wait; SIM_NONE:
 * no thread can go on, and sim_world->dead_end has the reason. process: that of the caller, whose
 * threads are preferred, or SIM_NONE.
 */
unsigned sim_choose(unsigned process);
/* Count a turn of that thread, which moves the clock. */
void sim_count_turn(unsigned thread);

/* Be the first process of the world; numbers of new processes are written to `announced`. */
void sim_be_director(int announced, int (*director)(void *argument), void *argument)
	__attribute__((noreturn));

/* The threads of the world and their waits, in one line. */
void sim_describe(char *text, size_t bytes);

/* True when the process of the pidfd ends within that real time, or there is none. */
bool sim_has_died(int pidfd, int milliseconds);
/*
 * Note the death of a process, and wait for those of its children: the kernel kills those that have
 * asked for it.
 */
void sim_bury(unsigned process);
/* True when the process neither catches nor ignores the signal. */
bool sim_is_fatal(pid_t pid, int signal_number);

#endif
