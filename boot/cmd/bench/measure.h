/*
 * boot/cmd/bench/measure.h - what `headrace bench` measures: workers of a gpu reading and writing
 * one object of an ssd through the whole stack.
 *
 * hr_measure_up() takes all memory and queue pairs for the largest size of I/O; then any number of
 * measurements; hr_measure_down() gives everything back and removes the object. The object is the
 * bench's own: it is created here, and nothing else is written.
 */
#ifndef BOOT_CMD_BENCH_MEASURE_H
#define BOOT_CMD_BENCH_MEASURE_H

#include "boot/engine/stages.h"
#include "gpu/worker/bench.h"

#define HR_MEASURE_OBJECT "headrace.bench" /* its name while it exists */

struct hr_measure_shape {
	uint32_t gpu, ssd;     /* indices in the appliance, which is up to HR_STAGE_STORES */
	uint32_t blocks;       /* most worker blocks */
	uint32_t workers;      /* of a block, at most; 1 on the host backend */
	uint32_t depth;	       /* most commands outstanding per worker, below queue_entries */
	uint32_t io_max;       /* largest size of I/O that will be asked for, at most chunk_bytes */
	uint64_t object_bytes; /* of the object; 0: up to 256 MiB, a quarter of the largest gap */
};

struct hr_measure {
	struct hr_appliance *app;
	struct hr_measure_shape shape;
	struct hr_partition *partition;
	struct hr_places memory;
	struct hr_extent extent;
	struct hr_bench *bench; /* the CPU's copy */
	int part_bench, part_qps, part_tables, part_stop, part_status, part_latency, part_sent,
		part_buffers, part_chunks, part_costs, part_rings, part_tiles, part_prps,
		part_landing; /* -1 on the host backend */
	bool mapped;
};

struct hr_measurement {
	/* What to measure. */
	bool write;
	enum hr_bench_pattern pattern;
	uint32_t io_bytes;
	uint32_t queues; /* workers, each with a queue pair; 0: all of the shape */
	bool copied;	 /* between host and GPU memory by the workers; not on the host backend */
	/* What came of it. Per worker, depth commands were outstanding: as many of that size as
	 * HR_MEASURE_BYTES of buffers hold, at most the shape's. */
	uint32_t blocks, depth;
	uint64_t elapsed_ns;
	uint64_t commands;
	double iops, bytes_per_s;
	double latency_us[4]; /* 50, 99, 99.9 percent and the slowest, as upper ends of buckets */
	/* By the queue pairs' counters: a batch is what one SQ doorbell told of. */
	double batch_commands, fences_per_batch, doorbells_per_batch;
	/* Of a worker's processor, per command, to send and to take back; 0 on the host backend. */
	double send_cycles, reap_cycles;
	double worst_iops, best_iops; /* of the repetitions of which this is the median */
};

/* Of buffers, for all workers; a large I/O each at least. What a CPU's last cache holds: more, and
 * data on their way cross its memory twice more than those of a pipeline, whose tiles are fewer. */
#define HR_MEASURE_BYTES (128ull << 20)

/* 0, or an error with everything given back and the reason logged. */
int hr_measure_up(struct hr_measure *m, struct hr_appliance *app,
		  const struct hr_measure_shape *shape);

/* One measurement of duration_ns: result->write, pattern and io_bytes say what. 0; -EINTR: a signal
 * asked to stop; > 0 or -errno of the command that failed, logged. */
int hr_measure(struct hr_measure *m, uint64_t duration_ns, struct hr_measurement *result);

/* The median, by commands a second, of `times` measurements. Returns what hr_measure does; -EINVAL:
 * times is even or above HR_MEASURE_TIMES_MAX. */
#define HR_MEASURE_TIMES_MAX 15u
int hr_measure_median(struct hr_measure *m, uint64_t duration_ns, uint32_t times,
		      struct hr_measurement *result);

void hr_measure_down(struct hr_measure *m);

/* Microseconds at the upper end of the bucket in which `share` (0..1) of all counts is reached. */
double hr_latency_us(const uint64_t count[HR_BENCH_BUCKETS], double share);

#endif
