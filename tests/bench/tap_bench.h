/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/tap_bench.h - what the programs tap_consumer and tap_times share. Static, because each
 * is a program of its own.
 */
#ifndef TESTS_BENCH_TAP_BENCH_H
#define TESTS_BENCH_TAP_BENCH_H

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/tap/client/tap.h"

#define WAIT_S 60
#define SAMPLES_MAX (1u << 20)

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* As soon as the pipeline has opened its tap; NULL, with a message, when it does not. */
static inline struct hr_tap *attach(const char *name, uint32_t credits)
{
	const struct hr_tap_options options = { .credits = credits };
	const struct timespec pause = { .tv_nsec = 1000000 };
	char why[HR_TAP_REASON];
	struct hr_tap *tap;
	int err = hr_tap_open(name, &options, &tap, why, sizeof why);

	for (int i = 0; i < WAIT_S * 1000 && (err == -ENOENT || err == -ECONNREFUSED); i++) {
		nanosleep(&pause, NULL);
		err = hr_tap_open(name, &options, &tap, why, sizeof why);
	}
	if (!err)
		return tap;
	fprintf(stderr, "%s\n", why);
	return NULL;
}

static inline int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Print percentiles of the samples, which are sorted. */
static inline void print_samples(const char *what, uint64_t *ns, uint32_t count)
{
	if (!count)
		return;
	qsort(ns, count, sizeof *ns, by_size);
	printf("%s: p50 %llu ns, p90 %llu, p99 %llu, worst %llu, of %u\n", what,
	       (unsigned long long)ns[count / 2], (unsigned long long)ns[count / 10 * 9],
	       (unsigned long long)ns[(uint64_t)count * 99 / 100],
	       (unsigned long long)ns[count - 1], count);
}

/* The exit code after the last tile: n as hr_tap_next() returned it. */
static inline int end_of(struct hr_tap *tap, int n)
{
	if (n < 0)
		fprintf(stderr, "%s\n", hr_tap_reason(tap));
	return n < 0;
}

/* The function of libcuda.so.1 with that name, into a pointer to a function. */
static inline void find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof found);
}

#endif
