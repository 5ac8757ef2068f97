/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/bench/measure.h - the measurements of `headrace bench`: workers of a gpu read and write
 * one object of an ssd through the whole stack.
 *
 * hr_measure_up() allocates all memory and queue pairs for the largest I/O size. Then any number of
 * measurements can be made. hr_measure_down() frees everything and removes the object. The bench
 * creates this object and writes nothing else.
 */
#ifndef BOOT_CMD_BENCH_MEASURE_H
#define BOOT_CMD_BENCH_MEASURE_H

#include "boot/engine/layout/layout.h"
#include "boot/engine/run.h"
#include "boot/engine/bringup/stages.h"
#include "gpu/worker/bench.h"

#define HR_MEASURE_OBJECT "headrace.bench" /* its name while it exists */

struct hr_measure_shape {
	uint32_t gpu, ssd; /* indices in the appliance, which is up to HR_STAGE_STORES */
	uint32_t blocks;   /* largest number of worker blocks */
	uint32_t workers;  /* largest number of workers per block; 1 on the host backend */
	/* Largest number of outstanding commands per worker, below queue_entries. */
	uint32_t depth;
	uint32_t io_max; /* largest I/O size, at most chunk_bytes */
	/* Size of the object; 0: a quarter of the largest gap, up to 256 MiB. */
	uint64_t object_bytes;
};

struct hr_measure {
	struct hr_engine *engine;
	struct hr_measure_shape shape;
	struct hr_partition *partition;
	struct hr_places memory;
	struct hr_extent extent;
	struct hr_layout parts;
	struct hr_bench cpu;	/* only its pointers, as CPU addresses */
	struct hr_bench *bench; /* description for workers, at its CPU address */
	int descriptor, tables, chunks, rings, tiles, prps; /* parts */
	bool mapped;
};

struct hr_measurement {
	/* Parameters. */
	bool write;
	enum hr_bench_pattern pattern;
	uint32_t io_bytes;
	uint32_t queues; /* workers, each with a queue pair; 0: all of the shape */
	/* Workers copy data between host and GPU memory; not on the host backend. */
	bool copied;
	/*
	 * Results. depth is the number of outstanding commands per worker: as many of that size as
	 * HR_MEASURE_BYTES of buffers hold, at most the shape's.
	 */
	uint32_t blocks, depth;
	uint64_t elapsed_ns;
	uint64_t commands;
	double iops, bytes_per_s;
	double latency_us[4]; /* 50, 99, 99.9 percent and the maximum, as upper ends of buckets */
	/* From the queue pairs' counters: a batch is the commands of one SQ doorbell write. */
	double batch_commands, fences_per_batch, doorbells_per_batch;
	/*
	 * Processor cycles of a worker per command, to send and to complete it; 0 on the host
	 * backend.
	 */
	double send_cycles, reap_cycles;
	double worst_iops, best_iops; /* of the repetitions whose median this is */
};

/*
 * Bytes of all buffers together; at least one large I/O for each worker. The size matches the last
 * cache level of a CPU: with more, data pass the CPU's memory twice more often than the data of a
 * pipeline, which has fewer tiles.
 */
#define HR_MEASURE_BYTES (128ull << 20)

/* 0, or an error with everything freed and the reason in engine->error. */
int hr_measure_up(struct hr_measure *m, struct hr_engine *engine,
		  const struct hr_measure_shape *shape);

/*
 * Make one measurement of duration_ns with result->write, pattern and io_bytes. 0; -EINTR: a signal
 * requested a stop; > 0 or -errno of the command that failed, in engine->error. Ends the process with
 * HR_EXIT_DEVICE when a worker block does not start, or does not end, within engine->timeout_ns, or
 * HR_STALL_TIMEOUT_NS when that is 0: blocks cannot be ended from outside.
 */
int hr_measure(struct hr_measure *m, uint64_t duration_ns, struct hr_measurement *result);

/*
 * Make `times` measurements and return the one with the median commands per second. Returns as
 * hr_measure(); -EINVAL: times is even or above HR_MEASURE_TIMES_MAX.
 */
#define HR_MEASURE_TIMES_MAX 15u
int hr_measure_median(struct hr_measure *m, uint64_t duration_ns, uint32_t times,
		      struct hr_measurement *result);

void hr_measure_down(struct hr_measure *m);

/* Upper end, in microseconds, of the bucket in which the share (0..1) of all counts is reached. */
double hr_latency_us(const uint64_t count[HR_BENCH_BUCKETS], double share);

#endif
