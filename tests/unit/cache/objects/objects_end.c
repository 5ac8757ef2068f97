/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses that end with the run: by a stop, and when they would wait for ever. One worker. */
#include "cache/objects/objects.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "cache/objects/run.h"
#include "tests/fakes/pager.h"
#include "tests/harness/objects_rig.h"

TestSuite(objects_end, .timeout = 60);

static uint8_t buffer[16];

static void idle_until_stop(uint32_t *spins)
{
	if (++*spins > 3)
		pager.cache.words->stop = HR_CACHE_ENDS;
}

Test(objects_end, every_wait_ends_when_the_run_stops)
{
	static const struct hr_worker_calls stops = { idle_until_stop, no_clock };

	for (uint32_t i = 0; i < 6; i++) {
		struct pager_shape shape = small;

		shape.computers = 2;
		make(&shape);
		objects.calls = &stops;
		if (i == 0)
			cr_assert_eq(hr_pread(&objects, object(0), 0, buffer, 1), -ECANCELED);
		else if (i == 1)
			cr_assert_eq(hr_get_u64(&objects, object(0), 3), 0);
		else if (i == 2)
			cr_assert_null(hr_page(&objects, object(0), 3));
		else if (i == 3)
			cr_assert_eq(hr_flush(&objects), -ECANCELED);
		else if (i == 4)
			cr_assert_eq(hr_workers_sync(&objects), -ECANCELED);
		else { /* for room in a ring */
			pager.cache.ring[0].tail = pager.cache.ring[1].tail = HR_REQUESTS;
			cr_assert_eq(hr_pread(&objects, object(0), 0, buffer, 1), -ECANCELED);
		}
		cr_assert_eq(objects.error, -ECANCELED, "case %u", i);
		cr_assert_eq(objects.error_object, HR_NO_PAGE, "case %u", i);
		cr_assert_eq(objects.error_index, 0, "case %u", i);
		unmake();
	}
}

/* A worker whose pages are all cached never waits. */
Test(objects_end, cached_accesses_end_when_the_run_stops)
{
	uint32_t n = 0;

	make(&small);
	cr_assert_eq(hr_pread(&objects, object(0), 0, buffer, 1), 1);
	pager.cache.words->stop = HR_CACHE_ENDS;
	while (!objects.error && n++ <= HR_UNPUBLISHED_MAX)
		hr_get_u32(&objects, object(0), 0);
	cr_assert_leq(n, HR_UNPUBLISHED_MAX);
	cr_assert_eq(objects.error, -ECANCELED);
	cr_assert_eq(objects.error_object, HR_NO_PAGE);
	cr_assert_eq(objects.error_index, 0);
	unmake();
}

Test(objects_end, a_worker_that_is_missing_at_the_barrier_is_a_deadlock)
{
	static const struct {
		uint32_t stop;
		int error;
	} row[] = { { 0, -EDEADLK },
		    { HR_CACHE_DEADLOCK, -EDEADLK },
		    { HR_CACHE_ENDS, -ECANCELED } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		make(&small);
		pager.cache.words->stop = row[i].stop;
		cr_assert_eq(hr_workers_missing(&objects), row[i].error, "row %zu", i);
		cr_assert_eq(objects.error, row[i].error, "row %zu", i);
		cr_assert_eq(objects.error_object, HR_NO_PAGE, "row %zu", i);
		cr_assert_eq(objects.error_index, 0, "row %zu", i);
		unmake();
	}
}

Test(objects_end, pages_beyond_the_frames_are_a_deadlock_not_a_hang)
{
	uint32_t held = 0;

	make(&small);
	pager.patience = 100;
	while (held < 10 && hr_page(&objects, object(0), held))
		held++;
	cr_assert_geq(held, HR_WAYS);
	cr_assert_eq(objects.error, held < 10 ? -EDEADLK : 0);
	while (held == 10 && !objects.error) /* the sets have room for one object, not for two */
		hr_page(&objects, object(1), objects.held - 10);
	cr_assert_eq(objects.error, -EDEADLK);
	cr_assert_eq(objects.error_object, HR_NO_PAGE);
	cr_assert_eq(objects.error_index, 0);
	unmake();
}
