/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/ranks.h - the work of one rank, when several processes (ranks) divide the run of an
 * access operator (boot/ranks/README.md). Worker code; include cache/objects/objects.h.
 *
 * Each rank runs the operator over objects, cache and memory of its own: worker and workers, scratch
 * and hr_workers_sync() are those of one rank. An object is whole on every rank, or divided: then a
 * rank has the bytes from object->at on, object->bytes of them, of a data set of hr_all_bytes().
 * Offsets and indices of calls count in the object of this rank. The states of all ranks go to finish()
 * on rank 0.
 */
#ifndef CACHE_OBJECTS_RANKS_H
#define CACHE_OBJECTS_RANKS_H

#include "cache/objects/find.h"
#include "nvme/queue/worker.h"

/* Items first .. end - 1 of some, numbered over all ranks. */
struct hr_items {
	uint64_t first, end;
};

/* Length of the data set of an object: of the object itself, unless it is divided. */
HR_BOTH uint64_t hr_all_bytes(const struct hr_object *object)
{
	return object->divided ? object->all_bytes : object->bytes;
}

/* The share of this rank in `count` items (below 2^48), of about equal size on all ranks. */
HR_WORKER struct hr_items hr_rank_share(const struct hr_objects *objects, uint64_t count)
{
	struct hr_items items;

	items.first = count * objects->rank / objects->ranks;
	items.end = count * ((uint64_t)objects->rank + 1) / objects->ranks;
	return items;
}

/*
 * The items of this rank, of `count` items (below 2^48) that belong to the rows of row_bytes of an
 * object: its rows when the object is divided; else, or with NULL, a share. Row i of the result is row
 * i - object->at / row_bytes in the object of this rank.
 */
HR_WORKER struct hr_items hr_rank_items(const struct hr_objects *objects,
					const struct hr_object *object, uint32_t row_bytes,
					uint64_t count)
{
	struct hr_items items;

	if (!object || !object->divided)
		return hr_rank_share(objects, count);
	items.first = object->at / row_bytes;
	items.end = items.first + object->bytes / row_bytes;
	items.first = items.first < count ? items.first : count;
	items.end = items.end < count ? items.end : count;
	return items;
}

#endif
