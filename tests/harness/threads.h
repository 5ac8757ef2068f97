/*
 * tests/harness/threads.h - whether a test has threads.
 */
#ifndef TESTS_HARNESS_THREADS_H
#define TESTS_HARNESS_THREADS_H

/*
 * Note that the running test has threads, or coroutines that the thread sanitizer knows. The runner
 * prints at its end whether a test of the program had any (tests/threads.sh reads it). It notes calls
 * of pthread_create() without help.
 */
void test_has_threads(void);

#endif
