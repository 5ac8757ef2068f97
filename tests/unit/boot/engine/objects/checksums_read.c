/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum of an object on a disk, and the words for results of comparisons. */
#include "boot/engine/objects/checksums.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/process.h"
#include "cache/crc32c.h"
#include "tests/fakes/memdisk.h"
#include "tests/harness/error.h"

TestSuite(checksums_read, .timeout = 60);

#define PIECE HR_CHECKSUM_PIECE
#define BYTES (PIECE + 8192u)

static uint8_t data[BYTES];

Test(checksums_read, the_first_bytes_of_an_object)
{
	static const uint64_t lengths[] = { 0, 1, 4097, PIECE - 1, PIECE, PIECE + 1, BYTES };
	const struct hr_store_object object = { .offset = 8192, .capacity = BYTES };
	struct hr_engine *engine = calloc(1, sizeof *engine);
	struct memdisk disk;
	uint32_t crc;

	cr_assert_not_null(engine);
	memdisk_init(&disk, 8192 + BYTES, 4096); /* the object ends with the disk */
	engine->ssd[1].blk = &disk.blk;
	for (uint32_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	memcpy(disk.seen + object.offset, data, BYTES);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		disk.reads = 0;
		cr_expect_eq(hr_checksum_read(engine, 1, &object, lengths[i], &crc, test_error()),
			     0, "%s", test_error_text());
		cr_expect_eq(crc, hr_crc32c(0, data, lengths[i]), "%zu", i);
		cr_expect_eq(disk.reads, (lengths[i] + PIECE - 1) / PIECE, "%zu", i);
	}
	disk.fail_status = 0x281;
	disk.bad_from = object.offset;
	disk.bad_to = disk.bad_from + 1;
	disk.reads = 0;
	cr_expect_eq(hr_checksum_read(engine, 1, &object, BYTES, &crc, test_error()), 0x281);
	cr_expect_eq(disk.reads, 1u);
	cr_expect_eq(crc, 0u);
	disk.bad_from = object.offset + PIECE;
	disk.bad_to = disk.bad_from + 1;
	cr_expect_eq(hr_checksum_read(engine, 1, &object, BYTES, &crc, test_error()), 0x281);
	disk.bad_to = 0;
	hr_signals_stop();
	cr_expect_eq(hr_checksum_read(engine, 1, &object, BYTES, &crc, test_error()), -EINTR);
	cr_expect_eq(crc, 0u);
	memdisk_fini(&disk);
	free(engine);
}

Test(checksums_read, each_result_has_a_name_and_a_reason)
{
	static const struct {
		enum hr_source_check check;
		const char *name, *reason, *complete;
	} row[] = {
		{ HR_SOURCE_UNREAD, "unread", "the run has not read all of it",
		  "nothing was read" },
		{ HR_SOURCE_VERIFIED, "verified", NULL, NULL },
		{ HR_SOURCE_WRONG, "wrong", NULL, NULL },
		{ HR_SOURCE_VERIFY_OFF, "off", "verify is off", "verify is off" },
		{ HR_SOURCE_NO_CHECKSUM, "no checksum", "it has no checksum",
		  "it has no checksum" },
		{ HR_SOURCE_RESUMED, "resumed",
		  "the run resumed an interrupted run and read only the rest",
		  "the run resumed an interrupted run and read only the rest" },
	};
	static struct hr_run run;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (int complete = 0; complete < 2; complete++) {
			const char *want = complete ? row[i].complete : row[i].reason, *reason;

			run.outcome = complete ? HR_RUN_COMPLETE : HR_RUN_FAILED;
			reason = hr_source_check_reason(&run, row[i].check);
			cr_expect_str_eq(hr_source_check_name(row[i].check), row[i].name);
			cr_expect(want ? reason && strcmp(reason, want) == 0 : !reason, "%zu", i);
		}
}
