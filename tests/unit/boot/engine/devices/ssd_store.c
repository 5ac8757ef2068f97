/* SPDX-License-Identifier: Apache-2.0 */
/* The object store of an ssd: open, format, and the reason of each failure with its remedy. */
#include "boot/engine/devices/ssd_store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/harness/error.h"
#include "tests/harness/store.h"

TestSuite(ssd_store, .timeout = 60);

static struct hr_ssd ssd;
static struct memdisk disk;

static void begin(void)
{
	memset(&ssd, 0, sizeof ssd);
	memdisk_init(&disk, FAKE_STORE_BYTES, 4096);
	disk.blk.name = "d0";
	ssd.blk = &disk.blk;
	strcpy(ssd.device, "soft:x");
	snprintf(ssd.transport.name, sizeof ssd.transport.name, "t0");
}

static void end(void)
{
	free(ssd.store_memory);
	memdisk_fini(&disk);
}

/* ---- open and format */

Test(ssd_store, a_formatted_disk_opens_with_its_capacity)
{
	struct hr_store_object *object;

	begin();
	cr_expect_eq(hr_ssd_open_store(&ssd, test_error()), -ENOMEDIUM);
	cr_expect_null(ssd.store_memory);
	cr_expect_not(ssd.has_store);
	cr_assert_eq(hr_ssd_format_store(&ssd, 40, false, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_not(ssd.has_store);
	cr_assert_eq(hr_ssd_open_store(&ssd, test_error()), 0, "%s", test_error_text());
	cr_expect(ssd.has_store);
	cr_expect_eq(ssd.store.capacity, 40u);
	cr_expect_eq(ssd.store.object, ssd.store_memory);
	cr_expect_eq((uintptr_t)ssd.store.io % HR_PAGE, 0u);
	/* objects and io do not overlap */
	cr_expect_geq((uintptr_t)ssd.store.io, (uintptr_t)(ssd.store.object + 40));
	for (unsigned i = 0; i < 40; i++) {
		char name[8];

		snprintf(name, sizeof name, "o%u", i);
		cr_assert_eq(hr_store_create(&ssd.store, name, 1, 0, false, &object, test_error()),
			     0, "%s", test_error_text());
	}
	/* what holds a store is formatted by force only */
	cr_expect_eq(hr_ssd_format_store(&ssd, 40, false, test_error()), -EEXIST);
	cr_expect_eq(hr_ssd_format_store(&ssd, 48, true, test_error()), 0);
	end();
}

/* Each read of an open store may fail: no memory stays. */
Test(ssd_store, a_disk_that_cannot_be_read_has_no_store)
{
	struct hr_store_object *object;

	begin();
	cr_assert_eq(hr_ssd_format_store(&ssd, 40, false, test_error()), 0);
	disk.fail_status = 0x281;
	cr_assert_eq(hr_ssd_open_store(&ssd, test_error()), 0);
	cr_assert_eq(hr_store_create(&ssd.store, "a", 1, 0, false, &object, test_error()), 0);
	/* the capacity can be read, the map cannot */
	disk.bad_from = ssd.store.map_offset[0] < ssd.store.map_offset[1] ? ssd.store.map_offset[0]
									  : ssd.store.map_offset[1];
	disk.bad_to = ssd.store.data_offset;
	free(ssd.store_memory);
	ssd.has_store = false;
	cr_expect_neq(hr_ssd_open_store(&ssd, test_error()), 0);
	cr_expect_null(ssd.store_memory);
	cr_expect_not(ssd.has_store);
	disk.bad_from = 0;
	disk.bad_to = FAKE_STORE_BYTES;
	cr_expect_eq(hr_ssd_open_store(&ssd, test_error()), 0x281);
	cr_expect_null(ssd.store_memory);
	disk.fail_at = disk.writes + disk.flushes + 1;
	cr_expect_eq(hr_ssd_format_store(&ssd, 40, true, test_error()), 0x281);
	end();
}

Test(ssd_store, a_disk_that_keeps_no_data_has_none)
{
	static const char *const want =
		"t0 keeps no data, so it has no object store: only 'headrace bench' can use it; "
		"soft:memory and images keep them";

	begin();
	cr_assert_eq(hr_ssd_format_store(&ssd, 40, false, test_error()), 0);
	ssd.transport.keeps_no_data = true;
	disk.writes = disk.reads = 0;
	cr_expect_eq(hr_ssd_open_store(&ssd, test_error()), -ENOTSUP);
	cr_expect_str_eq(test_error_text(), want);
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect_eq(hr_ssd_format_store(&ssd, 40, true, test_error()), -ENOTSUP);
	cr_expect_str_eq(test_error_text(), want);
	cr_expect_eq(disk.writes + disk.reads, 0u);
	end();
}

/* ---- reasons */

Test(ssd_store, each_reason_has_its_text_and_kind)
{
	static const struct {
		int err;
		enum hr_error_kind kind;
		const char *text, *object; /* of the store, and of an object 'x' */
	} row[] = {
		{ -ENOMEDIUM, HR_ERROR_FAILED,
		  "t0: the disk is blank; 'headrace store format' makes an object store",
		  "t0: 'x': the disk is blank; 'headrace store format' makes an object store" },
		{ -EMEDIUMTYPE, HR_ERROR_FAILED,
		  "t0: the disk holds data other than an object store",
		  "t0: 'x': the disk holds data other than an object store" },
		{ -EEXIST, HR_ERROR_FAILED, "t0: exists already; --replace replaces it",
		  "t0: 'x': exists already; --replace replaces it" },
		{ -EBUSY, HR_ERROR_FAILED,
		  "t0: an incomplete object has that name; 'rm' removes it, --replace takes its "
		  "place",
		  "t0: 'x': an incomplete object has that name; 'rm' removes it, --replace takes "
		  "its place" },
		{ -ENOENT, HR_ERROR_FAILED, "t0: there is no such object",
		  "t0: 'x': there is no such object" },
		{ -EINVAL, HR_ERROR_USAGE, "t0: a name is 1..63 printable characters without '/'",
		  "t0: 'x': a name is 1..63 printable characters without '/'" },
		{ -ENOMEM, HR_ERROR_MISSING, "t0: Cannot allocate memory",
		  "t0: 'x': Cannot allocate memory" },
		{ -EIO, HR_ERROR_NONE, "", "" },
		{ -ENOSPC, HR_ERROR_NONE, "", "" }, /* no incomplete object */
	};

	begin();
	cr_assert_eq(hr_ssd_format_store(&ssd, 40, false, test_error()), 0);
	cr_assert_eq(hr_ssd_open_store(&ssd, test_error()), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (int object = 0; object < 2; object++) {
			cr_expect_eq(hr_ssd_store_explain(&ssd, object ? "x" : NULL, row[i].err,
							  test_error()),
				     row[i].err);
			cr_expect_str_eq(test_error_text(), object ? row[i].object : row[i].text,
					 "row %zu: %s", i, test_error_text());
			cr_expect_eq(test_error_kind(), row[i].kind, "row %zu", i);
		}
	end();
}

Test(ssd_store, incomplete_objects_are_named_when_there_is_no_space)
{
	struct hr_store_object *object;
	struct hr_error e = { 0 };

	begin();
	cr_assert_eq(hr_ssd_format_store(&ssd, 40, false, test_error()), 0);
	cr_assert_eq(hr_ssd_open_store(&ssd, test_error()), 0);
	cr_assert_eq(hr_store_create(&ssd.store, "a", 1, 0, false, &object, NULL), 0);
	hr_fail(&e, HR_ERROR_FAILED, -ENOSPC, "no space");
	cr_expect_eq(hr_ssd_store_explain(&ssd, "x", -ENOSPC, &e), -ENOSPC);
	cr_expect_str_eq(e.text,
			 "no space\nd0: 1 incomplete object holds 4096 bytes: 'headrace store rm "
			 "--pending soft:x' removes them");
	cr_assert_eq(hr_store_create(&ssd.store, "b", 1, 0, false, &object, NULL), 0);
	cr_expect_eq(hr_ssd_store_explain(&ssd, NULL, -ENFILE, test_error()), -ENFILE);
	cr_expect_str_eq(test_error_text(),
			 "d0: 2 incomplete objects hold 8192 bytes: 'headrace store rm --pending "
			 "soft:x' removes them");
	end();
}
