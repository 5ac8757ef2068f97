/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of an object: names, order, the removal of the oldest version, power cuts. */
#include "cache/store/store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/store.h"

static struct fake_store f;

static void begin(void)
{
	fake_store_init(&f, 4096);
}

static void end(void)
{
	fake_store_fini(&f);
}

TestSuite(versions, .init = begin, .fini = end, .timeout = 60);

static int make(const char *name, uint32_t keep, uint64_t *id)
{
	struct hr_store_object *object;

	cr_assert_eq(hr_store_create(&f.store, name, 1, 7, true, &object, NULL), 0);
	*id = object->id;
	return hr_store_finish_version(&f.store, object->id, true, 5, keep, NULL);
}

/* All objects, as "NAME=ID" in order of their ids. */
static const char *list(void)
{
	static char text[512];
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < f.store.count; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s=%llu%s", i ? " " : "",
				       f.store.object[i].name,
				       (unsigned long long)f.store.object[i].id,
				       f.store.object[i].flags & HR_OBJECT_PENDING ? "?" : "");
	return text;
}

static bool is_a_or_d(void *arg, const struct hr_store_object *object)
{
	return object->name[0] == 'a' || object->name[0] == 'd';
}

Test(versions, the_newest_has_the_name_and_older_ones_have_numbers)
{
	static const char *const want[] = { "a=1", "a.1=1 a=2", "a.2=1 a.1=2 a=3",
					    "a.2=2 a.1=3 a=4", "a.2=3 a.1=4 a=5" };
	uint64_t id;

	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		cr_assert_eq(make("a", 3, &id), 0);
		cr_assert_eq(fake_store_reopen(&f), 0);
		cr_expect_str_eq(list(), want[i], "%zu: %s", i, list());
		cr_expect_eq(hr_store_find(&f.store, "a")->flags, HR_OBJECT_HAS_CRC);
	}
}

Test(versions, a_name_is_changed_in_one_commit)
{
	const struct hr_store_object *object;
	struct hr_store_object *half;
	uint64_t a, b, generation;

	cr_assert_eq(make("a", 1, &a), 0);
	cr_assert_eq(make("b", 1, &b), 0);
	cr_assert_eq(hr_store_create(&f.store, "c", 1, 0, false, &half, NULL), 0);
	cr_expect_eq(hr_store_rename(&f.store, 99, "x", false, NULL), -ENOENT);
	cr_expect_eq(hr_store_rename(&f.store, a, "b", false, NULL), -EEXIST);
	cr_expect_eq(hr_store_rename(&f.store, a, "a", true, NULL), -EINVAL);
	cr_expect_eq(hr_store_rename(&f.store, a, "x/y", false, NULL), -EINVAL);
	cr_expect_eq(hr_store_rename(&f.store, half->id, "x", false, NULL), -EINVAL);
	generation = f.store.generation;
	cr_expect_eq(hr_store_rename(&f.store, b, "a", true, NULL), 0);
	cr_expect_eq(f.store.generation, generation + 1);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_str_eq(list(), "a=2 c=3?");
	cr_expect_eq(hr_store_rename(&f.store, b, "c", false, NULL), 0);
	object = hr_store_find(&f.store, "c");
	cr_expect(object && object->tag == 7 && object->crc == 5 && object->id == b);
	cr_expect_str_eq(list(), "c=2 c=3?");
}

/* ---- space that is given back */

static uint8_t byte_at(uint64_t offset)
{
	return f.disk.seen[offset];
}

Test(versions, only_the_space_of_removed_objects_is_given_back)
{
	uint64_t id[4];
	uint32_t pin, count;
	uint64_t bytes;
	struct hr_store_object o[4];

	for (uint32_t i = 0; i < 4; i++) {
		const char name[2] = { (char)('a' + i), 0 };

		id[i] = fake_store_put(&f, name, 3 * HR_STORE_ALIGN);
		o[i] = *hr_store_find_id(&f.store, id[i]);
		memset(f.disk.seen + o[i].offset, 0x11, o[i].capacity);
	}
	cr_assert_eq(hr_store_remove(&f.store, id[1], NULL), 0);
	cr_expect(f.disk.trims == 1 && f.disk.trimmed_bytes == o[1].capacity);
	cr_expect_eq(byte_at(o[1].offset), 0xdb);
	cr_expect_eq(byte_at(o[1].offset - 1), 0x11);
	cr_expect_eq(byte_at(o[1].offset + o[1].capacity), 0x11);
	cr_assert_eq(hr_store_pin(&f.store, id[2], false, &pin), 0);
	cr_assert_eq(hr_store_remove(&f.store, id[2], NULL), 0);
	cr_expect_eq(byte_at(o[2].offset), 0x11, "a reader has it");
	cr_expect_eq(f.disk.trims, 1u);
	cr_assert_eq(hr_store_remove_some(&f.store, is_a_or_d, NULL, &count, &bytes, NULL), 0);
	cr_expect(byte_at(o[0].offset) == 0xdb && byte_at(o[3].offset) == 0xdb);
	cr_expect_eq(byte_at(o[2].offset + o[2].capacity - 1), 0x11);
	hr_store_unpin(&f.store, pin);
}

/* At each moment of a removal, the objects of the map that is found then have their data. */
Test(versions, no_data_is_given_back_before_the_map_is_durable)
{
	for (uint64_t cut = 1; cut <= 5; cut++)
		for (uint64_t seed = 0; seed < 8; seed++) {
			struct hr_store_object a;
			const struct hr_store_object *is;

			fake_store_fini(&f);
			fake_store_init(&f, 4096);
			a = *hr_store_find_id(&f.store, fake_store_put(&f, "a", HR_STORE_ALIGN));
			memset(f.disk.seen + a.offset, 0x11, a.capacity);
			memset(f.disk.media + a.offset, 0x11, a.capacity);
			f.disk.cut_at = f.disk.writes + f.disk.flushes + cut;
			f.disk.seed = seed;
			hr_store_remove(&f.store, a.id, NULL);
			cr_assert_eq(fake_store_reopen(&f), 0);
			is = hr_store_find(&f.store, "a");
			cr_expect(!is || byte_at(is->offset) == 0x11, "cut %llu",
				  (unsigned long long)cut);
		}
}

Test(versions, one_version_is_a_replacement)
{
	uint64_t id;

	for (uint64_t i = 1; i < 4; i++) {
		cr_assert_eq(make("a", 1, &id), 0);
		cr_expect_eq(f.store.count, 1u);
		cr_expect_eq(hr_store_find(&f.store, "a")->id, i);
	}
}

Test(versions, a_removed_version_leaves_a_gap_that_is_filled)
{
	uint64_t id;

	for (int i = 0; i < 3; i++)
		cr_assert_eq(make("a", 3, &id), 0);
	cr_assert_eq(hr_store_remove(&f.store, 2, NULL), 0);
	cr_assert_eq(make("a", 3, &id), 0);
	cr_expect_str_eq(list(), "a.2=1 a.1=3 a=4", "%s", list());
	cr_assert_eq(make("a", 2, &id), 0);
	cr_expect_str_eq(list(), "a.2=1 a.1=4 a=5", "a smaller number removes none: %s", list());
}

Test(versions, an_object_of_the_user_is_not_taken_for_a_version)
{
	struct hr_store_object *object;
	uint64_t id;

	fake_store_put(&f, "a", 1);
	fake_store_put(&f, "a.2", 1);
	cr_expect_eq(make("a", 2, &id), 0, "the number 2 is not needed");
	cr_assert_not_null(hr_store_foreign_version(&f.store, "a", 3));
	cr_expect_str_eq(hr_store_foreign_version(&f.store, "a", 3)->name, "a.2");
	cr_assert_eq(hr_store_create(&f.store, "a", 1, 7, true, &object, NULL), 0);
	cr_expect_eq(hr_store_finish_version(&f.store, object->id, false, 0, 3, NULL), -EEXIST);
	cr_expect_not_null(hr_store_find_pending(&f.store, "a"), "nothing has changed");
}

Test(versions, wrong_numbers_and_names_are_refused)
{
	struct hr_store_object *object;
	char name[HR_NAME_MAX];

	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	cr_assert_eq(hr_store_create(&f.store, name, 1, 7, true, &object, NULL), 0);
	cr_expect_eq(hr_store_finish_version(&f.store, object->id, false, 0, 0, NULL), -EINVAL);
	cr_expect_eq(hr_store_finish_version(&f.store, object->id, false, 0, 101, NULL), -EINVAL);
	cr_expect_eq(hr_store_finish_version(&f.store, object->id, false, 0, 2, NULL), -EINVAL);
	cr_expect_eq(hr_store_finish_version(&f.store, object->id, false, 0, 1, NULL), 0);
}

Test(versions, an_object_that_ends_early_gives_its_other_space_back)
{
	struct hr_store_object *object;
	struct hr_store_space before, space;
	uint64_t id;

	hr_store_space(&f.store, &before);
	cr_assert_eq(hr_store_create(&f.store, "a", 10 * HR_PAGE, 7, true, &object, NULL), 0);
	id = object->id;
	cr_assert_eq(hr_store_progress(&f.store, id, 2 * HR_PAGE, 7, 1, NULL), 0);
	cr_expect_eq(hr_store_finish_at(&f.store, id, 10 * HR_PAGE + 1, true, 5, 1, NULL), -EINVAL);
	cr_expect_eq(hr_store_finish_at(&f.store, id + 1, HR_PAGE, true, 5, 1, NULL), -ENOENT);
	cr_assert_eq(hr_store_finish_at(&f.store, id, 2 * HR_PAGE + 1, true, 5, 1, NULL), 0);
	object = hr_store_find(&f.store, "a");
	cr_assert_not_null(object);
	cr_expect_eq(object->id, id);
	cr_expect_eq(object->bytes, 2 * HR_PAGE + 1);
	cr_expect_eq(object->durable_bytes, object->bytes);
	cr_expect_eq(object->capacity, 3 * HR_PAGE);
	cr_expect_eq(object->flags, HR_OBJECT_HAS_CRC);
	hr_store_space(&f.store, &space);
	cr_expect_eq(space.used, before.used + 3 * HR_PAGE);
	cr_assert_eq(hr_store_create(&f.store, "b", HR_PAGE, 7, true, &object, NULL), 0);
	cr_assert_eq(hr_store_finish_at(&f.store, object->id, 0, false, 0, 1, NULL), 0);
	cr_expect_eq(hr_store_find(&f.store, "b")->capacity, 0);
}

/* At each write and flush of the commit: all old versions, or all new ones. */
Test(versions, a_power_cut_leaves_the_old_versions_or_the_new_ones)
{
	static const char *const old = "a.2=1 a.1=2 a=3 a=4?", *const fresh = "a.2=2 a.1=3 a=4";
	unsigned olds = 0, news = 0;

	for (uint64_t at = 1; at < 40; at++) {
		struct hr_store_object *object;
		uint64_t id;

		fake_store_fini(&f);
		fake_store_init(&f, 4096);
		for (int i = 0; i < 3; i++)
			cr_assert_eq(make("a", 3, &id), 0);
		cr_assert_eq(hr_store_create(&f.store, "a", 1, 7, true, &object, NULL), 0);
		f.disk.seed = at;
		f.disk.cut_at = f.disk.writes + f.disk.flushes + 1 + at % 4;
		hr_store_finish_version(&f.store, object->id, true, 5, 3, NULL);
		cr_assert_eq(fake_store_reopen(&f), 0);
		olds += strcmp(list(), old) == 0;
		news += strcmp(list(), fresh) == 0;
		cr_assert_eq(olds + news, at, "%s", list());
	}
	cr_expect_gt(olds, 0u);
	cr_expect_gt(news, 0u);
}
