/*
 * boot/cmd/bench/report.h - `headrace bench`: tables and their JSON.
 */
#ifndef BOOT_CMD_BENCH_REPORT_H
#define BOOT_CMD_BENCH_REPORT_H

#include "boot/cmd/bench/bench.h"

/* Lines of a table (out NULL), or members of the open object. */
void hr_bench_head(void);
void hr_bench_report_limits(const struct hr_link_rates *limits, struct hr_json *out);
/* Registers per thread by role, from facts that include roles. */
void hr_bench_report_roles(const struct hr_gpu_facts *facts, struct hr_json *out);
void hr_bench_report_one(const char *ssd, const struct hr_measurement *r, bool gpu,
			 struct hr_json *out);
void hr_bench_operators_head(void);
/* An element of the open array; out NULL: a line of the table. */
void hr_bench_report_operator(const char *ssd, const struct hr_bench_operator *op,
			      struct hr_json *out);

#endif
