/* SPDX-License-Identifier: Apache-2.0 */
/* The health log page: each field, and which changes are logged. */
#include "nvme/smart.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "nvme/queue/wire.h"
#include "tests/fakes/log.h"

TestSuite(smart, .timeout = 60);

Test(smart, each_field_is_read_from_its_place)
{
	uint8_t page[HR_SMART_BYTES] = { 0 };
	struct hr_smart smart;

	page[0] = 0x15;
	page[1] = 0x5e; /* 350 K */
	page[2] = 0x01;
	page[3] = 9;
	page[4] = 10;
	page[5] = 101;
	page[128] = 3; /* power on hours */
	page[144] = 4; /* unsafe shutdowns */
	page[160] = 5; /* media errors */
	hr_smart_parse(&smart, page);
	cr_expect_eq(smart.known, 1u);
	cr_expect_eq(smart.critical_warning, 0x15u);
	cr_expect_eq(smart.temperature_k, 350u);
	cr_expect_eq(smart.spare_percent, 9u);
	cr_expect_eq(smart.spare_threshold_percent, 10u);
	cr_expect_eq(smart.used_percent, 101u);
	cr_expect_eq(smart.power_on_hours, 3u);
	cr_expect_eq(smart.unsafe_shutdowns, 4u);
	cr_expect_eq(smart.media_errors, 5u);
	page[168] = 1; /* a value of more than 64 bits */
	hr_smart_parse(&smart, page);
	cr_expect_eq(smart.media_errors, UINT64_MAX);
}

Test(smart, a_change_is_one_warning_and_no_change_is_none)
{
	const struct hr_smart none = { 0 };
	const struct hr_smart good = { .known = 1, .temperature_k = 300, .spare_percent = 100 };
	struct hr_smart now = good;

	hr_smart_log("s", &none, &good);
	hr_smart_log("s", &good, &good);
	cr_expect_eq(fake_log_count(), 0u);
	for (uint32_t i = 0; i < HR_SMART_WARNINGS; i++) {
		const struct hr_smart was = now;

		now.critical_warning |= 1u << i;
		hr_smart_log("s", &was, &now);
		cr_expect_eq(fake_log_count(), i + 1);
		cr_expect_not_null(hr_smart_warning(i));
	}
	cr_expect_null(hr_smart_warning(HR_SMART_WARNINGS));
	hr_smart_log("s", &now, &good);
	cr_expect_eq(fake_log_count(), 2 * HR_SMART_WARNINGS);
	cr_expect(strstr(fake_log_last(), "works again"), "%s", fake_log_last());
}

/* An undefined bit has no text. */
Test(smart, counters_that_grow_are_logged)
{
	const struct hr_smart was = { .known = 1, .media_errors = 2, .used_percent = 99 };
	struct hr_smart now = was;

	now.critical_warning = 0xe0;
	hr_smart_log("s", &was, &now);
	cr_expect_eq(fake_log_count(), 0u);
	now.media_errors = 7;
	hr_smart_log("s", &was, &now);
	cr_expect_str_eq(fake_log_last(), "s: health: 7 media errors, before 2");
	now.media_errors = 2;
	now.used_percent = 100;
	hr_smart_log("s", &was, &now);
	cr_expect_str_eq(fake_log_last(), "s: health: 100 % of the endurance is used");
	cr_expect_eq(fake_log_count(), 2u);
}
