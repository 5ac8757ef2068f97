/* SPDX-License-Identifier: Apache-2.0 */
/* Times of the day in local time, with changes of its offset. */
#include "boot/appliance/schedule/local_time.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "config/base/clock.h"

#define S HR_NS_PER_S
#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"

TestSuite(local_time, .timeout = 60);

static uint64_t utc(const char *text)
{
	struct tm tm = { 0 };

	cr_assert_not_null(strptime(text, "%Y-%m-%d %H:%M:%S", &tm), "%s", text);
	return (uint64_t)timegm(&tm) * S;
}

Test(local_time, next_moment_with_daylight_saving)
{
	static const struct {
		const char *zone, *from, *want;
		uint32_t minute;
		int day;
	} row[] = {
		{ BERLIN, "2026-01-10 12:00:00", "2026-01-11 02:00:00", 180, -1 },
		{ BERLIN, "2026-07-10 12:00:00", "2026-07-11 01:00:00", 180, -1 },
		/* 02:30 is left out on 29 March: at the change, 02:00 CET = 01:00 UTC */
		{ BERLIN, "2026-03-28 12:00:00", "2026-03-29 01:00:00", 150, -1 },
		{ BERLIN, "2026-03-29 00:59:59", "2026-03-29 01:00:00", 150, -1 },
		{ BERLIN, "2026-03-29 01:00:00", "2026-03-30 00:30:00", 150, -1 },
		{ BERLIN, "2026-03-28 12:00:00", "2026-03-29 00:59:00", 119, -1 },
		{ BERLIN, "2026-03-28 12:00:00", "2026-03-29 01:00:00", 120, -1 },
		{ BERLIN, "2026-03-28 12:00:00", "2026-03-29 01:00:00", 180, -1 },
		/* 02:30 exists twice on 25 October: the first one, CEST */
		{ BERLIN, "2026-10-24 12:00:00", "2026-10-25 00:30:00", 150, -1 },
		{ BERLIN, "2026-10-25 00:30:00", "2026-10-26 01:30:00", 150, -1 },
		{ BERLIN, "2026-10-25 01:10:00", "2026-10-26 01:30:00", 150, -1 },
		{ BERLIN, "2026-10-24 12:00:00", "2026-10-25 02:00:00", 180, -1 },
		{ BERLIN, "2026-10-24 12:00:00", "2026-10-25 00:30:00", 150, 0 },
		/* the clock changes by half an hour, and at midnight */
		{ "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2026-10-03 00:00:00",
		  "2026-10-03 15:30:00", 135, -1 },
		{ "<-03>3<-02>,M10.3.0/0,M2.3.0/0", "2026-10-17 12:00:00", "2026-10-18 03:00:00",
		  15, -1 },
		/* a leap day, and the end of a year */
		{ "UTC0", "2028-02-28 12:00:00", "2028-02-29 03:00:00", 180, -1 },
		{ "UTC0", "2027-12-31 12:00:00", "2028-01-01 00:00:00", 0, -1 },
		{ "UTC0", "2038-01-19 03:14:08", "2038-01-20 03:00:00", 180, -1 },
		{ "UTC0", "2100-02-28 12:00:00", "2100-03-01 00:00:00", 0, -1 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char got[64], want[64];

		setenv("TZ", row[i].zone, 1);
		hr_utc_text(hr_local_next_ns(utc(row[i].from), row[i].minute, row[i].day), got,
			    sizeof got);
		hr_utc_text(utc(row[i].want), want, sizeof want);
		cr_expect_str_eq(got, want, "row %zu: %s, expected %s", i, got, want);
	}
	setenv("TZ", BERLIN, 1);
	cr_expect_str_eq(hr_local_text(utc("2026-11-23 02:00:00"), (char[64]){ 0 }, 64),
			 "2026-11-23 03:00:00 CET");
}
