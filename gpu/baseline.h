/*
 * gpu/baseline.h - the baseline: rates of a program without headrace. The CPU reads a file
 * from the kernel's page cache, and the data is copied into GPU memory.
 */
#ifndef GPU_BASELINE_H
#define GPU_BASELINE_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
