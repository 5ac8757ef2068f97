/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/schedule/local_time.h"

#include <string.h>
#include <time.h>

#include "config/base/clock.h"

#define DAY_S 86400

static int64_t offset_at(int64_t at_s)
{
	const time_t at = (time_t)at_s;
	struct tm tm;

	return localtime_r(&at, &tm) ? tm.tm_gmtoff : 0;
}

/* The moment in (low, high] at which the offset becomes that of `high`. */
static int64_t find_change(int64_t low, int64_t high)
{
	const int64_t after = offset_at(high);

	while (high - low > 1) {
		const int64_t middle = low + (high - low) / 2;

		if (offset_at(middle) == after)
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* The moment at which a clock of local time shows local_s (seconds since 1970 in local time). */
static int64_t moment_of(int64_t local_s)
{
	const int64_t before = offset_at(local_s - DAY_S), after = offset_at(local_s + DAY_S);
	const int64_t early = local_s - (before > after ? before : after);
	const int64_t late = local_s - (before > after ? after : before);

	if (early + offset_at(early) == local_s)
		return early;
	if (late + offset_at(late) == local_s)
		return late;
	return find_change(early, late);
}

static int day_of_week(int64_t days)
{
	return (int)(((days + 4) % 7 + 7) % 7); /* 1970 began on a Thursday */
}

uint64_t hr_local_next_ns(uint64_t wall_ns, uint32_t minute, int day)
{
	const int64_t now_s = (int64_t)(wall_ns / HR_NS_PER_S);
	int64_t days, at_s;

	tzset();
	/*
	 * begin a day early: the start of a day that local time leaves out is the moment of the
	 * change
	 */
	days = (now_s + offset_at(now_s)) / DAY_S - 1;
	for (;; days++) {
		if (day >= 0 && day_of_week(days) != day)
			continue;
		at_s = moment_of(days * DAY_S + (int64_t)minute * 60);
		if (at_s > now_s)
			return (uint64_t)at_s * HR_NS_PER_S;
	}
}

static const char *format_time(const struct tm *tm, const char *how, char *text, size_t bytes)
{
	if (!tm || strftime(text, bytes, how, tm) == 0)
		text[0] = '\0';
	return text;
}

const char *hr_local_text(uint64_t wall_ns, char *text, size_t bytes)
{
	const time_t at = (time_t)(wall_ns / HR_NS_PER_S);
	struct tm tm;

	tzset();
	return format_time(localtime_r(&at, &tm), "%Y-%m-%d %H:%M:%S %Z", text, bytes);
}

const char *hr_utc_text(uint64_t wall_ns, char *text, size_t bytes)
{
	const time_t at = (time_t)(wall_ns / HR_NS_PER_S);
	struct tm tm;

	return format_time(gmtime_r(&at, &tm), "%Y-%m-%dT%H:%M:%SZ", text, bytes);
}
