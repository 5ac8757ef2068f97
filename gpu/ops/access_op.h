/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/ops/access_op.h - worker code that the built-in access operators share: refusal of wrong data,
 * the timed part of a run, sums of states.
 */
#ifndef GPU_OPS_ACCESS_OP_H
#define GPU_OPS_ACCESS_OP_H

#include <errno.h>

#include "cache/objects/objects.h"
#include "config/operator.h"
#include "nvme/queue/worker.h"

/* True after the first error of a call to cache/objects/objects.h. Collective. */
HR_WORKER bool hr_access_failed(const struct hr_objects *objects)
{
	return hr_ballot(objects->error != 0) != 0;
}

/*
 * Per lane: element `index` of the object holds a value that it must not have; HR_NO_INDEX: none.
 * The run fails with -EBADMSG, and the message names object and element. True when a lane has named
 * one, or after an earlier error. Collective.
 */
HR_WORKER bool hr_access_refuse(struct hr_objects *objects, const struct hr_object *object,
				uint64_t index)
{
	const hr_mask mask = hr_ballot(index != HR_NO_INDEX);

	if (mask && !hr_access_failed(objects)) {
		objects->error = -EBADMSG;
		objects->error_object = object->index;
		objects->error_index = hr_shfl_u64(index, hr_lowest_bit(mask));
	}
	return hr_access_failed(objects);
}

/* One step of waiting for another worker. True when the run ends meanwhile. Collective. */
HR_WORKER bool hr_access_wait(struct hr_objects *objects, uint32_t *spins)
{
	hr_quiescent(objects);
	if (hr_shfl_u32(hr_poll_u32(&objects->cache->words->stop), 0)) {
		objects->error = objects->error ? objects->error : -ECANCELED;
		return true;
	}
	hr_idle(spins);
	return false;
}

/* Read the pages of an object into the cache; each worker reads a share. Collective. */
HR_WORKER void hr_access_warm(struct hr_objects *objects, const struct hr_object *object)
{
	const uint64_t bytes = hr_page_bytes(objects);
	const uint64_t step = (uint64_t)objects->workers * HR_LANES;
	uint64_t first = (uint64_t)objects->worker * HR_LANES;

	for (; first * bytes < object->bytes; first += step) {
		const uint64_t page = first + hr_lane();

		hr_page(objects, object, page * bytes < object->bytes ? page : HR_NO_INDEX);
		hr_quiescent(objects);
		if (hr_access_failed(objects))
			return;
	}
}

/*
 * The timed part of a run starts for all workers together. Returns its start, of the worker's clock.
 * After an error the run ends soon. Collective.
 */
HR_WORKER uint64_t hr_access_begin(struct hr_objects *objects)
{
	hr_workers_sync(objects);
	return hr_shfl_u64(hr_clock_ns(), 0);
}

/* The end: all workers are done. Returns the nanoseconds for worker 0, and 0 for others, so that the
 * sum over all states is the duration. Collective. */
HR_WORKER uint64_t hr_access_end(struct hr_objects *objects, uint64_t start_ns)
{
	hr_workers_sync(objects);
	return objects->worker == 0 ? hr_shfl_u64(hr_clock_ns(), 0) - start_ns : 0;
}

/* Word i of the result is the sum of the words i of all states. Block-collective. */
HR_WORKER void hr_access_sum(const struct hr_op_all *all, uint32_t words)
{
	uint64_t *result = (uint64_t *)all->result;
	uint32_t i, w;

	for (i = hr_thread(); i < words; i += hr_threads()) {
		uint64_t sum = 0;

		for (w = 0; w < all->workers; w++)
			sum += ((const uint64_t *)(const void *)(all->states +
								 (uint64_t)w *
									 all->state_bytes))[i];
		result[i] = sum;
	}
}

/* After hr_access_sum(): word `word` of the result is the greatest of all states, because ranks take
 * their times side by side. Block-collective. */
HR_WORKER void hr_access_longest(const struct hr_op_all *all, uint32_t word)
{
	uint64_t *result = (uint64_t *)all->result;
	uint32_t w;

	if (hr_thread() != word % hr_threads()) /* this thread has stored the sum */
		return;
	result[word] = 0;
	for (w = 0; w < all->workers; w++) {
		const uint64_t one =
			((const uint64_t *)(const void *)(all->states +
							  (uint64_t)w * all->state_bytes))[word];

		result[word] = one > result[word] ? one : result[word];
	}
}

#endif
