/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions of ranks, over ranks that are threads. */
#include "boot/ranks/job.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/log.h"
#include "tests/fakes/ranks.h"

TestSuite(job, .timeout = 60);

static struct hr_job job[FAKE_RANKS_MAX];
static struct hr_error error[FAKE_RANKS_MAX];
static int result[FAKE_RANKS_MAX], code[FAKE_RANKS_MAX];
static struct hr_collected collected[FAKE_RANKS_MAX];

static void clear(void)
{
	memset(job, 0, sizeof job);
	memset(error, 0, sizeof error);
	memset(collected, 0, sizeof collected);
}

static uint32_t begin(const struct hr_ranks *ranks)
{
	job[ranks->rank].ranks = *ranks;
	return ranks->rank;
}

/* ---- agreement */

static uint32_t failing;
static enum hr_error_kind kind;

static void agree(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks);
	int err = 0;

	if (r == failing)
		err = hr_fail(&error[r], kind, -ENODEV, "no device");
	result[r] = hr_job_agree(&job[r], err, &error[r]);
}

Test(job, all_ranks_succeed)
{
	clear();
	failing = UINT32_MAX;
	fake_ranks_run(5, FAKE_RANKS_ALL, agree, NULL);
	for (uint32_t r = 0; r < 5; r++) {
		cr_expect_eq(result[r], 0);
		cr_expect_eq(error[r].kind, HR_ERROR_NONE);
	}
}

Test(job, one_failure_is_that_of_all_and_printed_by_one)
{
	static const enum hr_error_kind kinds[] = { HR_ERROR_FAILED, HR_ERROR_USAGE,
						    HR_ERROR_MISSING, HR_ERROR_DEVICE };

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		clear();
		failing = (uint32_t)i;
		kind = kinds[i];
		fake_ranks_run(4, FAKE_RANKS_ALL, agree, NULL);
		for (uint32_t r = 0; r < 4; r++) {
			cr_expect_eq(result[r], r == failing ? -ENODEV : -ECANCELED);
			cr_expect_eq(error[r].kind, kind, "kind %d of rank %u", error[r].kind, r);
			cr_expect_eq(error[r].printed, r != failing);
		}
	}
}

Test(job, a_process_alone_agrees_with_itself)
{
	struct hr_error e = { 0 };

	cr_expect_eq(hr_job_agree(NULL, 0, &e), 0);
	cr_expect_eq(hr_job_agree(NULL, -EIO, &e), -EIO);
	cr_expect_eq(hr_job_code(NULL, 3), 3);
	cr_expect_eq(hr_job_close(NULL, 4), 4);
	cr_expect_eq(e.kind, HR_ERROR_NONE);
	hr_job_stop(NULL);
	cr_expect_not(hr_job_stops(NULL));
}

static void close_with_code(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks);

	code[r] = hr_job_close(&job[r], ((const int *)to)[r]);
}

Test(job, the_exit_code_is_the_greatest)
{
	static const int row[][3] = { { 0, 0, 0 }, { 0, 1, 0 }, { 4, 0, 1 }, { 2, 3, 0 } };
	static const int want[] = { 0, 1, 4, 3 };

	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		int codes[3];

		memcpy(codes, row[i], sizeof codes);
		clear();
		fake_ranks_run(3, FAKE_RANKS_ALL, close_with_code, codes);
		for (uint32_t r = 0; r < 3; r++)
			cr_expect_eq(code[r], want[i], "row %zu, rank %u: %d", i, r, code[r]);
		cr_expect_eq(fake_ranks_closed(), 3u);
	}
}

static int fails_with_a_long_text(struct hr_ranks *ranks, uint32_t value, uint32_t *most)
{
	memset(ranks->why, 'x', sizeof ranks->why);
	return -EIO;
}

Test(job, a_text_of_the_library_is_ended)
{
	static const struct hr_ranks_ops ops = { .max = fails_with_a_long_text };
	const size_t last = sizeof job->ranks.why - 1;

	clear();
	job->ranks.ops = &ops;
	cr_expect_eq(hr_job_agree(job, 0, error), -EIO);
	cr_expect_eq(job->ranks.why[last], '\0');
	cr_expect_eq(job->ranks.why[last - 1], 'x');
	cr_expect(job->broken);
}

/* ---- data */

static uint8_t data[FAKE_RANKS_MAX][64];

/* Rank r has 3 * r bytes of value r. */
static void collect(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks);

	memset(data[r], (int)r, sizeof data[r]);
	result[r] = hr_job_collect(&job[r], data[r], 3 * r, &collected[r], &error[r]);
}

Test(job, data_arrive_in_the_order_of_the_ranks)
{
	static const uint32_t sizes[] = { 1, 2, 3, 4, 7, 20 };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const uint32_t size = sizes[i];
		uint64_t at = 0;

		clear();
		fake_ranks_run(size, FAKE_RANKS_ALL, collect, NULL);
		for (uint32_t r = 0; r < size; r++) {
			cr_assert_eq(result[r], 0);
			cr_expect_eq(collected[0].lengths[r], 3u * r);
			for (uint32_t b = 0; b < 3 * r; b++)
				cr_expect_eq(collected[0].data[at++], r);
			cr_expect(r == 0 || (!collected[r].data && !collected[r].lengths));
		}
		cr_expect_eq(collected[0].bytes, at);
		cr_expect_eq((uintptr_t)collected[0].data % 64, 0u);
		hr_collected_free(&collected[0]);
		cr_expect_null(collected[0].lengths);
	}
}

static void collect_same(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks), odd = *(const uint32_t *)to;

	result[r] =
		hr_job_collect_same(&job[r], data[r], r == odd ? 9 : 8, &collected[r], &error[r]);
}

Test(job, a_struct_of_another_length_is_refused_on_all_ranks)
{
	uint32_t odd = 2;

	clear();
	fake_ranks_run(4, FAKE_RANKS_ALL, collect_same, &odd);
	cr_expect_eq(result[0], -EPROTO);
	cr_expect_str_eq(error[0].text, "rank 2 runs another version of headrace than rank 0");
	for (uint32_t r = 0; r < 4; r++) {
		cr_expect_eq(error[r].kind, HR_ERROR_USAGE);
		cr_expect_null(collected[r].data);
		cr_expect_null(collected[r].lengths);
		cr_expect(r == 0 || result[r] == -ECANCELED);
	}
	odd = UINT32_MAX;
	clear();
	fake_ranks_run(4, FAKE_RANKS_ALL, collect_same, &odd);
	cr_expect_eq(result[0], 0);
	cr_expect_eq(collected[0].bytes, 32u);
	hr_collected_free(&collected[0]);
}

static void collect_much(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks);

	result[r] = hr_job_collect(&job[r], data[r], ((const uint64_t *)to)[r], &collected[r],
				   &error[r]);
}

/* The sum of the lengths is small again after it was too large. */
Test(job, data_of_more_than_64_bits_of_length_are_refused)
{
	static const uint64_t row[][3] = { { UINT64_MAX, 1, 5 }, { UINT64_MAX, 2, UINT64_MAX } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint64_t lengths[3];

		memcpy(lengths, row[i], sizeof lengths);
		clear();
		fake_ranks_run(3, FAKE_RANKS_ALL, collect_much, lengths);
		cr_expect_eq(result[0], -ENOMEM, "row %zu: %d", i, result[0]);
		for (uint32_t r = 0; r < 3; r++) {
			cr_expect(r == 0 || result[r] == -ECANCELED);
			cr_expect_eq(error[r].kind, HR_ERROR_MISSING);
			cr_expect_null(collected[r].data);
		}
	}
}

/* A call of the library fails at each point: an error on all ranks, nothing leaks, and no further
 * call is made, not even close(). */
static void collect_and_close(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks);

	collect(ranks, to);
	code[r] = hr_job_close(&job[r], 0);
}

Test(job, a_failure_of_the_library_ends_the_calls)
{
	uint32_t calls = 0;

	for (;; calls++) {
		clear();
		fake_ranks_run(3, calls, collect_and_close, NULL);
		if (fake_ranks_closed())
			break;
		cr_expect_eq(fake_ranks_calls(), calls + 1, "after %u", calls);
		for (uint32_t r = 0; r < 3; r++) {
			cr_expect_eq(code[r], HR_ERROR_FAILED);
			cr_expect(result[r] == -EIO || calls == 4);
			cr_expect(calls == 4 || strcmp(error[r].text, "--mpi: the fake fails") == 0,
				  "%u: '%s'", calls, error[r].text);
			hr_collected_free(&collected[r]);
		}
	}
	cr_expect_eq(calls, 5u); /* agree, lengths, agree, data, exit code */
	cr_expect_eq(result[0], 0);
	hr_collected_free(&collected[0]);
}

/* ---- stop */

static bool first[FAKE_RANKS_MAX], again[FAKE_RANKS_MAX];

static void stop(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks);

	if (r == 1)
		hr_job_stop(&job[r]);
	hr_job_code(&job[r], 0);
	first[r] = hr_job_stops(&job[r]);
	again[r] = hr_job_stops(&job[r]);
}

Test(job, one_rank_stops_the_others_once)
{
	clear();
	fake_ranks_run(3, FAKE_RANKS_ALL, stop, NULL);
	cr_expect(first[0] && first[2]);
	cr_expect_not(first[1]); /* it knows */
	cr_expect_not(again[0] || again[1] || again[2]);
}

/* ---- reduce */

static char text[FAKE_RANKS_MAX][FAKE_RANKS_MAX + 1];

static void append(void *to, void *into, const void *from)
{
	cr_assert_eq(to, text);
	strcat(into, from);
}

static void reduce(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks);

	memset(text[r], 0, sizeof text[r]);
	text[r][0] = (char)('a' + r);
	result[r] = hr_job_reduce(&job[r], text[r], sizeof text[r], append, text, &error[r]);
}

Test(job, states_are_merged_in_the_order_of_the_ranks)
{
	static const char *const want[] = { "a", "ab", "abc", "abcd", "abcde" };

	for (uint32_t size = 1; size <= 5; size++) {
		clear();
		fake_ranks_run(size, FAKE_RANKS_ALL, reduce, NULL);
		cr_expect_str_eq(text[0], want[size - 1]);
		for (uint32_t r = 0; r < size; r++)
			cr_expect_eq(result[r], 0);
	}
	clear();
	fake_ranks_run(3, 1, reduce, NULL);
	for (uint32_t r = 0; r < 3; r++) {
		cr_expect_eq(result[r], -EIO);
		cr_expect_str_eq(error[r].text, "--mpi: the fake fails");
		cr_expect(job[r].broken);
	}
}

/* ---- any */

static bool any[FAKE_RANKS_MAX];

static void ask(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = begin(ranks);

	result[r] = hr_job_any(&job[r], r == *(const uint32_t *)to, &any[r], &error[r]);
}

Test(job, what_is_true_on_one_rank_is_known_to_all)
{
	for (uint32_t odd = 0; odd < 4; odd++) {
		clear();
		fake_ranks_run(3, FAKE_RANKS_ALL, ask, &odd);
		for (uint32_t r = 0; r < 3; r++) {
			cr_expect_eq(result[r], 0);
			cr_expect_eq(any[r], odd < 3, "rank %u, %u", r, odd);
		}
	}
}
