/*
 * gpu/facts.h - what a GPU is and can do, as its driver reports it: for the self-test, for `check`,
 * and for the topology engine (which knows a GPU by its PCI address).
 */
#ifndef GPU_FACTS_H
#define GPU_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/limits.h"

/* A kernel of the worker image, as the driver has loaded it. */
struct hr_kernel_facts {
	char name[HR_NAME_MAX];
	uint32_t registers;    /* per thread */
	uint32_t shared_bytes; /* per block */
	uint32_t local_bytes;  /* per thread: spills and arrays */
	uint32_t max_threads;  /* of a block */
	uint32_t machine;      /* its code is for this compute capability: 90 is 9.0 */
};

#define HR_GPU_KERNELS_MAX 4u
#define HR_GPU_ROLES_MAX 3u

struct hr_gpu_facts {
	char model[HR_NAME_MAX];  /* "NVIDIA H200" */
	char pci[HR_NAME_MAX];	  /* "0000:41:00.0", as pci/ and sysfs write it */
	char driver[HR_NAME_MAX]; /* of the kernel, "580.159.04"; "" when it does not say */
	uint32_t interface;	  /* of the driver library: 13000 is CUDA 13.0 */
	uint32_t capability;	  /* compute capability: 90 is 9.0 */
	uint64_t memory_bytes;	  /* of the GPU, in all */
	uint32_t processors;	  /* SMs */
	uint32_t block_threads;	  /* most threads of a block */
	uint32_t block_registers; /* most registers of all threads of a block together */
	uint32_t shared_bytes;	  /* most memory that the threads of a block share */
	uint32_t granularity;	  /* bytes: GPU memory is mapped in multiples of it */
	bool virtual_memory;	  /* virtual memory management (needed) */
	bool cooperative;	  /* all blocks of a launch resident at once (needed) */
	bool host_register; /* host memory of this process can be pinned and mapped (needed) */
	bool host_pointer;  /* ... and has the same address on the GPU */
	bool fd_handles;    /* GPU memory can be exported as a file descriptor */
	bool dma_buf;	    /* ... as a DMA-BUF */
	bool rdma;	    /* other devices on the bus can reach GPU memory (GPUDirect RDMA) */
	bool rdma_virtual_memory; /* ... also memory of virtual memory management */
	bool compressible;	  /* memory that the GPU compresses by itself */
	bool flush_from_host;	  /* the host can flush what devices wrote to GPU memory */
	bool flush_from_stream;	  /* ... and so can a stream */
	bool ordered_for_owner;	  /* such writes are seen in order by this GPU without a flush */
	bool ordered_for_all;	  /* ... by all GPUs */
	bool time_limit; /* the driver ends kernels that run long: a display hangs on this GPU */
	struct hr_kernel_facts kernel[HR_GPU_KERNELS_MAX];
	unsigned kernels;
	/* What each role of a pipeline would take as a kernel by itself: "prefetch", "compute",
	 * "writeback". Only after hr_backend_ops.roles; 0 roles before. */
	struct hr_kernel_facts role[HR_GPU_ROLES_MAX];
	unsigned roles;
};

/*
 * "0000:41:00.0, driver 580.159.04 (CUDA 13.0), capability 9.0, 132 SMs, 139.8 GiB; supports ..." on
 * one line. Cut when it does not fit into bytes.
 */
void hr_gpu_facts_text(const struct hr_gpu_facts *facts, char *text, size_t bytes);

/*
 * "prefetch 99, compute 96, writeback 95, all in one kernel 124; a block of 512 threads can have 128
 * each": registers of a thread, by role. "" while roles is 0. Cut when it does not fit into bytes.
 */
void hr_gpu_roles_text(const struct hr_gpu_facts *facts, char *text, size_t bytes);

/* The things a GPU may support, in order: its name, and whether facts say so; NULL: no more. */
const char *hr_gpu_feature(const struct hr_gpu_facts *facts, unsigned i, bool *supported);

#endif
