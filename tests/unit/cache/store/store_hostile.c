/* SPDX-License-Identifier: Apache-2.0 */
/* Object store: maps with correct checksums and invalid contents. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cache/store/store.h"
#include "tests/fakes/log.h"
#include "tests/fakes/memdisk.h"
#include "tests/harness/store.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define DATA HR_STORE_DATA_ALIGN
#define END (DATA + FAKE_STORE_DATA)

TestSuite(objmap_hostile, .timeout = 60);

static struct fake_store f;
static struct hr_superblock_head *head; /* of the changed copy */
static struct hr_store_object *o; /* its records: "a" 2 units, "b" 1 unit, PENDING "c" 1 unit */

/* Changes that a checksum does not detect. Each must make the copy invalid. */
#define TAMPER(name, ...)      \
	static void name(void) \
	{                      \
		__VA_ARGS__;   \
	}
TAMPER(version, head->version = 3)
TAMPER(version_0, head->version = 0)
TAMPER(shard_of_version_1, head->version = 1; o[0].flags |= HR_OBJECT_SHARD;
       fake_store_superblock(&f, 1 - f.store.active)->head.version = 1;
       fake_store_sign(&f, 1 - f.store.active))
TAMPER(shard_of_none, o[0].flags |= HR_OBJECT_SHARD)
TAMPER(shard_name, memset(o[0].name, 'x', HR_SHARD_NAME_MAX); o[0].flags |= HR_OBJECT_SHARD)
TAMPER(unknown_field, fake_store_superblock(&f, f.store.active)->zero[3000] = 1)
TAMPER(no_room, head->capacity = 0)
TAMPER(no_room_for_none, head->capacity = head->count = 0)
TAMPER(much_room, head->capacity = UINT32_MAX)
TAMPER(other_room, head->capacity = FAKE_STORE_OBJECTS + 40)
TAMPER(many, head->count = FAKE_STORE_OBJECTS + 1)
TAMPER(very_many, head->count = UINT32_MAX)
TAMPER(generation_0, head->generation = 0)
TAMPER(generation_wraps, head->generation = UINT64_MAX)
TAMPER(generation_too_high, head->generation = HR_STORE_COUNTER_MAX + 1)
TAMPER(next_id_0, head->next_id = 0)
TAMPER(next_id_wraps, head->next_id = UINT64_MAX)
TAMPER(next_id_too_high, head->next_id = HR_STORE_COUNTER_MAX + 1)
TAMPER(next_id_taken, head->next_id = o[2].id)
TAMPER(larger_disk, head->disk_bytes += HR_PAGE)
TAMPER(huge_disk, head->disk_bytes = UINT64_MAX)
TAMPER(no_disk, head->disk_bytes = 0)
TAMPER(smaller_disk, head->disk_bytes -= HR_PAGE)
TAMPER(map_elsewhere, head->map_offset = HR_PAGE)
TAMPER(map_beyond, head->map_offset = UINT64_MAX - 4095)
TAMPER(scratch_elsewhere, head->scratch_offset += HR_PAGE)
TAMPER(data_in_maps, head->data_offset = 0)
TAMPER(data_beyond, head->data_offset = UINT64_MAX)
TAMPER(more_data, head->data_bytes += HR_PAGE)
TAMPER(id_0, o[0].id = 0)
TAMPER(id_of_the_future, o[2].id = UINT64_MAX)
TAMPER(ids_equal, o[1].id = o[0].id)
TAMPER(ids_descend, o[1].id = 3; o[2].id = 2)
TAMPER(name_empty, memset(o[0].name, 0, HR_NAME_MAX))
TAMPER(name_without_end, memset(o[0].name, 'x', HR_NAME_MAX))
TAMPER(name_control, o[0].name[0] = '\n')
TAMPER(name_escape, o[0].name[0] = '\033')
TAMPER(name_delete, o[0].name[0] = 0x7f)
TAMPER(name_last_control, o[0].name[0] = 0x1f)
TAMPER(names_equal_apart, strcpy(o[0].name, o[2].name); o[0].flags = HR_OBJECT_PENDING)
TAMPER(name_high, o[0].name[0] = (char)0x80)
TAMPER(name_slash, o[0].name[0] = '/')
TAMPER(names_equal, strcpy(o[1].name, o[0].name))
TAMPER(pending_names_equal, strcpy(o[1].name, o[2].name); o[1].flags = HR_OBJECT_PENDING)
TAMPER(flags, o[0].flags |= 8)
TAMPER(flags_high, o[0].flags |= 1u << 31)
TAMPER(pending_with_crc, o[2].flags |= HR_OBJECT_HAS_CRC)
TAMPER(in_superblocks, o[0].offset = 0)
TAMPER(in_scratch, o[0].offset = DATA - HR_STORE_ALIGN)
TAMPER(at_the_end, o[0].offset = END)
TAMPER(far_beyond, o[0].offset = UINT64_MAX - 4095)
TAMPER(over_the_end, o[0].offset = END - HR_STORE_ALIGN)
TAMPER(unaligned, o[0].offset++)
TAMPER(extent_unaligned, o[0].capacity--)
TAMPER(extent_huge, o[0].capacity = UINT64_MAX - 4095)
TAMPER(extent_wraps, o[0].capacity = 0u - o[0].offset)
TAMPER(extent_too_long, o[0].capacity = END - o[0].offset + HR_STORE_ALIGN)
TAMPER(longer_than_extent, o[0].bytes = o[0].durable_bytes = o[0].capacity + 1)
TAMPER(much_longer, o[0].bytes = o[0].durable_bytes = UINT64_MAX)
TAMPER(durable_beyond, o[2].durable_bytes = o[2].bytes + 1)
TAMPER(whole_not_durable, o[0].durable_bytes--)
TAMPER(same_place, o[1].offset = o[0].offset)
TAMPER(overlap_by_one, o[1].offset = o[0].offset + HR_STORE_ALIGN)
TAMPER(overlap_around, o[2].offset = o[0].offset; o[2].capacity = 20 * HR_STORE_ALIGN)
TAMPER(overlap_of_the_last, o[2].offset = o[1].offset)
/* An empty object between the two must not hide the overlap. */
TAMPER(overlap_over_empty, o[0].capacity = 20 * HR_STORE_ALIGN;
       o[1].offset = o[0].offset + HR_STORE_ALIGN;
       o[1].capacity = o[1].bytes = o[1].durable_bytes = 0;
       o[2].offset = o[1].offset + HR_STORE_ALIGN)

static const struct {
	const char *what;
	void (*tamper)(void);
	const char *why; /* part of the message */
} row[] = {
#define ROW(name, why)           \
	{                        \
#name, name, why \
	}
	ROW(version, "superblock 1: format version 3; only versions 1 to 2 are supported"),
	ROW(version_0, "superblock 1: format version 0; only versions 1 to 2 are supported"),
	ROW(shard_of_version_1, "record 0 (id 1): it has unknown flags"),
	ROW(shard_of_none, "record 0 (id 1): its rows are not a part of a data set"),
	ROW(shard_name, "record 0 (id 1): the name of the shard is longer than 31 characters"),
	ROW(unknown_field, "superblock 1: unknown fields"),
	ROW(no_room, "superblock 1: 3 objects, room for 0"),
	ROW(no_room_for_none, "superblock 1: 0 objects on 1310720 bytes are invalid"),
	ROW(much_room, "superblock 1: 4294967295 objects on 1310720 bytes are invalid"),
	ROW(other_room, "superblock 1: map, scratch or data area is misplaced"),
	ROW(many, "superblock 1: 9 objects, room for 8"),
	ROW(very_many, "superblock 1: 4294967295 objects, room for 8"),
	ROW(generation_0, "superblock 1: generation 0, next id 4"),
	ROW(generation_wraps, "superblock 1: generation 18446744073709551615, next id 4"),
	ROW(generation_too_high, "superblock 1: generation 9223372036854775808, next id 4"),
	ROW(next_id_0, "superblock 1: generation 6, next id 0"),
	ROW(next_id_wraps, "superblock 1: generation 6, next id 18446744073709551615"),
	ROW(next_id_too_high, "superblock 1: generation 6, next id 9223372036854775808"),
	ROW(next_id_taken, "record 2 (id 3): its id was never assigned"),
	ROW(larger_disk, "the store was made on 1314816 bytes, the disk has 1310720: truncated"),
	ROW(huge_disk,
	    "the store was made on 18446744073709551615 bytes, the disk has 1310720: truncated"),
	ROW(no_disk, "superblock 1: 8 objects on 0 bytes are invalid"),
	ROW(smaller_disk, "superblock 1: map, scratch or data area is misplaced"),
	ROW(map_elsewhere, "superblock 1: map, scratch or data area is misplaced"),
	ROW(map_beyond, "superblock 1: map, scratch or data area is misplaced"),
	ROW(scratch_elsewhere, "superblock 1: map, scratch or data area is misplaced"),
	ROW(data_in_maps, "superblock 1: map, scratch or data area is misplaced"),
	ROW(data_beyond, "superblock 1: map, scratch or data area is misplaced"),
	ROW(more_data, "superblock 1: map, scratch or data area is misplaced"),
	ROW(id_0, "record 0 (id 0): its id was never assigned"),
	ROW(id_of_the_future, "record 2 (id 18446744073709551615): its id was never assigned"),
	ROW(ids_equal, "record 1 (id 1): its id does not follow that of the record before"),
	ROW(ids_descend, "record 2 (id 2): its id does not follow that of the record before"),
	ROW(name_empty, "record 0 (id 1): its name is not 1..63 printable characters without '/'"),
	ROW(name_without_end,
	    "record 0 (id 1): its name is not 1..63 printable characters without '/'"),
	ROW(name_control,
	    "record 0 (id 1): its name is not 1..63 printable characters without '/'"),
	ROW(name_escape, "record 0 (id 1): its name is not 1..63 printable characters without '/'"),
	ROW(name_delete, "record 0 (id 1): its name is not 1..63 printable characters without '/'"),
	ROW(name_last_control,
	    "record 0 (id 1): its name is not 1..63 printable characters without '/'"),
	ROW(names_equal_apart, "objects 3 and 1 are both 'c'"),
	ROW(name_high, "record 0 (id 1): its name is not 1..63 printable characters without '/'"),
	ROW(name_slash, "record 0 (id 1): its name is not 1..63 printable characters without '/'"),
	ROW(names_equal, "are both 'a'"),
	ROW(pending_names_equal, "are both 'c'"),
	ROW(flags, "record 0 (id 1): it has unknown flags"),
	ROW(flags_high, "record 0 (id 1): it has unknown flags"),
	ROW(pending_with_crc, "record 2 (id 3): it is incomplete and has a checksum"),
	ROW(in_superblocks, "record 0 (id 1): it lies outside of the data area"),
	ROW(in_scratch, "record 0 (id 1): it lies outside of the data area"),
	ROW(at_the_end, "record 0 (id 1): it reaches beyond the data area"),
	ROW(far_beyond, "record 0 (id 1): it lies outside of the data area"),
	ROW(over_the_end, "record 0 (id 1): it reaches beyond the data area"),
	ROW(unaligned, "record 0 (id 1): its extent is not aligned"),
	ROW(extent_unaligned, "record 0 (id 1): its extent is not aligned"),
	ROW(extent_huge, "record 0 (id 1): it reaches beyond the data area"),
	ROW(extent_wraps, "record 0 (id 1): it reaches beyond the data area"),
	ROW(extent_too_long, "record 0 (id 1): it reaches beyond the data area"),
	ROW(longer_than_extent, "record 0 (id 1): it is longer than its extent"),
	ROW(much_longer, "record 0 (id 1): it is longer than its extent"),
	ROW(durable_beyond, "record 2 (id 3): its durable length is invalid"),
	ROW(whole_not_durable, "record 0 (id 1): its durable length is invalid"),
	ROW(same_place, " overlap"),
	ROW(overlap_by_one, "objects 1 'a' and 2 'b' overlap"),
	ROW(overlap_around, " overlap"),
	ROW(overlap_of_the_last, " overlap"),
	ROW(overlap_over_empty, "objects 1 'a' and 3 'c' overlap"),
};

/* "a" and "b" in both copies, "c" in the newer one, whose superblock and records are head and o. */
static void make(void)
{
	struct hr_store_object *object;

	fake_store_init(&f, 4096);
	fake_store_put(&f, "a", 2 * HR_STORE_ALIGN);
	fake_store_put(&f, "b", 1);
	cr_assert_eq(hr_store_create(&f.store, "c", 100, 0, false, &object, NULL), 0);
	head = &fake_store_superblock(&f, f.store.active)->head;
	o = fake_store_map(&f, f.store.active);
}

Test(objmap_hostile, the_untouched_map_opens)
{
	make();
	fake_store_sign(&f, f.store.active);
	cr_expect_eq(fake_store_reopen(&f), 0);
	cr_expect_eq(f.store.count, 3);
	fake_store_fini(&f);
}

/* Number of messages of the level since the last call; the newest must contain `why`. */
static unsigned said(enum hr_log_level level, const char *why, const char *what)
{
	static unsigned before[HR_LOG_DEBUG + 1];
	const unsigned count = fake_log_count_of(level) - before[level];

	before[level] += count;
	if (count && why)
		cr_expect_not_null(strstr(fake_log_last_of(level), why), "%s: %s", what,
				   fake_log_last_of(level));
	return count;
}

Test(objmap_hostile, a_map_that_cannot_be_is_not_used)
{
	for (size_t i = 0; i < ROWS(row); i++) {
		make();
		row[i].tamper();
		fake_store_sign(&f, f.store.active);
		cr_assert_eq(fake_store_reopen(&f), 0, "%s: the older copy is sound", row[i].what);
		cr_expect_eq(f.store.count, 2, "%s", row[i].what);
		cr_expect_eq(said(HR_LOG_WARN, row[i].why, row[i].what), 1, "%s", row[i].what);
		cr_expect_eq(said(HR_LOG_ERROR, NULL, NULL), 0, "%s", row[i].what);
		cr_expect_eq(f.disk.writes + f.disk.flushes, 0, "%s", row[i].what);
		fake_store_fini(&f);
	}
}

Test(objmap_hostile, without_another_copy_the_store_is_corrupt)
{
	for (size_t i = 0; i < ROWS(row); i++) {
		int err;

		make();
		row[i].tamper();
		fake_store_sign(&f, f.store.active);
		memset(fake_store_superblock(&f, 1 - f.store.active), 0, HR_PAGE);
		err = fake_store_reopen(&f);
		cr_expect_eq(err, -EUCLEAN, "%s: %d", row[i].what, err);
		cr_expect_eq(said(HR_LOG_ERROR, row[i].why, row[i].what), 2,
			     "%s: one line for each copy", row[i].what);
		cr_expect_eq(f.disk.writes + f.disk.flushes, 0, "%s", row[i].what);
		fake_store_fini(&f);
	}
}

/* Records that look unusual and are valid. */
TAMPER(empty_inside, o[1].offset = o[0].offset + HR_STORE_ALIGN;
       o[1].capacity = o[1].bytes = o[1].durable_bytes = 0)
TAMPER(empty_at_the_end, o[1].offset = END; o[1].capacity = o[1].bytes = o[1].durable_bytes = 0)
TAMPER(up_to_the_end, o[0].offset = END - o[0].capacity)
TAMPER(at_the_start, o[2].offset = o[0].offset; o[0].offset = END - o[0].capacity)
TAMPER(neighbours, o[2].offset = o[1].offset + o[1].capacity)
TAMPER(pending_and_durable, o[2].durable_bytes = o[2].bytes)
TAMPER(pending_of_a_name, strcpy(o[2].name, o[0].name))
TAMPER(all_flags_of_a_whole_one, o[0].flags = HR_OBJECT_HAS_CRC)
TAMPER(as_long_as_its_extent, o[1].bytes = o[1].durable_bytes = o[1].capacity)
TAMPER(next_id_is_the_next, head->next_id = o[2].id + 1)

Test(objmap_hostile, odd_records_that_are_sound_open)
{
	static void (*const tamper[])(void) = {
		empty_inside,
		empty_at_the_end,
		up_to_the_end,
		at_the_start,
		neighbours,
		pending_and_durable,
		pending_of_a_name,
		all_flags_of_a_whole_one,
		as_long_as_its_extent,
		next_id_is_the_next,
	};

	for (size_t i = 0; i < ROWS(tamper); i++) {
		make();
		tamper[i]();
		fake_store_sign(&f, f.store.active);
		cr_expect_eq(fake_store_reopen(&f), 0, "row %zu", i);
		cr_expect_eq(f.store.count, 3, "row %zu: %s", i, fake_log_last());
		cr_expect_eq(said(HR_LOG_WARN, NULL, NULL), 0, "row %zu", i);
		fake_store_fini(&f);
	}
}

/* One bit in each byte of a superblock, with the old CRC: only the CRC detects it. */
Test(objmap_hostile, each_rotten_byte_of_a_superblock_is_a_wrong_crc)
{
	for (size_t at = sizeof(head->magic); at < HR_PAGE; at += at < sizeof(*head) ? 1 : 500) {
		char what[32];

		snprintf(what, sizeof(what), "byte %zu", at);
		make();
		((uint8_t *)head)[at] ^= (uint8_t)(1u << at % 8);
		cr_expect_eq(fake_store_reopen(&f), 0, "%s", what);
		cr_expect_eq(f.store.count, 2, "%s: the older copy is used", what);
		cr_expect_eq(said(HR_LOG_WARN, "superblock 1: CRC-32C is ", what), 1, "%s", what);
		memset(fake_store_superblock(&f, 0), 0, HR_PAGE);
		cr_expect_eq(fake_store_reopen(&f), -EUCLEAN, "%s", what);
		cr_expect_eq(said(HR_LOG_ERROR, "superblock 1: CRC-32C is ", what), 2, "%s", what);
		fake_store_fini(&f);
	}
}

TAMPER(foreign_uuid, head->uuid[15] ^= 0x80)
TAMPER(less_room, head->capacity = 7)
TAMPER(shorter_disk, head->disk_bytes -= HR_PAGE; head->data_bytes -= HR_PAGE)
TAMPER(same_generation, head->generation--)

/* Two superblocks, each valid alone, that no sequence of changes can leave. */
Test(objmap_hostile, superblocks_of_two_histories_are_refused)
{
	static void (*const tamper[])(void) = { foreign_uuid, less_room, shorter_disk,
						same_generation };

	for (size_t i = 0; i < ROWS(tamper); i++) {
		make();
		tamper[i]();
		fake_store_sign(&f, f.store.active);
		cr_expect_eq(fake_store_reopen(&f), -EUCLEAN, "row %zu", i);
		cr_expect_eq(said(HR_LOG_ERROR, ") are not of one history", "history"), 1,
			     "row %zu", i);
		memset(fake_store_superblock(&f, 0), 0, HR_PAGE);
		cr_expect_eq(fake_store_reopen(&f), 0, "row %zu: sound by itself", i);
		cr_expect_eq(f.store.count, 3, "row %zu", i);
		fake_store_fini(&f);
	}
}

/* The last counters that open must not be followed by ones that do not. */
Test(objmap_hostile, exhausted_counters_refuse_changes_and_stay_readable)
{
	static const struct {
		uint64_t generation, next_id;
		int want;
	} counters[] = {
		{ HR_STORE_COUNTER_MAX, 100, -EOVERFLOW },
		{ HR_STORE_COUNTER_MAX - 1, 100, 0 },
		{ 100, HR_STORE_COUNTER_MAX, -EOVERFLOW },
		{ 100, HR_STORE_COUNTER_MAX - 1, 0 },
	};
	struct hr_store_object *object;

	for (size_t i = 0; i < ROWS(counters); i++) {
		fake_store_init(&f, 4096);
		fake_store_put(&f, "a", 1);
		head = &fake_store_superblock(&f, f.store.active)->head;
		head->generation = counters[i].generation;
		head->next_id = counters[i].next_id;
		fake_store_sign(&f, f.store.active);
		cr_assert_eq(fake_store_reopen(&f), 0, "row %zu", i);
		cr_expect_eq(hr_store_create(&f.store, "b", 1, 0, false, &object, NULL),
			     counters[i].want, "row %zu", i);
		cr_assert_eq(fake_store_reopen(&f), 0, "row %zu: unreadable", i);
		cr_expect_not_null(hr_store_find(&f.store, "a"));
		fake_store_fini(&f);
	}
}
