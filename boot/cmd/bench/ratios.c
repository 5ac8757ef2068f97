/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "boot/cmd/bench/bench.h"
#include "boot/engine/runner/counters.h"
#include "boot/engine/runner/progress.h"

#define WORKERS_MAX 64u /* of the reads and writes that count here */

/* A figure and the limit it is compared with. */
struct ratio {
	const char *what;
	uint32_t io_bytes; /* 0: the operator's own size */
	double bytes_per_s;
	const char *limit; /* name of limit_bytes_per_s */
	double limit_bytes_per_s;
	const struct hr_baseline_row *baseline; /* NULL: none */
};

const struct hr_baseline_row *hr_bench_best_baseline(const struct hr_bench_found *found,
						     uint32_t io_bytes)
{
	const struct hr_baseline_row *best = NULL;

	for (uint32_t i = 0; i < HR_BASELINE_METHODS * HR_BENCH_ROWS; i++) {
		const struct hr_baseline_row *row =
			&found->baseline[i / HR_BENCH_ROWS][i % HR_BENCH_ROWS];

		if ((io_bytes == 0 || row->io_bytes == io_bytes) && row->bytes_per_s > 0 &&
		    (!best || row->bytes_per_s > best->bytes_per_s))
			best = row;
	}
	return best;
}

/* The fastest measurement of that kind; 0: none. */
static double best_of(const struct hr_bench_found *found, bool write, bool copied,
		      uint32_t io_bytes)
{
	double best = 0;

	for (uint32_t i = 0; i < found->measured_count; i++) {
		const struct hr_measurement *r = &found->measured[i];

		if (r->write == write && r->copied == copied && r->io_bytes == io_bytes &&
		    r->queues <= WORKERS_MAX && r->bytes_per_s > best)
			best = r->bytes_per_s;
	}
	return best;
}

/* Data rate of a controller per direction when both directions share its time; 0: not measured. */
static double controller_both(const struct hr_bench_found *found)
{
	double in = 0, out = 0;

	for (uint32_t i = 0; i < found->measured_count; i++) {
		const struct hr_measurement *r = &found->measured[i];

		if (!r->copied && r->io_bytes > HR_PAGE)
			*(r->write ? &out : &in) = r->bytes_per_s;
	}
	return in > 0 && out > 0 ? in * out / (in + out) : 0;
}

static void print_ratio(const struct ratio *r, const char *ssd)
{
	char size[12] = "", rate[24], limit[24], of_limit[12] = "", baseline[24] = "",
	     of_baseline[12] = "";

	if (r->io_bytes)
		snprintf(size, sizeof size, "%u", r->io_bytes);
	hr_rate_format(rate, sizeof rate, r->bytes_per_s);
	hr_rate_format(limit, sizeof limit, r->limit_bytes_per_s);
	snprintf(of_limit, sizeof of_limit, "%.3f", r->bytes_per_s / r->limit_bytes_per_s);
	if (r->baseline) {
		hr_rate_format(baseline, sizeof baseline, r->baseline->bytes_per_s);
		snprintf(of_baseline, sizeof of_baseline, "%.2f",
			 r->bytes_per_s / r->baseline->bytes_per_s);
	}
	printf("%-10s %-15s %8s %11s  %-22s %11s %6s %11s %6s\n", ssd, r->what, size, rate,
	       r->limit, limit, of_limit, baseline, of_baseline);
}

/* The members of a ratio in JSON. */
struct members {
	uint32_t io_bytes, baseline_io_bytes, baseline_threads;
	double bytes_per_s, limit_bytes_per_s, of_limit, baseline_bytes_per_s, of_baseline;
};

#define ROW(field, unit, kind, digits, where, what)                                              \
	HR_COUNTER_ROW(struct members, field, #field, unit, kind, digits, HR_IN_BENCH | (where), \
		       what)

static const struct hr_counter of_ratio[] = {
	ROW(io_bytes, "bytes", U32, 0, HR_IF_IO, "of a command"),
	ROW(bytes_per_s, "bytes/s", REAL, 0, 0, "measured"),
	ROW(limit_bytes_per_s, "bytes/s", REAL, 0, 0, "the limit"),
	ROW(of_limit, "", REAL, 4, 0, "measured over the limit"),
	ROW(baseline_bytes_per_s, "bytes/s", REAL, 0, HR_IF_BASELINE, "without headrace"),
	ROW(baseline_io_bytes, "bytes", U32, 0, HR_IF_BASELINE, "of a read without headrace"),
	ROW(baseline_threads, "threads", U32, 0, HR_IF_BASELINE, "that read without headrace"),
	ROW(of_baseline, "", REAL, 3, HR_IF_BASELINE, "measured over the baseline"),
	{ 0 }
};

static void json_ratio(const struct ratio *r, struct hr_json *out)
{
	struct members m = {
		.io_bytes = r->io_bytes,
		.bytes_per_s = r->bytes_per_s,
		.limit_bytes_per_s = r->limit_bytes_per_s,
		.of_limit = r->bytes_per_s / r->limit_bytes_per_s,
	};

	if (r->baseline) {
		m.baseline_bytes_per_s = r->baseline->bytes_per_s;
		m.baseline_io_bytes = r->baseline->io_bytes;
		m.baseline_threads = r->baseline->threads;
		m.of_baseline = r->bytes_per_s / r->baseline->bytes_per_s;
	}
	hr_json_object(out, NULL);
	hr_json_string(out, "what", r->what);
	hr_json_string(out, "limit", r->limit);
	hr_counters_json(out, of_ratio, &m,
			 HR_IN_BENCH | (r->io_bytes ? HR_IF_IO : 0) |
				 (r->baseline ? HR_IF_BASELINE : 0));
	hr_json_close(out);
}

static void report_ratio(const struct ratio *r, const char *ssd, struct hr_json *out)
{
	if (r->bytes_per_s <= 0 || r->limit_bytes_per_s <= 0)
		return;
	if (out)
		json_ratio(r, out);
	else
		print_ratio(r, ssd);
}

/* True for the first measurement of each size. */
static bool is_new(const struct hr_bench_found *found, uint32_t i)
{
	for (uint32_t j = 0; j < i; j++)
		if (found->measured[j].io_bytes == found->measured[i].io_bytes)
			return false;
	return true;
}

static void report_sizes(const struct hr_bench_found *found, const char *ssd, struct hr_json *out)
{
	for (uint32_t i = 0; i < 2 * found->measured_count; i++) {
		const bool write = i % 2 != 0;
		const uint32_t io = found->measured[i / 2].io_bytes;
		const struct ratio r = {
			.what = write ? "write" : "read",
			.io_bytes = io,
			.bytes_per_s = best_of(found, write, true, io),
			.limit = write ? "stores to host memory" : "loads from host memory",
			.limit_bytes_per_s = write ? found->limits.store : found->limits.load,
			.baseline = write ? NULL : hr_bench_best_baseline(found, io),
		};

		if (is_new(found, i / 2))
			report_ratio(&r, ssd, out);
	}
}

/* An operator that writes as much as it reads has two more limits. */
static void report_operators(const struct hr_bench_found *found, const char *ssd,
			     struct hr_json *out)
{
	for (uint32_t i = 0; i < found->op_count; i++) {
		const struct hr_bench_operator *op = &found->op[i];
		struct ratio r = {
			.what = op->name,
			.bytes_per_s = op->bytes_per_s,
			.limit = "loads from host memory",
			.limit_bytes_per_s = found->limits.load,
			.baseline = op->writes ? NULL : hr_bench_best_baseline(found, 0),
		};

		report_ratio(&r, ssd, out);
		if (strcmp(op->name, "copy") != 0)
			continue;
		r.limit = "loads and stores";
		r.limit_bytes_per_s = found->limits.load_store;
		report_ratio(&r, ssd, out);
		r.limit = "controller, both ways";
		r.limit_bytes_per_s = controller_both(found);
		report_ratio(&r, ssd, out);
	}
}

void hr_bench_ratios(const struct hr_bench_run *run, const char *ssd, struct hr_json *out)
{
	if (!run->found.has_limits)
		return;
	if (out)
		hr_json_array(out, "ratios");
	else
		printf("\n%-10s %-15s %8s %11s  %-22s %11s %6s %11s %6s\n", "ssd", "ratios",
		       "io bytes", "rate", "limit", "", "of it", "baseline", "times");
	report_sizes(&run->found, ssd, out);
	report_operators(&run->found, ssd, out);
	if (out)
		hr_json_close(out);
	else
		printf("\n");
}
