/*
 * boot/cmd/bench/access.h - `headrace bench`: runs of access operators, and their results.
 */
#ifndef BOOT_CMD_BENCH_ACCESS_H
#define BOOT_CMD_BENCH_ACCESS_H

#include "boot/cmd/bench/bench.h"
#include "boot/engine/runner/counters.h"

/* Values of an operator's result, by their names there; 0: it has none of that name. */
struct hr_bench_result {
	struct hr_op_report report;
	double run_ns, p50_ns, p99_ns;
};

struct hr_bench_result hr_bench_result(const struct hr_run *run);

/* Sums over the I/O workers of all gpus. After a run. */
struct hr_io_counters hr_bench_io_counters(const struct hr_run *run);

/*
 * Run the pipeline once, with all its objects on ssd d, and call note() while its counters are there.
 * io_blocks 0: those of the pipeline. The appliance is up to HR_STAGE_STORES before and after. 0, or
 * an error in app->error.
 */
int hr_bench_access(struct hr_appliance *app, const struct hr_config_pipeline *p, uint32_t d,
		    uint32_t io_blocks,
		    void (*note)(const struct hr_appliance *app, const struct hr_run *run,
				 void *to),
		    void *to);

/* fill->piece for an object that is one chain over all its 64-bit elements, whose pages come in no
 * order. elements: their number, a power of two. */
void hr_bench_fill_chain(void *piece, uint64_t at, uint32_t bytes, uint64_t elements);

/* Print the rows that belong to `in`, one in a line. */
void hr_bench_report_rows(const struct hr_counter *row, const void *of, unsigned in);

/* sum / count, or 0 when count is 0. */
double hr_bench_mean(double sum, uint64_t count);

#endif
