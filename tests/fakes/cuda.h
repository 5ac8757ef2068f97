/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/cuda.h - a CUDA driver in C that replaces libcuda.so.1: memory that is mapped,
 * protected and counted like a GPU's, launches that call a function of the test, and failures of
 * any call at any time.
 *
 * Linked before libheadrace.a, so its hr_cuda_library() is called. Addresses of GPU memory are
 * addresses of this process. Addresses of attached host memory have FAKE_CUDA_HOST set, so that
 * code which confuses the two fails.
 */
#ifndef TESTS_FAKES_CUDA_H
#define TESTS_FAKES_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda/driver/driver.h"
#include "tests/fakes/cuda_calls.h" /* so that these are linked, too */
#include "tests/fakes/cuda_images.h"

#define FAKE_CUDA_HOST (1ull << 60)
#define FAKE_CUDA_GRANULARITY ((size_t)2 << 20)
#define FAKE_CUDA_ATTRIBUTES 160u
#define FAKE_CUDA_DEVICES 4

struct fake_cuda_launch {
	const char *entry;
	void *argument;
	unsigned blocks, threads, shared_bytes;
};

/*
 * The machine; set it before the driver is opened. fake_cuda_reset() makes a machine with one GPU.
 */
struct fake_cuda {
	int no_library;	     /* result of hr_cuda_library() */
	const char *missing; /* name of a function that the driver lacks, like "cuMemCreate" */
	int version;
	int devices;
	size_t memory;
	int attribute[FAKE_CUDA_DEVICES][FAKE_CUDA_ATTRIBUTES]; /* CUdevice_attribute */
	bool not_compressible; /* memory is not compressible, although requested */
	bool no_peers;
	bool no_pcie_choice; /* the driver exports DMA-BUFs its own way only, like that of an H200 */
	int blocks_per_processor;
	int dynamic_shared; /* bytes a launch may have beyond the default */
	int entry_threads,
		local_bytes;  /* limits of an entry point: per block, and bytes per thread */
	const char *jit_log;  /* log of the driver's compiler and linker for an image */
	const char *jit_info; /* its log without an error */
	/* Failures. */
	CUresult broken;	   /* not 0: result of every call on the context from now on */
	const char *_Atomic stall; /* a call of that name does not return while this is set */
	/* Launches. */
	void (*run)(const struct fake_cuda_launch *launch);
	unsigned polls;	  /* how often a launch is reported as running; UINT_MAX: always */
	atomic_bool busy; /* a launch is running while this is set */
	/* Observations. */
	atomic_uint calls;  /* total since fake_cuda_reset() */
	const char *failed; /* the call with the injected failure, or NULL */
	unsigned parts;	    /* parts given to the last linker */
	size_t part_bytes;  /* size of the last part */
	struct fake_cuda_launch last;
	unsigned launches;
	unsigned flushes;	      /* cuFlushGPUDirectRDMAWrites */
	CUdeviceptr registered_flags; /* of the last cuMemHostRegister */
};

extern struct fake_cuda fake_cuda;

void fake_cuda_reset(void);

/*
 * The nth call from now on, counted from 1, of that name ("cuMemMap") or, with NULL, of any name
 * returns `with` and does nothing. nth 0: no call fails any more.
 */
void fake_cuda_fail(const char *call, unsigned nth, CUresult with);

/* Open, mapped or allocated resources that were not released, as text; "": none. */
const char *fake_cuda_leaks(void);

/* Release them all, so that later leaks are separate. */
void fake_cuda_forget(void);

/* Bytes of GPU memory in use. */
size_t fake_cuda_used(void);

#endif
