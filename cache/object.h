/*
 * cache/object.h - objects as workers see them: reads and writes by object id and byte offset,
 * straight into and out of fixed buffers, by whoever owns the queue pair.
 *
 * Buffers never move, so their PRP entries are built once at boot (hr_buffer_init()). A transfer is
 * split into commands of at most the buffer's chunk_bytes, which no controller it is used with
 * exceeds; each command's token names buffer and chunk. The asynchronous pair is hr_pread_prefetch()
 * ... hr_consume_prefetch_pread(); hr_pread(), hr_pwrite() and hr_flush() wait, bounded by the
 * queue's deadlines.
 */
#ifndef CACHE_OBJECT_H
#define CACHE_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "config/limits.h"
#include "nvme/worker.h"
#include "nvme/prp.h"
#include "nvme/queue.h"
#include "nvme/region.h"

/* Where an object lies, as workers know it: a copy of the object map's facts, in control memory. */
struct hr_extent {
	uint64_t id;
	uint64_t lba;	   /* of byte 0 */
	uint64_t bytes;	   /* length of the data */
	uint64_t capacity; /* bytes of the extent; whole blocks */
	uint32_t nsid;
	uint32_t lba_shift;
	uint32_t ssd;	      /* index in the appliance: which queue pair reaches it */
	uint32_t chunk_bytes; /* largest command to that ssd: power of two, HR_PAGE..HR_CHUNK_MAX */
};

/* The device-side object map: this head, then struct hr_extent[capacity], sorted by id. */
struct hr_object_map {
	uint32_t count, capacity;
};

HR_BOTH size_t hr_object_map_bytes(uint32_t capacity)
{
	return sizeof(struct hr_object_map) + capacity * sizeof(struct hr_extent);
}

HR_BOTH struct hr_extent *hr_object_map_extents(struct hr_object_map *map)
{
	return (struct hr_extent *)(void *)(map + 1);
}

/* A fixed buffer that controllers read and write. */
struct hr_buffer {
	uint8_t *data;	      /* as workers see it; page aligned */
	uint32_t bytes;	      /* multiple of HR_PAGE, at most HR_TILE_MAX */
	uint32_t chunk_bytes; /* power of two, HR_PAGE..HR_CHUNK_MAX */
	struct hr_prp *chunk; /* [ceil(bytes / chunk_bytes)], as workers see it */
};

#define HR_TOKEN_CHUNK_BITS 14u /* HR_TILE_MAX / HR_PAGE chunks */
#define HR_TOKEN(buffer, chunk) ((uint32_t)(buffer) << HR_TOKEN_CHUNK_BITS | (uint32_t)(chunk))
#define HR_TOKEN_BUFFER(token) ((token) >> HR_TOKEN_CHUNK_BITS)
#define HR_TOKEN_CHUNK(token) ((token) & ((1u << HR_TOKEN_CHUNK_BITS) - 1))

/*
 * Bytes of PRP list memory (DMA) a buffer needs, a multiple of HR_PAGE; 0 when no chunk is longer
 * than two pages. Lists share pages and never cross one, so none is chained.
 */
size_t hr_buffer_prp_bytes(uint32_t bytes, uint32_t chunk_bytes);

/*
 * Build the PRPs of `bytes` at `offset` of region; lists go to [prp_offset, + hr_buffer_prp_bytes)
 * of prp_region, page aligned, which the CPU can reach (prp_region may be NULL when that is 0
 * bytes). chunk: [ceil(bytes / chunk_bytes)], the caller's, as the CPU sees it: a caller
 * whose workers see it elsewhere sets buffer->chunk afterwards. Host side.
 */
void hr_buffer_init(struct hr_buffer *buffer, const struct hr_region *region, size_t offset,
		    uint32_t bytes, uint32_t chunk_bytes, const struct hr_region *prp_region,
		    size_t prp_offset, struct hr_prp *chunk);

/* Commands that a transfer of `bytes` takes. */
HR_BOTH uint32_t hr_chunk_count(uint32_t bytes, uint32_t chunk_bytes)
{
	return (bytes + chunk_bytes - 1) / chunk_bytes;
}

/* The object with that id, or NULL. Any thread. */
HR_DEVICE const struct hr_extent *hr_get_object(const struct hr_object_map *map, uint64_t id);

/*
 * Post the commands that fill buffer[0..bytes) from the object at offset (both whole blocks, except
 * that the end of the object need not be: the last block is read whole). Collective; the arguments
 * and the result are the same in all lanes. Nothing reaches the controller before hr_qp_ring().
 * Tokens: HR_TOKEN(buffer_index, chunk).
 * Returns the number of commands (0 for no bytes); -EAGAIN: not room for all of them, nothing
 * posted; -ERANGE: beyond the object; -EINVAL: offset or bytes not whole blocks, larger than the
 * buffer, or chunks of the buffer larger than the ssd takes; qp->broken.
 */
HR_DEVICE int hr_pread_prefetch(struct hr_nvme_qp *qp, const struct hr_extent *extent,
				uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
				uint32_t buffer_index);

/* The same for writing buffer[0..bytes) to the object; bytes past the data's end up to whole blocks
 * are written as they are in the buffer (the caller zeroes them). flags: 0 or HR_CDW12_FUA. */
HR_DEVICE int hr_pwrite_post(struct hr_nvme_qp *qp, const struct hr_extent *extent, uint64_t offset,
			     uint32_t bytes, const struct hr_buffer *buffer, uint32_t buffer_index,
			     uint32_t flags);

/*
 * A transfer per lane: each lane that wants posts one of at most a chunk, from or to a buffer of its
 * own (the arguments differ between lanes). Collective. Returns per lane 1; or as above, nothing
 * posted for that lane; 0 where want is false. -EINVAL also: more than one chunk, or no bytes.
 */
HR_DEVICE int hr_pread_each(struct hr_nvme_qp *qp, bool want, const struct hr_extent *extent,
			    uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			    uint32_t buffer_index);
HR_DEVICE int hr_pwrite_each(struct hr_nvme_qp *qp, bool want, const struct hr_extent *extent,
			     uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			     uint32_t buffer_index, uint32_t flags);

/*
 * Post again one chunk of a transfer that was posted before with the same arguments, whose command
 * has failed. opcode: nvme_cmd_read or nvme_cmd_write. Collective. 1, -EAGAIN or qp->broken.
 */
HR_DEVICE int hr_repost(struct hr_nvme_qp *qp, uint8_t opcode, const struct hr_extent *extent,
			uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			uint32_t buffer_index, uint32_t chunk, uint32_t flags);

/* Post a flush of the object's namespace; token HR_TOKEN(buffer_index, 0). Collective. Returns 1,
 * -EAGAIN or qp->broken, the same in all lanes. */
HR_DEVICE int hr_flush_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			    uint32_t buffer_index);

/*
 * Take what has completed: as hr_qp_reap(), and when nothing has, looks for a passed deadline
 * (then *done has status 0xffff = HR_STATUS_LOST in lane 0, and the mask is 1). Collective. A lost
 * command's buffer stays out of use: the controller may still write there.
 */
#define HR_STATUS_LOST 0xffffu
HR_DEVICE uint32_t hr_consume_prefetch_pread(struct hr_nvme_qp *qp, struct hr_done *done);

/*
 * Synchronous forms: post, ring, wait for all; collective. The queue pair must have nothing else in
 * flight; a transfer of more commands than it has room for is done in several rounds.
 * 0; -ETIMEDOUT: at least one command was lost; > 0: NVMe status of the first failing command;
 * -ERANGE, -EINVAL as above; -EAGAIN: lost commands fill the queue; qp->broken.
 */
HR_DEVICE int hr_pread(struct hr_nvme_qp *qp, const struct hr_extent *extent, uint64_t offset,
		       uint32_t bytes, const struct hr_buffer *buffer);
HR_DEVICE int hr_pwrite(struct hr_nvme_qp *qp, const struct hr_extent *extent, uint64_t offset,
			uint32_t bytes, const struct hr_buffer *buffer, uint32_t flags);
HR_DEVICE int hr_flush(struct hr_nvme_qp *qp, const struct hr_extent *extent);

#endif
