/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>

#include "boot/cmd/bench/bench.h"
#include "boot/engine/runner/counters.h"
#include "boot/engine/runner/progress.h"

static const char *pattern_name(enum hr_bench_pattern pattern)
{
	return pattern == HR_BENCH_RANDOM ? "random" : "sequential";
}

void hr_bench_report_roles(const struct hr_gpu_facts *facts, struct hr_json *out)
{
	const struct hr_entry_facts *pipe = &facts->entry[0];
	char text[HR_LOG_LINE_MAX];

	if (!out) {
		hr_gpu_roles_text(facts, text, sizeof text);
		printf("registers by role: %s\n\n", text);
		return;
	}
	hr_json_object(out, "registers");
	for (unsigned r = 0; r < facts->roles; r++)
		hr_json_u64(out, facts->role[r].name, facts->role[r].registers);
	hr_json_u64(out, "one_kernel", pipe->registers);
	hr_json_u64(out, "block_threads_max", pipe->max_threads);
	hr_json_u64(out, "block_max", facts->block_registers);
	hr_json_close(out);
}

void hr_bench_head(void)
{
	printf("%-10s %-6s %-11s %-5s %9s %6s %11s %11s %9s %9s %9s %9s %8s\n", "ssd", "access",
	       "pattern", "data", "io bytes", "queues", "IOPS", "rate", "p50 us", "p99 us",
	       "p99.9 us", "max us", "cycles");
}

/* Where the data end; nowhere when a GPU's workers leave them in host memory. */
static const char *data_name(const struct hr_measurement *r, bool gpu)
{
	return gpu ? (r->copied ? "gpu" : "none") : "host";
}

static void print_one(const char *ssd, const struct hr_measurement *r, bool gpu)
{
	char rate[24], cycles[24] = "-"; /* only workers of a GPU count cycles */

	hr_rate_format(rate, sizeof rate, r->bytes_per_s);
	if (gpu)
		snprintf(cycles, sizeof cycles, "%.0f", r->send_cycles + r->reap_cycles);
	printf("%-10s %-6s %-11s %-5s %9u %6u %11.0f %11s %9.1f %9.1f %9.1f %9.1f %8s\n", ssd,
	       r->write ? "write" : "read", pattern_name(r->pattern), data_name(r, gpu),
	       r->io_bytes, r->queues, r->iops, rate, r->latency_us[0], r->latency_us[1],
	       r->latency_us[2], r->latency_us[3], cycles);
	fflush(stdout);
}

#define ROW(of, field, name, unit, kind, digits, where, what) \
	HR_COUNTER_ROW(of, field, name, unit, kind, digits, HR_IN_BENCH | (where), what)
#define MEASURED(...) ROW(struct hr_measurement, __VA_ARGS__)
#define OF_OPERATOR(...) ROW(struct hr_bench_operator, __VA_ARGS__)
#define OF_LINK(field, name, unit, what) \
	ROW(struct hr_gpu_link_rates, field, name, unit, REAL, 0, 0, what)

static const struct hr_counter measured[] = {
	MEASURED(io_bytes, "io_bytes", "bytes", U32, 0, 0, "of a command"),
	MEASURED(queues, "queues", "queues", U32, 0, 0, "queue pairs, each of one worker"),
	MEASURED(blocks, "blocks", "blocks", U32, 0, 0, "worker blocks"),
	MEASURED(depth, "depth", "commands", U32, 0, 0, "outstanding at a queue pair"),
	MEASURED(elapsed_ns, "duration_ms", "ms", NS, 3, 0, "of the median measurement"),
	MEASURED(commands, "commands", "commands", U64, 0, 0, "in that time"),
	MEASURED(iops, "commands_per_s", "commands/s", REAL, 1, 0, "median"),
	MEASURED(worst_iops, "commands_per_s_worst", "commands/s", REAL, 1, 0, "worst"),
	MEASURED(best_iops, "commands_per_s_best", "commands/s", REAL, 1, 0, "best"),
	MEASURED(bytes_per_s, "bytes_per_s", "bytes/s", REAL, 0, 0, "median"),
	MEASURED(latency_us[0], "latency_p50_us", "us", REAL, 3, 0, "latency, median"),
	MEASURED(latency_us[1], "latency_p99_us", "us", REAL, 3, 0, "latency, 99th percentile"),
	MEASURED(latency_us[2], "latency_p999_us", "us", REAL, 3, 0, "latency, 99.9th percentile"),
	MEASURED(latency_us[3], "latency_max_us", "us", REAL, 3, 0, "latency, maximum"),
	MEASURED(batch_commands, "batch_commands", "commands", REAL, 2, 0, "in a batch"),
	MEASURED(fences_per_batch, "fences_per_batch", "fences", REAL, 3, 0, "of the system"),
	MEASURED(doorbells_per_batch, "doorbells_per_batch", "writes", REAL, 3, 0, "to registers"),
	MEASURED(send_cycles, "send_cycles", "cycles", REAL, 1, HR_IF_GPU, "to send a command"),
	MEASURED(reap_cycles, "reap_cycles", "cycles", REAL, 1, HR_IF_GPU,
		 "to reap its completion"),
	{ 0 }
};

static const struct hr_counter of_operator[] = {
	OF_OPERATOR(bytes, "source_bytes", "bytes", U64, 0, 0, "of all sources"),
	OF_OPERATOR(duration_ms, "duration_ms", "ms", REAL, 3, 0, "of the median run"),
	OF_OPERATOR(bytes_per_s, "bytes_per_s", "bytes/s", REAL, 0, 0, "tiles in place, median"),
	OF_OPERATOR(worst_bytes_per_s, "bytes_per_s_worst", "bytes/s", REAL, 0, 0, "worst"),
	OF_OPERATOR(best_bytes_per_s, "bytes_per_s_best", "bytes/s", REAL, 0, 0, "best"),
	OF_OPERATOR(copied_bytes_per_s, "bytes_per_s_copied", "bytes/s", REAL, 0, HR_IF_COPIED,
		    "tiles copied first, median"),
	OF_OPERATOR(worst_copied_bytes_per_s, "bytes_per_s_copied_worst", "bytes/s", REAL, 0,
		    HR_IF_COPIED, "worst"),
	OF_OPERATOR(best_copied_bytes_per_s, "bytes_per_s_copied_best", "bytes/s", REAL, 0,
		    HR_IF_COPIED, "best"),
	OF_OPERATOR(verified_bytes_per_s, "bytes_per_s_verified", "bytes/s", REAL, 0, 0,
		    "with checksums, median"),
	OF_OPERATOR(worst_verified_bytes_per_s, "bytes_per_s_verified_worst", "bytes/s", REAL, 0, 0,
		    "worst"),
	OF_OPERATOR(best_verified_bytes_per_s, "bytes_per_s_verified_best", "bytes/s", REAL, 0, 0,
		    "best"),
	OF_OPERATOR(io_blocks, "io_blocks", "blocks", U32, 0, 0, "that read or write ssds"),
	OF_OPERATOR(blocks, "blocks", "blocks", U32, 0, 0, "all"),
	{ 0 }
};

static void json_one(struct hr_json *out, const struct hr_measurement *r, bool gpu)
{
	hr_json_object(out, NULL);
	hr_json_string(out, "access", r->write ? "write" : "read");
	hr_json_string(out, "pattern", pattern_name(r->pattern));
	hr_json_string(out, "data", data_name(r, gpu));
	hr_counters_json(out, measured, r, HR_IN_BENCH | (gpu ? HR_IF_GPU : 0));
	hr_json_close(out);
}

static const struct hr_counter of_link[] = {
	OF_LINK(copy_in, "copy_in_bytes_per_s", "bytes/s", "copy engine, host to GPU memory"),
	OF_LINK(copy_out, "copy_out_bytes_per_s", "bytes/s", "copy engine, GPU memory to host"),
	OF_LINK(load, "load_bytes_per_s", "bytes/s", "loads from host memory"),
	OF_LINK(store, "store_bytes_per_s", "bytes/s", "stores to host memory"),
	OF_LINK(page[0], "page_16_warps_bytes_per_s", "bytes/s",
		"random 4 KiB pages into GPU memory, 16 warps"),
	OF_LINK(page[1], "page_32_warps_bytes_per_s", "bytes/s",
		"random 4 KiB pages into GPU memory, 32 warps"),
	OF_LINK(page[2], "page_64_warps_bytes_per_s", "bytes/s",
		"random 4 KiB pages into GPU memory, 64 warps"),
	OF_LINK(bulk, "bulk_bytes_per_s", "bytes/s", "the same, bulk copy engine of SMs, 16 warps"),
	OF_LINK(copy_both, "copy_both_bytes_per_s", "bytes/s",
		"copy engine, each direction while both run"),
	OF_LINK(load_store, "load_store_bytes_per_s", "bytes/s",
		"loads and stores, each direction while both run"),
	OF_LINK(round_trip_ns, "round_trip_ns", "ns", "round trip GPU, CPU, GPU"),
	{ 0 }
};

_Static_assert(HR_LIMIT_WARPS == 3, "a row for each number of warps");

/* The rate of a row while the other direction runs, too; 0: not measured. */
static double both_of(const struct hr_gpu_link_rates *l, const struct hr_counter *row)
{
	switch (row->at) {
	case offsetof(struct hr_gpu_link_rates, copy_in):
	case offsetof(struct hr_gpu_link_rates, copy_out):
		return l->copy_both;
	case offsetof(struct hr_gpu_link_rates, load):
	case offsetof(struct hr_gpu_link_rates, store):
		return l->load_store;
	default:
		return 0;
	}
}

/* One line of the table: name, rate, and rate with both directions at once. */
static void print_limit(const struct hr_gpu_link_rates *l, const struct hr_counter *row)
{
	const double value = *(const double *)(const void *)((const char *)l + row->at);
	const double both = both_of(l, row);
	char rate[24] = "-", rate_both[24] = "";

	if (value > 0)
		hr_rate_format(rate, sizeof rate, value);
	if (both > 0)
		hr_rate_format(rate_both, sizeof rate_both, both);
	printf("%-58s %11s %11s\n", row->help, rate, rate_both);
}

void hr_bench_report_limits(const struct hr_gpu_link_rates *l, struct hr_json *out)
{
	if (out) {
		hr_json_object(out, "limits");
		hr_counters_json(out, of_link, l, HR_IN_BENCH);
		hr_json_close(out);
		return;
	}
	printf("%-58s %11s %11s\n", "link between host and GPU", "rate", "both");
	for (const struct hr_counter *row = of_link;
	     row->at < offsetof(struct hr_gpu_link_rates, round_trip_ns); row++)
		if (row->at != offsetof(struct hr_gpu_link_rates, copy_both) &&
		    row->at != offsetof(struct hr_gpu_link_rates, load_store))
			print_limit(l, row);
	printf("%-58s %8.0f ns\n\n", "round trip GPU, CPU, GPU", l->round_trip_ns);
}

void hr_bench_report_one(const char *ssd, const struct hr_measurement *r, bool gpu,
			 struct hr_json *out)
{
	if (out)
		json_one(out, r, gpu);
	else
		print_one(ssd, r, gpu);
}

void hr_bench_operators_head(void)
{
	printf("\n%-10s %-15s %12s %9s %11s %11s %11s %5s %9s %9s\n", "ssd", "operator",
	       "source bytes", "ms", "in place", "copied", "verified", "times", "io blocks",
	       "blocks");
}

static void json_operator(const struct hr_bench_operator *op, struct hr_json *out)
{
	hr_json_object(out, NULL);
	hr_json_string(out, "operator", op->name);
	hr_counters_json(out, of_operator, op,
			 HR_IN_BENCH | (op->copied_bytes_per_s > 0 ? HR_IF_COPIED : 0));
	hr_json_close(out);
}

void hr_bench_report_operator(const char *ssd, const struct hr_bench_operator *op,
			      struct hr_json *out)
{
	char rate[24], copied[24] = "-", verified[24];

	if (out) {
		json_operator(op, out);
		return;
	}
	hr_rate_format(rate, sizeof rate, op->bytes_per_s);
	if (op->copied_bytes_per_s > 0)
		hr_rate_format(copied, sizeof copied, op->copied_bytes_per_s);
	hr_rate_format(verified, sizeof verified, op->verified_bytes_per_s);
	printf("%-10s %-15s %12llu %9.3f %11s %11s %11s %5.2f %9u %9u\n", ssd, op->name,
	       (unsigned long long)op->bytes, op->duration_ms, rate, copied, verified,
	       op->verified_bytes_per_s / op->bytes_per_s, op->io_blocks, op->blocks);
	fflush(stdout);
}
