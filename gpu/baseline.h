/*
 * gpu/baseline.h - what a program would do in place of headrace: the CPU reads a file that the
 * kernel has in its page cache, and what it has read is copied into GPU memory.
 */
#ifndef GPU_BASELINE_H
#define GPU_BASELINE_H

#include <stdbool.h>
#include <stdint.h>

enum hr_baseline_way {
	HR_BASELINE_PREAD,  /* pread into pinned memory, cuMemcpyAsync from there, two of each */
	HR_BASELINE_CUFILE, /* cuFileRead into registered GPU memory */
	HR_BASELINE_WAYS,
};

#define HR_BASELINE_THREADS_MAX 16u
#define HR_BASELINE_IO_MAX (8u << 20)
/* A file of less gives some thread nothing to read. */
#define HR_BASELINE_FILE_MIN ((uint64_t)HR_BASELINE_THREADS_MAX * HR_BASELINE_IO_MAX)

/* One measurement. */
struct hr_baseline_row {
	uint32_t threads;   /* 1 to HR_BASELINE_THREADS_MAX */
	uint32_t io_bytes;  /* 1 to HR_BASELINE_IO_MAX */
	bool random;	    /* else each thread reads a stretch of its own, again and again */
	double bytes_per_s; /* what came of it: the median; 0: not measured */
};

struct hr_baseline_plan {
	enum hr_baseline_way way;
	int fd;		       /* open for reading; the caller's */
	uint64_t file_bytes;   /* at least HR_BASELINE_FILE_MIN */
	uint64_t duration_ns;  /* of one measurement */
	uint64_t patience_ns;  /* with a read that does not come back, after that time */
	uint32_t times;	       /* odd, at most HR_BASELINE_TIMES_MAX */
	bool (*stopped)(void); /* asked between two measurements; or NULL */
	struct hr_baseline_row *row;
	uint32_t rows;
};

#define HR_BASELINE_TIMES_MAX 15u

#endif
