/* SPDX-License-Identifier: Apache-2.0 */
/* Pointer chase, by the lanes of workers: last indices, hostile indices, the histogram. */
#include "tests/fakes/objects.h"

#define HR_OP_NAME test_chase
#include "gpu/ops/chase.c"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/random.h"

#define COUNT 5000u
#define HOUR_NS 3600000000000ull

TestSuite(chase, .timeout = 120);

static uint64_t next[COUNT];

static void refuse(void *to, unsigned line, const char *text)
{
	cr_expect(false, "%s", text);
}

Test(chase, arguments_have_their_defaults)
{
	const struct hr_op_arg arg = { .name = "hops", .type = HR_ARG_INT, .integer = 7 };
	struct hr_chase_args args;

	memset(&args, 0xff, sizeof args);
	cr_assert_eq(parse(&arg, 1, &args, refuse, NULL), sizeof args);
	cr_expect_eq(args.hops, 7);
	cr_expect_eq(args.chains, 1);
	cr_expect_eq(args.seed, 1);
	cr_expect_eq(args.warm, 0);
}

/* One cycle over all elements (Sattolo). */
static void make_cycle(void)
{
	struct fake_random random = { fake_random_seed("chase") };

	for (uint32_t i = 0; i < COUNT; i++)
		next[i] = i;
	for (uint32_t i = COUNT - 1; i > 0; i--) {
		const uint32_t j = fake_random_below(&random, i);
		const uint64_t other = next[i];

		next[i] = next[j];
		next[j] = other;
	}
	fake_access_object(0, next, sizeof next);
}

static uint64_t follow(const struct hr_chase_args *args)
{
	uint64_t sum = 0;

	for (uint64_t chain = 0; chain < args->chains; chain++) {
		uint64_t at = hr_high_u64(hr_random_u64(args->seed, chain), COUNT);

		for (uint32_t hop = 0; hop < args->hops; hop++)
			at = next[at];
		sum += hr_mix_u64(hr_mix_u64(chain) + at);
	}
	return sum;
}

/* Steps of all workers follow so many groups of chains, one chain in each lane. */
static uint64_t rounds_of(uint32_t chains, uint32_t workers)
{
	uint64_t rounds = 0;

	for (uint32_t w = 0; w < workers; w++)
		for (uint32_t first = w; first < chains; first += workers * HR_LANES)
			rounds++;
	return rounds;
}

Test(chase, any_number_of_workers_and_chains_gives_the_same_checksum)
{
	static const uint32_t chains[] = { 1, 7, 40, 100 };
	const struct hr_chase *result = (const void *)fake_access.result;

	make_cycle();
	for (uint32_t workers = 1; workers <= 4; workers += 3)
		for (uint32_t i = 0; i < 4; i++) {
			const struct hr_chase_args args = {
				.seed = 3, .hops = 50, .chains = chains[i], .warm = i & 1
			};
			uint64_t steps = 0;

			cr_assert_eq(fake_access_run(&hr_op_test_chase, &args, workers), 0);
			cr_expect_eq(result->checksum, follow(&args), "%u workers, %u chains",
				     workers, chains[i]);
			cr_expect_eq(result->hops, 50ull * chains[i]);
			for (uint32_t b = 0; b < CHASE_BINS; b++)
				steps += result->bin[b];
			cr_expect_eq(steps, result->steps);
			cr_expect_eq(steps, 50ull * rounds_of(chains[i], workers));
			cr_expect_gt(result->run_ns, 0);
			cr_expect_eq(fake_access.pages,
				     args.warm ? fake_access.object[0].pages : 0);
			/* a time that is negative is longer than an hour */
			cr_expect(result->step_ns > 0 && result->step_ns < HOUR_NS);
			cr_expect_lt(result->step_ticks, HOUR_NS);
		}
}

/* More ranks than chains, too. */
Test(chase, ranks_follow_their_own_chains)
{
	const struct hr_chase *result = (const void *)fake_access.result;
	const struct hr_chase_args args = { .seed = 3, .hops = 20, .chains = 5 };

	make_cycle();
	for (uint32_t ranks = 1; ranks < 8; ranks += 2) {
		cr_assert_eq(fake_access_run_ranks(&hr_op_test_chase, &args, 2, ranks, NULL), 0);
		cr_expect_eq(result->checksum, follow(&args), "%u ranks", ranks);
		cr_expect_eq(result->hops, 100);
	}
}

/* The sum of the times would be longer. */
Test(chase, the_time_of_ranks_is_the_longest)
{
	struct hr_chase state[3] = { { .run_ns = 5, .hops = 1 },
				     { .run_ns = 9, .hops = 2 },
				     { .run_ns = 7, .hops = 3 } };
	struct hr_chase result;
	const struct hr_op_all all = { .workers = 3,
				       .state_bytes = sizeof *state,
				       .states = (const uint8_t *)state,
				       .result = &result };

	fake_access.op = &hr_op_test_chase;
	fake_access_finish(&all);
	cr_expect_eq(result.run_ns, 9);
	cr_expect_eq(result.hops, 6);
}

/* No access beyond the object: the fake returns -ERANGE for it. */
Test(chase, an_index_beyond_the_object_is_refused_by_its_element)
{
	const struct hr_chase_args args = { .seed = 1, .hops = COUNT, .chains = 3 };

	make_cycle();
	next[1234] = COUNT;
	cr_expect_eq(fake_access_run(&hr_op_test_chase, &args, 2), -EBADMSG);
	cr_expect_eq(fake_access.refused, 1234);
	next[1234] = UINT64_MAX;
	cr_expect_eq(fake_access_run(&hr_op_test_chase, &args, 2), -EBADMSG);
	cr_expect_eq(fake_access.refused, 1234);
}

Test(chase, bins_of_the_histogram_are_an_eighth_wide)
{
	for (uint64_t ticks = 0; ticks < 1ull << 40; ticks += 1 + ticks / 5) {
		const uint32_t bin = chase_bin(ticks);

		cr_assert_leq(chase_bin_least(bin), ticks);
		cr_assert_gt(chase_bin_least(bin + 1), ticks);
		cr_assert_leq(chase_bin_least(bin + 1) - chase_bin_least(bin), ticks / 8 + 1);
	}
	cr_expect_eq(chase_bin(UINT64_MAX), CHASE_BINS - 1);
	/* the first number of ticks behind the last bin */
	cr_expect_eq(chase_bin(chase_bin_least(CHASE_BINS) - 1), CHASE_BINS - 1);
	cr_expect_eq(chase_bin(chase_bin_least(CHASE_BINS)), CHASE_BINS - 1);
	for (uint32_t bin = 0; bin < CHASE_BINS; bin++)
		cr_assert_eq(chase_bin(chase_bin_least(bin)), bin);
}
