/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/window.h - a mapping of GPU memory into this process, so that a controller can access it.
 *
 * A controller behind an IOMMU accesses memory that VFIO maps for it, and VFIO maps memory that this
 * process has mapped. There are two ways to map GPU memory, tried in this order:
 *
 *   dma-buf   the GPU's driver exports the range as a dma-buf that is routed over BAR1 and allows
 *             mmap() of it (device attribute 152); needs nothing else
 *   gdrcopy   libgdrapi.so.2 and its kernel module pin the range and map it
 *
 * Both mappings are device memory without struct pages (VM_PFNMAP). VFIO type1 resolves them;
 * /proc/self/pagemap does not, so a transport that needs physical addresses (`pci:`) cannot use
 * them. They are for the controller and for short accesses by the CPU (write-combined), not for
 * data transfers.
 *
 * No CUDA header is needed here: the driver is called through two function pointers.
 */
#ifndef GPU_WINDOW_H
#define GPU_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"
#include "nvme/dma/region.h"

#define HR_WINDOW_GRAIN ((size_t)64 << 10) /* alignment of address and length: GPU pages */

/* Functions of the GPU's driver; `to` is passed to each call. */
struct hr_window_driver {
	/* True when a dma-buf of this GPU's memory can be mapped. */
	bool (*mappable)(void *to);
	/* Export a dma-buf of [gpu, gpu + bytes) that is accessed over PCIe; 0 or -errno. */
	int (*export)(void *to, uint64_t gpu, size_t bytes, int *fd, struct hr_error *e);
	void *to;
};

/* libgdrapi, as declared in its gdrapi.h (API 2.x). A handle is an unsigned long in a struct. */
struct hr_gdr_handle {
	unsigned long h;
};

struct hr_gdr_info {
	uint64_t va; /* first mapped byte; at or below the requested address */
	uint64_t mapped_size;
	uint32_t page_size;
	uint64_t tm_cycles;
	uint32_t cycles_per_ms;
	unsigned mapped : 1;
	unsigned wc_mapping : 1;
	int mapping_type;
};

struct hr_gdr {
	void *(*open)(void);
	int (*close)(void *g);
	int (*pin)(void *g, unsigned long gpu, size_t bytes, uint64_t p2p_token, uint32_t va_space,
		   struct hr_gdr_handle *handle);
	int (*unpin)(void *g, struct hr_gdr_handle handle);
	int (*map)(void *g, struct hr_gdr_handle handle, void **va, size_t bytes);
	int (*unmap)(void *g, struct hr_gdr_handle handle, void *va, size_t bytes);
	int (*info)(void *g, struct hr_gdr_handle handle, struct hr_gdr_info *info);
	void (*version)(int *major, int *minor);
	void *library; /* of dlopen, or NULL */
};

struct hr_gpu_window {
	const char *by; /* "dma-buf", "gdrcopy" */
	void *cpu;	/* CPU address of the GPU address `gpu` */
	uint64_t gpu;
	size_t bytes;
	void *mapping; /* for hr_window_close() */
	size_t mapping_bytes;
	const struct hr_gdr *gdr;
	void *gdr_device;
	struct hr_gdr_handle handle;
	bool pinned;
};

/*
 * Load libgdrapi.so.2. 0; -ENOENT: no such library; -ENOTSUP: another version, or a build that
 * loads no libraries.
 */
int hr_gdr_load(struct hr_gdr *gdr, struct hr_error *e);
void hr_gdr_unload(struct hr_gdr *gdr);

/*
 * Map [gpu, gpu + bytes) in either way. driver or gdr may be NULL: not available. gdr must outlive
 * the window. *e has the reason why each way failed.
 * 0; -EINVAL: not whole HR_WINDOW_GRAINs, or none; -ENOTSUP: neither way works.
 */
int hr_window_open(struct hr_gpu_window *w, const struct hr_window_driver *driver,
		   const struct hr_gdr *gdr, uint64_t gpu, size_t bytes, struct hr_error *e);

/* Unmap. Close the controllers' windows first: VFIO holds no reference to the mapping. Does
 * nothing for a struct that is all zero. */
void hr_window_close(struct hr_gpu_window *w);

/*
 * Describe the window for transports and workers: kind HR_REGION_GPU, assigned I/O addresses. As
 * hr_region_init_host(); the owner calls hr_region_unassign_bus() after hr_window_close().
 */
int hr_window_region(const struct hr_gpu_window *w, const char *name, struct hr_region *region);

#endif
