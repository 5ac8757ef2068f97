/* SPDX-License-Identifier: Apache-2.0 */
/* Object store: results and effects of each call, on a working disk and on a failing one. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cache/store/store.h"
#include "tests/fakes/memdisk.h"
#include "tests/harness/error.h"
#include "tests/harness/store.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MEDIA_ERROR 0x281 /* Unrecovered Read Error */

static struct fake_store f;

static void setup(void)
{
	fake_store_init(&f, 4096);
}

static void teardown(void)
{
	fake_store_fini(&f);
}

/* Replaces the C library's function: the wall clock is the test's, the other clocks are real. */
static struct timespec wall_clock;
static bool wall_clock_set;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (clock != CLOCK_REALTIME || !wall_clock_set)
		return (int)syscall(SYS_clock_gettime, clock, now);
	*now = wall_clock;
	return 0;
}

TestSuite(objmap, .init = setup, .fini = teardown, .timeout = 60);

static void expect_layout(const struct hr_store_object *object, uint64_t unit, uint64_t units)
{
	cr_expect_eq(object->offset, HR_STORE_DATA_ALIGN + unit * HR_STORE_ALIGN);
	cr_expect_eq(object->capacity, units * HR_STORE_ALIGN);
}

Test(objmap, a_clock_before_1970_gives_no_time)
{
	static const struct {
		struct timespec now;
		uint64_t want;
	} row[] = {
		{ { -1, 999999999 }, 0 },
		{ { -825033600, 0 }, 0 },
		{ { 0, 5 }, 5 },
		{ { 1600000000, 7 }, 1600000000000000007 },
	};
	struct hr_store_object *object;
	char name[8];

	for (size_t i = 0; i < ROWS(row); i++) {
		snprintf(name, sizeof name, "o%zu", i);
		wall_clock = row[i].now;
		wall_clock_set = true;
		cr_assert_eq(hr_store_create(&f.store, name, 1, 0, false, &object, NULL), 0);
		wall_clock_set = false;
		cr_expect_eq(object->created_ns, row[i].want, "row %zu: %llu", i,
			     (unsigned long long)object->created_ns);
	}
}

Test(objmap, objects_are_made_found_and_kept)
{
	struct hr_store_object *object, *found;

	cr_assert_eq(hr_store_create(&f.store, "rows", 5000, 77, false, &object, NULL), 0);
	cr_expect_eq(object->id, 1);
	cr_expect_str_eq(object->name, "rows");
	cr_expect_eq(object->bytes, 5000);
	cr_expect_eq(object->durable_bytes, 0);
	cr_expect_eq(object->tag, 77);
	cr_expect_eq(object->flags, HR_OBJECT_PENDING);
	cr_expect_gt(object->created_ns, 1600000000ull * 1000000000);
	expect_layout(object, 0, 2);
	cr_assert_eq(hr_store_progress(&f.store, 1, 4096, 7, 0xabcd, NULL), 0);

	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_null(hr_store_find(&f.store, "rows"));
	found = hr_store_find_pending(&f.store, "rows");
	cr_assert_not_null(found);
	cr_expect_eq(found->durable_bytes, 4096);
	cr_assert_eq(hr_store_finish(&f.store, 1, true, 0x1234, NULL), 0);

	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_null(hr_store_find_pending(&f.store, "rows"));
	found = hr_store_find(&f.store, "rows");
	cr_assert_not_null(found);
	cr_expect_eq(hr_store_find_id(&f.store, 1), found);
	cr_expect_eq(found->flags, HR_OBJECT_HAS_CRC);
	cr_expect_eq(found->crc, 0x1234);
	cr_expect_eq(found->durable_bytes, 5000);
	cr_assert_eq(hr_store_remove(&f.store, 1, NULL), 0);

	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_eq(f.store.count, 0);
	cr_expect_null(hr_store_find(&f.store, "rows"));
	cr_expect_null(hr_store_find_id(&f.store, 1));
}

Test(objmap, ids_are_never_used_again)
{
	for (uint64_t id = 1; id < 10; id++) {
		cr_assert_eq(fake_store_put(&f, "a", 1), id);
		cr_assert_eq(hr_store_remove(&f.store, id, NULL), 0);
		cr_assert_eq(fake_store_reopen(&f), 0);
	}
}

/* After a removal the old record is in memory after the last one, and must not be found. */
Test(objmap, the_newest_object_is_gone_once_removed)
{
	const uint64_t first = fake_store_put(&f, "a", 1), newest = fake_store_put(&f, "b", 1);
	uint64_t generation;

	cr_assert_eq(hr_store_remove(&f.store, newest, NULL), 0);
	generation = f.store.generation;
	cr_expect_null(hr_store_find_id(&f.store, newest));
	cr_expect_null(hr_store_find(&f.store, "b"));
	cr_expect_eq(hr_store_progress(&f.store, newest, 1, 0, 0, NULL), -ENOENT);
	cr_expect_eq(hr_store_finish(&f.store, newest, false, 0, NULL), -ENOENT);
	cr_expect_eq(hr_store_remove(&f.store, newest, NULL), -ENOENT);
	cr_expect_eq(f.store.generation, generation, "nothing was committed");
	cr_assert_eq(hr_store_remove(&f.store, first, NULL), 0);
	cr_expect_null(hr_store_find_id(&f.store, first), "none is left");
	cr_expect_eq(f.store.count, 0);
}

/* The commit that assigned id 2 is lost, and id 2 is not assigned again. */
Test(objmap, ids_of_a_lost_generation_are_not_used_again_either)
{
	struct hr_store_object *object;

	fake_store_put(&f, "a", 1);
	cr_assert_eq(hr_store_create(&f.store, "b", 1, 0, false, &object, NULL), 0);
	cr_assert_eq(object->id, 2);
	fake_store_map(&f, f.store.active)->name[0] ^= 1;
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_assert_eq(f.store.count, 1);
	cr_expect_eq(fake_store_put(&f, "c", 1), 3);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_not_null(hr_store_find(&f.store, "c"));
}

Test(objmap, create_ends_in_each_documented_way)
{
	static const struct {
		const char *name;
		uint64_t bytes;
		bool replace;
		int want;
	} row[] = {
		{ "whole", 1, false, -EEXIST },
		{ "part", 1, false, -EBUSY },
		{ "", 1, false, -EINVAL },
		{ "a/b", 1, false, -EINVAL },
		{ "tab\t", 1, false, -EINVAL },
		{ "\xc3\xa4", 1, false, -EINVAL },
		{ "0123456789012345678901234567890123456789012345678901234567890123", 1, false,
		  -EINVAL },
		{ "big", FAKE_STORE_DATA - 2 * HR_STORE_ALIGN + 1, false, -ENOSPC },
		{ "huge", UINT64_MAX, false, -ENOSPC },
		{ "whole", FAKE_STORE_DATA, true, -ENOSPC },
		{ "fits", FAKE_STORE_DATA - 2 * HR_STORE_ALIGN, false, 0 },
	};
	struct hr_store_object *object;

	fake_store_put(&f, "whole", 1);
	cr_assert_eq(hr_store_create(&f.store, "part", 1, 0, false, &object, NULL), 0);
	for (size_t i = 0; i < ROWS(row); i++) {
		const uint64_t generation = f.store.generation;
		const int got = hr_store_create(&f.store, row[i].name, row[i].bytes, 0,
						row[i].replace, &object, NULL);

		cr_expect_eq(got, row[i].want, "row %zu: %d", i, got);
		cr_expect_eq(f.store.generation, generation + (got == 0), "row %zu", i);
		cr_expect_eq(f.store.count, 2u + (got == 0), "row %zu", i);
	}
}

Test(objmap, a_name_may_have_63_characters)
{
	static const char name[] =
		"012345678901234567890123456789012345678901234567890123456789 ~!";

	cr_assert_eq(strlen(name), 63);
	fake_store_put(&f, name, 1);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_not_null(hr_store_find(&f.store, name));
}

Test(objmap, changes_of_the_wrong_object_are_refused)
{
	struct hr_store_object *object;
	const uint64_t whole = fake_store_put(&f, "whole", 8192);

	cr_assert_eq(hr_store_create(&f.store, "part", 8192, 0, false, &object, NULL), 0);
	cr_assert_eq(hr_store_progress(&f.store, 2, 4096, 7, 0xabcd, NULL), 0);
	cr_expect_eq(hr_store_progress(&f.store, 2, 4095, 7, 0xabcd, NULL), -EINVAL);
	cr_expect_eq(hr_store_progress(&f.store, 2, 8193, 7, 0xabcd, NULL), -EINVAL);
	cr_expect_eq(hr_store_progress(&f.store, 2, 4096, 8, 0xdcba, NULL), 0, "no new data");
	cr_expect_eq(hr_store_progress(&f.store, 2, 8192, 8, 0xdcba, NULL), 0, "all");
	cr_expect_eq(hr_store_progress(&f.store, whole, 8192, 7, 0xabcd, NULL), -EINVAL);
	cr_expect_eq(hr_store_finish(&f.store, whole, false, 0, NULL), -EINVAL);
	cr_expect_eq(hr_store_progress(&f.store, 3, 0, 7, 0xabcd, NULL), -ENOENT);
	cr_expect_eq(hr_store_finish(&f.store, 3, false, 0, NULL), -ENOENT);
	cr_expect_eq(hr_store_remove(&f.store, 3, NULL), -ENOENT);
	cr_expect_eq(hr_store_remove(&f.store, 0, NULL), -ENOENT);
}

/* Before the data of a complete object change. */
Test(objmap, a_checksum_is_dropped_durably)
{
	struct hr_store_object *object;
	uint64_t generation;

	fake_store_put(&f, "other", 4096);
	cr_assert_eq(hr_store_create(&f.store, "sum", 5000, 7, false, &object, NULL), 0);
	cr_assert_eq(hr_store_finish(&f.store, 2, true, 0x1234, NULL), 0);
	cr_assert_eq(hr_store_set_crc(&f.store, 2, false, 0, NULL), 0);
	cr_assert_eq(fake_store_reopen(&f), 0);
	object = hr_store_find(&f.store, "sum");
	cr_assert_not_null(object);
	cr_expect_eq(object->flags, 0u);
	cr_expect_eq(object->crc, 0u);
	cr_expect_eq(object->bytes, 5000u);
	cr_expect_eq(object->tag, 7u);
	generation = f.store.generation;
	cr_expect_eq(hr_store_set_crc(&f.store, 2, false, 0, NULL), 0, "it has none");
	cr_expect_eq(hr_store_set_crc(&f.store, 3, false, 0, NULL), -ENOENT);
	cr_expect_eq(f.store.generation, generation, "nothing was committed");
}

Test(objmap, a_replacing_object_takes_the_place_in_one_step)
{
	struct hr_store_object *object;
	const uint64_t old = fake_store_put(&f, "a", 8192);

	cr_assert_eq(hr_store_create(&f.store, "a", 4096, 0, true, &object, NULL), 0);
	expect_layout(object, 2, 1);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_assert_not_null(hr_store_find(&f.store, "a"));
	cr_expect_eq(hr_store_find(&f.store, "a")->id, old);
	object = hr_store_find_pending(&f.store, "a");
	cr_assert_not_null(object);
	cr_expect_eq(object->id, old + 1);
	cr_assert_eq(hr_store_finish(&f.store, object->id, false, 0, NULL), 0);
	cr_expect_eq(f.store.count, 1);
	cr_expect_null(hr_store_find_pending(&f.store, "a"));
	cr_expect_eq(hr_store_find(&f.store, "a")->id, old + 1);
}

Test(objmap, replace_drops_a_stale_incomplete_object)
{
	struct hr_store_object *object;

	cr_assert_eq(hr_store_create(&f.store, "a", FAKE_STORE_DATA, 0, false, &object, NULL), 0);
	cr_assert_eq(hr_store_create(&f.store, "a", FAKE_STORE_DATA, 5, true, &object, NULL), 0);
	cr_expect_eq(f.store.count, 1);
	cr_expect_eq(object->id, 2);
	cr_expect_eq(object->tag, 5);
	expect_layout(object, 0, 64);
}

Test(objmap, the_first_gap_that_fits_is_taken)
{
	static const uint64_t units[] = { 4, 2, 8, 1, 3 };
	struct hr_store_space space;
	struct hr_store_object *object;
	char name[] = "a";

	for (size_t i = 0; i < ROWS(units); i++, name[0]++)
		fake_store_put(&f, name, units[i] * HR_STORE_ALIGN);
	cr_assert_eq(hr_store_remove(&f.store, 2, NULL), 0); /* gap of 2 at 4 */
	cr_assert_eq(hr_store_remove(&f.store, 3, NULL), 0); /* together 10 at 4 */
	cr_assert_eq(hr_store_remove(&f.store, 5, NULL), 0); /* 49 at 15, up to the end */
	hr_store_space(&f.store, &space);
	cr_expect_eq(space.total, 64 * HR_STORE_ALIGN);
	cr_expect_eq(space.used, 5 * HR_STORE_ALIGN);
	cr_expect_eq(space.largest_gap, 49 * HR_STORE_ALIGN);
	cr_expect_eq(space.objects, 2);
	cr_expect_eq(space.capacity, FAKE_STORE_OBJECTS);
	cr_assert_eq(hr_store_create(&f.store, "11", 11 * HR_STORE_ALIGN, 0, false, &object, NULL),
		     0);
	expect_layout(object, 15, 11);
	cr_assert_eq(hr_store_create(&f.store, "10", 10 * HR_STORE_ALIGN, 0, false, &object, NULL),
		     0);
	expect_layout(object, 4, 10);
	cr_expect_eq(hr_store_create(&f.store, "39", 39 * HR_STORE_ALIGN, 0, false, &object, NULL),
		     -ENOSPC);
	cr_expect_eq(hr_store_create(&f.store, "38", 38 * HR_STORE_ALIGN, 0, false, &object, NULL),
		     0);
	hr_store_space(&f.store, &space);
	cr_expect_eq(space.largest_gap, 0);
}

Test(objmap, an_empty_object_needs_a_record_and_no_space)
{
	struct hr_store_object *object;

	fake_store_put(&f, "all", FAKE_STORE_DATA);
	cr_expect_eq(hr_store_create(&f.store, "one", 1, 0, false, &object, NULL), -ENOSPC);
	fake_store_put(&f, "none", 0);
	fake_store_put(&f, "nothing", 0);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_not_null(hr_store_find(&f.store, "none"));
	cr_expect_eq(hr_store_find(&f.store, "nothing")->capacity, 0);
}

Test(objmap, a_full_map_is_refused)
{
	struct hr_store_object *object;
	char name[] = "a";

	for (unsigned i = 0; i < FAKE_STORE_OBJECTS; i++, name[0]++)
		fake_store_put(&f, name, 1);
	cr_expect_eq(hr_store_create(&f.store, name, 1, 0, false, &object, NULL), -ENFILE);
	cr_expect_eq(hr_store_create(&f.store, "a", 1, 0, true, &object, NULL), -ENFILE);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_eq(f.store.count, FAKE_STORE_OBJECTS);
	cr_assert_eq(hr_store_remove(&f.store, 5, NULL), 0);
	cr_expect_eq(fake_store_put(&f, name, 1), FAKE_STORE_OBJECTS + 1);
}

/* The image of a disk with 512-byte blocks opens on one with 4096-byte blocks, and the reverse. */
Test(objmap, the_format_does_not_depend_on_the_block_size)
{
	struct fake_store other;

	fake_store_init(&other, 512);
	fake_store_put(&other, "small", 5000);
	memdisk_copy(&f.disk, &other.disk);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_assert_not_null(hr_store_find(&f.store, "small"));
	fake_store_put(&f, "large", 5000);
	memdisk_copy(&other.disk, &f.disk);
	cr_assert_eq(fake_store_reopen(&other), 0);
	cr_expect_eq(other.store.count, 2);
	fake_store_fini(&other);
}

/* An error of the k-th write or flush is returned, memory is unchanged, and the store works on. */
Test(objmap, a_failing_commit_leaves_the_map_in_memory_unchanged)
{
	struct hr_store_object *object;

	for (uint64_t k = 1; k <= 5; k++) {
		struct hr_store before;
		struct hr_store_object objects[FAKE_STORE_OBJECTS];
		int err;

		teardown();
		setup();
		fake_store_put(&f, "a", 1);
		before = f.store;
		memcpy(objects, f.object, sizeof(objects));
		f.disk.fail_at = f.disk.writes + f.disk.flushes + k;
		f.disk.fail_status = MEDIA_ERROR;
		err = hr_store_create(&f.store, "b", 1, 0, false, &object, NULL);
		cr_expect_eq(err, k <= 4 ? MEDIA_ERROR : 0, "k = %llu", (unsigned long long)k);
		if (err) {
			/* Only the store's knowledge about the contents of the disk changes. */
			memcpy(before.page_unknown, f.store.page_unknown,
			       sizeof(before.page_unknown));
			cr_expect_arr_eq(&before, &f.store, sizeof(before));
			cr_expect_arr_eq(objects, f.object, sizeof(objects));
		}
		f.disk.fail_at = 0;
		fake_store_put(&f, "c", 1);
		cr_assert_eq(fake_store_reopen(&f), 0);
		cr_expect_not_null(hr_store_find(&f.store, "a"));
		cr_expect_not_null(hr_store_find(&f.store, "c"));
	}
}

/* A commit that cannot compare a superblock with what this process knows writes nothing. */
Test(objmap, a_superblock_that_cannot_be_read_stops_a_commit)
{
	struct hr_store_object *object;
	uint64_t writes;

	fake_store_put(&f, "a", 1);
	for (uint64_t i = 0; i < 2; i++) {
		f.disk.bad_from = i * HR_PAGE;
		f.disk.bad_to = (i + 1) * HR_PAGE;
		f.disk.fail_status = MEDIA_ERROR;
		writes = f.disk.writes;
		cr_expect_eq(hr_store_create(&f.store, "b", 1, 0, false, &object, NULL),
			     MEDIA_ERROR, "superblock %u", (unsigned)i);
		cr_expect_eq(f.disk.writes, writes, "superblock %u", (unsigned)i);
		cr_expect_null(hr_store_find_pending(&f.store, "b"));
	}
	f.disk.bad_to = 0;
	fake_store_put(&f, "b", 1);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_not_null(hr_store_find(&f.store, "b"));
}

/* The same disk, opened by another process. */
struct second {
	struct hr_store store;
	struct hr_store_object object[FAKE_STORE_OBJECTS];
	uint8_t *io;
};

static void open_again(struct second *s)
{
	s->io = aligned_alloc(HR_PAGE, hr_store_io_bytes(FAKE_STORE_OBJECTS));
	cr_assert_eq(
		hr_store_open(&s->store, &f.disk.blk, s->object, FAKE_STORE_OBJECTS, s->io, NULL),
		0);
}

Test(objmap, a_foreign_writer_is_noticed_and_never_overwritten)
{
	struct hr_store_object *object;
	struct second s;
	uint64_t writes;

	for (unsigned commits = 1; commits <= 3; commits++) {
		fake_store_put(&f, "mine", 10);
		open_again(&s);
		for (unsigned i = 0; i < commits; i++)
			cr_assert_eq(
				hr_store_create(&s.store, "theirs", 10, 0, true, &object, NULL), 0);
		writes = f.disk.writes;
		cr_expect_eq(hr_store_remove(&f.store, hr_store_find(&f.store, "mine")->id,
					     test_error()),
			     -ESTALE, "%u commits", commits);
		cr_expect(strstr(test_error_text(), "another process or machine writes to"), "%s",
			  test_error_text());
		hr_error_log(&test_error_last, HR_LOG_ERROR);
		cr_expect_eq(hr_store_create(&f.store, "x", 1, 0, false, &object, test_error()),
			     -ESTALE);
		hr_error_log(&test_error_last, HR_LOG_ERROR);
		cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
		cr_expect_eq(f.disk.writes, writes, "nothing was written");
		cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), commits, "printed once");
		cr_expect_eq(hr_store_finish(&s.store, object->id, false, 0, NULL), 0,
			     "the other goes on");
		cr_assert_eq(fake_store_reopen(&f), 0);
		cr_expect_not_null(hr_store_find(&f.store, "theirs"));
		cr_assert_eq(hr_store_remove(&f.store, hr_store_find(&f.store, "mine")->id, NULL),
			     0);
		cr_assert_eq(hr_store_remove(&f.store, hr_store_find(&f.store, "theirs")->id, NULL),
			     0);
		free(s.io);
	}
}

Test(objmap, a_disk_formatted_by_another_process_is_not_written)
{
	struct hr_store_object *object;
	uint8_t *io = aligned_alloc(HR_PAGE, hr_store_io_bytes(FAKE_STORE_OBJECTS));
	uint64_t writes;

	cr_assert_eq(hr_store_format(&f.disk.blk, FAKE_STORE_OBJECTS, true, io, NULL), 0);
	writes = f.disk.writes;
	cr_expect_eq(hr_store_create(&f.store, "x", 1, 0, false, &object, NULL), -ESTALE);
	cr_expect_eq(f.disk.writes, writes);
	free(io);
}

Test(objmap, a_read_only_disk_is_read_and_not_written)
{
	struct hr_store_object *object;

	fake_store_put(&f, "a", 1);
	f.disk.blk.read_only = true;
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_not_null(hr_store_find(&f.store, "a"));
	cr_expect_eq(hr_store_create(&f.store, "b", 1, 0, false, &object, NULL), -EROFS);
	cr_expect_eq(hr_store_remove(&f.store, 1, NULL), -EROFS);
	cr_expect_eq(hr_store_format(&f.disk.blk, 4, true, f.io, NULL), -EROFS);
	cr_expect_eq(f.disk.writes, 0);
	cr_expect_eq(f.disk.flushes, 0);
	cr_expect_eq(f.store.count, 1);
}
