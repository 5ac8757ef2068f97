/* SPDX-License-Identifier: Apache-2.0 */
/* Hash join probe, by the lanes of workers: matches with duplicates and wraps, tables without an empty
 * bucket. */
#include "tests/fakes/objects.h"

#define HR_OP_NAME test_join
#include "gpu/ops/join.c"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/random.h"

#define BUCKETS 1021u
#define BUILD 800u
#define PROBE 150u /* with the thread sanitizer collective calls cost much */
/* of the table and of the keys, which are read before the run when asked for */
#define PAGES ((BUCKETS * sizeof(struct hr_join_bucket) + FAKE_PAGE - 1) / FAKE_PAGE + 1)

TestSuite(join, .timeout = 120);

static struct hr_join_bucket table[BUCKETS], build[BUILD];
static uint64_t keys[PROBE];

/* Few distinct keys, so that many occur several times; the table is nearly full, so searches are
 * long and wrap. */
static void make_tables(void)
{
	struct fake_random random = { fake_random_seed("join") };

	memset(table, 0, sizeof table);
	for (uint32_t i = 0; i < BUILD; i++) {
		uint64_t bucket;

		build[i].key = 1 + fake_random_below(&random, BUILD);
		build[i].payload = fake_random_u64(&random);
		bucket = hr_join_first_bucket(build[i].key, BUCKETS);
		while (table[bucket].key)
			bucket = (bucket + 1) % BUCKETS;
		table[bucket] = build[i];
	}
	for (uint32_t i = 0; i < PROBE; i++)
		keys[i] = 1 + fake_random_below(&random, 2 * BUILD);
	fake_access_object(JOIN_TABLE, table, sizeof table);
	fake_access_object(JOIN_KEYS, keys, sizeof keys);
}

/* Buckets from that of the key to the next empty one. Key 0 is not searched. */
static uint64_t looks_for(uint64_t key)
{
	uint64_t looks = key != 0;

	for (uint64_t b = hr_join_first_bucket(key, BUCKETS); key && table[b].key;
	     b = (b + 1) % BUCKETS)
		looks++;
	return looks;
}

Test(join, matches_equal_those_of_nested_loops)
{
	const struct hr_join *result = (const void *)fake_access.result;

	make_tables();
	keys[17] = 0; /* an empty bucket is no match */
	for (uint32_t workers = 1; workers <= 4; workers++) {
		const struct hr_join_args args = { .warm = workers & 1 };
		uint64_t matches = 0, sum = 0, looks = 0;

		for (uint32_t i = 0; i < PROBE; i++)
			looks += looks_for(keys[i]);
		for (uint32_t i = 0; i < PROBE; i++)
			for (uint32_t j = 0; j < BUILD; j++)
				if (build[j].key == keys[i]) {
					matches++;
					sum += build[j].payload;
				}
		cr_assert_eq(fake_access_run(&hr_op_test_join, &args, workers), 0);
		cr_expect_eq(result->keys, PROBE);
		cr_expect_eq(result->matches, matches);
		cr_expect_eq(result->payload_sum, sum);
		cr_expect_eq(result->buckets, looks);
		cr_expect_gt(result->run_ns, 0);
		cr_expect_eq(fake_access.pages, args.warm ? PAGES : 0, "%u workers", workers);
	}
}

static uint32_t ranks;

/* Rank 1 has no keys, the others share them. */
static void place(uint32_t r)
{
	const uint32_t first = PROBE * (r > 1 ? r - 1 : r) / (ranks - 1);
	const uint32_t end = PROBE * (r > 1 ? r : r + 1) / (ranks - 1);

	fake_access_shard(JOIN_KEYS, keys, first * sizeof *keys,
			  (r == 1 ? first : end) * sizeof *keys, sizeof keys);
}

Test(join, ranks_with_shares_of_the_keys_have_the_matches_of_one)
{
	struct hr_join *result = (void *)fake_access.result, one;
	const struct hr_join_args args = { .warm = 1 };

	make_tables();
	cr_assert_eq(fake_access_run(&hr_op_test_join, &args, 2), 0);
	one = *result;
	for (ranks = 2; ranks < 6; ranks++)
		for (int divided = 0; divided < 2; divided++) {
			fake_access_object(JOIN_KEYS, keys, sizeof keys);
			cr_assert_eq(fake_access_run_ranks(&hr_op_test_join, &args, 2, ranks,
							   divided ? place : NULL),
				     0);
			cr_expect_gt(result->run_ns, 0);
			one.run_ns = result->run_ns;
			cr_expect(memcmp(result, &one, sizeof one) == 0, "%u ranks, %d", ranks,
				  divided);
		}
}

Test(join, no_keys_have_no_matches)
{
	const struct hr_join *result = (const void *)fake_access.result;
	const struct hr_join_args args = { .warm = 0 };

	make_tables();
	fake_access_object(JOIN_KEYS, keys, 0);
	cr_assert_eq(fake_access_run(&hr_op_test_join, &args, 3), 0);
	cr_expect_eq(result->keys, 0);
	cr_expect_eq(result->matches, 0);
}

Test(join, a_table_without_an_empty_bucket_is_refused)
{
	const struct hr_join_args args = { .warm = 0 };

	make_tables();
	for (uint32_t i = 0; i < BUCKETS; i++)
		table[i].key = 1;
	cr_expect_eq(fake_access_run(&hr_op_test_join, &args, 2), -EBADMSG);
	cr_expect_eq(fake_access.refused_object, JOIN_TABLE);
	cr_expect_lt(fake_access.refused, 2 * BUCKETS);
}

/* Each bucket is looked at once; the last one may be the empty one. */
Test(join, a_search_goes_round_the_table_once)
{
	const struct hr_join *result = (const void *)fake_access.result;
	const struct hr_join_args args = { .warm = 0 };
	uint64_t last;

	make_tables();
	for (uint32_t i = 0; i < BUCKETS; i++)
		table[i].key = 9;
	for (keys[0] = 1; keys[0] < 9; keys[0]++) {
		fake_access_object(JOIN_KEYS, keys, sizeof *keys);
		last = (hr_join_first_bucket(keys[0], BUCKETS) + BUCKETS - 1) % BUCKETS;
		table[last].key = 9;
		cr_expect_eq(fake_access_run(&hr_op_test_join, &args, 1), -EBADMSG);
		cr_expect_eq(fake_access.refused, 2 * last);
		table[last].key = 0;
		cr_expect_eq(fake_access_run(&hr_op_test_join, &args, 1), 0);
		cr_expect_eq(result->buckets, BUCKETS);
		table[last].key = 9;
	}
}
