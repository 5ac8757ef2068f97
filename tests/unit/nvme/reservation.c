/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations as text; the rest needs an ssd: tests/unit/boot/engine/devices/ssd_reservation.c. */
#include "nvme/reservation.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(reservation_text, .timeout = 60);

/* Texts of this machine; NULL: there is no such file. */
static const char *machine, *start;

FILE *fopen(const char *path, const char *mode)
{
	const bool of_machine = strcmp(path, "/etc/machine-id") == 0;
	const char *text = of_machine ? machine : start;

	if (!of_machine && strcmp(path, "/proc/sys/kernel/random/boot_id") != 0)
		return fdopen(open(path, O_RDONLY | O_CLOEXEC), mode);
	if (!text)
		errno = ENOENT;
	return text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r") : NULL;
}

/* Values on disks that earlier versions have reserved: they never change. */
Test(reservation_text, a_machine_keeps_its_identifier_and_key)
{
	static const char id[] = "0123456789abcdef0123456789abcdef\n",
			  boot[] = "4e5f7a6c-0d0b-4d3c-9a3e-5d5b8f0a1c2d\n";
	static const struct {
		const char *machine, *start;
		uint64_t half[2], key;
	} row[] = {
		{ id, boot, { 0x190978dd6dd8187d, 0x351735f7f957a831 }, 0x477a1da65a148347 },
		{ NULL, boot, { 0xdc66234c83eb59c7, 0xe1935d236ebc3081 }, 0x3ee425795bc64923 },
		{ "\n", boot, { 0xdc66234c83eb59c7, 0xe1935d236ebc3081 }, 0x3ee425795bc64923 },
	};
	struct hr_resv_host one, two;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		machine = row[i].machine;
		start = row[i].start;
		hr_resv_self(&one);
		cr_expect_eq(memcmp(one.id, row[i].half, sizeof one.id), 0, "row %zu", i);
		cr_expect_eq(one.key, row[i].key, "row %zu", i);
	}
	machine = start = NULL; /* a random number */
	hr_resv_self(&one);
	hr_resv_self(&two);
	cr_expect_neq(one.key, two.key);
	cr_expect_neq(memcmp(one.id, two.id, sizeof one.id), 0);
	cr_expect_neq(memcmp(one.id, one.id + 8, 8), 0);
}

Test(reservation_text, each_type_has_its_name)
{
	static const char *const want[] = {
		"no",
		"Write Exclusive",
		"Exclusive Access",
		"Write Exclusive - Registrants Only",
		"Exclusive Access - Registrants Only",
		"Write Exclusive - All Registrants",
		"Exclusive Access - All Registrants",
		"unknown",
	};

	for (uint8_t i = 0; i < sizeof want / sizeof *want; i++)
		cr_expect_str_eq(hr_resv_type_name(i), want[i], "%u", i);
	cr_expect_str_eq(hr_resv_type_name(255), "unknown");
}

Test(reservation_text, a_host_is_written_with_all_its_bytes_and_no_more)
{
	struct hr_resv_holder holder = { .type = 1, .key = 0x1234 };
	char text[HR_RESV_TEXT];

	for (unsigned i = 0; i < sizeof holder.id; i++)
		holder.id[i] = (uint8_t)(0xa0 + i);
	holder.id_bytes = 8;
	cr_expect_str_eq(hr_resv_text(&holder, text),
			 "Write Exclusive reservation of key 0x0000000000001234, host "
			 "a0a1a2a3a4a5a6a7");
	holder.id_bytes = 16;
	holder.type = 4; /* the longest name */
	holder.key = UINT64_MAX;
	cr_expect_eq(hr_resv_text(&holder, text), text);
	cr_expect_str_eq(text, "Exclusive Access - Registrants Only reservation of key "
			       "0xffffffffffffffff, host a0a1a2a3a4a5a6a7a8a9aaabacadaeaf");
	holder.id_bytes = 0;
	hr_resv_text(&holder, text);
	cr_expect_str_eq(text + strlen(text) - 7, ", host ");
}

/* ---- the holder of a report */

#define ENTRIES 3u

/* Registrants with the Host Identifiers of ids, one byte each, and the key of that byte; an upper case
 * letter holds the reservation. */
static void search(uint8_t type, const char *ids, bool extended, struct hr_resv_holder *holder,
		   bool *mine, int want)
{
	const uint32_t each = extended ? 64 : 24;
	const uint8_t self[16] = { 's' };
	uint8_t *report = calloc(1, each * (1 + ENTRIES));

	cr_assert_not_null(report);
	report[4] = type;
	for (uint32_t i = 0; ids[i]; i++) {
		uint8_t *at = report + each * (1 + i);
		const uint8_t id = (uint8_t)(ids[i] | 0x20);

		report[5]++;
		at[2] = ids[i] != id;
		at[extended ? 8 : 16] = id; /* RKEY */
		at[extended ? 16 : 8] = id; /* HOSTID */
	}
	cr_expect_eq(hr_resv_parse(report, each * (1 + ENTRIES), extended, self, holder, mine),
		     want, "%u %s", type, ids);
	free(report);
}

Test(reservation_text, the_holder_is_the_one_that_matters_to_this_host)
{
	static const struct {
		uint8_t type;
		const char *ids;
		int want;
		char holder; /* 0: none */
		bool mine;
	} row[] = {
		{ 0, "abc", 0, 0, false },
		{ 0, "asc", 0, 0, true },
		{ 1, "abC", 0, 'c', false },
		{ 1, "Abs", 0, 'a', true },
		{ 1, "abS", 0, 's', true },
		{ 4, "aBs", 0, 'b', true },
		{ 1, "abc", -EPROTO, 0, false },
		{ 1, "", -EPROTO, 0, false },
		/* all registrants hold it: the first one that is another host */
		{ 5, "abc", 0, 'a', false },
		{ 5, "sbc", 0, 'b', true },
		{ 6, "asc", 0, 'a', true },
		{ 6, "ssc", 0, 'c', true },
		{ 6, "s", 0, 's', true },
		{ 5, "", -EPROTO, 0, false },
	};

	for (size_t i = 0; i < 2 * (sizeof row / sizeof *row); i++) {
		const bool extended = i % 2;
		struct hr_resv_holder holder;
		bool mine;

		search(row[i / 2].type, row[i / 2].ids, extended, &holder, &mine, row[i / 2].want);
		cr_expect_eq(mine, row[i / 2].mine, "row %zu", i / 2);
		cr_expect_eq(holder.id[0], row[i / 2].holder, "row %zu: %c", i / 2, holder.id[0]);
		cr_expect_eq(holder.key, (uint64_t)row[i / 2].holder, "row %zu", i / 2);
		cr_expect_eq(holder.type, row[i / 2].holder ? row[i / 2].type : 0, "row %zu",
			     i / 2);
		cr_expect_eq(holder.id_bytes, !row[i / 2].holder ? 0 : extended ? 16 : 8);
	}
}

Test(reservation_text, a_report_is_not_read_beyond_its_bytes)
{
	static const struct {
		uint8_t type;
		uint16_t count;
		uint8_t rcsts;
		bool extended;
		int want;
	} row[] = {
		{ 0, 0, 0, true, 0 },	    { 0, 65535, 1, true, 0 },
		{ 1, 0, 0, true, -EPROTO }, { 1, 1, 0, true, -EPROTO },
		{ 1, 1, 1, true, 0 },	    { 1, 65535, 1, false, 0 },
		{ 5, 1, 0, true, 0 },	    { 255, 1, 0, false, -EPROTO },
	};
	static const uint8_t self[16] = { 1 };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_resv_holder holder;
		uint8_t *data = calloc(1, 128);
		bool mine;

		data[4] = row[i].type;
		data[5] = (uint8_t)row[i].count;
		data[6] = (uint8_t)(row[i].count >> 8);
		data[(row[i].extended ? 64 : 24) + 2] = row[i].rcsts;
		cr_expect_eq(hr_resv_parse(data, 128, row[i].extended, self, &holder, &mine),
			     row[i].want, "row %zu", i);
		free(data);
	}
}
