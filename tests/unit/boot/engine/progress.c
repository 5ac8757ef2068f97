#include "boot/engine/progress.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "boot/cmd/bench/measure.h"

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
		{ 0, "0:00" },	     { 59.4, "0:59" }, { 59.6, "1:00" },      { 3600, "1:00:00" },
		{ 7384, "2:03:04" }, { 1e9, "--:--" }, { INFINITY, "--:--" },
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
