/* SPDX-License-Identifier: Apache-2.0 */
/* cache/objects/objects.h with one lane: one worker step by step against a model, and many threads. */
#include "cache/objects/objects.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/objects/run.h"
#include "cache/page_policy.h"
#include "tests/fakes/pager.h"
#include "tests/harness/objects_rig.h"
#include "tests/harness/random.h"

TestSuite(objects, .timeout = 60);

#define ROOM (9 * PAGE)

Test(objects, a_read_returns_the_bytes_before_the_end)
{
	static const struct {
		uint64_t offset, bytes;
		int64_t want;
	} row[] = {
		{ 0, 0, 0 },
		{ 0, 1, 1 },
		{ 5, 7, 7 },
		{ PAGE - 1, 2, 2 },
		{ PAGE, PAGE, PAGE },
		{ 3, 3 * PAGE, 3 * PAGE },
		{ 10 * PAGE - 97, 1, 1 },
		{ 10 * PAGE - 97, 2, 1 },
		{ 10 * PAGE - 96, 1, 0 },
		{ 10 * PAGE, 1, 0 },
		{ 11 * PAGE, 8 * PAGE, 0 },
		{ UINT64_MAX, UINT64_MAX, 0 },
		{ 5 * PAGE + 1, UINT64_MAX, 5 * PAGE - 97 },
		{ 10 * PAGE - 196, UINT64_MAX - 8, 100 },
	};
	static uint8_t to[ROOM + 1];

	make(&small);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		memset(to, 0xee, sizeof to);
		cr_assert_eq(hr_pread(&objects, object(0), row[i].offset, to, row[i].bytes),
			     row[i].want, "row %zu", i);
		cr_assert_eq(
			memcmp(to, pager_disk_of(&pager, 0) + row[i].offset, (size_t)row[i].want),
			0, "row %zu", i);
		cr_assert_eq(to[row[i].want], 0xee, "row %zu", i);
	}
	cr_assert_eq(hr_pread(&objects, object(3), 0, to, 10), 0);
	cr_assert_eq(objects.error, 0);
	unmake();
}

Test(objects, each_error_is_kept_with_its_cause)
{
	static uint8_t to[16];

	for (uint32_t i = 0; i < 8; i++) {
		int64_t got = 0;

		make(&small);
		if (i == 0)
			got = hr_pread(&objects, object(2), 0, to, 1); /* left out */
		else if (i == 1)
			got = hr_pread(&objects, object(4), 0, to, 1); /* an unknown object */
		else if (i == 2)
			got = hr_pwrite(&objects, object(1), 0, to, 1);
		else if (i == 3)
			got = hr_pread_prefetch(&objects, NULL, 0, 1);
		else if (i == 4)
			got = hr_consume_prefetch_pread(&objects, -1, to, 1);
		else if (i == 5)
			got = hr_consume_prefetch_pread(&objects, 7ll << 48, to, 1);
		else if (i == 6)
			got = hr_consume_prefetch_pread(&objects, 10 * PAGE, to, 1);
		else
			hr_set_u32(&objects, object(1), 0, 1);
		if (i < 7)
			cr_assert_eq(got, -EINVAL, "case %u: %ld", i, got);
		cr_assert_eq(objects.error, -EINVAL, "case %u", i);
		cr_assert_eq(objects.error_object, i == 2 || i == 7 ? 1 : HR_NO_PAGE, "case %u", i);
		cr_assert_eq(objects.error_index, 0, "case %u", i);
		/* All further calls return the first error. */
		cr_assert_eq(hr_pread(&objects, object(0), 0, to, 1), -EINVAL);
		cr_assert_eq(hr_pwrite(&objects, object(0), 0, to, 1), -EINVAL);
		cr_assert_eq(hr_pread_prefetch(&objects, object(0), 0, 1), -EINVAL);
		cr_assert_eq(hr_get_u32(&objects, object(0), 0), 0);
		cr_assert_null(hr_page(&objects, object(0), 0));
		cr_assert_eq(hr_flush(&objects), -EINVAL);
		cr_assert_eq(hr_workers_sync(&objects), -EINVAL);
		cr_assert_eq(pager.did.requests, 0, "case %u", i);
		cr_assert_eq(hr_objects_end(&objects), -EINVAL);
		pager_fini(&pager);
	}
}

Test(objects, an_element_beyond_the_object_is_an_error_that_names_the_element)
{
	const uint64_t words = (10 * PAGE - 96) / 4;

	make(&small);
	cr_assert_eq(hr_get_u32(&objects, object(0), words - 1),
		     ((uint32_t *)(void *)pager_disk_of(&pager, 0))[words - 1]);
	cr_assert_eq(hr_get_u64(&objects, object(0), HR_NO_INDEX), 0);
	cr_assert_eq(hr_get_u64(&objects, object(1), words / 2 - 1),
		     ((uint64_t *)(void *)pager_disk_of(&pager, 1))[words / 2 - 1]);
	cr_assert_eq(objects.error, 0);
	cr_assert_eq(hr_get_u32(&objects, object(1), words), 0);
	cr_assert_eq(objects.error, -ERANGE);
	cr_assert_eq(objects.error_object, 1);
	cr_assert_eq(objects.error_index, words);
	unmake();
	make(&small);
	cr_assert_null(hr_page(&objects, object(0), 10));
	cr_assert_eq(objects.error, -ERANGE);
	cr_assert_eq(objects.error_index, 10);
	unmake();
}

/* ---- a model: the bytes of the object, and of the disk after a flush */

static uint8_t model[10 * PAGE];
static uint8_t buffer[10 * PAGE];

static void random_read(struct fake_random *random, uint64_t offset, uint64_t bytes)
{
	const uint64_t size = object(0)->bytes, left = offset < size ? size - offset : 0;
	const int64_t want = (int64_t)(bytes < left ? bytes : left);
	int64_t id;

	if (fake_random_below(random, 2)) {
		cr_assert_eq(hr_pread(&objects, object(0), offset, buffer, bytes), want);
	} else {
		id = hr_pread_prefetch(&objects, object(0), offset, bytes);
		cr_assert_geq(id, 0);
		for (uint32_t i = fake_random_below(random, 8); i; i--)
			pager_step(&pager);
		cr_assert_eq(hr_consume_prefetch_pread(&objects, id, buffer, bytes), want);
	}
	cr_assert_eq(memcmp(buffer, model + offset, (size_t)want), 0, "offset %lu, %lu bytes",
		     offset, bytes);
}

static void random_write(struct fake_random *random, uint64_t offset, uint64_t bytes)
{
	const uint64_t size = object(0)->bytes, left = offset < size ? size - offset : 0;
	const uint64_t want = bytes < left ? bytes : left;

	for (uint64_t i = 0; i < bytes; i++)
		buffer[i] = (uint8_t)fake_random_u64(random);
	memcpy(model + offset, buffer, want);
	cr_assert_eq(hr_pwrite(&objects, object(0), offset, buffer, bytes), (int64_t)want);
}

static void random_element(struct fake_random *random)
{
	const uint64_t at = fake_random_below(random, (uint32_t)(object(0)->bytes / 8));
	const uint64_t value = fake_random_u64(random);

	switch (fake_random_below(random, 4)) {
	case 0:
		cr_assert_eq(hr_get_u32(&objects, object(0), at), ((uint32_t *)(void *)model)[at]);
		break;
	case 1:
		cr_assert_eq(hr_get_u64(&objects, object(0), at), ((uint64_t *)(void *)model)[at]);
		break;
	case 2:
		((uint32_t *)(void *)model)[at] = (uint32_t)value;
		hr_set_u32(&objects, object(0), at, (uint32_t)value);
		break;
	default:
		((uint64_t *)(void *)model)[at] = value;
		hr_set_u64(&objects, object(0), at, value);
	}
}

static void random_page(struct fake_random *random)
{
	const uint32_t at = fake_random_below(random, 10);
	const uint32_t bytes = at == 9 ? PAGE - 96 : PAGE;
	const void *page = hr_page(&objects, object(0), at);

	cr_assert_not_null(page);
	for (uint32_t i = 0; i < 4; i++, pager_step(&pager))
		cr_assert_eq(memcmp(page, model + at * PAGE, bytes), 0);
	hr_quiescent(&objects);
}

static void random_step(struct fake_random *random)
{
	const uint64_t offset = fake_random_below(random, 10 * PAGE + 64);
	const uint64_t bytes = fake_random_below(random, 4) ? fake_random_below(random, 40)
							    : fake_random_below(random, ROOM);

	switch (fake_random_below(random, 16)) {
	case 0:
		cr_assert_eq(hr_flush(&objects), 0);
		cr_assert_eq(memcmp(pager_disk_of(&pager, 0), model, object(0)->bytes), 0);
		break;
	case 1:
	case 2:
	case 3:
		random_write(random, offset, bytes);
		break;
	case 4:
	case 5:
	case 6:
		random_read(random, offset, bytes);
		break;
	case 7:
		random_page(random);
		break;
	case 8:
		pager_step(&pager);
		break;
	default:
		random_element(random);
	}
	cr_assert_eq(objects.error, 0);
}

Test(objects, random_calls_agree_with_a_model)
{
	struct fake_random random = { fake_random_seed("objects") };

	for (unsigned round = 0; round < 30; round++) {
		struct pager_shape shape = small;

		shape.frames = HR_WAYS * (1 + fake_random_below(&random, 3));
		shape.policy = fake_random_below(&random, HR_POLICIES);
		make(&shape);
		pager.delay = fake_random_below(&random, 3);
		pager.evict_one_of = fake_random_below(&random, 4);
		memcpy(model, pager_disk_of(&pager, 0), sizeof model);
		for (unsigned i = 0; i < 150; i++)
			random_step(&random);
		cr_assert_eq(hr_flush(&objects), 0);
		cr_assert_eq(memcmp(pager_disk_of(&pager, 0), model, object(0)->bytes), 0);
		unmake();
	}
}

/* ---- counts: a model of the pages in the cache, which follows the evictions of the pager */

Test(objects, counts_equal_the_models)
{
	struct fake_random random = { fake_random_seed("objects") };
	uint64_t accesses = 0;

	make(&small);
	for (unsigned i = 0; i < 2000; i++) {
		const uint64_t offset = fake_random_below(&random, 9 * PAGE);
		const uint64_t bytes = 1 + fake_random_below(&random, PAGE);

		if (fake_random_below(&random, 2)) {
			hr_get_u32(&objects, object(1), offset / 4);
			accesses++;
		} else {
			hr_pread(&objects, object(1), offset, buffer, bytes);
			accesses += (offset + bytes - 1) / PAGE - offset / PAGE + 1;
		}
	}
	cr_assert_eq(objects.accesses, accesses);
	/* Each miss was one request and one read; nothing was read twice for one miss. */
	cr_assert_eq(objects.misses, pager.did.reads);
	cr_assert_eq(pager.did.requests, pager.did.reads);
	cr_assert_eq(pager.did.merges, 0);
	cr_assert_eq(pager.did.evictions + pager_count(&pager, HR_PAGE_READY), pager.did.reads);
	cr_assert_eq(pager.did.write_backs, 0);
	hr_objects_end(&objects);
	cr_assert_eq(pager.cache.worker[0].accesses, accesses);
	cr_assert_eq(pager.cache.worker[0].misses, pager.did.reads);
	cr_assert_eq(pager.cache.worker[0].seen, HR_EPOCH_ENDED);
	pager_fini(&pager);
}

Test(objects, hits_write_nothing_but_recency)
{
	static struct hr_page_set before[2];
	struct hr_request_ring rings[2];

	make(&small);
	for (uint32_t i = 0; i < 6; i++)
		cr_assert_eq(hr_get_u32(&objects, object(1), i * 1024),
			     ((uint32_t *)(void *)pager_disk_of(&pager, 1))[i * 1024]);
	memcpy(before, pager.cache.set, sizeof before);
	memcpy(rings, pager.cache.ring, sizeof rings);
	for (uint32_t i = 0; i < 600; i++)
		hr_get_u32(&objects, object(1), i % 6 * 1024);
	cr_assert_eq(memcmp(before, pager.cache.set, sizeof before), 0);
	cr_assert_eq(memcmp(rings, pager.cache.ring, sizeof rings), 0);
	unmake();
}

Test(objects, prefetch_does_not_wait)
{
	struct pager_shape shape = small;
	int64_t id[100];

	shape.frames = 1000;
	shape.bytes[0] = 400 * PAGE;
	make(&shape);
	pager.asleep = true;
	for (uint32_t i = 0; i < 100; i++) { /* more requests than the rings hold */
		id[i] = hr_pread_prefetch(&objects, object(0), i * 4 * PAGE + i, 4 * PAGE);
		cr_assert_geq(id[i], 0);
	}
	cr_assert_eq(pager.did.requests, 0);
	pager.asleep = false;
	for (uint32_t i = 100; i-- > 0;) {
		cr_assert_eq(hr_consume_prefetch_pread(&objects, id[i], buffer, 100), 100);
		cr_assert_eq(memcmp(buffer, pager_disk_of(&pager, 0) + i * 4 * PAGE + i, 100), 0);
	}
	unmake();
}

/* A prefetch asks for at most half of the frames, so that it does not evict its own pages. */
Test(objects, a_prefetch_takes_at_most_half_of_the_frames)
{
	static const uint32_t frames[] = { 14, 28, 56 };
	struct pager_shape shape = small;

	shape.bytes[0] = 100 * PAGE;
	for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
		const uint32_t half = frames[i] / 2;

		for (uint32_t pages = half - 1; pages <= half + 2; pages++) {
			shape.frames = frames[i];
			make(&shape);
			cr_expect_geq(hr_pread_prefetch(&objects, object(0), 0, pages * PAGE), 0);
			for (unsigned step = 0; step < 1000; step++)
				pager_step(&pager);
			pager_settle(&pager);
			cr_expect_eq(pager.did.reads, pages < half ? pages : half, "%u of %u: %u",
				     pages, frames[i], (unsigned)pager.did.reads);
			unmake();
		}
	}
}

/* A page is requested once, and the call does not wait; beyond the object there is none. */
Test(objects, a_page_requested_ahead_is_not_requested_again)
{
	struct pager_shape shape = small;

	shape.frames = 1000;
	shape.bytes[0] = 8 * PAGE;
	make(&shape);
	pager.asleep = true;
	for (uint32_t page = 0; page < 10; page++)
		hr_page_prefetch(&objects, object(0), page < 9 ? page : HR_NO_INDEX);
	cr_assert_eq(objects.error, 0);
	cr_assert_eq(pager.did.requests, 0);
	pager.asleep = false;
	cr_assert_eq(hr_pread(&objects, object(0), 0, buffer, 8 * PAGE), 8 * PAGE);
	cr_assert_eq(memcmp(buffer, pager_disk_of(&pager, 0), 8 * PAGE), 0);
	cr_assert_eq(pager.did.reads, 8);
	pager.did.requests = 0;
	hr_page_prefetch(&objects, object(0), 3);
	cr_assert_eq(hr_get_u32(&objects, object(0), 3 * PAGE / 4),
		     *(const uint32_t *)(const void *)(pager_disk_of(&pager, 0) + 3 * PAGE));
	cr_assert_eq(pager.did.requests, 0, "a cached page was requested");
	unmake();
}

/* ---- errors, and the end of a run */

Test(objects, a_page_with_an_error_fails_every_kind_of_call)
{
	for (uint32_t i = 0; i < 6; i++) {
		make(&small);
		pager.bad_page = object(0)->first_page + 3;
		if (i == 0)
			cr_assert_eq(hr_pread(&objects, object(0), 2 * PAGE, buffer, 3 * PAGE),
				     -EIO);
		else if (i == 1)
			cr_assert_eq(hr_pwrite(&objects, object(0), 4 * PAGE - 1, buffer, 8), -EIO);
		else if (i == 2)
			cr_assert_eq(hr_get_u64(&objects, object(0), 3 * PAGE / 8), 0);
		else if (i == 3)
			cr_assert_null(hr_page(&objects, object(0), 3));
		else if (i == 4)
			hr_set_u32(&objects, object(0), 3 * PAGE / 4, 1);
		else
			cr_assert_eq(hr_consume_prefetch_pread(
					     &objects,
					     hr_pread_prefetch(&objects, object(0), 3 * PAGE, 1),
					     buffer, 1),
				     -EIO);
		cr_assert_eq(objects.error, -EIO, "case %u: %d", i, objects.error);
		cr_assert_eq(objects.error_object, HR_NO_PAGE, "case %u", i);
		cr_assert_eq(objects.error_index, 0, "case %u", i);
		cr_assert_eq(pager.did.errors, 1);
		unmake();
	}
}

/* The page leaves the table, and other pages are read, but not into its frame. */
Test(objects, a_held_page_keeps_its_frame)
{
	const uint8_t *page;

	make(&small);
	page = hr_page(&objects, object(1), 0);
	pager.evict_one_of = 1;
	while (pager_count(&pager, HR_PAGE_READY))
		pager_step(&pager);
	pager.evict_one_of = 0;
	for (uint32_t i = 1; i < 6; i++) {
		hr_get_u32(&objects, object(0), i * 1024);
		cr_assert_eq(memcmp(page, pager_disk_of(&pager, 1), PAGE), 0, "step %u", i);
	}
	cr_assert_eq(pager_count(&pager, HR_PAGE_LEFT), 1);
	hr_quiescent(&objects);
	for (; pager_count(&pager, HR_PAGE_LEFT); hr_quiescent(&objects))
		pager_step(&pager);
	unmake();
}

#ifdef __SANITIZE_ADDRESS__
Test(objects, use_of_a_page_after_quiescent_is_reported)
{
	for (uint32_t i = 0; i < 2; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			const volatile uint8_t *page;

			close(2); /* the report */
			make(&small);
			page = hr_page(&objects, object(0), 1);
			if (page[0] != pager_disk_of(&pager, 0)[PAGE])
				_exit(2);
			if (i)
				hr_quiescent(&objects);
			_exit(page[100] == pager_disk_of(&pager, 0)[PAGE + 100] ? 0 : 3);
		}
		cr_assert_gt(child, 0);
		cr_assert_eq(waitpid(child, &status, 0), child);
		if (i)
			cr_assert(!WIFEXITED(status) || WEXITSTATUS(status) == 1,
				  "the use was not reported: status %x", (unsigned)status);
		else
			cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x",
				  (unsigned)status);
	}
}
#endif

/* ---- threads: each writes its own elements of one object, all read all of another */

#define THREADS 4u
#define ROUNDS 3u
#define ELEMENTS (8 * PAGE / 8)

static const struct pager_shape shared = {
	.frames = 21,
	.page_shift = 12,
	.computers = THREADS,
	.io_workers = 2,
	.objects = 2,
	.bytes = { 8 * PAGE, 12 * PAGE },
	.read_only = { false, true },
};

static void check_all(struct hr_objects *o, uint32_t round)
{
	for (uint64_t i = o->worker; i < ELEMENTS; i += 37)
		cr_assert_eq(hr_get_u64(o, hr_get_object_map(o, 0), i),
			     (uint64_t)round << 32 | i * 3);
}

static void write_own(struct hr_objects *o, uint32_t round, struct fake_random *random)
{
	const struct hr_object *mine = hr_get_object_map(o, 0), *all = hr_get_object_map(o, 1);
	const uint64_t *disk = (const uint64_t *)(void *)pager_disk_of(&pager, 1);

	for (uint64_t i = o->worker; i < ELEMENTS; i += THREADS) {
		const uint64_t value = (uint64_t)round << 32 | i * 3;
		const uint64_t at = fake_random_below(random, 12 * PAGE / 8);

		if (i % 3)
			hr_set_u64(o, mine, i, value);
		else
			cr_assert_eq(hr_pwrite(o, mine, i * 8, &value, 8), 8);
		if (i % 8 == 0)
			cr_assert_eq(hr_get_u64(o, all, at), disk[at]);
	}
}

static void *thread_main(void *argument)
{
	struct fake_random random = { fake_random_seed("objects") + (uintptr_t)argument };
	struct hr_objects o;

	hr_objects_begin(&o, &pager.cache, (uint32_t)(uintptr_t)argument, NULL, 0);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		write_own(&o, round, &random);
		cr_assert_eq(hr_workers_sync(&o), 0);
		check_all(&o, round);
		if (o.worker == round % THREADS)
			cr_assert_eq(hr_flush(&o), 0);
		cr_assert_eq(hr_workers_sync(&o), 0);
	}
	cr_assert_eq(hr_objects_end(&o), 0);
	return NULL;
}

Test(objects, threads_see_each_others_writes_after_a_barrier)
{
	pthread_t thread[THREADS];

	for (uint32_t policy = 0; policy < HR_POLICIES; policy++) {
		struct pager_shape shape = shared;
		uint64_t *disk;

		shape.policy = policy;
		pager_init(&pager, &shape, fake_random_seed("objects"));
		pager.evict_one_of = 5;
		pager_start(&pager);
		for (uintptr_t i = 0; i < THREADS; i++)
			cr_assert_eq(pthread_create(&thread[i], NULL, thread_main, (void *)i), 0);
		for (uint32_t i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		pager_stop(&pager);
		disk = (uint64_t *)(void *)pager_disk_of(&pager, 0);
		for (uint64_t i = 0; i < ELEMENTS; i++)
			cr_assert_eq(disk[i], (uint64_t)ROUNDS << 32 | i * 3, "element %lu", i);
		pager_fini(&pager);
	}
}
