/* Object store: maps whose checksums are right and whose content is not. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "cache/objmap.h"
#include "tests/fake/memdisk.h"
#include "tests/fake/store.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define DATA HR_STORE_DATA_ALIGN
#define END (DATA + FAKE_STORE_DATA)

TestSuite(objmap_hostile, .timeout = 20);

static struct fake_store f;
static struct hr_superblock_head *head; /* of the copy that is tampered with */
static struct hr_object *o; /* its records: "a" 2 units, "b" 1 unit, PENDING "c" 1 unit */

/* Changes that a checksum does not catch. Each must make the copy invalid. */
#define TAMPER(name, ...)      \
	static void name(void) \
	{                      \
		__VA_ARGS__;   \
	}
TAMPER(version, head->version = 2)
TAMPER(unknown_field, fake_store_superblock(&f, f.store.active)->zero[3000] = 1)
TAMPER(no_room, head->capacity = 0)
TAMPER(much_room, head->capacity = UINT32_MAX)
TAMPER(other_room, head->capacity = FAKE_STORE_OBJECTS + 40)
TAMPER(many, head->count = FAKE_STORE_OBJECTS + 1)
TAMPER(very_many, head->count = UINT32_MAX)
TAMPER(generation_0, head->generation = 0)
TAMPER(generation_wraps, head->generation = UINT64_MAX)
TAMPER(next_id_0, head->next_id = 0)
TAMPER(next_id_wraps, head->next_id = UINT64_MAX)
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
TAMPER(name_high, o[0].name[0] = (char)0x80)
TAMPER(name_slash, o[0].name[0] = '/')
TAMPER(names_equal, strcpy(o[1].name, o[0].name))
TAMPER(pending_names_equal, strcpy(o[1].name, o[2].name); o[1].flags = HR_OBJECT_PENDING)
TAMPER(flags, o[0].flags |= 4)
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

static const struct {
	const char *what;
	void (*tamper)(void);
} row[] = {
#define ROW(name)           \
	{                   \
#name, name \
	}
	ROW(version),
	ROW(unknown_field),
	ROW(no_room),
	ROW(much_room),
	ROW(other_room),
	ROW(many),
	ROW(very_many),
	ROW(generation_0),
	ROW(generation_wraps),
	ROW(next_id_0),
	ROW(next_id_wraps),
	ROW(next_id_taken),
	ROW(larger_disk),
	ROW(huge_disk),
	ROW(no_disk),
	ROW(smaller_disk),
	ROW(map_elsewhere),
	ROW(map_beyond),
	ROW(scratch_elsewhere),
	ROW(data_in_maps),
	ROW(data_beyond),
	ROW(more_data),
	ROW(id_0),
	ROW(id_of_the_future),
	ROW(ids_equal),
	ROW(ids_descend),
	ROW(name_empty),
	ROW(name_without_end),
	ROW(name_control),
	ROW(name_escape),
	ROW(name_delete),
	ROW(name_high),
	ROW(name_slash),
	ROW(names_equal),
	ROW(pending_names_equal),
	ROW(flags),
	ROW(flags_high),
	ROW(pending_with_crc),
	ROW(in_superblocks),
	ROW(in_scratch),
	ROW(at_the_end),
	ROW(far_beyond),
	ROW(over_the_end),
	ROW(unaligned),
	ROW(extent_unaligned),
	ROW(extent_huge),
	ROW(extent_wraps),
	ROW(extent_too_long),
	ROW(longer_than_extent),
	ROW(much_longer),
	ROW(durable_beyond),
	ROW(whole_not_durable),
	ROW(same_place),
	ROW(overlap_by_one),
	ROW(overlap_around),
};

/* "a" and "b" in both copies, "c" in the newer one; its superblock and records are head and o. */
static void make(void)
{
	struct hr_object *object;

	fake_store_init(&f, 4096);
	fake_store_put(&f, "a", 2 * HR_STORE_ALIGN);
	fake_store_put(&f, "b", 1);
	cr_assert_eq(hr_store_create(&f.store, "c", 100, 0, false, &object), 0);
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

Test(objmap_hostile, a_map_that_cannot_be_is_not_used)
{
	for (size_t i = 0; i < ROWS(row); i++) {
		int err;

		make();
		row[i].tamper();
		fake_store_sign(&f, f.store.active);
		err = fake_store_reopen(&f);
		if (!err)
			cr_expect_eq(f.store.count, 2, "%s: the older copy is sound", row[i].what);
		else
			cr_expect_eq(err, -EUCLEAN, "%s: %d", row[i].what, err);
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
		cr_expect_eq(f.disk.writes + f.disk.flushes, 0, "%s", row[i].what);
		fake_store_fini(&f);
	}
}

/* The last numbers that open are not followed by ones that do not. */
Test(objmap_hostile, counters_at_their_end_change_nothing_and_stay_readable)
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
	struct hr_object *object;

	for (size_t i = 0; i < ROWS(counters); i++) {
		fake_store_init(&f, 4096);
		fake_store_put(&f, "a", 1);
		head = &fake_store_superblock(&f, f.store.active)->head;
		head->generation = counters[i].generation;
		head->next_id = counters[i].next_id;
		fake_store_sign(&f, f.store.active);
		cr_assert_eq(fake_store_reopen(&f), 0, "row %zu", i);
		cr_expect_eq(hr_store_create(&f.store, "b", 1, 0, false, &object), counters[i].want,
			     "row %zu", i);
		cr_assert_eq(fake_store_reopen(&f), 0, "row %zu: unreadable", i);
		cr_expect_not_null(hr_store_find(&f.store, "a"));
		fake_store_fini(&f);
	}
}
