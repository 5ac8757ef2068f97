/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/bench.h - worker code for measurements: each worker keeps its queue pair full of reads
 * or writes, sequential or random, over one extent, for a given time.
 */
#ifndef GPU_WORKER_BENCH_H
#define GPU_WORKER_BENCH_H

#include <stdint.h>

#include "cache/object.h"
#include "gpu/worker/pipeline.h"
#include "nvme/queue/worker.h"

enum hr_bench_pattern { HR_BENCH_SEQUENTIAL, HR_BENCH_RANDOM };

/* maximum threads of a block: they share the registers of one SM */
#define HR_BENCH_THREADS 512u

/* The outstanding command of a buffer: its submit time, and its offset in the extent. */
struct hr_bench_sent {
	uint64_t ns, offset;
};

/* Cycles that a worker spent on its commands, and their number. Copies, and polls of an empty
 * queue, are not included. */
struct hr_bench_cost {
	uint64_t reap_cycles, send_cycles;
	uint64_t rounds, commands;
};

/* Lies in HR_PLACE_WORKER with all that it points to, except parts in control memory. */
struct hr_bench {
	struct hr_extent extent; /* at least io_bytes * workers bytes long */
	uint32_t write;		 /* 0: read */
	uint32_t pattern;	 /* enum hr_bench_pattern */
	/* bytes of a command: whole blocks, at most extent.chunk_bytes */
	uint32_t io_bytes;
	uint32_t depth; /* commands outstanding per worker */
	uint32_t blocks;
	uint32_t workers; /* per block */
	uint64_t duration_ns;
	uint64_t max_commands; /* per worker; 0: no limit */
	uint64_t seed;
	struct hr_nvme_qp *qp;	  /* [blocks * workers] */
	struct hr_buffer *buffer; /* [blocks * workers][depth], io_bytes each */
	/* [blocks * workers]; in control memory. heartbeat is 1 once the worker runs. */
	struct hr_worker_status *status;
	struct hr_bench_sent *sent; /* [blocks * workers][depth]: used by workers only */
	/* [blocks * workers][depth][io_bytes] of GPU memory: the target of copies after reads,
	 * and the source of copies before writes; or NULL: no copies */
	uint8_t *landing;
	uint64_t *latency; /* [blocks * workers][HR_LANES][HR_BENCH_BUCKETS]: from sent to copied */
	struct hr_bench_cost *cost; /* [blocks * workers], or NULL */
	uint32_t *stop; /* set to 1 by the host or a failing worker; in control memory */
};

/* Latency histogram: 32 equal steps per power of two, up to 68 s. */
#define HR_BENCH_STEP_SHIFT 5u
#define HR_BENCH_STEPS (1u << HR_BENCH_STEP_SHIFT)
#define HR_BENCH_BUCKETS 1024u

/* Lower bound of bucket i in nanoseconds. The upper bound is that of i + 1; the last bucket has
 * none. */
HR_BOTH uint64_t hr_bench_bucket_ns(uint32_t i)
{
	return i < HR_BENCH_STEPS ? i
				  : (uint64_t)(HR_BENCH_STEPS + i % HR_BENCH_STEPS)
					    << (i / HR_BENCH_STEPS - 1);
}

HR_DEVICE void hr_bench_block(struct hr_bench *bench, uint32_t block);

#endif
