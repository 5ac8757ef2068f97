#include <stdio.h>

#include "boot/cmd/bench/bench.h"
#include "boot/cmd/report/json.h"
#include "boot/engine/progress.h"

static const char *pattern_name(enum hr_bench_pattern pattern)
{
	return pattern == HR_BENCH_RANDOM ? "random" : "sequential";
}

void hr_bench_report_roles(const struct hr_gpu_facts *facts, struct json_object *out)
{
	const struct hr_kernel_facts *pipe = &facts->kernel[0];
	char text[HR_LOG_LINE_MAX];

	if (!out) {
		hr_gpu_roles_text(facts, text, sizeof text);
		printf("registers by role: %s\n\n", text);
		return;
	}
	for (unsigned r = 0; r < facts->roles; r++)
		hr_json_u64(out, facts->role[r].name, facts->role[r].registers);
	hr_json_u64(out, "one_kernel", pipe->registers);
	hr_json_u64(out, "block_threads_max", pipe->max_threads);
	hr_json_u64(out, "block_max", facts->block_registers);
}

void hr_bench_head(void)
{
	printf("%-10s %-6s %-11s %-5s %9s %6s %11s %11s %9s %9s %9s %9s %8s\n", "ssd", "access",
	       "pattern", "data", "io bytes", "queues", "IOPS", "rate", "p50 us", "p99 us",
	       "p99.9 us", "max us", "cycles");
}

/* Where the data are in the end: nowhere when a GPU's workers leave them in host memory. */
static const char *data_name(const struct hr_measurement *r, bool gpu)
{
	return gpu ? (r->copied ? "gpu" : "none") : "host";
}

static void print_one(const char *ssd, const struct hr_measurement *r, bool gpu)
{
	char rate[24];

	hr_rate_format(rate, sizeof rate, r->bytes_per_s);
	printf("%-10s %-6s %-11s %-5s %9u %6u %11.0f %11s %9.1f %9.1f %9.1f %9.1f %8.0f\n", ssd,
	       r->write ? "write" : "read", pattern_name(r->pattern), data_name(r, gpu),
	       r->io_bytes, r->queues, r->iops, rate, r->latency_us[0], r->latency_us[1],
	       r->latency_us[2], r->latency_us[3], r->send_cycles + r->reap_cycles);
	fflush(stdout);
}

static void json_one(struct json_object *out, const struct hr_measurement *r, bool gpu)
{
	hr_json_string(out, "access", r->write ? "write" : "read");
	hr_json_string(out, "pattern", pattern_name(r->pattern));
	hr_json_string(out, "data", data_name(r, gpu));
	hr_json_u64(out, "io_bytes", r->io_bytes);
	hr_json_u64(out, "queues", r->queues);
	hr_json_u64(out, "blocks", r->blocks);
	hr_json_u64(out, "depth", r->depth);
	hr_json_double(out, "duration_ms", (double)r->elapsed_ns / 1e6, 3);
	hr_json_u64(out, "commands", r->commands);
	hr_json_double(out, "commands_per_s", r->iops, 1);
	hr_json_double(out, "commands_per_s_worst", r->worst_iops, 1);
	hr_json_double(out, "commands_per_s_best", r->best_iops, 1);
	hr_json_double(out, "bytes_per_s", r->bytes_per_s, 0);
	hr_json_double(out, "latency_p50_us", r->latency_us[0], 3);
	hr_json_double(out, "latency_p99_us", r->latency_us[1], 3);
	hr_json_double(out, "latency_p999_us", r->latency_us[2], 3);
	hr_json_double(out, "latency_max_us", r->latency_us[3], 3);
	hr_json_double(out, "batch_commands", r->batch_commands, 2);
	hr_json_double(out, "fences_per_batch", r->fences_per_batch, 3);
	hr_json_double(out, "doorbells_per_batch", r->doorbells_per_batch, 3);
	if (gpu) {
		hr_json_double(out, "send_cycles", r->send_cycles, 1);
		hr_json_double(out, "reap_cycles", r->reap_cycles, 1);
	}
}

/* One line of the table of limits: what, and what both directions do at once; or one member. */
static void limit_row(struct json_object *out, const char *name, const char *what, double value,
		      double both)
{
	char rate[24], rate_both[24] = "";

	if (out) {
		hr_json_double(out, name, value, 0);
		return;
	}
	hr_rate_format(rate, sizeof rate, value);
	if (both > 0)
		hr_rate_format(rate_both, sizeof rate_both, both);
	printf("%-58s %11s %11s\n", what, rate, rate_both);
}

void hr_bench_report_limits(const struct hr_link_rates *l, struct json_object *out)
{
	char name[48], what[80];

	if (!out)
		printf("%-58s %11s %11s\n", "link between host and GPU", "rate", "both");
	limit_row(out, "copy_in_bytes_per_s", "copy engine, host to GPU memory", l->copy_in,
		  l->copy_both);
	limit_row(out, "copy_out_bytes_per_s", "copy engine, GPU memory to host", l->copy_out,
		  l->copy_both);
	limit_row(out, "load_bytes_per_s", "loads from host memory", l->load, l->load_store);
	limit_row(out, "store_bytes_per_s", "stores to host memory", l->store, l->load_store);
	for (uint32_t i = 0; i < HR_LIMIT_WARPS; i++) {
		snprintf(name, sizeof name, "page_%u_warps_bytes_per_s", hr_limit_warps(i));
		snprintf(what, sizeof what, "random 4 KiB pages into GPU memory, %u warps",
			 hr_limit_warps(i));
		limit_row(out, name, what, l->page[i], 0);
	}
	limit_row(out, "bulk_bytes_per_s", "the same, bulk copy engine of SMs, 16 warps", l->bulk,
		  0);
	if (out) {
		limit_row(out, "copy_both_bytes_per_s", "", l->copy_both, 0);
		limit_row(out, "load_store_bytes_per_s", "", l->load_store, 0);
		hr_json_double(out, "round_trip_ns", l->round_trip_ns, 0);
	} else {
		printf("%-58s %8.0f ns\n\n", "round trip GPU, CPU, GPU", l->round_trip_ns);
	}
}

void hr_bench_report_one(const char *ssd, const struct hr_measurement *r, bool gpu,
			 struct json_object *out)
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

static void json_operator(const struct hr_bench_operator *op, struct json_object *out)
{
	hr_json_string(out, "operator", op->name);
	hr_json_u64(out, "source_bytes", op->bytes);
	hr_json_double(out, "duration_ms", op->duration_ms, 3);
	hr_json_double(out, "bytes_per_s", op->bytes_per_s, 0);
	hr_json_double(out, "bytes_per_s_worst", op->worst_bytes_per_s, 0);
	hr_json_double(out, "bytes_per_s_best", op->best_bytes_per_s, 0);
	if (op->copied_bytes_per_s > 0) {
		hr_json_double(out, "bytes_per_s_copied", op->copied_bytes_per_s, 0);
		hr_json_double(out, "bytes_per_s_copied_worst", op->worst_copied_bytes_per_s, 0);
		hr_json_double(out, "bytes_per_s_copied_best", op->best_copied_bytes_per_s, 0);
	}
	hr_json_double(out, "bytes_per_s_verified", op->verified_bytes_per_s, 0);
	hr_json_double(out, "bytes_per_s_verified_worst", op->worst_verified_bytes_per_s, 0);
	hr_json_double(out, "bytes_per_s_verified_best", op->best_verified_bytes_per_s, 0);
	hr_json_u64(out, "io_blocks", op->io_blocks);
	hr_json_u64(out, "blocks", op->blocks);
}

void hr_bench_report_operator(const char *ssd, const struct hr_bench_operator *op,
			      struct json_object *list)
{
	char rate[24], copied[24] = "-", verified[24];

	if (list) {
		json_operator(op, hr_json_append(list));
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
