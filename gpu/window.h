/*
 * gpu/window.h - GPU memory that a controller can be let into: a mapping of it into this process.
 *
 * A controller behind an IOMMU reaches what VFIO maps for it, and VFIO maps what this process has
 * mapped. There are two ways to get GPU memory there, tried in this order:
 *
 *   dma-buf   the GPU's driver exports the range as a dma-buf that is routed over BAR1 and lets it
 *             be mapped (device attribute 152); nothing else is needed
 *   gdrcopy   libgdrapi.so.2 and its kernel module pin the range and map it
 *
 * Both mappings are of device memory without struct pages (VM_PFNMAP): VFIO type1 resolves them,
 * /proc/self/pagemap does not, and a transport that needs physical addresses (`pci:`) cannot use
 * them. They are for the controller and for small looks of the CPU (write-combined): never for data.
 *
 * Nothing here needs a CUDA header: the driver is behind two function pointers.
 */
#ifndef GPU_WINDOW_H
#define GPU_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme/region.h"

#define HR_WINDOW_GRAIN ((size_t)64 << 10) /* address and length: pages of the GPU */

/* What the GPU's driver offers; `to` goes with each call. */
struct hr_window_driver {
	/* True when a dma-buf of this GPU's memory can be mapped. */
	bool (*mappable)(void *to);
	/* A dma-buf descriptor of [gpu, gpu + bytes) that goes over PCIe; 0 or -errno, logged. */
	int (*export)(void *to, uint64_t gpu, size_t bytes, int *fd);
	void *to;
};

/* libgdrapi, as its gdrapi.h (API 2.x) declares it. A handle is an unsigned long in a struct. */
struct hr_gdr_handle {
	unsigned long h;
};

struct hr_gdr_info {
	uint64_t va; /* first byte that is mapped; at or below the address asked for */
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
	void *cpu;	/* where GPU address `gpu` is seen */
	uint64_t gpu;
	size_t bytes;
	void *mapping; /* what is undone in hr_window_close() */
	size_t mapping_bytes;
	const struct hr_gdr *gdr;
	void *gdr_device;
	struct hr_gdr_handle handle;
	bool pinned;
};

/*
 * Load libgdrapi.so.2. message (HR_LOG_LINE_MAX bytes) says what is missing. 0; -ENOENT: no such
 * library; -ENOTSUP: another version, or a build that loads no libraries.
 */
int hr_gdr_load(struct hr_gdr *gdr, char *message);
void hr_gdr_unload(struct hr_gdr *gdr);

/*
 * Map [gpu, gpu + bytes) by either way. driver or gdr may be NULL: that way is not there. gdr must
 * outlive the window. message has why each way failed.
 * 0; -EINVAL: not whole HR_WINDOW_GRAINs, or none; -ENOTSUP: neither way works.
 */
int hr_window_open(struct hr_gpu_window *w, const struct hr_window_driver *driver,
		   const struct hr_gdr *gdr, uint64_t gpu, size_t bytes, char *message);

/* Unmap. First close the controllers' windows: VFIO keeps no reference of the mapping. Nothing for a
 * struct that is all zero. */
void hr_window_close(struct hr_gpu_window *w);

/*
 * Describe it for transports and workers: kind HR_REGION_GPU, I/O addresses of our own choice.
 * As hr_region_init_host(); the owner calls hr_region_give_bus() when the window has closed.
 */
int hr_window_region(const struct hr_gpu_window *w, const char *name, struct hr_region *region);

#endif
