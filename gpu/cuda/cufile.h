/*
 * gpu/cuda/cufile.h - NVIDIA's library for reading files into GPU memory, opened when the program
 * runs: only `headrace bench` uses it, to be compared with.
 *
 * Reference: "cuFile API Reference Guide"; types as in the cufile.h of CUDA 13.0, of which only what
 * is used is repeated here.
 */
#ifndef GPU_CUDA_CUFILE_H
#define GPU_CUDA_CUFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* CUfileError_t: err is 0, or a CUfileOpError, which are from 5000 on; cu_err is the driver's. */
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
	/* Bytes read; -1: errno says why; below: minus a CUfileOpError. */
	ssize_t (*read)(void *handle, void *gpu, size_t bytes, off_t file_offset, off_t gpu_offset);
	void *file; /* the one that is registered, or NULL */
	bool is_open;
};

/*
 * Load the library, start it (a context of the GPU is current) and register a file, open for reading.
 * With message (HR_LOG_LINE_MAX bytes): -ENOENT: there is no such library; -ENOTSUP: it lacks a
 * function, does not start, or refuses the file. Then nothing is left open.
 */
int hr_cufile_open(struct hr_cufile *cufile, int fd, char *message);

/* Undo it. Its buffers are deregistered. The library stays loaded: it has threads of its own. */
void hr_cufile_close(struct hr_cufile *cufile);

/*
 * The address of one of the library's functions, NULL where it has none of that name; *find is for
 * hr_cufile_open(). A seam: tests link a library of their own in place of it (tests/fakes/cufile.h).
 * -ENOENT, with message.
 */
int hr_cufile_library(void *(**find)(const char *name), char *message);

#endif
