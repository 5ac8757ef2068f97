/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that a read requests before it needs them: all of its own, and none behind them. */
#include "cache/objects/objects.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/objects/run.h"
#include "tests/fakes/pager.h"
#include "tests/harness/random.h"

TestSuite(objects_ahead, .timeout = 60);

#define PAGE 4096u

static struct pager pager;
static struct hr_objects objects;

static void idle(uint32_t *spins)
{
	++*spins;
	pager_step(&pager);
}

/* Each look takes a nanosecond. */
static uint64_t ticks(void)
{
	static uint64_t now;

	return ++now;
}

static const struct hr_worker_calls by_steps = { idle, ticks };

/* One object, and frames for all of its pages. */
static void make(void)
{
	static const struct pager_shape shape = { .frames = 4000,
						  .page_shift = 12,
						  .computers = 1,
						  .io_workers = 2,
						  .objects = 1,
						  .bytes = { 64 * PAGE } };

	pager_init(&pager, &shape, fake_random_seed("objects_ahead"));
	hr_objects_begin(&objects, &pager.cache, 0, NULL, 0);
	objects.calls = &by_steps;
}

static void unmake(void)
{
	hr_objects_end(&objects);
	pager_fini(&pager);
}

Test(objects_ahead, a_long_read_requests_pages_ahead)
{
	static uint8_t to[64 * PAGE];

	make();
	pager.delay = 1000;
	cr_assert_eq(hr_pread(&objects, hr_get_object_map(&objects, 0), 0, to, sizeof to),
		     sizeof to);
	cr_assert_eq(memcmp(to, pager_disk_of(&pager, 0), sizeof to), 0);
	cr_assert_eq(pager.did.reads, 64);
	cr_assert_eq(pager.did.merges, 0, "a page on its way was requested again");
	cr_assert_geq(pager.entries_max, 8, "at most %u requests at a time", pager.entries_max);
	unmake();
}

/* A read requests the pages of its bytes, and no page behind them. */
Test(objects_ahead, a_read_requests_exactly_its_pages)
{
	static const struct {
		uint64_t offset, bytes;
		uint32_t pages;
	} row[] = {
		{ 0, PAGE, 1 },
		{ PAGE, PAGE - 1, 1 },
		{ 3 * PAGE - 1, 1, 1 },
		{ 4 * PAGE - 1, 2, 2 },
		{ 6 * PAGE, 2 * PAGE, 2 },
		{ 9 * PAGE + 1, 2 * PAGE, 3 },
		{ 12 * PAGE, 20 * PAGE, 20 },
	};
	static uint8_t to[20 * PAGE];

	make();
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint64_t before = pager.did.reads;

		pager.delay = 1000;
		cr_assert_eq(hr_pread(&objects, hr_get_object_map(&objects, 0), row[i].offset, to,
				      row[i].bytes),
			     (int64_t)row[i].bytes);
		cr_expect_eq(pager.did.reads - before, row[i].pages, "row %zu: %u", i,
			     (unsigned)(pager.did.reads - before));
		cr_expect_geq(pager.entries_max, row[i].pages < 8 ? row[i].pages : 8, "row %zu", i);
	}
	unmake();
}

/* Pages that are not in the cache: nothing is found, and the recency of other pages stays. */
Test(objects_ahead, a_look_for_an_absent_page_changes_nothing)
{
	const size_t bytes = sizeof(struct hr_page_set);
	struct hr_page_set *before;
	uint32_t absent = 0;
	uint64_t value;

	make();
	pager.delay = 1;
	for (uint32_t i = 0; i < 48; i++)
		cr_assert_eq(hr_pread(&objects, hr_get_object_map(&objects, 0), i * PAGE, &value,
				      sizeof value),
			     sizeof value);
	before = malloc(hr_page_sets(&pager.cache.shape) * bytes);
	cr_assert_not_null(before);
	memcpy(before, pager.cache.set, hr_page_sets(&pager.cache.shape) * bytes);
	for (uint32_t page = 0; page < 64; page++) {
		const uint32_t set = hr_page_position_of(&pager.cache.shape, page).set;
		const struct hr_found found = hr_cache_find(&pager.cache, page);

		if (found.word)
			continue;
		absent++;
		cr_expect_null(found.tag, "page %u", page);
		cr_expect_null(found.frame, "page %u", page);
		cr_assert_eq(memcmp(&before[set], &pager.cache.set[set], bytes), 0, "page %u",
			     page);
	}
	cr_expect_eq(absent, 16u, "%u", absent);
	free(before);
	unmake();
}

/* The counts of a worker are in shared memory when it has ended. */
Test(objects_ahead, a_worker_leaves_its_counts)
{
	const struct hr_cache_worker *worker;
	static uint8_t to[64 * PAGE];

	make();
	pager.delay = 10;
	cr_assert_eq(hr_pread(&objects, hr_get_object_map(&objects, 0), 0, to, sizeof to),
		     sizeof to);
	worker = &pager.cache.worker[0];
	hr_objects_end(&objects);
	cr_expect_eq(worker->seen, HR_EPOCH_ENDED);
	cr_expect_eq(worker->accesses, objects.accesses);
	cr_expect_eq(worker->accesses, 64u);
	cr_expect_eq(worker->misses, objects.misses);
	cr_expect_gt(worker->misses, 0u);
	cr_expect_eq(worker->waits_ns, objects.waits);
	cr_expect_gt(worker->waits_ns, 0u);
	pager_fini(&pager);
}

Test(objects_ahead, epochs_skip_the_number_that_means_ended)
{
	cr_expect_eq(hr_epoch_next(0), 1u);
	cr_expect_eq(hr_epoch_next(HR_EPOCH_ENDED - 2), HR_EPOCH_ENDED - 1);
	cr_expect_eq(hr_epoch_next(HR_EPOCH_ENDED - 1), 0u);
}
