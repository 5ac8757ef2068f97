/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/measure/cufile.h - NVIDIA's library for reading files into GPU memory, loaded at
 * run time. Only `headrace bench` uses it, as a baseline.
 *
 * Reference: "cuFile API Reference Guide"; types as in the cufile.h of CUDA 13.0, of which only the
 * used part is repeated here.
 */
#ifndef GPU_CUDA_MEASURE_CUFILE_H
#define GPU_CUDA_MEASURE_CUFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config/base/error.h"

/* CUfileError_t: err is 0, or a CUfileOpError (5000 and above); cu_err is the error of the
 * driver. */
struct hr_cufile_error {
	int err;
	int cu_err;
};

/* CUfileDescr_t of a Linux file. */
struct hr_cufile_descr {
	int type; /* HR_CUFILE_FD */
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops; /* NULL: the kernel's file systems */
};

#define HR_CUFILE_FD 1 /* CU_FILE_HANDLE_TYPE_OPAQUE_FD */

struct hr_cufile {
	struct hr_cufile_error (*driver_open)(void);
	struct hr_cufile_error (*driver_close)(void);
	struct hr_cufile_error (*handle_register)(void **handle, struct hr_cufile_descr *descr);
	void (*handle_deregister)(void *handle);
	struct hr_cufile_error (*buf_register)(const void *gpu, size_t bytes, int flags);
	struct hr_cufile_error (*buf_deregister)(const void *gpu);
	/* Bytes read; -1: see errno; less than -1: minus a CUfileOpError. */
	ssize_t (*read)(void *handle, void *gpu, size_t bytes, off_t file_offset, off_t gpu_offset);
	void *file; /* handle of the registered file, or NULL */
	bool is_open;
};

/*
 * Load the library, start it (with a context of the GPU current) and register a file that is open
 * for reading. 0; -ENOENT: no such library; -ENOTSUP: it lacks a function, does not start, or
 * refuses the file. On error nothing stays open.
 */
int hr_cufile_open(struct hr_cufile *cufile, int fd, struct hr_error *e);

/* Undo hr_cufile_open(). The caller has deregistered the buffers. The library stays loaded,
 * because it has threads of its own. */
void hr_cufile_close(struct hr_cufile *cufile);

/*
 * *find returns the address of a function of the library, or NULL when there is none of that name;
 * for hr_cufile_open(). This is a seam: tests link a library of their own in its place
 * (tests/fakes/cufile.h). -ENOENT.
 */
int hr_cufile_library(void *(**find)(const char *name), struct hr_error *e);

#endif
