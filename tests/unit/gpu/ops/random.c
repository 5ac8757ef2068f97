/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, and the Zipf distribution, against plain computations. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "gpu/ops/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(ops_random, .timeout = 60);

/* The first outputs of splitmix64 from 0. */
Test(ops_random, numbers_are_those_of_splitmix64)
{
	static const uint64_t want[] = { 0xe220a8397b1dcdafull, 0x6e789e6aa1b965f4ull,
					 0x06c45d188009454full, 0xf88bb8a8724c81ecull };

	for (uint64_t i = 0; i < ROWS(want); i++)
		cr_expect_eq(hr_mix_u64(i * 0x9e3779b97f4a7c15ull), want[i]);
	cr_expect_eq(hr_random_u64(0, 0x9e3779b97f4a7c15ull - want[0]), want[1]);
	cr_expect_eq(hr_random_u64(5, 7), hr_mix_u64(hr_mix_u64(5) + 7));
}

Test(ops_random, the_high_part_of_a_product_is_exact)
{
	static const uint64_t value[] = { 0,
					  1,
					  2,
					  0xffffffffull,
					  1ull << 32,
					  (1ull << 32) + 1,
					  0x123456789abcdef0ull,
					  0xffffffff00000000ull,
					  0xffffffff00000001ull,
					  1ull << 63,
					  UINT64_MAX - 1,
					  UINT64_MAX };

	for (size_t i = 0; i < ROWS(value) * ROWS(value); i++) {
		const uint64_t a = value[i % ROWS(value)], b = value[i / ROWS(value)];

		cr_expect_eq(hr_high_u64(a, b), (uint64_t)((unsigned __int128)a * b >> 64));
	}
}

static struct hr_zipf zipf;

/* The probability of a bucket is that of its middle rank, for each of its ranks. */
Test(ops_random, weights_fall_with_the_rank)
{
	static const double exponent[] = { 0, 0.5, 1, 2 };

	for (size_t e = 0; e < ROWS(exponent); e++) {
		double all = 0;

		memset(&zipf, 0xff, sizeof zipf);
		hr_zipf_init(&zipf, exponent[e]);
		cr_expect_eq(zipf.below[0], 0);
		cr_expect_leq(zipf.below[HR_ZIPF_BUCKETS], 1ull << 62);
		cr_expect_gt(zipf.below[HR_ZIPF_BUCKETS], (1ull << 62) - (1ull << 42));
		for (uint32_t b = 0; b < HR_ZIPF_BUCKETS; b++) {
			const double ranks = ldexp(1, (int)hr_zipf_shift(b));

			all += ranks *
			       pow((double)hr_zipf_first(b) + (ranks + 1) / 2, -exponent[e]);
		}
		for (uint32_t b = 0; b < HR_ZIPF_BUCKETS; b++) {
			const double ranks = ldexp(1, (int)hr_zipf_shift(b));
			const double want =
				ldexp(ranks *
					      pow((double)hr_zipf_first(b) + (ranks + 1) / 2,
						  -exponent[e]) /
					      all,
				      62);
			const double got = (double)(zipf.below[b + 1] - zipf.below[b]);

			cr_expect_float_eq(got, want, want * 1e-9 + 8192, "s %g, bucket %u: %g %g",
					   exponent[e], b, got, want);
		}
	}
}

/* The rank by a linear search. */
static uint64_t rank_of(uint64_t ranks, uint64_t seed, uint64_t i)
{
	const uint32_t last = hr_zipf_bucket(ranks - 1);
	const uint64_t in_last = ranks - hr_zipf_first(last);
	const uint64_t all =
		zipf.below[last] +
		((zipf.below[last + 1] - zipf.below[last]) >> hr_zipf_shift(last)) * in_last;
	const uint64_t at = (uint64_t)((unsigned __int128)hr_random_u64(seed, 2 * i) * all >> 64);
	uint32_t b = 0;
	uint64_t width;

	while (b < last && zipf.below[b + 1] <= at)
		b++;
	width = b == last ? in_last : 1ull << hr_zipf_shift(b);
	return hr_zipf_first(b) +
	       (uint64_t)((unsigned __int128)hr_random_u64(seed, 2 * i + 1) * width >> 64);
}

Test(ops_random, a_rank_is_drawn_from_its_bucket)
{
	static const uint64_t ranks[] = { 1, 2, 63, 64, 65, 66, 67, 128, 131, 5003, UINT32_MAX };
	static const double exponent[] = { 0, 1, 3 };

	for (size_t e = 0; e < ROWS(exponent); e++) {
		hr_zipf_init(&zipf, exponent[e]);
		for (size_t r = 0; r < ROWS(ranks); r++)
			for (uint64_t i = 0; i < 300; i++) {
				const uint64_t got = hr_zipf_rank(&zipf, ranks[r], 9, i);

				cr_assert_eq(got, rank_of(ranks[r], 9, i), "s %g, %llu ranks",
					     exponent[e], (unsigned long long)ranks[r]);
				cr_assert_lt(got, ranks[r]);
			}
	}
}
