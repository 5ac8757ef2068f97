/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/progress.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "boot/cmd/bench/measure.h"
#include "config/base/clock.h"

TestSuite(progress, .timeout = 60);

Test(progress, rates_are_short_and_have_units)
{
	static const struct {
		double rate;
		const char *want;
	} row[] = {
		{ 0, "0 B/s" },		 { 999, "999 B/s" },	   { 1500, "1.50 kB/s" },
		{ 12345, "12 kB/s" },	 { 9.994e6, "9.99 MB/s" }, { 9.996e6, "10 MB/s" },
		{ 1.21e9, "1.21 GB/s" }, { 9.999e8, "1.00 GB/s" }, { 5e15, "5000 TB/s" },
	};
	char text[24];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		hr_rate_format(text, sizeof text, row[i].rate);
		cr_expect_str_eq(text, row[i].want, "row %zu: %s", i, text);
	}
}

Test(progress, times_left_are_short)
{
	static const struct {
		double seconds;
		const char *want;
	} row[] = {
		{ 0, "0:00" },		{ 59.4, "0:59" },    { 59.6, "1:00" },
		{ 3600, "1:00:00" },	{ 7384, "2:03:04" }, { 1e9, "--:--" },
		{ INFINITY, "--:--" },	{ 3599, "59:59" },   { 359999, "99:59:59" },
		{ 359999.25, "--:--" },
	};
	char text[24];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		hr_time_format(text, sizeof text, row[i].seconds);
		cr_expect_str_eq(text, row[i].want, "row %zu: %s", i, text);
	}
}

Test(progress, line_shows_share_rate_and_time_left)
{
	struct hr_progress p = { .name = "q6", .total = 1000000000, .columns = 60 };
	char line[200];
	size_t length = hr_progress_format(line, sizeof line, &p, 250000000, 1000000000);

	cr_assert_str_eq(line, "q6 [#######---------------------]  25%  250 MB/s  ETA 0:03", "%s",
			 line);
	cr_assert_eq(length, strlen(line));
}

/* The bar has 4 places at least, and a line ends with its memory. */
Test(progress, a_line_at_its_limits)
{
	struct hr_progress p = { .name = "q6", .total = 1000000000 };
	char line[200];

	p.columns = 36;
	hr_progress_format(line, sizeof line, &p, 500000000, 1000000000);
	cr_expect_str_eq(line, "q6 [##--]  50%  500 MB/s  ETA 0:01", "%s", line);
	p.columns = 35;
	hr_progress_format(line, sizeof line, &p, 500000000, 1000000000);
	cr_expect_str_eq(line, " 50%  500 MB/s  ETA 0:01", "%s", line);
	p.columns = 60;
	for (size_t bytes = 10; bytes <= 61; bytes++) {
		const size_t whole = strlen("q6 [##############--------------]  50%  500 MB/s  ETA "
					    "0:01");

		cr_expect_eq(hr_progress_format(line, bytes, &p, 500000000, 1000000000),
			     whole < bytes ? whole : bytes - 1, "%zu", bytes);
	}
}

Test(progress, line_of_pages_has_no_share)
{
	struct hr_progress p = { .name = "bfs", .page_bytes = 4096, .columns = 60 };
	char line[200];

	cr_assert_eq(hr_progress_format(line, sizeof line, &p, 4096000, 1000000000),
		     strlen("bfs  1000 pages read  4.10 MB/s"));
	cr_assert_str_eq(line, "bfs  1000 pages read  4.10 MB/s", "%s", line);
	p.columns = 12;
	cr_assert_eq(hr_progress_format(line, sizeof line, &p, 4096000, 1000000000), 11u);
}

Test(progress, resumed_run_computes_its_rate_from_its_first_tile)
{
	struct hr_progress p = {
		.name = "q6", .first = 500000000, .total = 1000000000, .columns = 30
	};
	char line[200];

	hr_progress_format(line, sizeof line, &p, 600000000, 1000000000);
	cr_assert_str_eq(line, " 60%  100 MB/s  ETA 0:04", "%s", line);
}

Test(progress, line_never_passes_the_columns_of_the_terminal)
{
	char line[400];

	for (unsigned columns = 40; columns <= 160; columns++) {
		struct hr_progress p = { .name = "a_long_name", .total = 100, .columns = columns };

		for (uint64_t done = 0; done <= 100; done += 50)
			cr_assert_lt(hr_progress_format(line, sizeof line, &p, done, 1000), columns,
				     "%u: %s", columns, line);
	}
}

Test(progress, a_run_without_tiles_shows_100_percent)
{
	struct hr_progress p = { .name = "q6", .columns = 60 };
	char line[200];

	hr_progress_format(line, sizeof line, &p, 0, 0);
	cr_assert_not_null(strstr(line, "100%"), "%s", line);
}

/* ---- on a terminal */

static int terminal, errors; /* its other side; what stderr was */

static void open_terminal(void)
{
	int fd;

	terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
	if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
		cr_skip_test("no pseudo-terminals");
	fd = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	cr_assert_geq(fd, 0);
	fflush(stderr);
	errors = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
}

static void close_terminal(void)
{
	dup2(errors, STDERR_FILENO);
	close(errors);
	close(terminal);
}

static void resize(unsigned short columns)
{
	const struct winsize size = { .ws_col = columns, .ws_row = 24 };

	cr_assert_eq(ioctl(terminal, TIOCSWINSZ, &size), 0);
}

/* What was written to the terminal since the last call. */
static const char *shown(void)
{
	static char text[512];
	ssize_t bytes = read(terminal, text, sizeof text - 1);

	text[bytes > 0 ? bytes : 0] = '\0';
	return text;
}

#define BEGAN (5 * HR_NS_PER_S)
#define ERASE "\r\033[K"

Test(progress, a_terminal_shows_the_line_ten_times_a_second)
{
	struct hr_progress p = { 0 };

	open_terminal();
	resize(60);
	hr_progress_begin(&p, true, "q6", 100, 1100, BEGAN);
	cr_expect(p.on);
	cr_expect_eq(p.columns, 60u);
	hr_progress_update(&p, 600, BEGAN + HR_NS_PER_S / 10 - 1);
	cr_expect_str_eq(shown(), "");
	hr_progress_update(&p, 600, BEGAN + HR_NS_PER_S);
	cr_expect_str_eq(shown(),
			 ERASE "q6 [###############--------------]  54%  500 B/s  ETA 0:01");
	hr_progress_update(&p, 700, BEGAN + HR_NS_PER_S + HR_NS_PER_S / 10 - 1);
	cr_expect_str_eq(shown(), "");
	resize(30); /* more than all, and less than at the start */
	hr_progress_update(&p, 1200, BEGAN + 2 * HR_NS_PER_S);
	cr_expect_str_eq(shown(), ERASE "100%  500 B/s  ETA 0:00");
	hr_progress_update(&p, 99, BEGAN + 3 * HR_NS_PER_S);
	cr_expect_str_eq(shown(), ERASE "  9%  0 B/s  ETA --:--");
	hr_progress_end(&p);
	cr_expect_str_eq(shown(), ERASE);
	cr_expect_not(p.on);
	hr_progress_update(&p, 700, BEGAN + 9 * HR_NS_PER_S);
	hr_progress_end(&p);
	cr_expect_str_eq(shown(), "");
	close_terminal();
}

Test(progress, pages_have_no_total)
{
	struct hr_progress p = { .page_bytes = 100 };

	open_terminal();
	resize(0); /* unknown */
	hr_progress_begin(&p, true, "g", 0, 0, BEGAN);
	cr_expect_eq(p.columns, 80u);
	hr_progress_update(&p, 5000, BEGAN + HR_NS_PER_S);
	cr_expect_str_eq(shown(), ERASE "g  50 pages read  5.00 kB/s");
	resize(500);
	hr_progress_update(&p, 5000, BEGAN + 2 * HR_NS_PER_S);
	cr_expect_eq(p.columns, 160u);
	resize(160);
	hr_progress_update(&p, 5000, BEGAN + 3 * HR_NS_PER_S);
	cr_expect_eq(p.columns, 160u);
	shown();
	close_terminal();
}

Test(progress, without_a_terminal_or_a_wish_there_is_no_line)
{
	struct hr_progress p = { 0 };

	open_terminal();
	resize(60);
	hr_progress_begin(&p, false, "q6", 0, 100, BEGAN);
	cr_expect_not(p.on);
	cr_expect_eq(p.columns, 80u);
	hr_progress_update(&p, 50, BEGAN + HR_NS_PER_S);
	hr_progress_end(&p);
	cr_expect_str_eq(shown(), "");
	close_terminal();
}

Test(progress, percentiles_are_upper_ends_of_buckets)
{
	uint64_t count[HR_BENCH_BUCKETS] = { 0 };

	cr_assert_eq(hr_latency_us(count, 0.5), 0);
	count[40] = 98;
	count[56] = 1;
	count[80] = 1;
	cr_assert_eq(hr_latency_us(count, 0.5) * 1000, (double)hr_bench_bucket_ns(41));
	cr_assert_eq(hr_latency_us(count, 0.98) * 1000, (double)hr_bench_bucket_ns(41));
	cr_assert_eq(hr_latency_us(count, 0.99) * 1000, (double)hr_bench_bucket_ns(57));
	cr_assert_eq(hr_latency_us(count, 1) * 1000, (double)hr_bench_bucket_ns(81));
}
