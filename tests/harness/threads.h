/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/threads.h - whether a test has threads.
 */
#ifndef TESTS_HARNESS_THREADS_H
#define TESTS_HARNESS_THREADS_H

/*
 * Note that the running test has threads, or coroutines that the thread sanitizer knows. The runner
 * prints the name of each test that had any, and their number (tests/threads.sh and the runner of the
 * build with the thread sanitizer read them). It notes calls of pthread_create() without help.
 */
void test_has_threads(void);

/*
 * The step through the rows of a table of cases, or the divisor of a number of repetitions: n with the
 * thread sanitizer, which takes long and has the same races to find in each of them; otherwise 1.
 */
#ifdef __SANITIZE_THREAD__
#define THREAD_STEP(n) (n)
#else
#define THREAD_STEP(n) 1u
#endif

#endif
