/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several gpus read and write the same pages at random, against a reference model. Each 8-byte element
 * has one writer; its value has a version. A reader gets no version before the latest acknowledged one,
 * and none that was not written. At the end the disk has the last versions.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/objects/objects.h"
#include "cache/page_policy.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "tests/harness/access_rig.h"
#include "tests/harness/random.h"
#include "tests/harness/threads.h"

#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define PAGES 40u
#define PAGE_WORDS (4096u / 8)
#define WORDS (PAGES * PAGE_WORDS)

/* A controller may read a frame that a worker writes to; the page is written again then. The thread
 * sanitizer reports this, so its builds use staging memory. */
#ifdef __SANITIZE_THREAD__
#define STAGING true
#else
#define STAGING false
#endif

TestSuite(io_peers_stress, .timeout = 200);

static struct access_rig rig;

/*
 * For each element: the version that its writer began to write, and the version that was
 * acknowledged.
 */
static uint32_t begun[WORDS], acknowledged[WORDS];
static uint32_t accesses; /* elements of a worker */
static uint32_t hot;	  /* pages that are used */

/* The elements that are used: few of a page, so that workers meet. */
static uint32_t element(struct fake_random *random)
{
	const uint64_t r = fake_random_u64(random);

	return (uint32_t)(r >> 32) % hot * PAGE_WORDS + (uint32_t)(r >> 20) % 12;
}

static uint64_t value_of(uint32_t i, uint32_t version)
{
	const uint64_t *first = (const uint64_t *)(const void *)rig.model[0];

	return version ? (uint64_t)(i + 1) << 32 | version : first[i];
}

/* The oldest version that a read may return if it begins now. */
static uint32_t least(uint32_t i)
{
	return __atomic_load_n(&acknowledged[i], __ATOMIC_ACQUIRE);
}

static void check(uint32_t i, uint64_t value, uint32_t from)
{
	const uint32_t to = __atomic_load_n(&begun[i], __ATOMIC_ACQUIRE);

	for (uint32_t version = from; version <= to; version++)
		if (value == value_of(i, version))
			return;
	cr_assert_fail("element %u is %llx, none of versions %u to %u", i,
		       (unsigned long long)value, from, to);
}

static void write_one(struct hr_objects *objects, const struct hr_object *o, uint32_t i, bool whole)
{
	const uint32_t version = begun[i] + 1;
	const uint64_t value = value_of(i, version);

	__atomic_store_n(&begun[i], version, __ATOMIC_RELEASE);
	if (whole)
		(void)hr_pwrite(objects, o, (uint64_t)i * 8, &value, sizeof value);
	else
		hr_set_u64(objects, o, i, value);
	if (!objects->error)
		__atomic_store_n(&acknowledged[i], version, __ATOMIC_RELEASE);
}

/* Read a piece of up to two pages. */
static void read_piece(struct hr_objects *objects, const struct hr_object *o, uint32_t first)
{
	static __thread uint64_t data[2 * PAGE_WORDS];
	static __thread uint32_t from[2 * PAGE_WORDS];
	const uint32_t n = WORDS - first < 600 ? WORDS - first : 600;

	for (uint32_t k = 0; k < n; k++)
		from[k] = least(first + k);
	if (hr_pread(objects, o, (uint64_t)first * 8, data, n * 8) < 0)
		return;
	for (uint32_t k = 0; k < n; k++)
		check(first + k, data[k], from[k]);
}

/* While a worker keeps a page, no write of another gpu is acknowledged. In builds with the address
 * sanitizer the page is a copy, which does not change when this gpu writes. */
#ifdef __SANITIZE_ADDRESS__
#define LEAST_KEPT(i) 0
#else
#define LEAST_KEPT(i) least(i)
#endif

/* Read an element of a page in place, some time after the page was found. */
static void read_in_place(struct hr_objects *objects, const struct hr_object *o, uint32_t i)
{
	const uint32_t first = i / PAGE_WORDS * PAGE_WORDS;
	const uint64_t *page = hr_page(objects, o, i / PAGE_WORDS);

	if (page && !objects->error) {
		uint32_t from;

		for (uint32_t n = 0; n < 100; n++)
			hr_yield();
		from = LEAST_KEPT(i);
		check(i, __atomic_load_n(&page[i - first], __ATOMIC_RELAXED), from);
	}
	hr_quiescent(objects);
}

static void act(struct hr_objects *objects, const struct hr_object *o, struct fake_random *random)
{
	const uint32_t what = (uint32_t)(fake_random_u64(random) >> 33) % 32;
	uint32_t i = element(random), from;

	if (what < 10) { /* its own element of the page */
		i = i / PAGE_WORDS * PAGE_WORDS + objects->worker;
		write_one(objects, o, i, what & 1);
	} else if (what < 26) {
		from = least(i);
		check(i, hr_get_u64(objects, o, i), objects->error ? 0 : from);
	} else if (what < 28) {
		read_piece(objects, o, i);
	} else if (what < 29) {
		read_in_place(objects, o, i);
	} else if (what < 30) {
		(void)hr_pread_prefetch(objects, o, (uint64_t)i * 8, 4096);
	} else if (what == 30) {
		(void)hr_flush(objects);
	}
}

static void mix(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	struct fake_random random = { rig.seed + 1000 + objects->worker };

	for (uint32_t n = 0; n < accesses && !objects->error; n++)
		act(objects, o, &random);
	(void)hr_workers_sync(objects);
	for (uint32_t i = 0; i < hot * PAGE_WORDS && !objects->error; i += 97) {
		const uint64_t value = hr_get_u64(objects, o, i);

		if (!objects->error)
			cr_assert_eq(value, value_of(i, begun[i]), "element %u", i);
	}
}

static void stress(struct access_work work, uint32_t pages, uint32_t count)
{
	const struct hr_failure *failure;
	char text[HR_LOG_LINE_MAX];

	work.objects = 1;
	work.bytes[0] = (uint64_t)WORDS * 8;
	work.writable = 1;
	hot = pages;
	accesses = count;
	memset(begun, 0, sizeof begun);
	memset(acknowledged, 0, sizeof acknowledged);
	rig.op.run = mix;
	access_start(&rig, &work);
	access_wait(&rig);
	failure = access_failure(&rig);
	if (failure)
		cr_assert_fail("%s, page %llu, gpu %d",
			       hr_error_name(failure->error, text, sizeof text),
			       (unsigned long long)failure->tile, (int)failure->peer - 1);
	for (uint32_t i = 0; i < WORDS; i++)
		((uint64_t *)(void *)rig.model[0])[i] = value_of(i, begun[i]);
	access_check_disk(&rig, 0);
}

static void up(void)
{
	access_up(&rig, 1, "lba=512", NULL, 64, TIMEOUT_NS);
}

Test(io_peers_stress, two_gpus_with_room_for_all_pages)
{
	const struct access_work work = {
		.frames = 400, .io = 1, .compute = 2, .staging = STAGING, .gpus = 2
	};

	up();
	stress(work, PAGES, 200);
	access_down(&rig);
}

Test(io_peers_stress, one_hot_page)
{
	const struct access_work work = {
		.frames = 56, .io = 1, .compute = 2, .staging = STAGING, .gpus = 3
	};

	up();
	stress(work, 1, 100);
	access_down(&rig);
}

Test(io_peers_stress, caches_of_one_set)
{
	const struct access_work work = {
		.frames = 7, .io = 1, .compute = 2, .staging = STAGING, .gpus = 2
	};

	up();
	stress(work, PAGES, 120);
	access_down(&rig);
}

Test(io_peers_stress, small_caches_of_three_gpus)
{
	up();
	for (uint32_t policy = 0; policy < HR_POLICIES; policy++) {
		const struct access_work work = { .frames = 28,
						  .policy = policy,
						  .io = 2,
						  .compute = 2,
						  .commands = policy == 0 ? 2 : 16,
						  .staging = STAGING || policy == 1,
						  .gpus = 3 };

		stress(work, 30, 60 / THREAD_STEP(2u));
	}
	access_down(&rig);
}
