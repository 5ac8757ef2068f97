/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/gpu/image.h - arguments of the entry points: host memory that CPU and GPU see, or
 * GPU memory. Each entry point takes a pointer to its struct.
 */
#ifndef TESTS_GPU_IMAGE_H
#define TESTS_GPU_IMAGE_H

#include <stdint.h>

#include "nvme/queue/worker.h"
#include "nvme/queue/queue.h"

#define GPU_ROUNDS_NS 2000000000ull /* longest wait of a launch for its partner */

/* fill: word[i] = i * factor + add, over all threads of all blocks. */
struct gpu_fill {
	uint64_t *word;
	uint64_t words, factor, add;
};

/* sum: the sum of words, and the number of words other than i * factor + add. */
struct gpu_sum {
	const uint64_t *word;
	uint64_t words, factor, add;
	unsigned long long sum, wrong; /* out; zero them first */
};

/* spin: run until stop is set, and for at most limit_ns. */
struct gpu_spin {
	uint32_t stop;
	uint32_t started; /* 1 when it runs */
	uint64_t limit_ns;
	uint32_t stopped; /* 1 when it has seen stop */
};

/* meet: every block waits for all others, so all must be resident. */
struct gpu_meet {
	uint32_t arrived; /* zero it first */
	uint32_t shared_bytes;
	uint32_t met; /* blocks that have seen all arrive */
};

/* stray: writes to an address that nothing is mapped to. */
struct gpu_stray {
	uint64_t *address;
};

/* lanes: each function of nvme/queue/worker.h that involves the lanes of a warp or block. One block. */
#define GPU_LANES_THREADS 256u

struct gpu_lanes {
	uint32_t in[GPU_LANES_THREADS];
	uint64_t in64[GPU_LANES_THREADS];
	float real[GPU_LANES_THREADS];
	uint32_t lane[GPU_LANES_THREADS], warp[GPU_LANES_THREADS], warps, threads;
	uint32_t ballot[GPU_LANES_THREADS]; /* of in & 1 */
	uint32_t next32[GPU_LANES_THREADS]; /* in of the next lane */
	uint64_t next64[GPU_LANES_THREADS]; /* in64 of the next lane */
	uint64_t sum[GPU_LANES_THREADS];    /* of in64 over the warp */
	float real_sum[GPU_LANES_THREADS];  /* of real over the warp */
	uint32_t block_xor[GPU_LANES_THREADS];
	uint32_t lowest, bits; /* of in[0] | 1 */
};

/* crc: CRC-32C of bytes, by words and the rest by bytes. One thread. */
struct gpu_crc {
	const uint8_t *data;
	uint32_t bytes, crc;
};

/* pass: block 0 hands rounds of data to block 1 in GPU memory, by release and acquire. */
#define GPU_PASS_WORDS 64u

struct gpu_pass {
	uint64_t data[GPU_PASS_WORDS];
	uint32_t full;	/* round that data belongs to, by block 0 */
	uint32_t taken; /* round that is read, by block 1 */
	uint32_t rounds, done[2];
	uint64_t wrong;
};

/* door: a warp writes 32 entries and rings; the CPU checks the entries and answers. */
struct gpu_entry {
	uint32_t round, words[15];
};

struct gpu_door {
	struct gpu_entry entry[32];
	uint32_t doorbell; /* round, by hr_mmio_write32() */
	uint32_t pad[31];
	uint64_t answer[16]; /* by the CPU, before answered */
	uint32_t answered;   /* round, system scope release by the CPU */
	uint32_t rounds, done;
	uint64_t wrong; /* number of answers that do not belong to the round */
};

/* clock: readings of hr_clock_ns(), and effects of hr_idle() and hr_count_*. */
struct gpu_clock {
	uint64_t first, last, backwards;
	uint64_t readings;
};

/* queue_server: a warp that runs the functions of a queue pair for the CPU, one after another. */
enum gpu_queue_word {
	GPU_QUEUE_PUSH,
	GPU_QUEUE_RING,
	GPU_QUEUE_REAP,
	GPU_QUEUE_EXPIRE,
	GPU_QUEUE_STOP
};

#define GPU_QUEUE_LANES 32u

struct gpu_queue_call {
	uint32_t ask; /* number of the call, by the CPU */
	uint32_t what, want, token;
	struct hr_nvme_qp *qp;
	uint64_t clock_ns; /* result of hr_clock_ns() during the call */
	uint64_t now_ns;   /* an argument */
	struct hr_sqe sqe;
	uint32_t pad[32];
	uint32_t answer; /* number of the call, by the GPU */
	int32_t result;	 /* of lane 0 */
	uint32_t lanes;	 /* that have a completion */
	struct hr_completion done[GPU_QUEUE_LANES];
};

#endif
