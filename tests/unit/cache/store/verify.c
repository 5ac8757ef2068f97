/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a whole store: all lines that it reports, in their order, and what ends it. */
#include "cache/store/verify.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cache/crc32c.h"
#include "tests/harness/error.h"
#include "tests/harness/store.h"

#define BUFFER (2 * HR_PAGE)

static struct fake_store f;
static uint8_t buffer[BUFFER];
static char report[2048];
static uint64_t pieces, stop_at; /* calls of progress(); it ends the check at that call */
static char read_so_far[256];

static void line(void *arg, bool fault, const char *text)
{
	cr_expect_eq(arg, (void *)report);
	snprintf(report + strlen(report), sizeof report - strlen(report), "%c%s\n",
		 fault ? '!' : ' ', text);
}

static bool progress(void *arg, uint64_t bytes)
{
	cr_expect_eq(arg, (void *)report);
	snprintf(read_so_far + strlen(read_so_far), sizeof read_so_far - strlen(read_so_far),
		 "%llu ", (unsigned long long)bytes);
	return ++pieces != stop_at;
}

/* "a": 1 page and 1 byte; "b": 5000 bytes, incomplete; "c": 4 pages and 4 bytes with a checksum; "d":
 * empty, with a checksum. Four objects, five changes: copy 0 or 1 is current. */
static void begin(void)
{
	static uint8_t data[5 * HR_PAGE];
	struct hr_store_object *o;

	fake_store_init(&f, 4096);
	report[0] = read_so_far[0] = '\0';
	pieces = stop_at = 0;
	fake_store_put(&f, "a", HR_PAGE + 1);
	cr_assert_eq(hr_store_create(&f.store, "b", 5000, 0, false, &o, NULL), 0);
	cr_assert_eq(hr_store_create(&f.store, "c", 4 * HR_PAGE + 4, 0, false, &o, NULL), 0);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + i / 4096);
	cr_assert_eq(f.disk.blk.ops->write(&f.disk.blk, o->offset, data, sizeof data, true, NULL),
		     0);
	cr_assert_eq(
		hr_store_finish(&f.store, o->id, true, hr_crc32c(0, data, 4 * HR_PAGE + 4), NULL),
		0);
	cr_assert_eq(hr_store_create(&f.store, "d", 0, 0, false, &o, NULL), 0);
	cr_assert_eq(hr_store_finish(&f.store, o->id, true, 0, NULL), 0);
}

static void end(void)
{
	fake_store_fini(&f);
}

TestSuite(objmap_verify, .init = begin, .fini = end, .timeout = 60);

static int verify(bool data, uint32_t *faults)
{
	const struct hr_store_check check = { line, data ? progress : NULL, report,
					      data, data ? buffer : NULL,   data ? BUFFER : 0 };

	report[0] = read_so_far[0] = '\0';
	return hr_store_verify(&f.store, &check, faults, test_error());
}

/* The lines of both copies, the current one with its mark. */
static const char *copies(void)
{
	static char text[256];
	const unsigned current = f.store.active;

	snprintf(text, sizeof text,
		 " map copy 0%s: generation %llu, 4 objects\n map copy 1%s: generation %llu, 4 "
		 "objects\n",
		 current == 0 ? " (current)" : "",
		 (unsigned long long)f.store.generation - (current != 0),
		 current == 1 ? " (current)" : "",
		 (unsigned long long)f.store.generation - (current != 1));
	return text;
}

static void expect(const char *rest)
{
	char text[2048];

	snprintf(text, sizeof text, "%s%s", copies(), rest);
	cr_expect_str_eq(report, text);
}

Test(objmap_verify, a_sound_store_has_a_line_for_each_copy_and_object)
{
	char rest[512];
	uint32_t faults = 9;

	cr_expect_eq(verify(true, &faults), 0);
	cr_expect_eq(faults, 0);
	snprintf(rest, sizeof rest,
		 " a: 4097 bytes, no checksum\n b: incomplete, 0 of 5000 bytes are durable\n"
		 " c: 16388 bytes, CRC-32C %08x\n d: 0 bytes, CRC-32C 00000000\n",
		 f.store.object[2].crc);
	expect(rest);
	cr_expect_str_eq(read_so_far, "8192 8192 4 ");
	faults = 9;
	cr_expect_eq(verify(false, &faults), 0);
	cr_expect_eq(faults, 0);
	expect("");
}

Test(objmap_verify, one_object_is_one_object)
{
	uint32_t faults;

	end();
	fake_store_init(&f, 4096);
	fake_store_put(&f, "a", 1);
	cr_expect_eq(verify(false, &faults), 0);
	cr_expect_not_null(strstr(report, ", 1 object\n"));
	cr_expect_null(strstr(report, ", 1 objects"));
}

Test(objmap_verify, data_with_another_checksum_are_a_fault)
{
	const struct hr_store_object *c = &f.store.object[2];
	char rest[128];
	uint32_t faults;

	/* the last byte of the object, and one behind it, which does not count */
	f.disk.seen[c->offset + c->bytes]++;
	cr_expect_eq(verify(true, &faults), 0);
	cr_expect_eq(faults, 0);
	f.disk.seen[c->offset + c->bytes - 1]++;
	cr_expect_eq(verify(true, &faults), 0);
	cr_expect_eq(faults, 1);
	snprintf(rest, sizeof rest, "should be %08x\n d: 0 bytes", c->crc);
	cr_expect_not_null(strstr(report, "!c: CRC-32C of the data is "));
	cr_expect_not_null(strstr(report, rest));
}

Test(objmap_verify, data_that_cannot_be_read_are_a_fault_and_the_check_goes_on)
{
	const struct hr_store_object *c = &f.store.object[2];
	uint32_t faults;

	f.disk.bad_from = c->offset + 3ull * HR_PAGE;
	f.disk.bad_to = f.disk.bad_from + 1;
	f.disk.fail_status = 0x281; /* unrecovered read error */
	cr_expect_eq(verify(true, &faults), 0);
	cr_expect_eq(faults, 1);
	cr_expect_str_eq(read_so_far, "8192 ");
	cr_expect_not_null(strstr(report, "!c: cannot be read at byte 8192: "));
	cr_expect_not_null(strstr(report, " d: 0 bytes, CRC-32C 00000000\n"));
	cr_expect_str_eq(test_error_text(), "");
	f.disk.fail_status = -ENODEV; /* the disk is gone */
	cr_expect_eq(verify(true, &faults), -ENODEV);
	cr_expect_eq(faults, 0);
	cr_expect_null(strstr(report, "cannot be read"));
	cr_expect_null(strstr(report, " d: "));
}

Test(objmap_verify, progress_ends_the_check)
{
	uint32_t faults;

	stop_at = 2;
	cr_expect_eq(verify(true, &faults), -EINTR);
	cr_expect_str_eq(read_so_far, "8192 8192 ");
	cr_expect_null(strstr(report, "c: "));
}

/* ---- copies */

Test(objmap_verify, a_map_that_cannot_be_read_is_a_fault)
{
	const unsigned other = 1 - f.store.active;
	uint32_t faults;

	f.disk.bad_from = f.store.map_offset[other];
	f.disk.bad_to = f.disk.bad_from + 1;
	f.disk.fail_status = 0x281;
	cr_expect_eq(verify(false, &faults), 0);
	cr_expect_eq(faults, 1);
	cr_expect_not_null(strstr(report, other ? "!object map: cannot be read at byte 12288: "
						: "!object map: cannot be read at byte 8192: "));
	f.disk.bad_from = HR_PAGE;
	f.disk.bad_to = HR_PAGE + 1;
	cr_expect_eq(verify(false, &faults), 0x281); /* a superblock ends the check */
	cr_expect_str_eq(report, "");
}

Test(objmap_verify, each_record_with_a_fault_is_reported)
{
	const unsigned other = 1 - f.store.active;
	struct hr_store_object *map = fake_store_map(&f, other);
	char text[400];
	uint32_t faults;

	memdisk_power_on(&f.disk);
	map[0].durable_bytes--;
	map[3].id = 0;
	fake_store_sign(&f, other);
	memdisk_power_on(&f.disk);
	cr_expect_eq(verify(false, &faults), 0);
	cr_expect_eq(faults, 2, "%s", report);
	snprintf(text, sizeof text,
		 "!record 0 (id 1): its durable length is invalid\n"
		 "!record 3 (id 0): its id was never assigned\n");
	cr_expect_not_null(strstr(report, text), "%s", report);
	cr_expect_null(strstr(report, other ? "map copy 1" : "map copy 0"));
}

Test(objmap_verify, damage_that_a_power_cut_can_leave_is_no_fault)
{
	static const struct {
		bool current; /* which copy */
		bool map;     /* its map, or a field of its superblock in place of the CRC */
		int generation, version, next_id, count; /* added to these fields */
		uint32_t faults;
		bool again; /* "(not current; the next change writes it anew)" */
	} row[] = {
		{ false, true, 0, 0, 0, 0, 0, true },	{ true, true, 0, 0, 0, 0, 1, false },
		{ false, false, 0, 0, 0, 0, 0, true },	{ true, false, 0, 0, 0, 0, 1, false },
		{ false, false, -1, 0, 0, 0, 0, true }, { false, false, -2, 0, 0, 0, 1, false },
		{ false, false, 1, 0, 0, 0, 1, false }, { false, false, 2, 0, 0, 0, 0, true },
		{ false, false, 3, 0, 0, 0, 0, true },	{ false, false, 4, 0, 0, 0, 1, false },
		{ false, false, 0, -1, 0, 0, 0, true }, { false, false, 0, -2, 0, 0, 1, false },
		{ false, false, 0, 1, 0, 0, 1, false }, { false, false, 2, -1, 0, 0, 1, false },
		{ false, false, 0, 0, 1, 0, 1, false }, { false, false, 2, 0, 1, 0, 0, true },
		{ false, false, 2, 0, 2, 0, 1, false }, { false, false, 2, 0, -1, 0, 1, false },
		{ false, false, 0, 0, -1, 0, 0, true }, { false, false, 0, 0, 0, 4, 0, true },
		{ false, false, 0, 0, 0, 5, 1, false }, { false, false, 2, 0, 0, -1, 1, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const unsigned which = row[i].current ? f.store.active : 1 - f.store.active;
		struct hr_superblock *s = fake_store_superblock(&f, which);
		uint32_t faults;

		if (row[i].map) {
			fake_store_map(&f, which)->tag++;
		} else {
			s->head.generation += (uint64_t)(int64_t)row[i].generation;
			s->head.version += (uint32_t)row[i].version;
			s->head.next_id += (uint64_t)(int64_t)row[i].next_id;
			s->head.count += (uint32_t)row[i].count;
			s->crc++;
		}
		memdisk_power_on(&f.disk);
		cr_expect_eq(verify(false, &faults), 0, "%zu", i);
		cr_expect_eq(faults, row[i].faults, "%zu: %s", i, report);
		cr_expect_eq(strstr(report, " (not current; the next change writes it anew)\n") !=
				     NULL,
			     row[i].again, "%zu: %s", i, report);
		end();
		begin();
	}
}
