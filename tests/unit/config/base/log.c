/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the log as they are written: levels, times, ranks, and lines that are too long. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "tests/fakes/clock.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(log, .timeout = 60);

static int ends[2], kept = -1;

/* From here on a pipe takes what is written to stderr; each write is one packet. */
static void begin(void)
{
	cr_assert_eq(pipe2(ends, O_DIRECT | O_NONBLOCK | O_CLOEXEC), 0);
	kept = dup(STDERR_FILENO);
	cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
}

/* The next write; "" when there was none. */
static const char *next(void)
{
	static char text[4096];
	const ssize_t n = read(ends[0], text, sizeof text - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void end(void)
{
	dup2(kept, STDERR_FILENO);
	close(kept);
	close(ends[0]);
	close(ends[1]);
}

Test(log, a_level_shows_itself_and_the_levels_above)
{
	static const char *const want[] = { "headrace: error: e 1\n", "headrace: warning: w 2\n",
					    "headrace: i 3\n", "headrace: debug: d 4\n" };

	for (int level = -1; level <= HR_LOG_DEBUG; level++) {
		const int shown = level < 0 ? HR_LOG_WARN : level; /* before the first call */
		char got[4][64];

		if (level >= 0)
			hr_log_set_level((enum hr_log_level)level);
		begin();
		hr_error("%s %d", "e", 1);
		hr_warn("%s %d", "w", 2);
		hr_info("%s %d", "i", 3);
		hr_debug("%s %d", "d", 4);
		for (int i = 0; i < 4; i++)
			snprintf(got[i], sizeof got[i], "%s", next());
		end();
		for (int i = 0; i < 4; i++)
			cr_expect_str_eq(got[i], i <= shown ? want[i] : "", "level %d: %s", level,
					 got[i]);
	}
}

Test(log, lines_carry_times_and_the_rank)
{
	static const struct {
		uint64_t now_ns, start_ns;
		const char *want;
	} row[] = {
		{ 5, 5, "[    0.000000 +0.000000] headrace: error: rank 12: x\n" },
		{ 12345678901999, 1000000,
		  "[12345.678901 +12345.677901] headrace: error: rank 12: "
		  "x\n" },
		{ 123456999999999, 123455000001000,
		  "[123456.999999 +1.999998] headrace: error: rank 12: x\n" },
	};
	char got[128];

	begin();
	hr_log_set_rank(12);
	hr_error("x");
	snprintf(got, sizeof got, "%s", next());
	end();
	cr_expect_str_eq(got, "headrace: error: rank 12: x\n");
	for (size_t i = 0; i < ROWS(row); i++) {
		fake_clock_start(row[i].now_ns, NULL, NULL);
		hr_log_set_stamp(row[i].start_ns);
		begin();
		hr_error("x");
		snprintf(got, sizeof got, "%s", next());
		end();
		fake_clock_stop();
		cr_expect_str_eq(got, row[i].want, "%s", got);
	}
}

/* The wall clock is that of the test. */
static uint64_t wall_ns;

uint64_t hr_wall_ns(void)
{
	return wall_ns;
}

Test(log, lines_carry_the_wall_clock_while_it_is_set)
{
	static const struct {
		uint64_t wall_s;
		const char *want;
	} row[] = {
		{ 0, "" },
		{ HR_WALL_SET_NS / HR_NS_PER_S - 1, "" },
		{ 1735689600, "2025-01-01T00:00:00.000007Z " },
		{ 1772323199, "2026-02-28T23:59:59.000007Z " },
		{ 1772323200, "2026-03-01T00:00:00.000007Z " },
		{ 1835395199, "2028-02-28T23:59:59.000007Z " },
		{ 1835395200, "2028-02-29T00:00:00.000007Z " },
		{ 1798761599, "2026-12-31T23:59:59.000007Z " },
		{ 4107542400, "2100-03-01T00:00:00.000007Z " },
		{ 951782400 + 12622780800, "2400-02-29T00:00:00.000007Z " },
	};

	fake_clock_start(5, NULL, NULL);
	hr_log_set_stamp(5);
	hr_log_set_wall();
	for (size_t i = 0; i < ROWS(row); i++) {
		char want[128];

		wall_ns = row[i].wall_s * HR_NS_PER_S + 7999;
		if (!*row[i].want)
			wall_ns = row[i].wall_s * HR_NS_PER_S;
		snprintf(want, sizeof want, "%s[    0.000000 +0.000000] headrace: error: x\n",
			 row[i].want);
		begin();
		hr_error("x");
		cr_expect_str_eq(next(), want);
		end();
	}
}

Test(log, lines_of_json)
{
	static const struct {
		const char *message, *want;
	} row[] = {
		{ "x", "\"message\": \"x\"}\n" },
		{ "ssd 'a': \"b\"", "\"ssd\": \"a\", \"message\": \"ssd 'a': \\\"b\\\"\"}\n" },
		{ "pipelines of pipeline 'p', gpu 'g' and 'h'",
		  "\"pipeline\": \"p\", \"gpu\": \"g\", \"message\": \"pipelines of pipeline 'p', "
		  "gpu 'g' and 'h'\"}\n" },
		{ "pipeline 'p", "\"message\": \"pipeline 'p\"}\n" },
		{ "pipeline ''", "\"message\": \"pipeline ''\"}\n" },
		{ "0000:4a:00.1: gone",
		  "\"device\": \"0000:4a:00.1\", \"message\": \"0000:4a:00.1: gone\"}\n" },
		{ "0000:4a:00,1: gone", "\"message\": \"0000:4a:00,1: gone\"}\n" },
		{ "soft:a b.img: gone",
		  "\"device\": \"soft:a b.img\", \"message\": \"soft:a b.img: gone\"}\n" },
		{ "soft:: gone", "\"message\": \"soft:: gone\"}\n" },
	};
	static char want[HR_LOG_LINE_MAX * 6 + 256], text[2 * HR_LOG_LINE_MAX];
	static const char start[] =
		"{\"time\": null, \"kernel_us\": 5, \"level\": \"warn\", \"rank\": 3, ";

	fake_clock_start(5999, NULL, NULL);
	hr_log_set_rank(3);
	hr_log_set_json();
	for (size_t i = 0; i < ROWS(row); i++) {
		snprintf(want, sizeof want, "%s%s", start, row[i].want);
		begin();
		hr_warn("%s", row[i].message);
		cr_expect_str_eq(next(), want);
		end();
	}
	/* the longest message, each byte of which is escaped */
	memset(text, '"', sizeof text - 1);
	begin();
	hr_warn("%s", text);
	snprintf(want, sizeof want, "%s", next());
	snprintf(want + strlen(want), sizeof want - strlen(want), "%s", next());
	cr_expect_eq(strlen(want),
		     sizeof start - 1 + strlen("\"message\": \"\"}\n") + 2 * 1020 + 3);
	cr_expect_str_eq(want + strlen(want) - 6, "...\"}\n");
	end();
}

/* A line of up to 1023 bytes is whole, with its newline. */
Test(log, a_line_that_is_too_long_ends_in_dots)
{
	static const char head[] = "headrace: error: ";
	static const size_t most = HR_LOG_LINE_MAX - 2 - (sizeof head - 1);
	static const size_t length[] = { 0, 1, most - 1, most, most + 1, most + 2, 3000 };

	for (size_t i = 0; i < ROWS(length); i++) {
		char text[3001], want[HR_LOG_LINE_MAX + 8], got[4096];
		const bool cut = length[i] > most;
		const size_t shown = cut ? most : length[i];

		memset(text, 'x', sizeof text);
		text[length[i]] = '\0';
		snprintf(want, sizeof want, "%s%.*s%s\n", head, (int)(cut ? shown - 3 : shown),
			 text, cut ? "..." : "");
		begin();
		hr_error("%s", text);
		snprintf(got, sizeof got, "%s", next());
		cr_expect_str_eq(next(), "", "one write");
		end();
		cr_expect_str_eq(got, want, "%zu: %zu", length[i], strlen(got));
	}
}

/* A full disk or a closed terminal is no reason to end. */
Test(log, a_write_that_fails_is_ignored)
{
	begin();
	close(STDERR_FILENO);
	hr_error("lost");
	cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
	hr_error("seen");
	cr_expect_str_eq(next(), "headrace: error: seen\n");
	end();
}
