/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/bench/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/runner/runner.h"
#include "config/base/clock.h"

static void store_report_value(const struct hr_op_report *to, const char *name, double value)
{
	/* the interface lets no operator write */
	struct hr_bench_result *r = (struct hr_bench_result *)(uintptr_t)to;

	if (strcmp(name, "run_ns") == 0)
		r->run_ns = value;
	else if (strcmp(name, "p50_ns") == 0)
		r->p50_ns = value;
	else if (strcmp(name, "p99_ns") == 0)
		r->p99_ns = value;
}

static void store_report_u64(const struct hr_op_report *to, const char *name, uint64_t value)
{
	store_report_value(to, name, (double)value);
}

static void store_report_i64(const struct hr_op_report *to, const char *name, int64_t value)
{
	store_report_value(to, name, (double)value);
}

struct hr_bench_result hr_bench_result(const struct hr_run *run)
{
	struct hr_bench_result result = { .report = { .u64 = store_report_u64,
						      .i64 = store_report_i64,
						      .real = store_report_value } };
	const struct hr_op_all all = {
		.args = run->config->op_args,
		.result = run->gpu[0].cpu.op_result,
	};

	run->config->op->report(&all, &result.report);
	return result;
}

struct hr_io_counters hr_bench_io_counters(const struct hr_run *run)
{
	struct hr_io_counters sum = { 0 };

	for (uint32_t p = 0; p < hr_run_gpus(run); p++) {
		const struct hr_access *access = &run->gpu[p].cpu;

		for (uint32_t w = 0; w < hr_access_io_workers(access); w++) {
			const uint64_t *from = (const uint64_t *)&access->counters[w];

			for (size_t i = 0; i < sizeof sum / sizeof *from; i++)
				((uint64_t *)&sum)[i] += hr_acquire_sys_u64(&from[i]);
		}
	}
	return sum;
}

int hr_bench_access(struct hr_engine *engine, const struct hr_config_pipeline *p, uint32_t d,
		    uint32_t io_blocks,
		    void (*note)(const struct hr_engine *engine, const struct hr_run *run,
				 void *to),
		    void *to)
{
	struct hr_config_pipeline *own = hr_bench_only_pipeline(engine, p);
	int err;

	for (uint32_t i = 0; i < own->objects; i++)
		own->object[i].ssd = d;
	if (io_blocks)
		own->io_blocks = io_blocks;
	err = hr_engine_up_keeping(engine, HR_STAGE_QUEUES);
	if (err)
		return err;
	err = hr_run_all(engine, false, &engine->error);
	if (!err)
		note(engine, &engine->run[0], to);
	hr_engine_down_to(engine, HR_STAGE_STORES);
	return err;
}

/* A linear congruential generator of full period. */
void hr_bench_fill_chain(void *piece, uint64_t at, uint32_t bytes, uint64_t elements)
{
	uint64_t *next = piece;

	for (uint64_t i = 0; i < bytes / sizeof *next; i++)
		next[i] = ((at / sizeof *next + i) * 6364136223846793005ull +
			   1442695040888963407ull) &
			  (elements - 1);
}

/* A time of 0 was not measured. */
static void print_real(const struct hr_counter *row, double value)
{
	char text[32] = "-";

	if (value != 0 || strcmp(row->unit, "us") != 0)
		snprintf(text, sizeof text, "%.*f", row->decimals, value);
	printf("  %-62s %12s %s\n", row->help, text, row->unit);
}

void hr_bench_report_rows(const struct hr_counter *row, const void *of, unsigned in)
{
	for (; row->name; row++) {
		const void *at = (const char *)of + row->at;

		if (!(row->in & in & HR_IN_ANY) || (row->in & ~in & ~(unsigned)HR_IN_ANY))
			continue;
		if (row->type == HR_COUNTER_U32)
			printf("  %-62s %12u\n", row->help, *(const uint32_t *)at);
		else if (row->type == HR_COUNTER_U64)
			printf("  %-62s %12" PRIu64 "\n", row->help, *(const uint64_t *)at);
		else if (row->type == HR_COUNTER_NS)
			printf("  %-62s %12.*f ms\n", row->help, row->decimals,
			       (double)*(const uint64_t *)at / (double)HR_NS_PER_MS);
		else
			print_real(row, *(const double *)at);
	}
	fflush(stdout);
}

double hr_bench_mean(double sum, uint64_t count)
{
	return count ? sum / (double)count : 0;
}
