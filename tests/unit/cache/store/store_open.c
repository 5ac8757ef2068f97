/* SPDX-License-Identifier: Apache-2.0 */
/* Object store: format, open and verify on disks that are blank, foreign, truncated or corrupt. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/crc32c.h"
#include "cache/store/store.h"
#include "cache/store/verify.h"
#include "tests/fakes/log.h"
#include "tests/fakes/memdisk.h"
#include "tests/harness/store.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MEDIA_ERROR 0x281 /* Unrecovered Read Error */
#define BIG (8u << 20)

static struct fake_store f;

static void setup(void)
{
	fake_store_init(&f, 4096);
}

static void teardown(void)
{
	fake_store_fini(&f);
}

TestSuite(objmap_open, .init = setup, .fini = teardown, .timeout = 60);

Test(objmap_open, format_ends_in_each_documented_way)
{
	static const struct {
		const char *what;
		uint64_t bytes, dirt; /* dirt: position of one byte that is not zero; 0: none */
		uint32_t objects;
		bool force;
		int want;
	} row[] = {
		{ "blank", BIG, 0, 8, false, 0 },
		{ "no objects", BIG, 0, 0, false, -EINVAL },
		{ "too many objects", BIG, 0, HR_STORE_OBJECTS_MAX + 1, true, -EINVAL },
		{ "most objects", BIG, 0, HR_STORE_OBJECTS_MAX, false, 0 },
		{ "no room for data", 1u << 20, 0, 8, true, -ENOSPC },
		{ "tiny", 4096, 0, 8, true, -ENOSPC },
		{ "room for one page", (1u << 20) + 4096, 0, 8, false, 0 },
		{ "dirt in the beginning", BIG, 1, 8, false, -EMEDIUMTYPE },
		{ "dirt behind the maps", BIG, 3u << 20, 8, false, -EMEDIUMTYPE },
		{ "dirt at the end of the first 4 MiB", BIG, (4u << 20) - 1, 8, false,
		  -EMEDIUMTYPE },
		{ "dirt behind them", BIG, 4u << 20, 8, false, 0 },
		{ "dirt before the last 64 KiB", BIG, BIG - (64u << 10) - 1, 8, false, 0 },
		{ "dirt in the last 64 KiB", BIG, BIG - (64u << 10), 8, false, -EMEDIUMTYPE },
		{ "dirt at the end", BIG, BIG - 1, 8, false, -EMEDIUMTYPE },
		{ "dirt, by force", BIG, 1, 8, true, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint8_t *io = malloc(hr_store_io_bytes(HR_STORE_OBJECTS_MAX));
		uint32_t capacity;
		struct memdisk disk;

		memdisk_init(&disk, row[i].bytes, 512);
		if (row[i].dirt)
			disk.media[row[i].dirt] = 1;
		memdisk_power_on(&disk);
		cr_expect_eq(hr_store_format(&disk.blk, row[i].objects, row[i].force, io, NULL),
			     row[i].want, "%s", row[i].what);
		if (row[i].want)
			cr_expect_eq(disk.writes, 0, "%s", row[i].what);
		memdisk_power_on(&disk); /* as after a power cut: only durable data remain */
		if (!row[i].want) {
			cr_expect_eq(hr_store_probe(&disk.blk, &capacity, io, NULL), 0);
			cr_expect_eq(capacity, row[i].objects, "%s", row[i].what);
		}
		memdisk_fini(&disk);
		free(io);
	}
}

Test(objmap_open, format_does_not_erase_a_store_unless_forced)
{
	fake_store_put(&f, "a", 1);
	memdisk_power_on(&f.disk);
	cr_expect_eq(hr_store_format(&f.disk.blk, 4, false, f.io, NULL), -EEXIST);
	f.disk.media[HR_PAGE - 1] ^= 1; /* one or two damaged superblocks: still a store */
	f.disk.media[2 * HR_PAGE - 1] ^= 1;
	memdisk_power_on(&f.disk);
	cr_expect_eq(hr_store_format(&f.disk.blk, 4, false, f.io, NULL), -EEXIST);
	cr_expect_eq(f.disk.writes, 0);
	cr_expect_eq(hr_store_format(&f.disk.blk, FAKE_STORE_OBJECTS, true, f.io, NULL), 0);
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_eq(f.store.count, 0);
}

/* Changes of the media of a store with "a" (older copy) and "a", "b" (newer copy). */
static void nothing(void)
{
}

static void erase(void)
{
	memset(f.disk.media, 0, f.disk.blk.bytes);
}

static void overwrite(void)
{
	memset(f.disk.media, 0x5a, f.disk.blk.bytes);
}

static void zero_and_foreign(void)
{
	memset(f.disk.media, 0, HR_PAGE);
	memset(f.disk.media + HR_PAGE, 0x5a, HR_PAGE);
}

static void erase_newer(void)
{
	memset(f.disk.media + f.store.active * HR_PAGE, 0, HR_PAGE);
}

static void erase_older(void)
{
	memset(f.disk.media + (1 - f.store.active) * HR_PAGE, 0, HR_PAGE);
}

static void overwrite_older(void)
{
	memset(f.disk.media + (1 - f.store.active) * HR_PAGE, 0x5a, HR_PAGE);
}

static void tear_newer(void)
{
	memset(f.disk.media + f.store.active * HR_PAGE + 512, 0x5a, 512);
}

static void tear_older(void)
{
	memset(f.disk.media + (1 - f.store.active) * HR_PAGE + 512, 0x5a, 512);
}

/* As after a power cut: the first sector of one page and the last of another. */
static void cut_newer(void)
{
	memcpy(f.disk.media + (f.store.active + 1) * HR_PAGE - 4,
	       f.disk.media + (2 - f.store.active) * HR_PAGE - 4, 4);
}

static void cut_older(void)
{
	memcpy(f.disk.media + (2 - f.store.active) * HR_PAGE - 4,
	       f.disk.media + (f.store.active + 1) * HR_PAGE - 4, 4);
}

static void tear_both(void)
{
	tear_newer();
	tear_older();
}

/* One copy is broken, and the other was never written, or is no superblock. */
static void tear_newer_erase_older(void)
{
	tear_newer();
	erase_older();
}

static void tear_older_erase_newer(void)
{
	tear_older();
	erase_newer();
}

static void tear_older_foreign_newer(void)
{
	tear_older();
	memset(f.disk.media + f.store.active * HR_PAGE, 0x5a, HR_PAGE);
}

static void spoil_newer_map(void)
{
	fake_store_map(&f, f.store.active)->tag ^= 1;
}

static void spoil_older_map(void)
{
	fake_store_map(&f, 1 - f.store.active)->tag ^= 1;
}

static void spoil_both_maps(void)
{
	spoil_newer_map();
	spoil_older_map();
}

static void erase_newer_foreign_older(void)
{
	memset(f.disk.media + f.store.active * HR_PAGE, 0, HR_PAGE);
	memset(f.disk.media + (1 - f.store.active) * HR_PAGE, 0x5a, HR_PAGE);
}

static void truncate_disk(void)
{
	f.disk.blk.bytes -= HR_PAGE;
}

static void truncate_to_nothing(void)
{
	f.disk.blk.bytes = HR_PAGE;
}

static void foreign_uuid(void)
{
	fake_store_superblock(&f, 0)->head.uuid[3] ^= 1;
	fake_store_sign(&f, 0);
}

static void same_generation(void)
{
	fake_store_superblock(&f, 0)->head.generation =
		fake_store_superblock(&f, 1)->head.generation;
	fake_store_sign(&f, 0);
}

static const struct damage {
	const char *what;
	void (*damage)(void);
	int want;
	uint32_t count;	   /* objects found */
	const char *warn;  /* part of the warning about the other copy; NULL: none */
	const char *error; /* part of the last error; NULL: none */
} damages[] = {
	{ "none", nothing, 0, 2, NULL, NULL },
	{ "erased", erase, -ENOMEDIUM, 0, NULL, NULL },
	{ "overwritten", overwrite, -EMEDIUMTYPE, 0, NULL, NULL },
	{ "one zero, one foreign", zero_and_foreign, -EMEDIUMTYPE, 0, NULL, NULL },
	{ "the other way round", erase_newer_foreign_older, -EMEDIUMTYPE, 0, NULL, NULL },
	{ "newer superblock erased", erase_newer, 0, 1, NULL, NULL },
	{ "older superblock erased", erase_older, 0, 2, NULL, NULL },
	{ "older superblock foreign", overwrite_older, 0, 2,
	  "superblock 0: does not belong to a headrace store", NULL },
	{ "newer superblock torn", tear_newer, 0, 1, "map copy 1: superblock 1: CRC-32C", NULL },
	{ "older superblock torn", tear_older, 0, 2, "map copy 0: superblock 0: CRC-32C", NULL },
	{ "both superblocks torn", tear_both, -EUCLEAN, 0, NULL, "superblock 1: CRC-32C" },
	{ "newer torn, older zero", tear_newer_erase_older, -EUCLEAN, 0, NULL, "CRC-32C" },
	{ "older torn, newer zero", tear_older_erase_newer, -EUCLEAN, 0, NULL, "blank" },
	{ "older torn, newer foreign", tear_older_foreign_newer, -EUCLEAN, 0, NULL,
	  "does not belong" },
	{ "newer map corrupt", spoil_newer_map, 0, 1, "map copy 1: map of generation 4", NULL },
	{ "older map corrupt", spoil_older_map, 0, 2, NULL, NULL },
	{ "both maps corrupt", spoil_both_maps, -EUCLEAN, 0, NULL, "map of generation 4" },
	{ "truncated", truncate_disk, -EUCLEAN, 0, NULL, ": truncated" },
	{ "truncated to one page", truncate_to_nothing, -EMEDIUMTYPE, 0, NULL, NULL },
	{ "superblocks of two stores", foreign_uuid, -EUCLEAN, 0, NULL, "not of one history" },
	{ "two of one generation", same_generation, -EUCLEAN, 0, NULL, "not of one history" },
};

static void expect_messages(const struct damage *d, const unsigned before[HR_LOG_DEBUG + 1])
{
	const unsigned warned = fake_log_count_of(HR_LOG_WARN) - before[HR_LOG_WARN];
	const unsigned failed = fake_log_count_of(HR_LOG_ERROR) - before[HR_LOG_ERROR];

	cr_expect_eq(warned, d->warn ? 1 : 0, "%s: %u warnings", d->what, warned);
	if (warned && d->warn)
		cr_expect_not_null(strstr(fake_log_last_of(HR_LOG_WARN), d->warn), "%s: %s",
				   d->what, fake_log_last_of(HR_LOG_WARN));
	cr_expect_eq(failed > 0, d->error != NULL, "%s: %u errors", d->what, failed);
	if (failed && d->error)
		cr_expect_not_null(strstr(fake_log_last_of(HR_LOG_ERROR), d->error), "%s: %s",
				   d->what, fake_log_last_of(HR_LOG_ERROR));
}

Test(objmap_open, open_ends_in_each_documented_way_without_a_write)
{
	for (size_t i = 0; i < ROWS(damages); i++) {
		unsigned before[HR_LOG_DEBUG + 1] = { 0 };
		uint32_t capacity = 0;
		int err;

		teardown();
		setup();
		fake_store_put(&f, "a", 1);
		(void)hr_store_create(&f.store, "b", 1, 0, false,
				      &(struct hr_store_object *){ NULL }, NULL);
		damages[i].damage();
		before[HR_LOG_WARN] = fake_log_count_of(HR_LOG_WARN);
		before[HR_LOG_ERROR] = fake_log_count_of(HR_LOG_ERROR);
		err = fake_store_reopen(&f);
		cr_expect_eq(err, damages[i].want, "%s: %d", damages[i].what, err);
		expect_messages(&damages[i], before);
		if (!err)
			cr_expect_eq(f.store.count, damages[i].count, "%s", damages[i].what);
		if (!err)
			cr_expect_not_null(hr_store_find(&f.store, "a"), "%s", damages[i].what);
		err = hr_store_probe(&f.disk.blk, &capacity, f.io, NULL);
		if (!damages[i].want)
			cr_expect(err == 0 && capacity == FAKE_STORE_OBJECTS, "%s: probe %d",
				  damages[i].what, err);
		cr_expect_eq(f.disk.writes, 0, "%s", damages[i].what);
		cr_expect_eq(f.disk.flushes, 0, "%s", damages[i].what);
		f.disk.blk.bytes = FAKE_STORE_BYTES;
	}
}

/*
 * After a fallback the next change is newer than everything on the disk, and repairs both copies.
 */
Test(objmap_open, a_store_opened_from_the_older_superblock_accepts_changes)
{
	for (size_t i = 0; i < ROWS(damages); i++) {
		if (damages[i].want)
			continue;
		teardown();
		setup();
		fake_store_put(&f, "a", 1);
		(void)hr_store_create(&f.store, "b", 1, 0, false,
				      &(struct hr_store_object *){ NULL }, NULL);
		damages[i].damage();
		cr_assert_eq(fake_store_reopen(&f), 0);
		fake_store_put(&f, "c", 1);
		cr_assert_eq(fake_store_reopen(&f), 0);
		cr_expect_eq(f.store.count, damages[i].count + 1, "%s", damages[i].what);
		cr_expect_not_null(hr_store_find(&f.store, "c"), "%s", damages[i].what);
	}
}

Test(objmap_open, a_disk_that_has_grown_opens_and_one_with_a_larger_map_is_refused)
{
	struct memdisk grown;
	struct hr_store_object object[FAKE_STORE_OBJECTS];

	fake_store_put(&f, "a", 1);
	memdisk_init(&grown, FAKE_STORE_BYTES * 2, 4096);
	memcpy(grown.media, f.disk.media, FAKE_STORE_BYTES);
	memdisk_power_on(&grown);
	cr_expect_eq(hr_store_open(&f.store, &grown.blk, object, FAKE_STORE_OBJECTS, f.io, NULL),
		     0);
	cr_expect_eq(f.store.data_bytes, FAKE_STORE_DATA);
	cr_expect_eq(
		hr_store_open(&f.store, &grown.blk, object, FAKE_STORE_OBJECTS - 1, f.io, NULL),
		-EINVAL);
	memdisk_fini(&grown);
}

Test(objmap_open, a_failed_read_is_reported_to_the_caller)
{
	fake_store_put(&f, "a", 1);
	f.disk.fail_status = MEDIA_ERROR;
	f.disk.bad_from = 0;
	f.disk.bad_to = 1;
	cr_expect_eq(fake_store_reopen(&f), MEDIA_ERROR);
	cr_expect_eq(hr_store_format(&f.disk.blk, 8, false, f.io, NULL), MEDIA_ERROR);
	f.disk.bad_from = 2 * HR_PAGE;
	f.disk.bad_to = 4 * HR_PAGE;
	cr_expect_eq(fake_store_reopen(&f), MEDIA_ERROR);
}

/* ---- verify */

static char lines[4096];
static unsigned reports, stop_after;

static void note(void *arg, bool fault, const char *line)
{
	reports++;
	strncat(lines, fault ? "FAULT " : "ok ", sizeof(lines) - strlen(lines) - 1);
	strncat(lines, line, sizeof(lines) - strlen(lines) - 1);
	strncat(lines, "\n", sizeof(lines) - strlen(lines) - 1);
}

static bool go_on(void *arg, uint64_t bytes)
{
	return --stop_after > 0;
}

static uint32_t verify(int want)
{
	static uint8_t buffer[2 * HR_PAGE];
	const struct hr_store_check check = { .report = note,
					      .progress = go_on,
					      .data = true,
					      .buffer = buffer,
					      .buffer_bytes = sizeof(buffer) };
	uint32_t faults = 99;
	int err;

	lines[0] = '\0';
	reports = 0;
	stop_after = stop_after ? stop_after : 1000;
	err = hr_store_verify(&f.store, &check, &faults, NULL);
	cr_expect_eq(err, want, "%d\n%s", err, lines);
	return faults;
}

/* "data": five pages less one byte, byte i is i / 7, with its checksum. */
static const struct hr_store_object *put_data(void)
{
	static uint8_t data[5 * HR_PAGE];
	const size_t bytes = sizeof(data) - 1;
	struct hr_store_object *object;

	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(i / 7);
	cr_assert_eq(hr_store_create(&f.store, "data", bytes, 0, false, &object, NULL), 0);
	cr_assert_eq(
		f.disk.blk.ops->write(&f.disk.blk, object->offset, data, sizeof(data), false, NULL),
		0);
	cr_assert_eq(hr_store_finish(&f.store, object->id, true, hr_crc32c(0, data, bytes), NULL),
		     0);
	return hr_store_find(&f.store, "data");
}

Test(objmap_open, verify_accepts_a_sound_store)
{
	cr_expect_eq(verify(0), 0, "fresh:\n%s", lines);
	put_data();
	fake_store_put(&f, "plain", 1);
	(void)hr_store_create(&f.store, "part", 1, 0, false, &(struct hr_store_object *){ NULL },
			      NULL);
	cr_expect_eq(verify(0), 0, "%s", lines);
	cr_expect_eq(reports, 5, "two copies and three objects:\n%s", lines);
	cr_expect_not_null(strstr(lines, "ok data: 20479 bytes, CRC-32C"));
	cr_expect_not_null(strstr(lines, "ok plain: 1 bytes, no checksum"));
	cr_expect_not_null(strstr(lines, "ok part: incomplete, 0 of 1 bytes"));
}

Test(objmap_open, verify_finds_wrong_and_unreadable_data)
{
	const struct hr_store_object *object = put_data();

	f.disk.media[object->offset + object->bytes - 1] ^= 0x10;
	memdisk_power_on(&f.disk);
	cr_expect_eq(verify(0), 1, "%s", lines);
	cr_expect_not_null(strstr(lines, "FAULT data: CRC-32C of the data is"));
	f.disk.fail_status = MEDIA_ERROR;
	f.disk.bad_from = object->offset + 3 * HR_PAGE;
	f.disk.bad_to = f.disk.bad_from + 1;
	cr_expect_eq(verify(0), 1, "%s", lines);
	cr_expect_not_null(strstr(lines, "FAULT data: cannot be read at byte 8192"));
	f.disk.fail_status = -ETIMEDOUT;
	cr_expect_eq(verify(-ETIMEDOUT), 0);
	stop_after = 1;
	cr_expect_eq(verify(-EINTR), 0);
}

Test(objmap_open, verify_tells_damage_from_effects_of_a_power_cut)
{
	static const struct {
		const char *what;
		void (*damage)(void);
		bool reopen;
		uint32_t faults;
	} row[] = {
		{ "newer superblock torn, as by a cut", cut_newer, true, 0 },
		{ "older superblock torn, as by a cut", cut_older, true, 0 },
		{ "newer superblock rotten", tear_newer, true, 1 },
		{ "older superblock rotten", tear_older, true, 1 },
		{ "older map overwritten, as by a cut", spoil_older_map, true, 0 },
		{ "newer map corrupt, fell back", spoil_newer_map, true, 1 },
		{ "current superblock torn while open", tear_newer, false, 1 },
		{ "current map corrupt while open", spoil_newer_map, false, 1 },
		{ "both maps corrupt while open", spoil_both_maps, false, 1 },
		{ "both superblocks torn while open", tear_both, false, 2 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		teardown();
		setup();
		fake_store_put(&f, "a", 1);
		row[i].damage();
		if (row[i].reopen)
			cr_assert_eq(fake_store_reopen(&f), 0, "%s", row[i].what);
		memdisk_power_on(&f.disk);
		cr_expect_eq(verify(0), row[i].faults, "%s:\n%s", row[i].what, lines);
		cr_expect_eq(f.disk.writes, 0);
	}
}

/*
 * The newest superblock holds the last confirmed change, so damage must not look like a power cut:
 * in any byte except those of the CRC, which may be those of the previous superblock.
 */
Test(objmap_open, verify_finds_each_rotten_byte_of_the_newest_superblock)
{
	uint8_t *page;

	fake_store_put(&f, "a", 1);
	fake_store_put(&f, "b", 1);
	page = f.disk.media + f.store.active * HR_PAGE;
	/* Each byte of the fields, and every 31st of the bytes that only the CRC covers. */
	for (size_t at = 0; at < HR_PAGE - 4; at += at < 128 ? 1 : 31) {
		page[at] ^= (uint8_t)(1u << at % 8);
		cr_assert_eq(fake_store_reopen(&f), 0, "byte %zu", at);
		memdisk_power_on(&f.disk);
		cr_expect_eq(verify(0), 1, "byte %zu:\n%s", at, lines);
		page[at] ^= (uint8_t)(1u << at % 8);
	}
}
