/*
 * tests/fakes/cuda.h - a CUDA driver in C, in place of libcuda.so.1: memory that is mapped, protected
 * and accounted for like a GPU's, launches that call a function of the test, and failures of any
 * call at any time.
 *
 * Linked before libheadrace.a, so its hr_cuda_library() is the one that is called. Addresses of GPU
 * memory are addresses of this process; those of attached host memory have FAKE_CUDA_HOST set, so
 * that code which mixes up the two sides is caught.
 */
#ifndef TESTS_FAKES_CUDA_H
#define TESTS_FAKES_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda/driver.h"
#include "tests/fakes/cuda_calls.h" /* so that it is linked, too */

#define FAKE_CUDA_HOST (1ull << 60)
#define FAKE_CUDA_GRANULARITY ((size_t)2 << 20)
#define FAKE_CUDA_ATTRIBUTES 160u
#define FAKE_CUDA_DEVICES 4

struct fake_cuda_launch {
	const char *kernel;
	void *argument;
	unsigned blocks, threads, shared_bytes;
};

/* The machine; set it before the driver is opened. fake_cuda_reset() makes it one whole GPU. */
struct fake_cuda {
	int no_library;	     /* hr_cuda_library() returns this */
	const char *missing; /* "cuMemCreate": the driver has no such function */
	int version;
	int devices;
	size_t memory;
	int attribute[FAKE_CUDA_DEVICES][FAKE_CUDA_ATTRIBUTES]; /* CUdevice_attribute */
	bool not_compressible; /* memory is not, although asked for and supported */
	bool no_peers;
	int blocks_per_processor;
	int dynamic_shared;		 /* that a launch may have beyond what comes unasked */
	int kernel_threads, local_bytes; /* of a kernel: most per block, per thread */
	const char *jit_log;		 /* what the driver's compiler and linker say of an image */
	const char *jit_info;		 /* ... that is no error */
	/* Failures. */
	CUresult broken;	   /* not 0: what every call on the context returns from now on */
	const char *_Atomic stall; /* a call of that name does not return while it is set */
	/* Launches. */
	void (*run)(const struct fake_cuda_launch *launch);
	unsigned polls;	  /* how often a launch is seen running; UINT_MAX: always */
	atomic_bool busy; /* or: it is, as long as this says so */
	/* What was seen. */
	atomic_uint calls;  /* in all, since fake_cuda_reset() */
	const char *failed; /* the call that was made to fail, or NULL */
	unsigned parts;	    /* that the last linker was given */
	size_t part_bytes;  /* of the last of them */
	struct fake_cuda_launch last;
	unsigned launches;
	CUdeviceptr registered_flags; /* of the last cuMemHostRegister */
};

extern struct fake_cuda fake_cuda;

void fake_cuda_reset(void);

/* The nth call from now on, counted from 1, of that name ("cuMemMap") or, with NULL, of any name
 * returns `with` and does nothing. nth 0: none does any more. */
void fake_cuda_fail(const char *call, unsigned nth, CUresult with);

/* What is open, mapped or allocated and was not given back, as text; "" when nothing is. */
const char *fake_cuda_leaks(void);

/* Give it all back, so that the next leaks are those of what comes next. */
void fake_cuda_forget(void);

/* Bytes of GPU memory in use. */
size_t fake_cuda_used(void);

#endif
