/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/measuring.h - measurements of a GPU for reports: `bench` and `check` use them, no pipeline does.
 */
#ifndef GPU_MEASURING_H
#define GPU_MEASURING_H

#include <stdbool.h>
#include <stdint.h>

/* ---- the baseline: rates of a program without headrace. The CPU reads a file
 * from the kernel's page cache, and the data is copied into GPU memory.
 */

enum hr_baseline_method {
	HR_BASELINE_PREAD,  /* pread into pinned memory, then cuMemcpyAsync; two buffers */
	HR_BASELINE_CUFILE, /* cuFileRead into registered GPU memory */
	HR_BASELINE_METHODS,
};

#define HR_BASELINE_THREADS_MAX 16u
#define HR_BASELINE_IO_MAX (8u << 20)
/* In a smaller file some threads would have no data to read. */
#define HR_BASELINE_FILE_MIN ((uint64_t)HR_BASELINE_THREADS_MAX * HR_BASELINE_IO_MAX)

/* One measurement. */
struct hr_baseline_row {
	uint32_t threads;   /* 1 to HR_BASELINE_THREADS_MAX */
	uint32_t io_bytes;  /* 1 to HR_BASELINE_IO_MAX */
	bool random;	    /* false: each thread reads its own part of the file, repeatedly */
	double bytes_per_s; /* result, the median; 0: not measured */
};

struct hr_baseline_plan {
	enum hr_baseline_method method;
	int fd;		       /* open for reading; owned by the caller */
	uint64_t file_bytes;   /* at least HR_BASELINE_FILE_MIN */
	uint64_t duration_ns;  /* duration of one measurement */
	uint64_t timeout_ns;   /* deadline for a read that does not return */
	uint32_t times;	       /* odd, at most HR_BASELINE_TIMES_MAX */
	bool (*stopped)(void); /* called between two measurements; or NULL */
	struct hr_baseline_row *row;
	uint32_t rows;
};

#define HR_BASELINE_TIMES_MAX 15u

/* ---- the maximum rates of the link between host memory and a GPU, for any program:
 * the reference for the rates of worker blocks. Bytes a second, each direction separately.
 */

#define HR_LIMIT_WARPS 3u /* warps that single pages are measured with: 16, 32, 64 */

struct hr_gpu_link_rates {
	double copy_in, copy_out; /* by the copy engine, host to GPU memory and back, alone */
	double copy_both;	  /* each direction while both run */
	/* by GPU threads that access host memory, one direction alone */
	double load, store;
	double load_store; /* each direction while both run */
	/* random 4 KiB pages into GPU memory, per number of warps */
	double page[HR_LIMIT_WARPS];
	double bulk; /* the same by the bulk copy engine of SMs, 16 warps; 0: none */
	/* the GPU writes a word, the CPU answers, the GPU sees the answer */
	double round_trip_ns;
};

#define HR_LIMIT_BLOCK_WARPS 16u /* warps of a block that measures */

/* Bytes a second that a GPU reads of the memory of another one. */
struct hr_peer_rates {
	double load;	  /* loads by all SMs */
	double load_both; /* the same of each GPU while both read the other one */
	double page; /* random pages of 4 KiB, copied to its own memory by the given number of warps */
};

/* Number of warps of page[i]. */
static inline uint32_t hr_limit_warps(uint32_t i)
{
	return 16u << i;
}
struct hr_backend;
struct hr_error;

struct hr_gpu_measuring {
	/* Set the registers of each role as an entry point of its own in facts->role. 0; -ENOTSUP: the
	 * driver has no code of the roles for this GPU; -ENOMEM; -EIO. */
	int (*roles)(struct hr_backend *b, struct hr_error *e);
	/* Measure the link between host and GPU: medians of `times` (odd, at most 15) measurements.
	 * 0; -EBUSY: a launch runs; -ENOMEM; -EIO. */
	int (*limits)(struct hr_backend *b, uint32_t times, struct hr_gpu_link_rates *limits,
		      struct hr_error *e);
	/* Measure reads of the memory of `other`, a GPU of the same kind, by workers of b: medians of
	 * `times` measurements (as above). warps: a multiple of HR_LIMIT_BLOCK_WARPS. 0; -ENOTSUP: the
	 * two GPUs have no path; and as above. */
	int (*peer)(struct hr_backend *b, struct hr_backend *other, uint32_t warps, uint32_t times,
		    struct hr_peer_rates *rates, struct hr_error *e);
	/*
	 * Measure the rates of a program without headrace. 0; -ENOENT, -ENOTSUP: not possible on
	 * this machine; -EINVAL: out of range; -EINTR: plan->stopped returned true; -ETIMEDOUT,
	 * -EIO, -ENOMEM and others: a read has failed. Later rows keep 0.
	 */
	int (*baseline)(struct hr_backend *b, const struct hr_baseline_plan *plan,
			struct hr_error *e);
};

#endif
