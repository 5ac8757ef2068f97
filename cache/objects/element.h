/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/element.h - element access of cache/objects/objects.h: each lane reads or
 * writes an element of its own. Worker code; include cache/objects/objects.h.
 */
#ifndef CACHE_OBJECTS_ELEMENT_H
#define CACHE_OBJECTS_ELEMENT_H

#include "cache/objects/find.h"
#include "cache/objects/single_lane.h"
#include "cache/objects/peer.h"
#include "cache/objects/wait.h"
#include "nvme/queue/worker.h"

/* The page of an element of 1 << shift bytes. HR_NO_PAGE: no index, or an access that
 * hr_element_refuse() refuses. */
HR_WORKER uint32_t hr_element_page(const struct hr_objects *objects, const struct hr_object *object,
				   uint64_t index, uint32_t shift, bool writes)
{
	if (objects->error || !object || (writes && !object->writable) ||
	    index >= object->bytes >> shift)
		return HR_NO_PAGE;
	return object->first_page + (uint32_t)(index >> (objects->cache->shape.page_shift - shift));
}

/* Errors of lanes that have an index and no page: the first such lane's. Collective. 0: none. */
HR_WORKER int hr_element_refuse(struct hr_objects *objects, const struct hr_object *object,
				uint64_t index, bool refused, bool writes)
{
	const hr_mask lanes = hr_ballot(refused);
	uint32_t lane, of, error;

	if (objects->error)
		return objects->error;
	if (!lanes)
		return 0;
	lane = hr_lowest_bit(lanes);
	error = !object || (writes && !object->writable) ? EINVAL : ERANGE;
	error = hr_shfl_u32(error, lane);
	of = hr_shfl_u32(object ? object->index : HR_NO_PAGE, lane);
	return hr_objects_fail(objects, -(int)error, of, hr_shfl_u64(index, lane));
}

/* How far the access of a lane has come when its worker calls hr_element_miss(). */
enum hr_element_step {
	HR_ELEMENT_DONE,
	HR_ELEMENT_ABSENT, /* no way is for the page: struct hr_found */
	HR_ELEMENT_WAITS,
};

/* Some lane has not found its page: the element of this lane, or `value` when its access is done. */
HR_WORKER_SLOW uint64_t hr_element_miss(struct hr_objects *objects, const struct hr_object *object,
					uint64_t index, uint32_t bytes, bool writes, uint64_t value,
					enum hr_element_step step)
{
	const uint32_t shift = hr_highest_bit_u64(bytes);
	const bool done = step == HR_ELEMENT_DONE;
	struct hr_lane_pages use = hr_use_none();
	bool pending;
	int error;

	use.page = hr_element_page(objects, object, index, shift, writes);
	use.in_page = (uint32_t)(index << shift) &
		      (((uint32_t)1 << objects->cache->shape.page_shift) - 1);
	use.bytes = bytes;
	use.writes = writes;
	use.value = value;
	pending = use.page != HR_NO_PAGE && !done;
	error = hr_element_refuse(objects, object, index,
				  index != HR_NO_INDEX && use.page == HR_NO_PAGE, writes);
	objects->misses += pending;
	if (!error && !writes && objects->cache->peers)
		pending = hr_peer_elements(objects, &use, pending);
	if (!error && hr_ballot(pending))
		error = hr_cache_await(objects, &use, pending, step == HR_ELEMENT_ABSENT,
				       HR_NO_TICKET);
	return error && !done ? 0 : use.value;
}

/* True when the lanes that miss are one, whose page has no way, so that
 * hr_element_single_lane() serves it. */
HR_WORKER bool hr_element_is_one(const struct hr_page_cache *cache, hr_mask missing,
				 enum hr_element_step step)
{
	return HR_ONE_LANES && !(missing & (missing - 1)) && hr_ballot(step == HR_ELEMENT_ABSENT) &&
	       !cache->peers;
}

/* The fast path. shift and writes are constants of each caller. */
HR_WORKER uint64_t hr_element(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t index, uint32_t shift, bool writes, uint64_t value)
{
	const struct hr_page_cache *cache = objects->cache;
	const uint32_t page = hr_element_page(objects, object, index, shift, writes);
	const uint32_t in_page =
		(uint32_t)(index << shift) & (((uint32_t)1 << cache->shape.page_shift) - 1);
	enum hr_element_step step = HR_ELEMENT_WAITS;
	struct hr_page_position position = { 0, 0 };
	struct hr_found found;
	bool done = index == HR_NO_INDEX;
	hr_mask missing;

	if (page != HR_NO_PAGE) {
		position = hr_page_position_of(&cache->shape, page);
		found = hr_cache_find_at(cache, position);
		done = found.word && (!writes || hr_cache_dirty(found.tag, found.word));
		if (done)
			value = hr_element_at(found.frame + in_page, (uint32_t)1 << shift, writes,
					      value);
		else if (found.absent)
			step = HR_ELEMENT_ABSENT;
	}
	objects->accesses += index != HR_NO_INDEX;
	missing = hr_ballot(!done);
	if (missing && !writes && hr_element_is_one(cache, missing, step)) {
		const struct hr_single_miss one = { position, page, in_page, (uint32_t)1 << shift,
						    hr_lowest_bit(missing) };

		value = hr_element_single_lane(objects, one, value);
	} else if (missing)
		value = hr_element_miss(objects, object, index, (uint32_t)1 << shift, writes, value,
					done ? HR_ELEMENT_DONE : step);
	hr_cache_used(objects);
	return value;
}

HR_WORKER uint32_t hr_get_u32(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t index)
{
	return (uint32_t)hr_element(objects, object, index, 2, false, 0);
}

HR_WORKER uint64_t hr_get_u64(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t index)
{
	return hr_element(objects, object, index, 3, false, 0);
}

HR_WORKER float hr_get_f32(struct hr_objects *objects, const struct hr_object *object,
			   uint64_t index)
{
	return hr_f32_of_bits(hr_get_u32(objects, object, index));
}

/* Writes: lanes see each other's after the call. */
HR_WORKER void hr_set_u32(struct hr_objects *objects, const struct hr_object *object,
			  uint64_t index, uint32_t value)
{
	hr_element(objects, object, index, 2, true, value);
	hr_lanes_sync();
}

HR_WORKER void hr_set_u64(struct hr_objects *objects, const struct hr_object *object,
			  uint64_t index, uint64_t value)
{
	hr_element(objects, object, index, 3, true, value);
	hr_lanes_sync();
}

#endif
