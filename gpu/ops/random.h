/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/ops/random.h - random numbers, a hash and a Zipf distribution in whole numbers, the same
 * on CPU and GPU.
 */
#ifndef GPU_OPS_RANDOM_H
#define GPU_OPS_RANDOM_H

#include <stdint.h>

#include "nvme/queue/worker.h"

/* ---- random numbers and a hash in whole numbers, the same on CPU and GPU. */

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

/* ---- random ranks by a Zipf distribution: rank r (from 0) has a probability
 * proportional to (r + 1)^-s. The host computes a table, the only part with floating point, so that
 * all workers of both backends draw the same ranks from it.
 *
 * A bucket is a range of ranks: each of the first 32 ranks alone, then a 32nd of each power of two.
 * Within a bucket all ranks have the same probability: that of its middle, less than 2 % off for
 * s = 1.
 */

#define HR_ZIPF_SHIFT 5u
#define HR_ZIPF_BUCKETS ((33u - HR_ZIPF_SHIFT) << HR_ZIPF_SHIFT) /* of all ranks below 2^32 */

/* below[b]: the weight of all ranks before bucket b. Weights sum up to at most 2^62. */
struct hr_zipf {
	uint64_t below[HR_ZIPF_BUCKETS + 1];
};

/* Fill in the table for the exponent s, 0 or more. Host side. */
void hr_zipf_init(struct hr_zipf *zipf, double s);

/* The bucket of a rank, below 2^32. */
HR_BOTH uint32_t hr_zipf_bucket(uint64_t rank)
{
	uint32_t shift;

	if (rank < 2u << HR_ZIPF_SHIFT)
		return (uint32_t)rank;
	shift = hr_highest_bit_u64(rank) - HR_ZIPF_SHIFT;
	return (shift << HR_ZIPF_SHIFT) + (uint32_t)(rank >> shift);
}

/* A bucket has 1 << shift ranks. */
HR_BOTH uint32_t hr_zipf_shift(uint32_t bucket)
{
	return bucket >> HR_ZIPF_SHIFT ? (bucket >> HR_ZIPF_SHIFT) - 1 : 0;
}

/* The first rank of a bucket. */
HR_BOTH uint64_t hr_zipf_first(uint32_t bucket)
{
	const uint32_t shift = hr_zipf_shift(bucket);

	return (uint64_t)(bucket - (shift << HR_ZIPF_SHIFT)) << shift;
}

/* Random number i of a seed: a rank below `ranks`, 1 .. 2^32 - 1. */
HR_BOTH uint64_t hr_zipf_rank(const struct hr_zipf *zipf, uint64_t ranks, uint64_t seed, uint64_t i)
{
	const uint32_t last = hr_zipf_bucket(ranks - 1), shift = hr_zipf_shift(last);
	const uint64_t in_last = ranks - hr_zipf_first(last);
	const uint64_t weight = zipf->below[last + 1] - zipf->below[last];
	const uint64_t all = zipf->below[last] + (weight >> shift) * in_last;
	const uint64_t at = hr_high_u64(hr_random_u64(seed, 2 * i), all);
	uint32_t low = 0, high = last; /* below[low] <= at */

	while (low < high) {
		const uint32_t middle = (low + high + 1) / 2;

		if (zipf->below[middle] <= at)
			low = middle;
		else
			high = middle - 1;
	}
	return hr_zipf_first(low) +
	       hr_high_u64(hr_random_u64(seed, 2 * i + 1),
			   low == last ? in_last : (uint64_t)1 << hr_zipf_shift(low));
}

/* The row of a rank: a bijection of 0 .. rows - 1 that spreads low ranks over all rows. rows is not
 * a multiple of the prime. */
#define HR_ZIPF_SPREAD 2654435761u
HR_BOTH uint64_t hr_zipf_row(uint64_t rank, uint64_t rows)
{
	return rank * HR_ZIPF_SPREAD % rows;
}

#endif
