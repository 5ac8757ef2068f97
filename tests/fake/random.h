/* tests/fake/random.h - repeatable random numbers for property tests (xorshift64*). */
#ifndef TESTS_FAKE_RANDOM_H
#define TESTS_FAKE_RANDOM_H

#include <stdint.h>

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

/* A number in 0..below - 1. */
static inline uint32_t fake_random_below(struct fake_random *random, uint32_t below)
{
	return (uint32_t)((fake_random_u64(random) >> 32) * below >> 32);
}

#endif
