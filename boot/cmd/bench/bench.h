/*
 * boot/cmd/bench/bench.h - the parts of `headrace bench`: what was asked for, what was found, and
 * who measures and reports which of it.
 *
 * Figures are reported as soon as they are there: as a line of a table, or as members of one JSON
 * object. Ratios are made of all of them, at the end of each ssd.
 */
#ifndef BOOT_CMD_BENCH_BENCH_H
#define BOOT_CMD_BENCH_BENCH_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "boot/cmd/bench/measure.h"
#include "boot/engine/stages.h"
#include "gpu/baseline.h"
#include "gpu/facts.h"
#include "gpu/link_rates.h"

struct hr_bench_wishes {
	const char *file;     /* configuration, or NULL */
	const char *baseline; /* file to read for baselines, or NULL: none */
	bool json;
	double seconds;
	uint32_t blocks, workers, depth, times, object_mib; /* 0: as the backend wants it */
	struct hr_measurement only; /* --only; io_bytes 0: all of them, and operators */
};

#define HR_BENCH_MEASURED_MAX 96u
#define HR_BENCH_OPERATORS_MAX 8u
#define HR_BENCH_ROWS 12u /* baselines of one way: sizes times numbers of threads */

/* A built-in operator, over an object of the bench's own. */
struct hr_bench_operator {
	const char *name;
	bool writes;				    /* has a sink */
	uint64_t bytes;				    /* of all sources */
	double bytes_per_s;			    /* of the median run: read, from start to end */
	double duration_ms;			    /* the same */
	double worst_bytes_per_s, best_bytes_per_s; /* of the runs of which this is the median */
	/* All of that with tiles read where they are. On a GPU, where that is host memory, also with
	 * tiles copied to its own memory first; 0: not measured. */
	bool bounces;
	double copied_bytes_per_s, worst_copied_bytes_per_s, best_copied_bytes_per_s;
	/* With checksums of all that is read and written, as pipelines have them unless told
	 * otherwise; without in the others. */
	double verified_bytes_per_s, worst_verified_bytes_per_s, best_verified_bytes_per_s;
	uint32_t io_blocks, blocks; /* that move data between ssd and memory; all */
};

/* What ratios are made of. */
struct hr_bench_found {
	bool has_limits;
	struct hr_link_rates limits;
	struct hr_baseline_row baseline[HR_BASELINE_WAYS][HR_BENCH_ROWS];
	/* Of the ssd that is measured now. */
	struct hr_measurement measured[HR_BENCH_MEASURED_MAX];
	uint32_t measured_count;
	struct hr_bench_operator op[HR_BENCH_OPERATORS_MAX];
	uint32_t op_count;
};

struct hr_bench_run {
	struct hr_appliance *app;
	const struct hr_bench_wishes *wishes;
	struct json_object *report; /* NULL: tables */
	struct hr_bench_found found;
	bool gpu;	/* workers have memory of their own */
	uint32_t times; /* how often each is measured */
};

/* boot/cmd/bench/report.c: tables and their JSON. out: NULL for a table. */
void hr_bench_head(void);
void hr_bench_report_limits(const struct hr_link_rates *limits, struct json_object *out);
/* Registers of a thread, by role; of facts whose roles were asked for. */
void hr_bench_report_roles(const struct hr_gpu_facts *facts, struct json_object *out);
void hr_bench_report_one(const char *ssd, const struct hr_measurement *r, bool gpu,
			 struct json_object *out);
void hr_bench_operators_head(void);
/* list: of the ssd's operators, or NULL for a line of the table. */
void hr_bench_report_operator(const char *ssd, const struct hr_bench_operator *op,
			      struct json_object *list);

/*
 * boot/cmd/bench/baseline.c: what a program would do in place of headrace, by threads of the CPU that
 * read wishes->baseline. A file that is there is only read; one that is not is made, as large as the
 * object would be (at least HR_BASELINE_FILE_MIN), and removed at the end. A way that this machine
 * does not have is reported with the reason, which is no error. 0; -EINVAL: that is no file to read,
 * or too short; -ENOTSUP: no GPU; -EINTR; others of the file or the GPU. What is wrong is logged.
 */
int hr_bench_baseline(struct hr_bench_run *run);

/* Bytes of an object for that ssd: as wished, or what is free leaves room for, beside a second one. */
uint64_t hr_bench_object_bytes(const struct hr_bench_run *run, uint32_t d);

/*
 * boot/cmd/bench/operators.c: each built-in operator over objects of the bench's own on ssd d, which
 * are removed. The appliance is up to HR_STAGE_STORES, and stays so unless there is an error, which
 * is logged. out: the ssd's JSON object, or NULL. -EINTR: a signal asked to stop.
 */
int hr_bench_operators(struct hr_bench_run *run, uint32_t d, struct json_object *out);

/* boot/cmd/bench/ratios.c: what was found of one ssd, beside limits and baselines of the same run. */
void hr_bench_ratios(const struct hr_bench_run *run, const char *ssd, struct json_object *out);

/* The best baseline of that size of read, of all sizes with io_bytes 0; NULL: none was measured. */
const struct hr_baseline_row *hr_bench_best_baseline(const struct hr_bench_found *found,
						     uint32_t io_bytes);

#endif
