/* SPDX-License-Identifier: Apache-2.0 */
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
#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"
#include "gpu/facts.h"
#include "gpu/measuring.h"

/* ---- `headrace bench --remote`: tiles of host memory from one process to another
 * one over a link (boot/remote/link.h), without pipelines and ssds.
 */

/* The options. 0 or NULL: not given. */
struct hr_bench_remote {
	const char *address; /* "A.B.C.D:PORT"; NULL: no such bench */
	const char *key;     /* file with the key of both sides */
	bool receive;	     /* listen, and take tiles */
	bool json;
	uint32_t tile_bytes, slots;
	uint32_t depth, tiles; /* the sender's */
	double seconds;	       /* the sender's, without `tiles` */
};

/*
 * Connect both sides, send or take tiles, and print what was measured. Returns an enum hr_exit; errors
 * are printed. SIGINT and SIGTERM end both sides.
 */
int hr_bench_remote(const struct hr_bench_remote *request);
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
	struct hr_gpu_link_rates limits;
	struct hr_baseline_row baseline[HR_BASELINE_METHODS][HR_BENCH_ROWS];
	/* Figures of the current ssd. */
	struct hr_measurement measured[HR_BENCH_MEASURED_MAX];
	uint32_t measured_count;
	struct hr_bench_operator op[HR_BENCH_OPERATORS_MAX];
	uint32_t op_count;
};

struct hr_bench_run {
	struct hr_engine *engine;
	const struct hr_bench_request *request;
	struct hr_json *report; /* written while figures are measured; NULL: tables */
	struct hr_bench_found found;
	bool gpu;	/* workers have GPU memory */
	uint32_t times; /* repetitions of each measurement */
};

/* ---- `headrace bench`: data rates of an ordinary program */

/*
 * Data rates of an ordinary program: CPU threads read request->baseline.
 * An existing file is only read. A missing file is created with the size of the object (at least
 * HR_BASELINE_FILE_MIN), and removed at the end. A method that this machine does not support is
 * reported with the reason, and is not an error. 0; -EINVAL: not a regular file, or too short;
 * -ENOTSUP: no GPU; -EINTR; other errors of the file or the GPU. All but -EINTR fill
 * run->engine->error.
 */
int hr_bench_baseline(struct hr_bench_run *run);

/* ---- `headrace bench`: reads of single pages through the page cache of access
 * operators, beside raw reads of the same ssd.
 */

/*
 * On ssd d, which has a store:
 *   - one worker reads 4 KiB at a time: the latency of a raw read;
 *   - `chase` follows one chain through a cache of an eighth of the object: the latency of a miss, and
 *     the times of its steps in an I/O worker;
 *   - `gather` reads random pages by all compute workers: the rate of misses, compared with the best
 *     rate of raw random reads of 4 KiB in run->found.
 * --blocks sets the number of I/O blocks of `gather`. The object of the bench is removed at the end.
 * The appliance is up to HR_STAGE_STORES, and stays so unless an error occurs, which fills
 * run->engine->error. out: the ssd's object is open in it; or NULL. -EINTR: a signal requested a stop.
 */
int hr_bench_misses(struct hr_bench_run *run, uint32_t d, struct hr_json *out);

/* ---- `headrace bench`: the built-in operators */

/*
 * Run each built-in operator over objects of the bench on ssd d, and remove them. The appliance is
 * up to HR_STAGE_STORES, and stays so unless an error occurs, which fills run->engine->error. out: the
 * ssd's object is open in it; or NULL. -EINTR: a signal requested a stop.
 */
int hr_bench_operators(struct hr_bench_run *run, uint32_t d, struct hr_json *out);

/* ---- `headrace bench --only peers`: pages of one set of data in the caches of two gpus */

/*
 * On ssd d, which has a store, by `gather` on the first two gpus of the configuration:
 *   - both read all pages at random from empty caches: reads of the ssd per page;
 *   - each holds half of the pages, and both read pages at random: the rate of pages that a gpu reads
 *     in the frames of the other one, and that of pages that its I/O workers copy meanwhile. On GPUs,
 *     beside it, the rate at which as many warps as the I/O blocks have copy random pages from there,
 *     and that of loads by all SMs.
 * --blocks sets the number of I/O blocks. The object of the bench is removed at the end. The appliance
 * is up to HR_STAGE_STORES, and stays so unless an error occurs, which fills
 * run->engine->error. out: the ssd's object is open in it; or NULL. -EINTR: a signal requested a stop.
 */
int hr_bench_peers(struct hr_bench_run *run, uint32_t d, struct hr_json *out);

/* ---- `headrace bench`: figures beside limits and baselines */

/* Figures of one ssd beside limits and baselines of the same run. */
void hr_bench_ratios(const struct hr_bench_run *run, const char *ssd, struct hr_json *out);

/* The best baseline for that read size; io_bytes 0: of all sizes; NULL: none was measured. */
const struct hr_baseline_row *hr_bench_best_baseline(const struct hr_bench_found *found,
						     uint32_t io_bytes);

/* ---- `headrace bench`: tables and their JSON */

/* Lines of a table (out NULL), or members of the open object. */
void hr_bench_head(void);
void hr_bench_report_limits(const struct hr_gpu_link_rates *limits, struct hr_json *out);
/* Registers per thread by role, from facts that include roles. */
void hr_bench_report_roles(const struct hr_gpu_facts *facts, struct hr_json *out);
void hr_bench_report_one(const char *ssd, const struct hr_measurement *r, bool gpu,
			 struct hr_json *out);
void hr_bench_operators_head(void);
/* An element of the open array; out NULL: a line of the table. */
void hr_bench_report_operator(const char *ssd, const struct hr_bench_operator *op,
			      struct hr_json *out);

#endif
