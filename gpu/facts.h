/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/facts.h - properties of a GPU, as its driver reports them: for the self-test, for `check`,
 * and for the topology (pci/topo/, which identifies a GPU by its PCI address).
 */
#ifndef GPU_FACTS_H
#define GPU_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits.h"

/* An entry point of the worker image, as the driver has loaded it. */
struct hr_entry_facts {
	char name[HR_NAME_MAX];
	uint32_t registers;    /* per thread */
	uint32_t shared_bytes; /* per block */
	uint32_t local_bytes;  /* per thread: spills and arrays */
	uint32_t max_threads;  /* of a block */
	uint32_t machine;      /* compute capability of its code: 90 is 9.0 */
};

#define HR_GPU_ENTRIES_MAX 7u
#define HR_GPU_ROLES_MAX 3u

struct hr_gpu_facts {
	char model[HR_NAME_MAX]; /* "NVIDIA H200" */
	char pci[HR_NAME_MAX];	 /* "0000:41:00.0", in the format of pci/ and sysfs */
	uint8_t uuid[16];	 /* as nvidia-smi prints it after "GPU-" */
	/* version of the kernel driver, "580.159.04"; "" when unknown */
	char driver[HR_NAME_MAX];
	uint32_t interface;	/* version of the driver library: 13000 is CUDA 13.0 */
	uint32_t capability;	/* compute capability: 90 is 9.0 */
	uint64_t memory_bytes;	/* total GPU memory */
	uint32_t processors;	/* SMs */
	uint32_t wave;		/* threads that the GPU executes together: a warp */
	uint32_t block_threads; /* maximum threads of a block */
	/* maximum registers of all threads of a block together */
	uint32_t block_registers;
	uint32_t shared_bytes; /* maximum shared memory of a block */
	uint32_t granularity;  /* bytes: GPU memory is mapped in multiples of this */
	bool virtual_memory;   /* virtual memory management (needed) */
	bool cooperative;      /* all blocks of a launch resident at once (needed) */
	bool host_register;    /* host memory of this process can be pinned and mapped (needed) */
	bool host_pointer;     /* ... and has the same address on the GPU */
	bool fd_handles;       /* GPU memory can be exported as a file descriptor */
	bool dma_buf;	       /* ... as a DMA-BUF */
	bool rdma;	       /* other devices on the bus can access GPU memory (GPUDirect RDMA) */
	bool rdma_virtual_memory; /* ... also memory of virtual memory management */
	bool compressible;	  /* memory that the GPU compresses */
	/* the host can flush the writes of other devices to GPU memory */
	bool flush_from_host;
	bool flush_from_stream; /* ... and so can a stream */
	bool ordered_for_owner; /* such writes are seen in order by this GPU without a flush */
	bool ordered_for_all;	/* ... by all GPUs */
	/* the driver ends launches that run long, because a display uses this GPU */
	bool time_limit;
	/* this process is a client of an MPS server: other clients use the GPU at the same time */
	bool mps;
	struct hr_entry_facts entry[HR_GPU_ENTRIES_MAX];
	unsigned entries;
	/* Resources of each role of a pipeline as an entry point of its own: "prefetch", "compute",
	 * "writeback". Set by hr_gpu_measuring.roles; 0 roles before that. */
	struct hr_entry_facts role[HR_GPU_ROLES_MAX];
	unsigned roles;
};

/*
 * Write "0000:41:00.0, driver 580.159.04 (CUDA 13.0), capability 9.0, 132 SMs, 139.8 GiB; supports
 * ..." on one line. Truncated to `bytes`.
 */
void hr_gpu_facts_text(const struct hr_gpu_facts *facts, char *text, size_t bytes);

/*
 * Write the registers per thread, by role: "prefetch 99, compute 96, writeback 95, all in one
 * launch 124; a block of 512 threads can have 128 each". "" while roles is 0. Truncated to `bytes`.
 */
void hr_gpu_roles_text(const struct hr_gpu_facts *facts, char *text, size_t bytes);

/* Name of the i-th optional feature of a GPU; *supported: whether facts has it. NULL: no more
 * features. */
const char *hr_gpu_feature(const struct hr_gpu_facts *facts, unsigned i, bool *supported);

#endif
