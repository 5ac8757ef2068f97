/*
 * gpu/worker/bench.h - worker code that measures: each worker keeps its queue pair full of reads or
 * writes, sequential or random, over one extent, until a time has passed.
 */
#ifndef GPU_WORKER_BENCH_H
#define GPU_WORKER_BENCH_H

#include <stdint.h>

#include "cache/object.h"
#include "gpu/worker/pipeline.h"
#include "nvme/worker.h"

enum hr_bench_pattern { HR_BENCH_SEQUENTIAL, HR_BENCH_RANDOM };

#define HR_BENCH_THREADS 512u /* at most, of a block: registers of one SM are shared by that many */

/* The command that is out for a buffer: when it was sent, and where in the extent it begins. */
struct hr_bench_sent {
	uint64_t ns, offset;
};

/* Cycles that a worker spent on its commands, and on how many; without the copies, and without
 * looking at a queue that has nothing new. */
struct hr_bench_cost {
	uint64_t reap_cycles, send_cycles;
	uint64_t rounds, commands;
};

/* Lies in HR_PLACE_WORKER with all it points to, but for what is in control memory. */
struct hr_bench {
	struct hr_extent extent; /* at least io_bytes * workers long */
	uint32_t write;		 /* 0: read */
	uint32_t pattern;	 /* enum hr_bench_pattern */
	uint32_t io_bytes;	 /* one command: whole blocks, at most extent.chunk_bytes */
	uint32_t depth;		 /* commands outstanding per worker */
	uint32_t blocks;
	uint32_t workers; /* per block */
	uint64_t duration_ns;
	uint64_t max_commands; /* per worker; 0: no limit */
	uint64_t seed;
	struct hr_nvme_qp *qp;		 /* [blocks * workers] */
	struct hr_buffer *buffer;	 /* [blocks * workers][depth], io_bytes each */
	struct hr_worker_status *status; /* [blocks * workers]; in control memory */
	struct hr_bench_sent *sent;	 /* [blocks * workers][depth]: the workers' own */
	/* [blocks * workers][depth][io_bytes] of GPU memory, to which what was read is copied, and
	 * from which what is written comes; or NULL: no copies. */
	uint8_t *landing;
	uint64_t *latency; /* [blocks * workers][HR_LANES][HR_BENCH_BUCKETS]: from sent to copied */
	struct hr_bench_cost *cost; /* [blocks * workers], or NULL */
	uint32_t *stop; /* set to 1 by the host or a failing worker; in control memory */
};

/* Latency histogram: four equal steps to each doubling. */
#define HR_BENCH_BUCKETS 160u

/* Where bucket i begins, in nanoseconds; it ends where i + 1 begins, the last one never. Below 4 ns
 * there is nothing to tell apart. */
HR_BOTH uint64_t hr_bench_bucket_ns(uint32_t i)
{
	return i < 8 ? i / 2 : (uint64_t)(4 + i % 4) << (i / 4 - 2);
}

HR_DEVICE void hr_bench_block(struct hr_bench *bench, uint32_t block);

#endif
