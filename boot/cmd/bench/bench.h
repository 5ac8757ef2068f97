/*
 * boot/cmd/bench/bench.h - the parts of `headrace bench`: options, results, and the functions that
 * measure and report.
 *
 * Each figure is reported at once: as a line of a table, or as a member of one JSON object. Ratios
 * are computed from all figures at the end of each ssd.
 */
#ifndef BOOT_CMD_BENCH_BENCH_H
#define BOOT_CMD_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/cmd/bench/measure.h"
#include "boot/cmd/bench/remote.h"
#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"
#include "gpu/facts.h"
#include "gpu/measuring.h"

struct hr_bench_request {
	const char *file;     /* configuration, or NULL */
	const char *baseline; /* file to read for baselines, or NULL: none */
	bool json;
	double seconds;					    /* 0: the default */
	uint32_t blocks, workers, depth, times, object_mib; /* 0: default of the backend */
	struct hr_measurement only; /* --only; io_bytes 0: all measurements, and the operators */
	bool only_misses;	    /* --only misses */
	bool only_peers;	    /* --only peers */
	struct hr_bench_remote remote;
};

#define HR_BENCH_MEASURED_MAX 96u
#define HR_BENCH_OPERATORS_MAX 8u
#define HR_BENCH_ROWS 12u /* rows of one kind of baseline: sizes times numbers of threads */

/* A built-in operator over an object of the bench. */
struct hr_bench_operator {
	const char *name;
	bool writes;	/* has a sink */
	uint64_t bytes; /* bytes of all sources */
	/* Of the median run: bytes read over the time from start to end. */
	double bytes_per_s;
	double duration_ms;			    /* duration of the same run */
	double worst_bytes_per_s, best_bytes_per_s; /* of the runs whose median this is */
	/*
	 * The figures above are for tiles read in place. On a GPU that reads host memory, tiles are
	 * also copied to GPU memory first; 0: not measured.
	 */
	bool bounces;
	double copied_bytes_per_s, worst_copied_bytes_per_s, best_copied_bytes_per_s;
	/*
	 * With checksums of all data read and written, which is the default of pipelines; the other
	 * figures are without.
	 */
	double verified_bytes_per_s, worst_verified_bytes_per_s, best_verified_bytes_per_s;
	uint32_t io_blocks, blocks; /* blocks that move data between ssd and memory; all blocks */
};

/* Figures from which ratios are computed. */
struct hr_bench_found {
	bool has_limits;
	struct hr_link_rates limits;
	struct hr_baseline_row baseline[HR_BASELINE_METHODS][HR_BENCH_ROWS];
	/* Figures of the current ssd. */
	struct hr_measurement measured[HR_BENCH_MEASURED_MAX];
	uint32_t measured_count;
	struct hr_bench_operator op[HR_BENCH_OPERATORS_MAX];
	uint32_t op_count;
};

struct hr_bench_run {
	struct hr_appliance *app;
	const struct hr_bench_request *request;
	struct hr_json *report; /* written while figures are measured; NULL: tables */
	struct hr_bench_found found;
	bool gpu;	/* workers have GPU memory */
	uint32_t times; /* repetitions of each measurement */
};

#endif
