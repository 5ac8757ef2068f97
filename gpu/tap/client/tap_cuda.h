/*
 * gpu/tap/client/tap_cuda.h - tiles in the memory of a GPU, for the client library: import them,
 * and give them back in the order of a stream. The driver, libcuda.so.1, is loaded when the first
 * such tap opens.
 *
 * Functions make the primary context of the GPU current and restore the caller's. They return 0 or
 * -errno, and write one line into `why`.
 */
#ifndef GPU_TAP_CLIENT_TAP_CUDA_H
#define GPU_TAP_CLIENT_TAP_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct hr_tap_cuda;

/* What the tap has sent, and the consumer's page in this process. */
struct hr_tap_cuda_memory {
	int fd;		/* of the tiles */
	uint64_t bytes; /* of the memory object */
	const uint8_t *uuid;
	uint32_t *gen; /* of slot 0, in the page */
	void *page;
	size_t page_bytes;
};

/*
 * Map the tiles on the GPU with that UUID. *cuda is for the other functions; *at: address of the
 * tiles on the GPU; *ordinal: its number in this process. -ENODEV: no driver, or the GPU is not
 * visible here; -ENOTSUP: the driver is too old; -ENOMEM; -EIO.
 */
int hr_tap_cuda_open(struct hr_tap_cuda **cuda, const struct hr_tap_cuda_memory *memory,
		     const void **at, int *ordinal, char *why, size_t why_bytes);

/* Store gen in gen[slot] of the page when the stream has done all work that it has now. */
int hr_tap_cuda_give_back(struct hr_tap_cuda *cuda, void *stream, uint32_t slot, uint32_t gen);

/* Wait for the work of this process on the GPU, and unmap the tiles. Does nothing for NULL. */
void hr_tap_cuda_close(struct hr_tap_cuda *cuda);

/* Free the copy of a forked child, which must not use the parent's driver. */
void hr_tap_cuda_forget(struct hr_tap_cuda *cuda);

/* Address of a function of the driver; NULL: it has none of that name, or there is no driver.
 * Tests have one of their own. */
typedef void (*hr_tap_cuda_function)(void);
hr_tap_cuda_function hr_tap_cuda_find(const char *name);

#endif
