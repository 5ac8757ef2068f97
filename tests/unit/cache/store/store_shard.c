/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of data sets in the object map, and the migration of a store of format version 1. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/store/store.h"
#include "cache/store/verify.h"
#include "tests/fakes/memdisk.h"
#include "tests/harness/store.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static struct fake_store f;

TestSuite(objmap_shard, .timeout = 60);

static const struct hr_store_shard middle = {
	.first_row = 10, .rows = 30, .set = 7, .row_bytes = 16, .index = 1, .last = 2
};

/* A store of format version 1 with two objects: both superblocks are valid. */
static void begin_old(void)
{
	fake_store_init(&f, 4096);
	fake_store_put(&f, "a", HR_STORE_ALIGN);
	fake_store_put(&f, "b", 1);
	for (unsigned i = 0; i < 2; i++) {
		fake_store_superblock(&f, i)->head.version = HR_STORE_VERSION_MIN;
		fake_store_sign(&f, i);
	}
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_assert_eq(f.store.count, 2);
}

static int put_shard(struct fake_store *s, const char *name, struct hr_store_object **object)
{
	return hr_store_create_shard(&s->store, name, 160, 0, false, &middle, object, NULL);
}

static void expect_shard(const char *name)
{
	const struct hr_store_object *object = hr_store_find(&f.store, name);

	cr_assert_not_null(object);
	cr_expect_eq(object->flags, HR_OBJECT_SHARD | HR_OBJECT_HAS_CRC, "%u", object->flags);
	cr_expect_eq(object->crc, 5);
	cr_expect_eq(object->shard.first_row, 10);
	cr_expect_eq(object->shard.rows, 30);
	cr_expect_eq(object->shard.set, 99);
	cr_expect_eq(object->shard.row_bytes, 16);
	cr_expect_eq(object->shard.index, 1);
	cr_expect_eq(object->shard.last, 2);
	cr_expect_str_eq(object->name, name);
}

Test(objmap_shard, a_shard_is_kept_with_its_rows)
{
	struct hr_store_object *object;

	fake_store_init(&f, 512);
	cr_assert_eq(put_shard(&f, "part", &object), 0);
	cr_assert_eq(hr_store_set_shard(&f.store, object->id, 99, NULL), 0);
	cr_assert_eq(hr_store_finish(&f.store, object->id, true, 5, NULL), 0);
	cr_assert_eq(fake_store_reopen(&f), 0);
	expect_shard("part");
	cr_expect_eq(hr_store_set_shard(&f.store, hr_store_find(&f.store, "part")->id, 1, NULL),
		     -EINVAL);
	cr_expect_eq(hr_store_set_shard(&f.store, 77, 1, NULL), -ENOENT);
	fake_store_fini(&f);
}

/* The name of a version has fewer bytes than that of other objects, and does not reach the shard. */
Test(objmap_shard, older_versions_keep_their_rows)
{
	static const char name[] = "1234567890123456789012345678901"; /* 31 characters */
	struct hr_store_object *object;

	fake_store_init(&f, 4096);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(hr_store_create_shard(&f.store, name + 2, 160, 1, true, &middle,
						   &object, NULL),
			     0);
		cr_assert_eq(hr_store_set_shard(&f.store, object->id, 99, NULL), 0);
		cr_assert_eq(hr_store_finish_version(&f.store, object->id, true, 5, 3, NULL), 0);
	}
	cr_assert_eq(fake_store_reopen(&f), 0);
	expect_shard(name + 2);
	cr_expect_eq(f.store.count, 2);
	cr_expect_str_eq(f.store.object[0].name, "34567890123456789012345678901.1");
	cr_expect_eq(f.store.object[0].shard.set, 99);
	cr_expect_eq(f.store.object[0].shard.rows, 30);
	/* one character more: the name of its version has no room */
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(hr_store_create_shard(&f.store, name + 1, 160, 1, true, &middle,
						   &object, NULL),
			     0);
		cr_expect_eq(hr_store_finish_version(&f.store, object->id, true, 5, 2, NULL),
			     i ? -EINVAL : 0);
	}
	fake_store_fini(&f);
}

Test(objmap_shard, what_is_no_part_of_a_data_set_is_refused)
{
	static const struct {
		const char *name;
		struct hr_store_shard shard;
		uint64_t bytes;
	} row[] = {
		{ "12345678901234567890123456789012", middle, 160 },
		{ "a", { 10, 30, 7, 16, 0, 0 }, 160 },
		{ "a", { 10, 30, 7, 16, 3, 2 }, 160 },
		{ "a", { 10, 30, 7, 0, 1, 2 }, 160 },
		{ "a", middle, 161 },
		{ "a", { 21, 30, 7, 16, 1, 2 }, 160 },
		{ "a", { 31, 30, 7, 16, 1, 2 }, 0 },
		{ "a", { UINT64_MAX, 30, 7, 16, 1, 2 }, 160 },
		{ "a", { 10, UINT64_MAX / 8, 7, 16, 1, 2 }, 160 },
	};
	struct hr_store_object *object;

	fake_store_init(&f, 4096);
	for (size_t i = 0; i < COUNT(row); i++)
		cr_expect_eq(hr_store_create_shard(&f.store, row[i].name, row[i].bytes, 0, false,
						   &row[i].shard, &object, NULL),
			     -EINVAL, "row %zu", i);
	cr_expect_eq(f.store.count, 0);
	cr_expect_eq(hr_store_create_shard(&f.store, "a", 0, 0, false,
					   &(struct hr_store_shard){ 30, 30, 7, 16, 2, 2 }, &object,
					   NULL),
		     0, "a shard without rows");
	fake_store_fini(&f);
}

static void found(void *arg, bool fault, const char *line)
{
	cr_expect(!fault, "%s", line);
}

/* A power cut can leave what is on the disk. */
static void expect_sound(void)
{
	const struct hr_store_check check = { .report = found };
	uint32_t faults = 0;

	cr_expect_eq(hr_store_verify(&f.store, &check, &faults, NULL), 0);
	cr_expect_eq(faults, 0);
}

Test(objmap_shard, a_store_of_version_1_stays_one_until_the_first_shard)
{
	struct hr_store_object *object;
	uint64_t generation;

	begin_old();
	fake_store_put(&f, "c", 1);
	cr_assert_eq(fake_store_reopen(&f), 0);
	for (unsigned i = 0; i < 2; i++)
		cr_expect_eq(fake_store_superblock(&f, i)->head.version, 1);
	generation = f.store.generation;
	cr_assert_eq(put_shard(&f, "part", &object), 0);
	cr_expect_eq(f.store.generation, generation + 3, "two superblocks, and the shard");
	memdisk_cut(&f.disk);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_eq(f.store.count, 4);
	for (unsigned i = 0; i < 2; i++)
		cr_expect_eq(fake_store_superblock(&f, i)->head.version, 2);
	expect_sound();
	fake_store_fini(&f);
}

/*
 * A version of headrace that knows only version 1 uses the newest superblock of version 1, and refuses
 * the store when there is none. What it finds must be what was there before the migration.
 */
static void expect_old_reader_loses_nothing(void)
{
	const struct hr_superblock_head *newest = NULL;

	for (unsigned i = 0; i < 2; i++) {
		const struct hr_superblock *s = fake_store_superblock(&f, i);

		if (s->crc != hr_store_page_crc((const uint8_t *)s) || s->head.version != 1)
			continue;
		if (!newest || s->head.generation > newest->generation)
			newest = &s->head;
	}
	if (newest)
		cr_expect_eq(newest->count, 2, "an old reader finds %u objects", newest->count);
}

Test(objmap_shard, a_power_cut_during_the_migration_loses_nothing)
{
	unsigned migrated = 0, old = 0, half = 0, made = 0;
	uint64_t k = 1;

	for (bool whole = false; !whole; k++) {
		for (uint64_t seed = 0; seed < 24; seed++) {
			struct hr_store_object *object;
			unsigned versions = 0;

			begin_old();
			f.disk.cut_at = k;
			f.disk.seed = seed * 31 + k;
			whole = put_shard(&f, "part", &object) == 0;
			if (!f.disk.off)
				memdisk_cut(&f.disk);
			cr_assert_eq(fake_store_reopen(&f), 0, "cut %llu, seed %llu",
				     (unsigned long long)k, (unsigned long long)seed);
			cr_expect(!whole || f.store.count == 3);
			cr_assert(f.store.count == 2 || f.store.count == 3);
			cr_expect_not_null(hr_store_find(&f.store, "a"));
			cr_expect_not_null(hr_store_find(&f.store, "b"));
			expect_sound();
			if (f.store.count == 2)
				expect_old_reader_loses_nothing();
			made += f.store.count == 3;
			for (unsigned i = 0; i < 2; i++)
				versions += f.store.version[i];
			old += versions == 2;
			half += versions == 3;
			migrated += versions == 4;
			/* the store goes on, in the version that it has */
			cr_expect_eq(hr_store_migrate(&f.store, NULL), 0);
			fake_store_put(&f, "z", 0);
			cr_assert_eq(fake_store_reopen(&f), 0);
			cr_expect_not_null(hr_store_find(&f.store, "z"));
			cr_expect_eq(f.store.version[f.store.active], 2);
			fake_store_fini(&f);
		}
	}
	/* three commits of two writes and two flushes each */
	cr_expect_geq(k, 12);
	cr_expect(old && half && migrated && made, "%u old, %u half, %u migrated, %u made", old,
		  half, migrated, made);
}

/* The older superblock has the newer format: no sequence of commits leaves that. */
Test(objmap_shard, a_format_that_goes_back_is_refused)
{
	fake_store_init(&f, 4096);
	fake_store_put(&f, "a", 1);
	fake_store_superblock(&f, f.store.active)->head.version = 1;
	fake_store_sign(&f, f.store.active);
	cr_expect_eq(fake_store_reopen(&f), -EUCLEAN);
	cr_expect_not_null(strstr(f.error.text, "are not of one history"), "%s", f.error.text);
	fake_store_fini(&f);
}
