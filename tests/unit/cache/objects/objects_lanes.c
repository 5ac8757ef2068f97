/* SPDX-License-Identifier: Apache-2.0 */
/* The collective code of cache/objects/objects.h: workers with several lanes, whose pages differ. */
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/objects/objects.h"
#include "cache/objects/run.h"
#include "tests/fakes/pager.h"
#include "tests/harness/random.h"

TestSuite(objects_lanes, .timeout = 120);

#define PAGE 4096u
#define PAGES 96u
#ifndef ROUNDS
#define ROUNDS 40u
#endif

/* Pages between those that a lane takes one after the other: with lane / 2 all are taken. */
#define STEP 4u

/* Elements that each lane writes. With the thread sanitizer collective calls cost much. */
#define OWN (HR_LANES > 32 ? 4u : 12u)

static struct pager pager;
static uint8_t model[PAGES * PAGE];
static uint8_t shared[4][2 * PAGE]; /* memory of each worker for transfers */

/* One set; a few; more than the pages. */
static struct pager_shape shape = { .frames = 7,
				    .page_shift = 12,
				    .computers = 1,
				    .io_workers = 3,
				    .objects = 2,
				    .bytes = { PAGES * PAGE, PAGES *PAGE - 8 },
				    .read_only = { false, true } };

static void run(void (*body)(void), uint32_t blocks, uint32_t warps)
{
	shape.computers = blocks * warps;
	pager_init(&pager, &shape, fake_random_seed("objects_lanes"));
	pager.patience = 0;
	memcpy(model, pager_disk_of(&pager, 0), sizeof model);
	pager_start(&pager);
	cr_assert(fake_blocks_run(body, blocks, warps));
	pager_stop(&pager);
}

static uint32_t this_worker(void)
{
	return fake_block->number * hr_warps() + hr_warp();
}

/* Numbers that differ between lanes (differ = 1), or are the same in all of a worker. */
static struct fake_random numbers(uint32_t differ)
{
	return (struct fake_random){ fake_random_seed("objects_lanes") + 1000 * this_worker() +
				     differ * (1 + hr_lane()) };
}

/* ---- one worker: each lane owns the elements whose index is its number modulo HR_LANES */

static uint64_t random_index(struct fake_random *random)
{
	const uint32_t elements = PAGES * PAGE / 8 / HR_LANES;

	if (fake_random_below(random, 8) == 0)
		return HR_NO_INDEX;
	return (uint64_t)fake_random_below(random, elements) * HR_LANES + hr_lane();
}

static void check_element(struct hr_objects *o, struct fake_random *random)
{
	const uint64_t index = random_index(random), value = fake_random_u64(random);
	uint64_t *of_model = (uint64_t *)(void *)model;

	if (fake_random_below(random, 2) && index != HR_NO_INDEX)
		of_model[index] = value;
	hr_set_u64(o, hr_get_object_map(o, 0), index, index == HR_NO_INDEX ? 0 : of_model[index]);
	cr_assert_eq(hr_get_u64(o, hr_get_object_map(o, 0), index),
		     index == HR_NO_INDEX ? 0 : of_model[index], "lane %u, index %lu", hr_lane(),
		     index);
}

static void check_transfer(struct hr_objects *o, struct fake_random *same)
{
	const uint64_t offset = fake_random_below(same, PAGES * PAGE);
	const uint64_t bytes = fake_random_below(same, 2 * PAGE);
	const uint64_t left = PAGES * PAGE - offset, want = bytes < left ? bytes : left;
	const uint32_t skew = fake_random_below(same, 2) ? 0 : (uint32_t)offset & 15;
	uint8_t *buffer = shared[0] + (bytes < 2 * PAGE - 16 ? skew : 0);

	hr_lanes_sync(); /* the model is complete, and the buffer is not in use */
	cr_assert_eq(hr_pread(o, hr_get_object_map(o, 0), offset, buffer, bytes), (int64_t)want);
	cr_assert_eq(memcmp(buffer, model + offset, want), 0, "offset %lu, %lu bytes", offset,
		     want);
	hr_lanes_sync();
	for (uint64_t i = hr_lane(); i < want; i += HR_LANES)
		buffer[i] = model[offset + i] = (uint8_t)(buffer[i] + 1);
	cr_assert_eq(hr_pwrite(o, hr_get_object_map(o, 0), offset, buffer, bytes), (int64_t)want);
}

static void check_pages(struct hr_objects *o, struct fake_random *random, struct fake_random *same)
{
	const bool one = fake_random_below(same, 2); /* the same page in all lanes */
	const uint32_t at = fake_random_below(one ? same : random, PAGES - 1);
	const bool want = one || hr_lane() < 4;
	const uint8_t *page = hr_page(o, hr_get_object_map(o, 1), want ? at : HR_NO_INDEX);

	if (want)
		cr_assert_eq(memcmp(page, pager_disk_of(&pager, 1) + at * PAGE, PAGE), 0);
	else
		cr_assert_null(page);
	hr_quiescent(o);
}

static void one_worker(void)
{
	struct fake_random random = numbers(1), same = numbers(0);
	struct hr_objects o;
	int64_t id;

	hr_objects_begin(&o, &pager.cache, 0, NULL, 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		check_element(&o, &random);
		if (i % 4 == 0)
			check_transfer(&o, &same);
		if (i % 4 == 1)
			check_pages(&o, &random, &same);
		if (i % 4 == 2) {
			id = hr_pread_prefetch(&o, hr_get_object_map(&o, 1), i * PAGE / 2,
					       3 * PAGE);
			cr_assert_eq(hr_consume_prefetch_pread(&o, id, shared[0], 99), 99);
			cr_assert_eq(memcmp(shared[0], pager_disk_of(&pager, 1) + i * PAGE / 2, 99),
				     0);
			hr_lanes_sync();
		}
	}
	cr_assert_eq(hr_flush(&o), 0);
	cr_assert_eq(memcmp(pager_disk_of(&pager, 0), model, sizeof model), 0);
	cr_assert_eq(hr_objects_end(&o), 0);
}

Test(objects_lanes, lanes_with_different_pages_agree_with_a_model)
{
	static const uint64_t frames[] = { 7 * 4, 7, 7 * 64 };

	for (uint32_t i = 0; i < (HR_LANES > 32 ? 1 : 3); i++) {
		shape.frames = frames[i];
		shape.policy = i;
		run(one_worker, 1, 1);
		pager_fini(&pager);
	}
}

/* ---- one fetch per missing page */

static void gather(void)
{
	struct hr_objects o;

	hr_objects_begin(&o, &pager.cache, this_worker(), NULL, 0);
	for (uint32_t i = 0; i < PAGES; i += STEP) {
		const uint64_t index = ((i + hr_lane() / 2) % PAGES * PAGE + hr_lane() * 8) / 8;
		const uint64_t *disk = (const uint64_t *)(void *)pager_disk_of(&pager, 0);

		cr_assert_eq(hr_get_u64(&o, hr_get_object_map(&o, 0), index), disk[index]);
	}
	cr_assert_eq(hr_objects_end(&o), 0);
}

Test(objects_lanes, a_page_is_read_once_however_many_lanes_want_it)
{
	uint64_t misses = 0;

	shape.frames = 7 * 256;
	run(gather, 2, 1);
	for (uint32_t i = 0; i < PAGES; i++)
		cr_assert_eq(pager.reads_of[i], 1, "page %u: %u reads", i, pager.reads_of[i]);
	cr_assert_eq(pager.did.evictions, 0);
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(pager.cache.worker[i].accesses, PAGES / STEP * HR_LANES);
		misses += pager.cache.worker[i].misses;
	}
	cr_assert_geq(misses, PAGES);
	cr_assert_eq(pager.did.requests, PAGES + pager.did.merges);
	cr_assert_leq(pager.did.requests, 2 * PAGES, "lanes of a worker requested a page twice");
	pager_fini(&pager);
}

/* ---- a single lane whose page is missing, beside lanes without a page and lanes that find theirs */

static void one_misses(void)
{
	struct hr_objects o;

	hr_objects_begin(&o, &pager.cache, 0, NULL, 0);
	for (uint32_t i = 1; i < PAGES; i++) {
		const bool mine = hr_lane() == i % HR_LANES;
		/* page 0 of the object is cached from the second round on */
		const uint64_t other = i > 1 && hr_lane() % 2 ? hr_lane() : HR_NO_INDEX;
		const uint64_t at = mine ? (uint64_t)i * PAGE / 8 + i : other;
		const uint64_t got = hr_get_u64(&o, hr_get_object_map(&o, 0), at);
		const uint64_t *disk = (const uint64_t *)(const void *)pager_disk_of(&pager, 0);

		cr_assert_eq(got, at == HR_NO_INDEX ? 0 : disk[at], "lane %u, index %lu", hr_lane(),
			     at);
		if (i == 1)
			hr_get_u32(&o, hr_get_object_map(&o, 0), hr_lane() == 5 ? 1 : HR_NO_INDEX);
	}
	cr_assert_eq(hr_objects_end(&o), 0);
}

Test(objects_lanes, a_single_lane_misses)
{
	shape.frames = 7 * 256;
	run(one_misses, 1, 1);
	for (uint32_t i = 0; i < PAGES; i++)
		cr_assert_eq(pager.reads_of[i], 1, "page %u: %u reads", i, pager.reads_of[i]);
	cr_assert_eq(pager.cache.worker[0].misses, PAGES);
	cr_assert_eq(pager.did.requests, PAGES);
	pager_fini(&pager);
	shape.frames = 7;
	run(one_misses, 1, 1);
	cr_assert_gt(pager.did.evictions, 0);
	pager_fini(&pager);
}

/* A set that lanes watch, and its ways with the page. */
static struct hr_page_set watched;
static uint32_t watched_ways;

static void watch(void)
{
	uint32_t word;

	cr_assert_eq(hr_single_miss_poll(&watched, 9, &word), watched_ways);
	if (hr_lane() < HR_WAYS)
		cr_assert_eq(word, watched.tag[hr_lane()], "lane %u", hr_lane());
	else
		cr_assert_eq(word, watched.recency, "lane %u", hr_lane());
}

Test(objects_lanes, each_lane_watches_its_word_of_a_set)
{
	const uint32_t page = HR_PAGE_WORD(9, HR_PAGE_READY);

	for (uint32_t i = 0; i < HR_WAYS; i++)
		watched.tag[i] = HR_PAGE_WORD(i + 1, HR_PAGE_READY);
	watched.recency = page; /* it is no way, whatever its value is */
	cr_assert(fake_lanes_run(watch));
	for (uint32_t i = 0; i < HR_WAYS; i += HR_WAYS - 1) {
		watched.tag[i] = page;
		watched_ways |= 1u << i;
		cr_assert(fake_lanes_run(watch));
	}
}

/* ---- errors: all lanes return */

static void fail_one_lane(void)
{
	struct hr_objects o;

	hr_objects_begin(&o, &pager.cache, 0, NULL, 0);
	hr_get_u64(&o, hr_get_object_map(&o, 0), hr_lane() == 3 ? UINT64_MAX - 1 : hr_lane());
	cr_assert_eq(o.error, -ERANGE);
	cr_assert_eq(o.error_object, 0);
	cr_assert_eq(o.error_index, UINT64_MAX - 1);
	cr_assert_eq(hr_get_u64(&o, hr_get_object_map(&o, 0), hr_lane()), 0);
	cr_assert_eq(hr_objects_end(&o), -ERANGE);
}

static void read_bad(void)
{
	struct hr_objects o;

	hr_objects_begin(&o, &pager.cache, 0, NULL, 0);
	hr_get_u64(&o, hr_get_object_map(&o, 0), (uint64_t)hr_lane() * PAGE / 8);
	cr_assert_eq(o.error, -EIO);
	cr_assert_eq(hr_objects_end(&o), -EIO);
}

static void one_reads_bad(void)
{
	struct hr_objects o;

	hr_objects_begin(&o, &pager.cache, 0, NULL, 0);
	cr_assert_eq(hr_get_u64(&o, hr_get_object_map(&o, 0),
				hr_lane() == 2 ? 5 * PAGE / 8 : HR_NO_INDEX),
		     0);
	cr_assert_eq(o.error, -EIO);
	cr_assert_eq(hr_objects_end(&o), -EIO);
}

Test(objects_lanes, an_error_of_one_lane_is_an_error_of_the_worker)
{
	shape.frames = 7 * 64;
	run(fail_one_lane, 1, 1);
	pager_fini(&pager);
	pager_init(&pager, &shape, 1);
	pager.bad_page = 5;
	pager_start(&pager);
	cr_assert(fake_lanes_run(read_bad));
	pager_stop(&pager);
	pager_fini(&pager);
	pager_init(&pager, &shape, 1);
	pager.bad_page = 5;
	pager_start(&pager);
	cr_assert(fake_lanes_run(one_reads_bad));
	pager_stop(&pager);
	pager_fini(&pager);
}

/* ---- pages that cannot be in the cache at the same time */

static void take_all(void)
{
	struct hr_objects o;

	hr_objects_begin(&o, &pager.cache, 0, NULL, 0);
	cr_assert_null(hr_page(&o, hr_get_object_map(&o, 0), hr_lane()));
	cr_assert_eq(o.error, -EDEADLK);
	cr_assert_eq(hr_objects_end(&o), -EDEADLK);
}

Test(objects_lanes, more_pages_than_frames_end_the_run)
{
	shape.frames = 7;
	pager_init(&pager, &shape, 1);
	pager.patience = 2000;
	pager_start(&pager);
	cr_assert(fake_lanes_run(take_all));
	pager_stop(&pager);
	pager_fini(&pager);
}

/* ---- several workers: each lane writes its own elements, then all read all of them */

static void write_and_read(void)
{
	const uint32_t lanes = shape.computers * HR_LANES,
		       me = this_worker() * HR_LANES + hr_lane();
	const uint32_t stride = (PAGES * PAGE / 4 / (OWN * lanes) - 1) | 1;
	const struct hr_object *object;
	struct hr_objects o;

	hr_objects_begin(&o, &pager.cache, this_worker(), NULL, 0);
	object = hr_get_object_map(&o, 0);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < OWN; i++)
			hr_set_u32(&o, object, (uint64_t)(me + i * lanes) * stride,
				   me + i * lanes + round);
		cr_assert_eq(hr_workers_sync(&o), 0);
		for (uint32_t i = 0; i < OWN; i++) {
			const uint32_t other = (me + 7 + i * lanes) % (OWN * lanes);
			const uint32_t got = hr_get_u32(&o, object, (uint64_t)other * stride);

			cr_assert_eq(got, other + round, "element %u: %u, round %u, error %d",
				     other, got, round, o.error);
		}
		cr_assert_eq(hr_workers_sync(&o), 0);
	}
	cr_assert_eq(hr_objects_end(&o), 0);
}

Test(objects_lanes, workers_see_each_others_writes_after_a_barrier)
{
	shape.frames = 7 * 4;
	run(write_and_read, 2, HR_LANES > 32 ? 1 : 2);
	pager_fini(&pager);
}
