/*
 * gpu/ops/random.h - random numbers and a hash in whole numbers, the same on CPU and GPU.
 */
#ifndef GPU_OPS_RANDOM_H
#define GPU_OPS_RANDOM_H

#include <stdint.h>

#include "nvme/queue/worker.h"

/* A bijection of 64 bits whose results for 0, 1, 2, ... are random (splitmix64). */
HR_BOTH uint64_t hr_mix_u64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* The upper 64 bits of a product: for a random a, a random number below b. */
HR_BOTH uint64_t hr_high_u64(uint64_t a, uint64_t b)
{
	const uint64_t mask = 0xffffffffu;
	const uint64_t low = (a & mask) * (b & mask);
	const uint64_t left = (a >> 32) * (b & mask) + (low >> 32);
	const uint64_t right = (a & mask) * (b >> 32) + (left & mask);

	return (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32);
}

/* Random number i of a seed. */
HR_BOTH uint64_t hr_random_u64(uint64_t seed, uint64_t i)
{
	return hr_mix_u64(hr_mix_u64(seed) + i);
}

#endif
