/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/random.h - repeatable random numbers for property tests (xorshift64*), and a seed
 * that differs in each run.
 */
#ifndef TESTS_HARNESS_RANDOM_H
#define TESTS_HARNESS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct fake_random {
	uint64_t state; /* the seed; not 0 */
};

static inline uint64_t fake_random_u64(struct fake_random *random)
{
	random->state ^= random->state >> 12;
	random->state ^= random->state << 25;
	random->state ^= random->state >> 27;
	return random->state * 0x2545f4914f6cdd1dull;
}

static inline void fake_random_fill(struct fake_random *random, void *to, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
		const uint64_t word = fake_random_u64(random);

		memcpy((uint8_t *)to + at, &word,
		       bytes - at < sizeof word ? bytes - at : sizeof word);
	}
}

/* A number in 0..below - 1. */
static inline uint32_t fake_random_below(struct fake_random *random, uint32_t below)
{
	return (uint32_t)((fake_random_u64(random) >> 32) * below >> 32);
}

/*
 * The seed of this process, not 0: HR_TEST_SEED of the environment, else a random one. The first
 * call prints it to stderr, so that a failed test can be repeated.
 */
static inline uint64_t fake_random_seed(const char *tests)
{
	static uint64_t seed;
	const char *given = getenv("HR_TEST_SEED");

	if (seed)
		return seed;
	if (given)
		seed = strtoull(given, NULL, 0);
	else if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
		abort();
	seed |= 1;
	fprintf(stderr, "%s: HR_TEST_SEED=%llu\n", tests, (unsigned long long)seed);
	return seed;
}

#endif
