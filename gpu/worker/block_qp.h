/*
 * gpu/worker/block_qp.h - a warp's queue pairs in the memory of its thread block while it works
 * with them.
 *
 * Of what a queue pair is, the struct hr_nvme_qp is looked at in nearly every step. In GPU memory each
 * look behind an acquire goes to the second-level cache; here it takes a tenth of the time. Rings and
 * the in-flight table stay where they are. Worker code; where workers have one lane, nothing moves.
 */
#ifndef GPU_WORKER_BLOCK_QP_H
#define GPU_WORKER_BLOCK_QP_H

#include "nvme/worker.h"
#include "nvme/queue.h"

/* Whole 16 bytes, so that each warp's part is aligned. */
HR_WORKER uint32_t hr_block_qp_bytes(uint32_t queues)
{
	return (uint32_t)(queues * sizeof(struct hr_nvme_qp) + 15) & ~15u;
}

/* Collective. The words of n queue pairs from one place to another. */
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
 * Collective, by warps of a block whose operator uses no hr_block_memory(), each with `queues` queue
 * pairs at `home`. Returns where to find them until hr_block_qp_end(): `home` itself when the block's
 * memory is too small for all its `warps`.
 */
HR_WORKER struct hr_nvme_qp *hr_block_qp_begin(struct hr_nvme_qp *home, uint32_t queues,
					       uint32_t warps)
{
	const uint32_t bytes = hr_block_qp_bytes(queues);
	struct hr_nvme_qp *copy;

	if (HR_LANES == 1 || warps * bytes > HR_BLOCK_MEMORY)
		return home;
	copy = (struct hr_nvme_qp *)((uint8_t *)hr_block_memory() + hr_warp() * bytes);
	hr_block_qp_move(copy, home, queues);
	return copy;
}

/* Collective: they go back to where the host will look at them. */
HR_WORKER void hr_block_qp_end(struct hr_nvme_qp *home, const struct hr_nvme_qp *copy,
			       uint32_t queues)
{
	if (copy != home)
		hr_block_qp_move(home, copy, queues);
}

HR_STATIC_ASSERT(sizeof(struct hr_nvme_qp) % sizeof(uint64_t) == 0, "moved by words");

#endif
