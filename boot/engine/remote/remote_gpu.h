/*
 * boot/engine/remote/remote_gpu.h - tiles of a stream in the memory of a GPU: the dma-buf with
 * which the network device accesses them, and accesses of the GPU for the loopback. For
 * boot/engine/remote/remote.c, sender.c and receiver.c.
 */
#ifndef BOOT_ENGINE_REMOTE_REMOTE_GPU_H
#define BOOT_ENGINE_REMOTE_REMOTE_GPU_H

#include "gpu/places.h"
#include "boot/remote/link.h"

/* All zero: not open. */
struct hr_remote_gpu {
	struct hr_backend *backend;
	uint8_t *tiles;		 /* for workers */
	struct hr_region region; /* of hr_remote_gpu_take() */
	int dmabuf;
};

/* True when the tiles of a stream on this backend lie in GPU memory. */
static inline bool hr_remote_is_gpu(const struct hr_backend *b)
{
	return b->ops->export_shared != NULL;
}

/*
 * Describe a memory object of HR_PLACE_TAP, which begins at `offset`, in *memory: address, dma-buf and
 * functions; `bytes` and slots are the caller's. No worker runs until the link is open. *gpu outlives
 * the link. -ENOTSUP: the network device cannot access it, or as export_shared of the backend.
 */
int hr_remote_gpu_open(struct hr_remote_gpu *gpu, struct hr_backend *backend,
		       const struct hr_region *tap, uint64_t offset, struct hr_link_memory *memory,
		       struct hr_error *e);

/* The same with memory that is allocated for it: so many slots. Errors of the backend. */
int hr_remote_gpu_take(struct hr_remote_gpu *gpu, struct hr_backend *backend, uint32_t slots,
		       uint32_t slot_bytes, struct hr_link_memory *memory, struct hr_error *e);

/* Close the dma-buf, and free what was allocated; the link is closed. Does nothing when all zero. */
void hr_remote_gpu_close(struct hr_remote_gpu *gpu);

#endif
