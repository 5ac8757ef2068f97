/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/schedule.h - one clock and one order of events for several processes.
 *
 * A world is a set of real processes, each with coroutines in place of threads (tests/sim/seam.c).
 * At each moment one coroutine of one process runs: it has the turn. The others wait, in memory that
 * all processes share. At each call of config/base/seam.h the coroutine that has the turn may
 * give it to another one, chosen by the seed. The clock moves by some nanoseconds with each
 * turn; when all coroutines wait, it moves to the earliest end of a sleep, so hours pass at
 * once. The same seed and program give the same order of events.
 *
 * Processes are real, because what a process is (its memory, descriptors, locks, signals and death)
 * is the kernel's business: a kill is SIGKILL, and a hang-up of a socket is the kernel's.
 */
#ifndef TESTS_SIM_SCHEDULE_H
#define TESTS_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/harness/random.h"

#define SIM_THREADS 512u
#define SIM_PROCESSES 1024u
/* The clock when a world begins. */
#define SIM_START_NS 1000000000000ull
/* Virtual identifier of process p: SIM_PID + p. Real ones differ from run to run. */
#define SIM_PID 1000
#define SIM_NONE (~0u)

enum sim_wait {
	SIM_FREE, /* no thread */
	SIM_READY,
	SIM_ASLEEP,
	SIM_AT_COND,  /* until its process broadcasts */
	SIM_AT_FD,    /* until a descriptor may be readable, or as asleep */
	SIM_AT_CHILD, /* until a process has died */
	SIM_JOINING,
	SIM_ENDED, /* and not joined */
};

struct sim_thread {
	uint8_t wait; /* enum sim_wait */
	uint16_t process;
	uint16_t joined; /* SIM_JOINING: the thread */
	uint32_t yields; /* in a row */
	uint64_t wake_ns;
	uint64_t seen; /* SIM_AT_COND: broadcasts; SIM_AT_FD: activity; SIM_AT_CHILD: deaths */
};

struct sim_process {
	pid_t pid; /* 0: free */
	uint32_t parent;
	uint32_t turn;	  /* futex: 1: the process has the turn */
	uint32_t watched; /* futex: 1: the referee knows its death */
	uint64_t broadcasts;
	uint64_t stalled_ns; /* until then it has no turn */
	uint32_t blocks;     /* of allocated memory */
	uint32_t seen_dead;  /* by the referee, though it did not have the turn */
	bool alive;
	bool collected; /* its parent knows its status */
};

/* In memory that all processes of the world share, at the same address. */
struct sim_world {
	uint64_t now_ns, switches, hash, activity, deaths;
	uint64_t end_ns;      /* the clock does not pass it */
	int64_t wall_jump_ns; /* sum of all jumps of the wall clock */
	struct fake_random order, numbers;
	uint32_t current;	     /* thread that has the turn */
	uint32_t stay;		     /* of 256 turns, so many stay in their process */
	uint32_t threads, processes; /* in use, counted from 0 */
	char dead_end[256];	     /* reason why nothing can go on; "": none */
	/* Faults of the host, which the director sets; 0: none. */
	uint32_t rot;	     /* one bit of one read of an image of so many differs */
	uint32_t bad_writes; /* one write to an image of so many fails */
	bool loose;	     /* memory may be allocated while the engine is sealed */
	uint32_t fragments;  /* of 256 transfers by streams, so many are cut short */
	struct sim_thread thread[SIM_THREADS];
	struct sim_process process[SIM_PROCESSES];
};
extern struct sim_world *sim_world;

/* ---- for the seam: the calling coroutine */

/* The thread of the calling coroutine, its process. */
unsigned sim_self(void);
unsigned sim_process_self(void);
/* True in a process of the world. */
bool sim_is_on(void);
/* Give up the turn, and return when the thread has it again: its wait is then SIM_READY. */
void sim_wait(enum sim_wait wait);
/* Something happens that may make a descriptor of a process ready. */
void sim_stir(void);
/* Start main(argument) as a thread of this process. Its number, or SIM_NONE. */
unsigned sim_thread_start(void *(*main)(void *argument), void *argument);
/* Forget a thread that has ended. */
void sim_thread_free(unsigned thread);

/* As fork(): 0 in the child, the number of the child's process in the parent, -errno. */
int sim_fork(void);
/* Send a real signal to a process, and return when it has taken effect. 0 or -ESRCH. */
int sim_kill(unsigned process, int signal_number);
/* The process with that real identifier, or SIM_NONE. */
unsigned sim_process_of(pid_t pid);

/* ---- a world */

/*
 * Run director(argument) as the first process of a world, until it exits. Everything that it has
 * started is then killed. Returns its exit status as of waitpid(), or -ETIMEDOUT: the world took
 * longer than `seconds` of real time. *left: number of processes that were alive at the end.
 */
int sim_run_world(uint64_t seed, int (*director)(void *argument), void *argument, unsigned seconds,
		  unsigned *left);

#endif
