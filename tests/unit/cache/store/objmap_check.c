/* Superblocks and records from a disk, function by function: sizes at their limits, all texts. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/crc32c.h"
#include "cache/store/objmap_disk.h"
#include "tests/fakes/memdisk.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MIB (1ull << 20)
#define UNIT ((uint64_t)HR_STORE_ALIGN)

TestSuite(objmap_check, .timeout = 60);

/* ---- the layout */

Test(objmap_check, a_layout_follows_from_capacity_and_disk)
{
	static const struct {
		uint64_t disk;
		uint32_t capacity;
		int result;
		uint64_t map1, scratch, data, bytes;
	} row[] = {
		{ 8 * MIB, 0, -EINVAL, 0, 0, 0, 0 },
		{ 1ull << 40, HR_STORE_OBJECTS_MAX + 1, -EINVAL, 0, 0, 0, 0 },
		{ 8 * MIB, 1, 0, 3 * HR_PAGE, HR_STORE_SCRATCH, MIB, 7 * MIB },
		{ 8 * MIB + UNIT - 1, 32, 0, 3 * HR_PAGE, HR_STORE_SCRATCH, MIB, 7 * MIB },
		{ 8 * MIB + UNIT, 33, 0, 4 * HR_PAGE, HR_STORE_SCRATCH, MIB, 7 * MIB + UNIT },
		{ MIB, 1, -ENOSPC, 3 * HR_PAGE, HR_STORE_SCRATCH, MIB, 0 },
		{ MIB + UNIT - 1, 1, -ENOSPC, 3 * HR_PAGE, HR_STORE_SCRATCH, MIB, 0 },
		{ MIB + UNIT, 1, 0, 3 * HR_PAGE, HR_STORE_SCRATCH, MIB, UNIT },
		{ 0, 1, -ENOSPC, 3 * HR_PAGE, HR_STORE_SCRATCH, MIB, 0 },
	};
	struct hr_store_layout l;

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_store_lay_out(&l, row[i].disk, row[i].capacity), row[i].result,
			     "%zu", i);
		if (row[i].result == -EINVAL)
			continue;
		cr_expect(l.map_offset[0] == 2 * HR_PAGE && l.map_offset[1] == row[i].map1, "%zu",
			  i);
		cr_expect_eq(l.scratch_offset, row[i].scratch, "%zu", i);
		cr_expect(l.data_offset == row[i].data && l.data_bytes == row[i].bytes, "%zu", i);
	}
	cr_assert_eq(hr_store_lay_out(&l, 1ull << 40, HR_STORE_OBJECTS_MAX), 0);
	cr_expect_eq(l.map_offset[1] - l.map_offset[0],
		     hr_store_round(HR_STORE_OBJECTS_MAX * 128ull, HR_PAGE));
	cr_expect_geq(l.scratch_offset, 2 * l.map_offset[1] - l.map_offset[0]);
	cr_expect_lt(l.scratch_offset - (2 * l.map_offset[1] - l.map_offset[0]), HR_STORE_SCRATCH);
	cr_expect_geq(l.data_offset, l.scratch_offset + HR_STORE_SCRATCH);
	cr_expect_lt(l.data_offset - l.scratch_offset - HR_STORE_SCRATCH, HR_STORE_DATA_ALIGN);
}

/* ---- superblocks */

static uint8_t page[HR_PAGE] __attribute__((aligned(4096)));

static struct hr_superblock sound(unsigned i, uint64_t disk_bytes, uint32_t capacity)
{
	struct hr_superblock s = { .head = { .version = HR_STORE_VERSION,
					     .capacity = capacity,
					     .uuid = { 7 },
					     .generation = 5 + i,
					     .next_id = 9,
					     .disk_bytes = disk_bytes } };
	struct hr_store_layout l;

	cr_assert_eq(hr_store_lay_out(&l, disk_bytes, capacity), 0);
	memcpy(s.head.magic, HR_STORE_MAGIC, 8);
	s.head.map_offset = l.map_offset[i];
	s.head.scratch_offset = l.scratch_offset;
	s.head.data_offset = l.data_offset;
	s.head.data_bytes = l.data_bytes;
	s.crc = hr_crc32c(0, &s, offsetof(struct hr_superblock, crc));
	return s;
}

static void put(struct memdisk *disk, unsigned i, const struct hr_superblock *s)
{
	memcpy(disk->seen + (size_t)i * HR_PAGE, s, sizeof *s);
}

Test(objmap_check, a_disk_that_is_too_small_holds_no_superblock)
{
	static const struct {
		uint64_t bytes;
		int err;
		const char *why;
	} row[] = {
		{ 512, -ENOMEDIUM, "512 bytes are no store" },
		{ 3584, -ENOMEDIUM, "3584 bytes are no store" },
		{ 4096, -EMEDIUMTYPE, "4096 bytes are no store" },
		{ 7680, -EMEDIUMTYPE, "7680 bytes are no store" },
		{ 8192, -ENOMEDIUM, "superblock 0: blank" },
	};
	static const struct hr_superblock_head none;
	struct hr_superblock_state super[2];

	for (size_t i = 0; i < ROWS(row); i++) {
		struct memdisk disk;

		memdisk_init(&disk, row[i].bytes, 512);
		memset(super, 0x55, sizeof super);
		cr_expect_eq(hr_store_read_superblocks(&disk.blk, page, super, test_error()), 0);
		cr_expect(super[0].err == row[i].err && super[1].err == row[i].err);
		cr_expect_str_eq(super[0].why, row[i].why);
		cr_expect_eq(disk.reads, row[i].bytes == 8192 ? 2 : 0);
		cr_expect_eq(memcmp(&super[1].head, &none, sizeof none), 0);
		if (row[i].bytes < 8192)
			cr_expect_eq(super[0].page_crc, 0);
		memdisk_fini(&disk);
	}
}

Test(objmap_check, both_superblocks_are_read_as_they_are)
{
	struct hr_superblock_state super[2];
	struct hr_superblock s[2];
	struct memdisk disk;

	memdisk_init(&disk, 2 * MIB, 4096);
	for (unsigned i = 0; i < 2; i++) {
		s[i] = sound(i, 2 * MIB, 40);
		put(&disk, i, &s[i]);
	}
	memset(super, 0x55, sizeof super);
	cr_assert_eq(hr_store_read_superblocks(&disk.blk, page, super, test_error()), 0);
	for (unsigned i = 0; i < 2; i++) {
		cr_expect_eq(super[i].err, 0, "%s", super[i].why);
		cr_expect_str_eq(super[i].why, "");
		cr_expect_eq(memcmp(&super[i].head, &s[i].head, sizeof s[i].head), 0);
		cr_expect_eq(super[i].page_crc, s[i].crc);
	}
	s[1].head.magic[7]++;
	put(&disk, 1, &s[1]);
	s[0].crc = 0x1234;
	s[0].zero[0] = 1;
	put(&disk, 0, &s[0]);
	cr_assert_eq(hr_store_read_superblocks(&disk.blk, page, super, test_error()), 0);
	cr_expect(super[0].err == -EUCLEAN && super[1].err == -EMEDIUMTYPE);
	cr_expect_str_eq(super[1].why, "superblock 1: does not belong to a headrace store");
	cr_expect_not_null(strstr(
		super[0].why, "superblock 0: CRC-32C is 00001234, but that of its contents is"));
	disk.fail_status = -EIO;
	disk.bad_from = HR_PAGE;
	disk.bad_to = HR_PAGE + 1;
	cr_expect_eq(hr_store_read_superblocks(&disk.blk, page, super, test_error()), -EIO);
	memdisk_fini(&disk);
}

/* ---- the newest superblock */

static struct hr_superblock_state state(unsigned i, int err, const char *why)
{
	struct hr_superblock_state s = { .head = sound(i, 2 * MIB, 40).head, .err = err };

	snprintf(s.why, sizeof s.why, "%s", why);
	return s;
}

Test(objmap_check, without_a_sound_superblock_the_disk_has_a_state)
{
	static const struct {
		int first, second;
		const char *why[2];
		int newest, result;
		const char *text;
	} row[] = {
		{ 0, -EUCLEAN, { "", "b" }, 0, 1, "" },
		{ -EUCLEAN, 0, { "a", "" }, 1, 1, "" },
		{ -ENOMEDIUM, -ENOMEDIUM, { "a", "b" }, -1, -ENOMEDIUM, "" },
		{ -ENOMEDIUM, -EMEDIUMTYPE, { "a", "b" }, -1, -EMEDIUMTYPE, "" },
		{ -EMEDIUMTYPE, -ENOMEDIUM, { "a", "b" }, -1, -EMEDIUMTYPE, "" },
		{ -EMEDIUMTYPE, -EMEDIUMTYPE, { "a", "b" }, -1, -EMEDIUMTYPE, "" },
		{ -EUCLEAN,
		  -ENOMEDIUM,
		  { "a", "b" },
		  -1,
		  -EUCLEAN,
		  "d: object store: a\nd: object store: b" },
		{ -ENOMEDIUM,
		  -EUCLEAN,
		  { "a", "b" },
		  -1,
		  -EUCLEAN,
		  "d: object store: a\nd: object store: b" },
		{ -EUCLEAN, -EUCLEAN, { "a", "a" }, -1, -EUCLEAN, "d: object store: a" },
	};
	const struct hr_blk blk = { .name = "d" };

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_superblock_state super[2] = {
			state(0, row[i].first, row[i].why[0]),
			state(1, row[i].second, row[i].why[1]),
		};
		int err = 1;

		cr_expect_eq(hr_store_newest(&blk, super, &err, test_error()), row[i].newest, "%zu",
			     i);
		cr_expect_eq(err, row[i].result, "%zu", i);
		cr_expect_str_eq(test_error_text(), row[i].text);
	}
}

Test(objmap_check, two_superblocks_are_of_one_history_or_of_none)
{
	static const struct {
		unsigned generation[2], version[2];
		int which; /* field of the second one that differs; 0: none */
		int newest;
	} row[] = {
		{ { 5, 6 }, { 2, 2 }, 0, 1 },  { { 6, 5 }, { 2, 2 }, 0, 0 },
		{ { 5, 5 }, { 2, 2 }, 0, -1 }, { { 5, 6 }, { 1, 2 }, 0, 1 },
		{ { 6, 5 }, { 2, 1 }, 0, 0 },  { { 5, 6 }, { 2, 1 }, 0, -1 },
		{ { 6, 5 }, { 1, 2 }, 0, -1 }, { { 5, 6 }, { 2, 2 }, 1, -1 },
		{ { 5, 6 }, { 2, 2 }, 2, -1 }, { { 5, 6 }, { 2, 2 }, 3, -1 },
	};
	const struct hr_blk blk = { .name = "d" };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_superblock_state super[2] = { state(0, 0, ""), state(1, 0, "") };
		char text[128];
		int err = 1;

		for (unsigned k = 0; k < 2; k++) {
			super[k].head.generation = row[i].generation[k];
			super[k].head.version = row[i].version[k];
		}
		super[1].head.uuid[15] = row[i].which == 1;
		super[1].head.capacity += row[i].which == 2;
		super[1].head.disk_bytes += row[i].which == 3;
		cr_expect_eq(hr_store_newest(&blk, super, &err, test_error()), row[i].newest, "%zu",
			     i);
		snprintf(text, sizeof text,
			 "d: object store: the superblocks (generations %u, %u) are not of one "
			 "history",
			 row[i].generation[0], row[i].generation[1]);
		cr_expect_str_eq(test_error_text(), row[i].newest < 0 ? text : "");
		cr_expect_eq(err, row[i].newest < 0 ? -EUCLEAN : 1);
	}
}

Test(objmap_check, a_map_is_read_as_far_as_it_has_records)
{
	static uint8_t map[3 * HR_PAGE];
	struct hr_superblock_head head = { .generation = 5, .map_offset = 2 * HR_PAGE };
	char why[HR_STORE_LINE] = "", text[HR_STORE_LINE];
	struct memdisk disk;

	memdisk_init(&disk, 64 * HR_PAGE, 4096);
	memset(disk.seen + (size_t)2 * HR_PAGE, 0x31, (size_t)3 * HR_PAGE);
	cr_expect_eq(hr_store_read_map(&disk.blk, &head, map, why, test_error()), 0);
	cr_expect_eq(disk.reads, 0);
	head.count = 33; /* a page and one record */
	head.map_crc = hr_crc32c(0, disk.seen + (size_t)2 * HR_PAGE, (size_t)33 * 128);
	cr_expect_eq(hr_store_read_map(&disk.blk, &head, map, why, test_error()), 0);
	cr_expect_str_eq(why, "");
	cr_expect_eq(memcmp(map, disk.seen + (size_t)2 * HR_PAGE, (size_t)33 * 128), 0);
	cr_expect_eq(map[2 * HR_PAGE], 0);
	head.map_crc++;
	snprintf(text, sizeof text,
		 "map of generation 5 at byte 8192: CRC-32C is %08x, should be %08x",
		 head.map_crc - 1, head.map_crc);
	cr_expect_eq(hr_store_read_map(&disk.blk, &head, map, why, test_error()), -EUCLEAN);
	cr_expect_str_eq(why, text);
	disk.bad_from = disk.bad_to = (uint64_t)3 * HR_PAGE;
	disk.bad_to++;
	disk.fail_status = -EIO;
	cr_expect_eq(hr_store_read_map(&disk.blk, &head, map, why, test_error()), -EIO);
	memdisk_fini(&disk);
}

/* ---- records */

static char lines[1024];

static void add_line(void *arg, const char *line)
{
	cr_expect_eq(arg, (void *)lines);
	snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s|", line);
}

/* Records 0 to count - 1: names "a", "b", ..., ids 1, 2, ..., one unit each, one behind the other. */
static void make(struct hr_store_object *o, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		o[i] = (struct hr_store_object){ .id = i + 1,
						 .offset = MIB + i * UNIT,
						 .capacity = UNIT,
						 .bytes = UNIT,
						 .durable_bytes = UNIT };
		o[i].name[0] = (char)('a' + i);
	}
}

static uint32_t check(const struct hr_store_object *o, uint32_t count)
{
	const struct hr_superblock_head head = { .version = HR_STORE_VERSION,
						 .next_id = 30,
						 .count = count,
						 .data_offset = MIB,
						 .data_bytes = 20 * UNIT };
	const struct hr_store_findings findings = { add_line, lines };
	uint16_t order[32];

	lines[0] = '\0';
	return hr_store_check_objects(&head, o, order, &findings);
}

Test(objmap_check, every_fault_is_counted_and_said)
{
	struct hr_store_object o[20];

	make(o, 20);
	cr_expect_eq(check(o, 20), 0);
	cr_expect_eq(check(o, 0), 0);
	cr_expect_str_eq(lines, "");
	o[2].id = 2;
	o[4].id = 30;
	o[5].capacity++;
	cr_expect_eq(check(o, 6), 3);
	cr_expect_str_eq(lines, "record 2 (id 2): its id does not follow that of the record before|"
				"record 4 (id 30): its id was never assigned|"
				"record 5 (id 6): its extent is not aligned|");
	make(o, 20);
	memcpy(o[7].name, o[3].name, 2);
	memcpy(o[9].name, o[3].name, 2);
	o[9].flags = o[11].flags = HR_OBJECT_PENDING; /* beside the finished one */
	memcpy(o[11].name, o[3].name, 2);
	o[5].capacity = 2 * UNIT;
	o[1].capacity = 3 * UNIT;
	cr_expect_eq(check(o, 20), 4);
	cr_expect_str_eq(lines, "objects 8 and 4 are both 'd'|objects 12 and 10 are both 'd'|"
				"objects 2 'b' and 3 'c' overlap|objects 6 'f' and 7 'g' overlap|");
	make(o, 3);
	o[1].capacity = 0;
	o[1].bytes = o[1].durable_bytes = 0;
	o[1].offset = o[2].offset; /* an empty object has no place */
	cr_expect_eq(check(o, 3), 0);
	o[1].offset = MIB + 20 * UNIT; /* also at the end of the data area */
	cr_expect_eq(check(o, 3), 0, "%s", lines);
}

/* A shard's part of its data set, at each limit. */
Test(objmap_check, the_rows_of_a_shard_lie_in_its_data_set)
{
	static const struct {
		struct hr_store_shard shard;
		uint64_t bytes;
		bool ok;
	} row[] = {
		{ { .last = 1, .index = 1, .row_bytes = 8, .first_row = 2, .rows = 4 }, 16, true },
		{ { .last = 0, .index = 0, .row_bytes = 8, .first_row = 2, .rows = 4 }, 16, false },
		{ { .last = 1, .index = 2, .row_bytes = 8, .first_row = 2, .rows = 4 }, 16, false },
		{ { .last = 1, .index = 0, .row_bytes = 0, .first_row = 2, .rows = 4 }, 16, false },
		{ { .last = 1, .index = 0, .row_bytes = 8, .first_row = 2, .rows = 4 }, 12, false },
		{ { .last = 1, .index = 0, .row_bytes = 8, .first_row = 2, .rows = 4 }, 24, false },
		{ { .last = 1, .index = 0, .row_bytes = 8, .first_row = 3, .rows = 4 }, 16, false },
		{ { .last = 1, .index = 0, .row_bytes = 8, .first_row = 4, .rows = 4 }, 0, true },
		{ { .last = 1, .index = 0, .row_bytes = 8, .first_row = 5, .rows = 4 }, 0, false },
		{ { .last = 1, .index = 0, .row_bytes = 8, .rows = UINT64_MAX / 8 }, 8, true },
		{ { .last = 1, .index = 0, .row_bytes = 8, .rows = UINT64_MAX / 8 + 1 }, 8, false },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(hr_store_shard_ok(&row[i].shard, row[i].bytes), row[i].ok, "%zu", i);
}

Test(objmap_check, any_order_of_extents_is_sorted)
{
	struct hr_store_object o[24];
	uint16_t order[25];
	uint32_t seed = 1;

	for (uint32_t count = 0; count <= 24; count++) {
		for (uint32_t round = 0; round < 20; round++) {
			bool seen[24] = { false };

			for (uint32_t i = 0; i < count; i++) {
				seed = seed * 1664525u + 1013904223u;
				o[i].offset = seed >> 24 & (round < 10 ? 7 : 255);
			}
			order[count] = 0xfff0;
			hr_store_sort_by_offset(o, count, order);
			cr_expect_eq(order[count], 0xfff0);
			for (uint32_t i = 0; i < count; i++) {
				cr_assert(order[i] < count && !seen[order[i]]);
				seen[order[i]] = true;
				if (i)
					cr_assert_leq(o[order[i - 1]].offset, o[order[i]].offset);
			}
		}
	}
}

Test(objmap_check, a_name_is_printable_and_ends)
{
	char name[4] = { 'a', 'b', 'c', 'd' };

	cr_expect(!hr_store_name_ok(name, 4));
	name[3] = '\0';
	cr_expect(hr_store_name_ok(name, 4));
	cr_expect(!hr_store_name_ok(name, 3));
	for (unsigned at = 0; at < 3; at++) {
		for (int c = 1; c < 256; c++) {
			name[at] = (char)c;
			cr_expect_eq(hr_store_name_ok(name, 4), c >= 0x20 && c <= 0x7e && c != '/',
				     "%u %d", at, c);
		}
		name[at] = ' ';
	}
	name[0] = '\0';
	cr_expect(!hr_store_name_ok(name, 4));
}
