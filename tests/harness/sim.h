/*
 * tests/harness/sim.h - the seam (config/seam.h, config/clock.h) of a simulation: threads are
 * coroutines of one thread, and all that is not deterministic follows from a seed.
 *
 * A test that includes this header is linked with tests/harness/sim.c in place of
 * config/seam_linux.c and config/clock.c. Each wait, yield, lock, host I/O or reading of the clock
 * may suspend its thread there, and another thread continues. Each switch moves the clock by some
 * nanoseconds. When all threads wait, it moves to the earliest end of a sleep, so deadlines of
 * minutes pass at once. When no thread can continue, the simulation prints the state of each
 * thread, and aborts.
 *
 * The thread sanitizer does not know coroutines, and a simulation, which has one thread, has no data
 * races that it could find: such tests are disabled in its builds, with SIM_DISABLED.
 *
 * There are no processes: hr_fork() returns -ENOSYS. Files are those of the machine.
 */
#ifndef TESTS_HARNESS_SIM_H
#define TESTS_HARNESS_SIM_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define SIM_DISABLED true
#else
#define SIM_DISABLED false
#endif

/* The clock when a simulation begins. */
#define SIM_START_NS 1000000000000ull

/*
 * Run main(argument) as the first thread of a simulation, and return its result. All threads that it
 * started have been joined by then. seed: not 0.
 */
int sim_run(uint64_t seed, int (*main)(void *argument), void *argument);

/* The last simulation: number of switches between threads; hash of their order. */
uint64_t sim_switches(void);
uint64_t sim_schedule(void);

#endif
