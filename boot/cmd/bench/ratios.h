/*
 * boot/cmd/bench/ratios.h - `headrace bench`: figures beside limits and baselines.
 */
#ifndef BOOT_CMD_BENCH_RATIOS_H
#define BOOT_CMD_BENCH_RATIOS_H

#include "boot/cmd/bench/bench.h"

/* Figures of one ssd beside limits and baselines of the same run. */
void hr_bench_ratios(const struct hr_bench_run *run, const char *ssd, struct hr_json *out);

/* The best baseline for that read size; io_bytes 0: of all sizes; NULL: none was measured. */
const struct hr_baseline_row *hr_bench_best_baseline(const struct hr_bench_found *found,
						     uint32_t io_bytes);

#endif
