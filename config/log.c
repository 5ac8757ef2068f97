#include "config/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/clock.h"

static enum hr_log_level shown = HR_LOG_WARN;
static unsigned long long stamp_ns; /* 0: lines carry no times */
static char *kept;		    /* errors; NULL: they are not kept */
static size_t kept_bytes, kept_used;
static char rank_text[24]; /* "": messages carry no rank */

void hr_log_set_level(enum hr_log_level level)
{
	__atomic_store_n(&shown, level, __ATOMIC_RELAXED);
}

void hr_log_set_stamp(unsigned long long start_ns)
{
	stamp_ns = start_ns;
}

void hr_log_set_rank(unsigned rank)
{
	snprintf(rank_text, sizeof rank_text, "rank %u: ", rank);
}

void hr_log_keep_errors(char *text, size_t bytes)
{
	kept = text;
	kept_bytes = bytes;
}

/* Append a line of `length` bytes, with its newline. */
static void keep(const char *line, size_t length)
{
	const size_t at = __atomic_fetch_add(&kept_used, length, __ATOMIC_RELAXED);

	if (at + length < kept_bytes)
		memcpy(kept + at, line, length);
	else /* nothing follows a line that is left out */
		__atomic_fetch_add(&kept_used, kept_bytes, __ATOMIC_RELAXED);
}

static int put_stamp(char *line, size_t bytes)
{
	const unsigned long long now_ns = hr_now_ns(), since_ns = now_ns - stamp_ns;

	return snprintf(line, bytes, "[%5llu.%06llu +%llu.%06llu] ", now_ns / HR_NS_PER_S,
			now_ns % HR_NS_PER_S / 1000, since_ns / HR_NS_PER_S,
			since_ns % HR_NS_PER_S / 1000);
}

void hr_log(enum hr_log_level level, const char *format, ...)
{
	static const char *const prefix[] = { "headrace: error: ", "headrace: warning: ",
					      "headrace: ", "headrace: debug: " };
	char line[HR_LOG_LINE_MAX];
	va_list args;
	int head, body;

	if (level > __atomic_load_n(&shown, __ATOMIC_RELAXED))
		return;
	head = stamp_ns ? put_stamp(line, sizeof line) : 0;
	head += snprintf(line + head, sizeof line - (size_t)head, "%s%s", prefix[level], rank_text);
	va_start(args, format);
	body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, args);
	va_end(args);
	if (body < 0)
		return;
	if (body > (int)sizeof line - head - 2) {
		body = (int)sizeof line - head - 2;
		memcpy(line + head + body - 3, "...", 3);
	}
	line[head + body] = '\n';
	if (level == HR_LOG_ERROR && kept)
		keep(line + head, (size_t)body + 1);
	/*
	 * One write per line, so that lines of several threads never mix. A failed write is
	 * ignored.
	 */
	if (write(STDERR_FILENO, line, (size_t)(head + body) + 1) < 0)
		return;
}
