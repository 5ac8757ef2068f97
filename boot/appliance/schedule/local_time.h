/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/schedule/local_time.h - times of the day in local time, with changes of its
 * offset (daylight saving). Local time is that of the C library: TZ, or /etc/localtime, or UTC.
 */
#ifndef BOOT_APPLIANCE_SCHEDULE_LOCAL_TIME_H
#define BOOT_APPLIANCE_SCHEDULE_LOCAL_TIME_H

#include <stddef.h>
#include <stdint.h>

/*
 * The first moment after wall_ns (nanoseconds since 1970) at which local time is `minute` of the
 * day; with day 0 (Sunday) to 6 only of that day, with -1 of each day. A time that is left out,
 * because the clock is put forward, is the moment of that change. Of a time that exists twice the
 * first one counts.
 */
uint64_t hr_local_next_ns(uint64_t wall_ns, uint32_t minute, int day);

/* "2026-11-23 03:00:00 CET". Returns text. */
const char *hr_local_text(uint64_t wall_ns, char *text, size_t bytes);

/* "2026-11-23T02:00:00Z". Returns text. */
const char *hr_utc_text(uint64_t wall_ns, char *text, size_t bytes);

#endif
