/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/client/tap_cuda.h - tiles in the memory of a GPU, for the client library: import them,
 * and give them back, or commit them, in the order of a stream. The driver, libcuda.so.1, is loaded
 * when the first such tap or feed opens.
 *
 * Functions make the primary context of the GPU current and restore the caller's. They return 0 or
 * -errno, and write one line into `why`.
 */
#ifndef GPU_TAP_CLIENT_TAP_CUDA_H
#define GPU_TAP_CLIENT_TAP_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_tap_cuda;

/* What the tap or feed has sent, and the page of this process. */
struct hr_tap_cuda_memory {
	int fd;		     /* of the tiles */
	uint64_t bytes;	     /* of the memory object */
	const uint8_t *uuid; /* of the GPU that has it */
	void *page;
	size_t page_bytes;
	bool writes; /* this process fills the tiles; false: it reads them */
	int user; /* the GPU that uses them: its number in this process + 1; 0: the one that has them */
};

/*
 * Map the tiles for the GPU with that UUID, or for another one that can access its memory. *cuda is for
 * the other functions; *at: address of the tiles on the GPU; *ordinal: the number in this process of
 * the GPU that uses them. -ENODEV: no driver, or one of the GPUs is not visible here; -ENOTSUP: the
 * driver is too old, or the other GPU has no access; -ENOMEM; -EIO.
 */
int hr_tap_cuda_open(struct hr_tap_cuda **cuda, const struct hr_tap_cuda_memory *memory,
		     const void **at, int *ordinal, char *why, size_t why_bytes);

/* Store the value in a word of the page when the stream has done all work that it has now. */
int hr_tap_cuda_write32(struct hr_tap_cuda *cuda, void *stream, uint32_t *word, uint32_t value);
int hr_tap_cuda_write64(struct hr_tap_cuda *cuda, void *stream, uint64_t *word, uint64_t value);

/* Wait for the work of this process on the GPU. */
int hr_tap_cuda_wait(struct hr_tap_cuda *cuda);

/* Wait for the work of this process on the GPU, and unmap the tiles. Does nothing for NULL. */
void hr_tap_cuda_close(struct hr_tap_cuda *cuda);

/* Free the copy of a forked child, which must not use the parent's driver. */
void hr_tap_cuda_forget(struct hr_tap_cuda *cuda);

/* Address of a function of the driver; NULL: it has none of that name, or there is no driver.
 * Tests have one of their own. */
typedef void (*hr_tap_cuda_function)(void);
hr_tap_cuda_function hr_tap_cuda_find(const char *name);

#endif
