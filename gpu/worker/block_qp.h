/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/block_qp.h - keep a warp's queue pairs, and what does not change of its descriptor, in the
 * memory of its thread block while it uses them.
 *
 * Nearly every step reads struct hr_nvme_qp. In GPU memory each read after an acquire goes to the
 * second-level cache; block memory takes a tenth of the time. Rings and the in-flight table stay in
 * place. Worker code; when workers have one lane, nothing is moved.
 */
#ifndef GPU_WORKER_BLOCK_QP_H
#define GPU_WORKER_BLOCK_QP_H

#include "nvme/queue/worker.h"
#include "nvme/queue/queue.h"

/* Multiple of 16 bytes, so that each warp's part is aligned. */
HR_WORKER uint32_t hr_block_qp_bytes(uint32_t queues)
{
	return (uint32_t)(queues * sizeof(struct hr_nvme_qp) + 15) & ~15u;
}

/* Collective: copy n queue pairs, word by word. */
HR_WORKER void hr_block_qp_move(struct hr_nvme_qp *to, const struct hr_nvme_qp *from, uint32_t n)
{
	const uint32_t words = (uint32_t)(n * sizeof(struct hr_nvme_qp) / sizeof(uint64_t));
	uint32_t i;

	hr_lanes_sync();
	for (i = hr_lane(); i < words; i += HR_LANES)
		((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
	hr_lanes_sync();
}

/*
 * Collective, by warps of a block whose operator uses no hr_block_memory(), each with `queues`
 * queue pairs at `origin`. The first `reserved` bytes of that memory, a multiple of 16, are not used.
 * Returns their address until hr_block_qp_end(): `origin` itself when the block's memory is too small
 * for all its `warps`.
 */
HR_WORKER struct hr_nvme_qp *hr_block_qp_begin(struct hr_nvme_qp *origin, uint32_t queues,
					       uint32_t warps, uint32_t reserved)
{
	const uint32_t bytes = hr_block_qp_bytes(queues);
	struct hr_nvme_qp *copy;

	if (HR_LANES == 1 || reserved + warps * bytes > HR_BLOCK_MEMORY)
		return origin;
	copy = (struct hr_nvme_qp *)((uint8_t *)hr_block_memory() + reserved + hr_warp() * bytes);
	hr_block_qp_move(copy, origin, queues);
	return copy;
}

/* Collective: copy them back to where the host reads them. */
HR_WORKER void hr_block_qp_end(struct hr_nvme_qp *origin, const struct hr_nvme_qp *copy,
			       uint32_t queues)
{
	if (copy != origin)
		hr_block_qp_move(origin, copy, queues);
}

/* Bytes of hr_block_memory() for a copy of `bytes` behind the first `reserved`; 0: none is made. */
HR_WORKER uint32_t hr_block_copy_bytes(uint32_t bytes, uint32_t reserved)
{
	const uint32_t whole = (bytes + 15) & ~15u;

	return HR_LANES == 1 || reserved + whole > HR_BLOCK_MEMORY ? 0 : whole;
}

/*
 * Block-collective: copy what does not change while the block runs, `bytes` in whole words of 8 bytes,
 * to the block's memory behind the first `reserved` bytes, a multiple of 16. Returns the copy; or
 * `from`, when hr_block_copy_bytes() is 0.
 */
HR_WORKER void *hr_block_copy(void *from, uint32_t bytes, uint32_t reserved)
{
	uint64_t *to = (uint64_t *)((uint8_t *)hr_block_memory() + reserved);
	uint32_t i;

	if (!hr_block_copy_bytes(bytes, reserved))
		return from;
	for (i = hr_thread(); i < bytes / sizeof(*to); i += hr_threads())
		to[i] = ((const uint64_t *)from)[i];
	hr_block_sync();
	return to;
}

HR_STATIC_ASSERT(sizeof(struct hr_nvme_qp) % sizeof(uint64_t) == 0, "moved by words");

#endif
