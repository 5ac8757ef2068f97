/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/object.h - object access for workers: reads and writes by extent and byte offset, directly
 * into and out of fixed buffers, by the owner of a queue pair.
 *
 * Buffers never move, so their PRP entries are built once at boot (hr_buffer_init()). A transfer is
 * split into commands of at most the buffer's chunk_bytes, which must not exceed the maximum of any
 * controller in use. The token of each command names buffer and chunk. Calls never wait: after the
 * commands are posted and hr_qp_publish() was called, hr_io_reap() returns their completions.
 */
#ifndef CACHE_OBJECT_H
#define CACHE_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "cache/extent.h"
#include "nvme/queue/worker.h"
#include "nvme/dma/prp.h"
#include "nvme/queue/queue.h"
#include "nvme/dma/region.h"

/* A fixed buffer that controllers read and write. */
struct hr_buffer {
	uint8_t *data;	      /* address for workers; page aligned */
	uint32_t bytes;	      /* multiple of HR_PAGE, at most HR_TILE_MAX */
	uint32_t chunk_bytes; /* power of two, HR_PAGE..HR_CHUNK_MAX */
	struct hr_prp *chunk; /* [ceil(bytes / chunk_bytes)], address for workers */
};

#define HR_TOKEN_CHUNK_BITS 14u /* HR_TILE_MAX / HR_PAGE chunks */
#define HR_TOKEN(buffer, chunk) ((uint32_t)(buffer) << HR_TOKEN_CHUNK_BITS | (uint32_t)(chunk))
#define HR_TOKEN_BUFFER(token) ((token) >> HR_TOKEN_CHUNK_BITS)
#define HR_TOKEN_CHUNK(token) ((token) & ((1u << HR_TOKEN_CHUNK_BITS) - 1))

/*
 * Bytes of PRP list memory (DMA) for a buffer, a multiple of HR_PAGE; 0 when a chunk is at most two
 * pages long. Lists share pages. A list never crosses a page boundary, so none is chained.
 */
size_t hr_buffer_prp_bytes(uint32_t bytes, uint32_t chunk_bytes);

/*
 * Build the PRPs of `bytes` at `offset` of region. Their lists go to [prp_offset, +
 * hr_buffer_prp_bytes) of prp_region, page aligned, which the CPU can access (prp_region may be
 * NULL when the size is 0). chunk: [ceil(bytes / chunk_bytes)], memory of the caller at its CPU
 * address. When workers use another address, the caller sets buffer->chunk afterwards. Host side.
 */
void hr_buffer_init(struct hr_buffer *buffer, const struct hr_region *region, size_t offset,
		    uint32_t bytes, uint32_t chunk_bytes, const struct hr_region *prp_region,
		    size_t prp_offset, struct hr_prp *chunk);

/* Number of commands for a transfer of `bytes`. */
HR_BOTH uint32_t hr_chunk_count(uint32_t bytes, uint32_t chunk_bytes)
{
	return (bytes + chunk_bytes - 1) / chunk_bytes;
}

/*
 * Post the commands that read [offset, offset + bytes) of the object into buffer. Both must be
 * whole blocks, except at the end of the object: the last block is read whole. Collective;
 * arguments and result are the same in all lanes. The controller sees the commands after
 * hr_qp_publish(). Tokens: HR_TOKEN(buffer_index, chunk).
 * Returns the number of commands (0 for no bytes); -EAGAIN: not enough room for all of them, none
 * is posted; -ERANGE: beyond the object; -EINVAL: offset or bytes not whole blocks, larger than the
 * buffer, or chunks of the buffer larger than the ssd accepts; qp->error.
 */
HR_DEVICE int hr_io_read_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			      uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			      uint32_t buffer_index);

/* The same for writing buffer[0..bytes) to the object. Bytes between the end of the data and the
 * end of its last block are written from the buffer (the caller zeroes them). flags: 0 or
 * HR_CDW12_FUA. */
HR_DEVICE int hr_io_write_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			       uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			       uint32_t buffer_index, uint32_t flags);

/*
 * One transfer per lane: each lane with `want` posts a transfer of at most one chunk, with a buffer
 * of its own (arguments differ between lanes). Collective. Returns per lane 1; 0 when want is
 * false; or an error as above, and nothing is posted for that lane. Also -EINVAL: more than one
 * chunk, or no bytes.
 */
HR_DEVICE int hr_io_read_each(struct hr_nvme_qp *qp, bool want, const struct hr_extent *extent,
			      uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			      uint32_t buffer_index);
HR_DEVICE int hr_io_write_each(struct hr_nvme_qp *qp, bool want, const struct hr_extent *extent,
			       uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			       uint32_t buffer_index, uint32_t flags);

/*
 * Post the command of one chunk again, after it failed, with the arguments of its transfer. opcode:
 * nvme_cmd_read or nvme_cmd_write. Collective. 1, -EAGAIN or qp->error.
 */
HR_DEVICE int hr_io_repost(struct hr_nvme_qp *qp, uint8_t opcode, const struct hr_extent *extent,
			   uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			   uint32_t buffer_index, uint32_t chunk, uint32_t flags);

/* Post a flush of the object's namespace; token HR_TOKEN(buffer_index, 0). Collective. Returns 1,
 * -EAGAIN or qp->error, the same in all lanes. */
HR_DEVICE int hr_io_flush_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			       uint32_t buffer_index);

/*
 * Reap completions as hr_qp_reap() does. When there are none, look for a command past its deadline:
 * then *done has the status HR_STATUS_LOST in lane 0, and the mask is 1. Collective. The buffer of
 * a lost command stays out of use, because the controller may still write there.
 */
#define HR_STATUS_LOST 0xffffu
HR_DEVICE hr_mask hr_io_reap(struct hr_nvme_qp *qp, struct hr_completion *done);

/* The same as hr_qp_reap_or() does. */
HR_DEVICE hr_mask hr_io_reap_or(struct hr_nvme_qp *qp, const struct hr_qp_wait *wait,
				struct hr_completion *done);

#endif
