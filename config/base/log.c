/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/log.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/json.h"
#include "config/base/seam.h"

#define DAY_S 86400u
#define JSON_MAX (6 * HR_LOG_LINE_MAX + 512) /* each byte of a message may be escaped */

static enum hr_log_level shown = HR_LOG_WARN;
static unsigned long long stamp_ns; /* 0: lines carry no times */
static char *kept;		    /* errors; NULL: they are not kept */
static size_t kept_bytes, kept_used;
static bool with_wall, as_json;
static char rank_text[24]; /* "": messages carry no rank */
static unsigned rank_number;

void hr_log_set_level(enum hr_log_level level)
{
	__atomic_store_n(&shown, level, __ATOMIC_RELAXED);
}

void hr_log_set_stamp(unsigned long long start_ns)
{
	stamp_ns = start_ns;
}

void hr_log_set_wall(void)
{
	with_wall = true;
}

void hr_log_set_json(void)
{
	as_json = true;
}

void hr_log_set_rank(unsigned rank)
{
	rank_number = rank;
	snprintf(rank_text, sizeof rank_text, "rank %u: ", rank);
}

void hr_log_keep_errors(char *text, size_t bytes)
{
	kept = text;
	kept_bytes = bytes;
}

/* Append a line of `length` bytes, with its newline. */
static void keep_line(const char *line, size_t length)
{
	const size_t at = __atomic_fetch_add(&kept_used, length, __ATOMIC_RELAXED);

	if (at + length < kept_bytes)
		memcpy(kept + at, line, length);
	else /* nothing follows a line that is left out */
		__atomic_fetch_add(&kept_used, kept_bytes, __ATOMIC_RELAXED);
}

/*
 * "2026-11-29T10:00:04.123456Z"; "" while the clock is not set. gmtime_r() may allocate. The
 * Gregorian calendar repeats after 146097 days; its years begin in March here, so that the day that
 * leap years have more is the last one.
 */
static const char *put_wall(char *text, size_t bytes)
{
	const uint64_t wall_ns = hr_wall_ns(), s = wall_ns / HR_NS_PER_S;
	const uint64_t days = s / DAY_S + 719468, era = days / 146097, day = days % 146097;
	const uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	const uint64_t of_year = day - (365 * year + year / 4 - year / 100);
	const uint64_t month = (5 * of_year + 2) / 153;

	if (wall_ns < HR_WALL_SET_NS)
		return "";
	snprintf(text, bytes, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ",
		 (unsigned)(era * 400 + year + (month >= 10)),
		 (unsigned)(month < 10 ? month + 3 : month - 9),
		 (unsigned)(of_year - (153 * month + 2) / 5 + 1), (unsigned)(s % DAY_S / 3600),
		 (unsigned)(s % 3600 / 60), (unsigned)(s % 60),
		 (unsigned)(wall_ns % HR_NS_PER_S / 1000));
	return text;
}

static int put_stamp(char *line, size_t bytes)
{
	const unsigned long long now_ns = hr_now_ns(), since_ns = now_ns - stamp_ns;
	char wall[64];
	const char *time = with_wall ? put_wall(wall, sizeof wall) : "";

	return snprintf(line, bytes, "%s%s[%5llu.%06llu +%llu.%06llu] ", time, *time ? " " : "",
			now_ns / HR_NS_PER_S, now_ns % HR_NS_PER_S / 1000, since_ns / HR_NS_PER_S,
			since_ns % HR_NS_PER_S / 1000);
}

/* ---- lines of JSON */

/* Messages name objects as "pipeline 'NAME'". */
static void put_name(struct hr_json *j, const char *key, const char *message)
{
	char text[HR_LOG_LINE_MAX];
	const char *at = message;
	const size_t length = strlen(key);
	size_t end;

	while ((at = strstr(at, key)) && strncmp(at + length, " '", 2) != 0)
		at += length;
	if (!at)
		return;
	at += length + 2;
	end = strcspn(at, "'");
	if (!at[end] || !end)
		return;
	snprintf(text, sizeof text, "%.*s", (int)end, at);
	hr_json_string(j, key, text);
}

static bool is_address(const char *text, size_t length)
{
	static const char form[] = "xxxx:xx:xx.x"; /* of a PCI function */

	if (length != sizeof form - 1)
		return false;
	for (size_t i = 0; i < length; i++)
		if (form[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != form[i])
			return false;
	return true;
}

/* Messages about a device begin with it: "soft:a.img: ...", "0000:41:00.0: ...". */
static void put_device(struct hr_json *j, const char *message)
{
	static const char *const kind[] = { "soft:", "pci:", "vfio:", "cuda:", "host:" };
	const char *end = strstr(message, ": ");
	const size_t length = end ? (size_t)(end - message) : 0;
	bool found = is_address(message, length);
	char text[HR_LOG_LINE_MAX];

	for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
		found |=
			length > strlen(kind[i]) && strncmp(message, kind[i], strlen(kind[i])) == 0;
	if (!found)
		return;
	snprintf(text, sizeof text, "%.*s", (int)length, message);
	hr_json_string(j, "device", text);
}

static void write_json(enum hr_log_level level, const char *message)
{
	static const char *const name[] = { "error", "warn", "info", "debug" };
	static const char *const objects[] = { "pipeline", "ssd", "gpu" };
	char line[JSON_MAX], wall[64];
	const char *time = put_wall(wall, sizeof wall);
	struct hr_json j;

	hr_json_to_text(&j, HR_JSON_LINE, line, sizeof line);
	hr_json_string(&j, "time", *time ? time : NULL);
	hr_json_u64(&j, "kernel_us", hr_now_ns() / 1000);
	hr_json_string(&j, "level", name[level]);
	if (*rank_text)
		hr_json_u64(&j, "rank", rank_number);
	for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
		put_name(&j, objects[i], message);
	put_device(&j, message);
	hr_json_string(&j, "message", message);
	if (hr_json_done(&j) == 0)
		hr_write_message(line, j.length);
}

/* ---- lines of text */

static void write_text(enum hr_log_level level, const char *message, size_t length)
{
	static const char *const prefix[] = { "headrace: error: ", "headrace: warning: ",
					      "headrace: ", "headrace: debug: " };
	char line[HR_LOG_LINE_MAX];
	size_t head = stamp_ns ? (size_t)put_stamp(line, sizeof line) : 0;

	head += (size_t)snprintf(line + head, sizeof line - head, "%s%s", prefix[level], rank_text);
	if (length > sizeof line - head - 2)
		head += (size_t)snprintf(line + head, sizeof line - head - 1, "%.*s...",
					 (int)(sizeof line - head - 5), message);
	else
		head += (size_t)snprintf(line + head, sizeof line - head - 1, "%s", message);
	line[head] = '\n';
	hr_write_message(line, head + 1);
}

void hr_log(enum hr_log_level level, const char *format, ...)
{
	char message[HR_LOG_LINE_MAX];
	va_list args;
	int length;

	if (level > __atomic_load_n(&shown, __ATOMIC_RELAXED))
		return;
	va_start(args, format);
	length = vsnprintf(message, sizeof message, format, args);
	va_end(args);
	if (length < 0)
		return;
	if ((size_t)length >= sizeof message) {
		length = (int)sizeof message - 1;
		memcpy(message + length - 3, "...", sizeof "...");
	}
	if (level == HR_LOG_ERROR && kept) {
		message[length] = '\n';
		keep_line(message, (size_t)length + 1);
		message[length] = '\0';
	}
	if (as_json)
		write_json(level, message);
	else
		write_text(level, message, (size_t)length);
}
