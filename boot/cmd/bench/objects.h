/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/bench/objects.h - `headrace bench`: objects of the bench on an ssd, and pipelines over
 * them.
 */
#ifndef BOOT_CMD_BENCH_OBJECTS_H
#define BOOT_CMD_BENCH_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/cmd/bench/bench.h"
#include "boot/engine/runner/counters.h"

/* Bytes of an object for that ssd: the requested size, or a size such that a second object fits. */
uint64_t hr_bench_object_bytes(const struct hr_bench_run *run, uint32_t d);

/* Size of a source, whole MiB, such that a sink of the same size fits, too; 0: none does. */
uint64_t hr_bench_source_bytes(const struct hr_bench_run *run, uint32_t d);

/* Contents of an object: piece() fills `bytes` bytes, which lie at offset `at` of the object. */
struct hr_bench_fill {
	void (*piece)(void *piece, uint64_t at, uint32_t bytes, uint64_t argument);
	uint64_t argument;
	bool same; /* every piece is as the first */
};

/* Create an object with these contents. 0; -EINTR: a signal requested a stop; or an error in e. */
int hr_bench_make(struct hr_ssd *ssd, const char *name, uint64_t bytes,
		  const struct hr_bench_fill *fill, struct hr_error *e);

/* Remove the finished and the incomplete object of that name, if there are any. */
int hr_bench_drop(struct hr_ssd *ssd, const char *name, struct hr_error *e);

/* Returns err, with the object named in e. */
int hr_bench_complain(const struct hr_ssd *ssd, const char *object, int err, struct hr_error *e);

/* Make a copy of this the only pipeline of the appliance, in place of those of its configuration.
 * Returns the copy. */
struct hr_config_pipeline *hr_bench_only_pipeline(struct hr_engine *engine,
						  const struct hr_config_pipeline *p);

/* ---- `headrace bench`: runs of access operators, and their results */

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
 * an error in engine->error.
 */
int hr_bench_access(struct hr_engine *engine, const struct hr_config_pipeline *p, uint32_t d,
		    uint32_t io_blocks,
		    void (*note)(const struct hr_engine *engine, const struct hr_run *run,
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
