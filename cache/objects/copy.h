/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/copy.h - reads and writes of cache/objects/objects.h that move bytes, and
 * prefetch. Worker code; include cache/objects/objects.h.
 */
#ifndef CACHE_OBJECTS_COPY_H
#define CACHE_OBJECTS_COPY_H

#include "cache/objects/find.h"
#include "cache/objects/peer.h"
#include "cache/objects/wait.h"
#include "nvme/queue/worker.h"

#define HR_ID_OFFSET_BITS 48u /* of an id: offset; the object's index is above */

/* Bytes of [offset, offset + bytes) before the end of the object. */
HR_WORKER uint64_t hr_within(const struct hr_object *object, uint64_t offset, uint64_t bytes)
{
	const uint64_t left = offset < object->bytes ? object->bytes - offset : 0;

	return bytes < left ? bytes : left;
}

/* 0, or the error that a transfer returns at once. Collective, same arguments. */
HR_WORKER int hr_transfer_check(struct hr_objects *objects, const struct hr_object *object,
				bool writes)
{
	if (objects->error)
		return objects->error;
	if (!object)
		return hr_objects_fail(objects, -EINVAL, HR_NO_PAGE, 0);
	if (writes && !object->writable)
		return hr_objects_fail(objects, -EINVAL, object->index, 0);
	return 0;
}

/* Number of pages, including this one, to request when a page is missing: at most the share of this
 * worker in the frames, because more pages would evict each other. */
HR_WORKER uint32_t hr_read_ahead(const struct hr_page_cache *cache, uint64_t pages)
{
	const uint64_t share = hr_page_frames(&cache->shape) / 8 / cache->computers;
	uint64_t count = share < HR_READ_AHEAD_MAX ? share : HR_READ_AHEAD_MAX;

	count = count < pages ? count : pages;
	return count ? (uint32_t)count : 1;
}

/* Pages of a write, counted from its next one: `count` of them from `first` on are written as a
 * whole. */
struct hr_whole {
	uint64_t first, count;
};

HR_WORKER bool hr_is_whole(struct hr_whole whole, uint64_t page)
{
	return page >= whole.first && page - whole.first < whole.count;
}

/* Of a transfer of `bytes` from `offset` on. */
HR_WORKER struct hr_whole hr_whole_pages(uint32_t shift, uint64_t offset, uint64_t bytes,
					 bool writes)
{
	const uint64_t in_page = ((uint64_t)1 << shift) - 1, before = (0 - offset) & in_page;
	struct hr_whole whole;

	whole.first = before != 0;
	whole.count = writes && bytes > before ? (bytes - before) >> shift : 0;
	return whole;
}

/* Request those of `count` pages that are not in the cache, or are SHARED and to be written, as far as
 * rings have room. Pages to be read that another gpu has are not requested: they are read there.
 * Collective. Returns the ticket of the first, or HR_NO_TICKET. */
HR_WORKER_SLOW uint64_t hr_cache_request_all(struct hr_objects *objects, uint32_t page,
					     uint32_t count, bool writes, struct hr_whole whole)
{
	const struct hr_page_cache *cache = objects->cache;
	uint64_t first = HR_NO_TICKET, ticket;
	struct hr_awaited awaited;
	uint32_t i, mine, word;
	const uint32_t *tag;
	bool all;

	for (i = 0; i < count; i += HR_LANES) {
		mine = i + hr_lane() < count ? page + i + hr_lane() : HR_NO_PAGE;
		word = HR_PAGE_FREE;
		awaited = hr_cache_awaited(cache, mine);
		if (mine != HR_NO_PAGE)
			word = hr_cache_word(cache, mine);
		all = hr_is_whole(whole, i + hr_lane());
		if (word != HR_PAGE_FREE && (!(writes && (word & HR_PAGE_SHARED)) ||
					     (all && HR_PAGE_KIND(word) == HR_PAGE_OFFERED)))
			mine = HR_NO_PAGE;
		if (!writes && cache->peers && mine != HR_NO_PAGE &&
		    hr_peer_find(cache, awaited.position, &tag))
			mine = HR_NO_PAGE;
		if (!hr_ballot(mine != HR_NO_PAGE))
			continue;
		ticket = hr_cache_request(objects, awaited.ring, mine, false,
					  hr_request_flags(cache, writes, all), objects->held);
		if (!hr_ballot(ticket != HR_NO_TICKET))
			break;
		if (i == 0)
			first = hr_shfl_u64(ticket, 0);
	}
	return first;
}

/* The frame of a page of a transfer; NULL: error. claimed: in lane 0, the page is to be filled, and
 * then hr_cache_filled() called for this word; or NULL. of_peer: the frame is another gpu's. */
struct hr_transfer_target {
	uint8_t *frame;
	uint32_t *claimed;
	bool of_peer;
};

/* Some lane has not found the page of a transfer: request the pages behind it, and wait in lane 0. No
 * lane uses a frame that it found before, because a wait is a quiescent state. */
HR_WORKER_SLOW struct hr_transfer_target hr_transfer_miss(struct hr_objects *objects, uint32_t page,
							  bool writes, uint64_t pages,
							  struct hr_whole whole)
{
	struct hr_transfer_target target = { NULL, NULL, false };
	const uint32_t count = hr_read_ahead(objects->cache, pages);
	struct hr_lane_pages use = hr_use_none();
	uint64_t ticket = HR_NO_TICKET;

	objects->misses += hr_lane() == 0;
	if (!writes && objects->cache->peers) {
		target.frame = (uint8_t *)(uintptr_t)hr_peer_frame(objects->cache, page);
		target.of_peer = target.frame != NULL;
		if (target.frame)
			return target;
	}
	if (count > 1)
		ticket = hr_cache_request_all(objects, page, count, writes, whole);
	use.writes = writes;
	use.whole = hr_is_whole(whole, 0);
	if (hr_lane() == 0)
		use.page = page;
	if (hr_cache_await(objects, &use, hr_lane() == 0, false, ticket))
		return target;
	target.claimed = use.claimed ? use.tag : NULL;
	target.frame = (uint8_t *)(uintptr_t)hr_shfl_u64((uintptr_t)use.frame, 0);
	return target;
}

/* The frame of the page at `offset`. A writing worker looks up in lane 0. Collective. */
HR_WORKER struct hr_transfer_target hr_transfer_frame(struct hr_objects *objects,
						      const struct hr_object *object,
						      uint64_t offset, uint64_t bytes, bool writes)
{
	const uint32_t shift = objects->cache->shape.page_shift;
	const uint32_t page = object->first_page + (uint32_t)(offset >> shift);
	struct hr_transfer_target target = { NULL, NULL, false };
	struct hr_found found = { 0, NULL, NULL, false };
	bool done = writes && hr_lane();

	if (!done) {
		found = hr_cache_find(objects->cache, page);
		done = found.word && (!writes || hr_cache_dirty(found.tag, found.word));
	}
	objects->accesses += hr_lane() == 0;
	if (hr_ballot(!done))
		return hr_transfer_miss(objects, page, writes,
					((offset + bytes - 1) >> shift) - (offset >> shift) + 1,
					hr_whole_pages(shift, offset, bytes, writes));
	target.frame = found.frame;
	if (writes)
		target.frame = (uint8_t *)(uintptr_t)hr_shfl_u64((uintptr_t)found.frame, 0);
	return target;
}

/* Write to a frame. claimed: as in struct hr_transfer_target. Collective. */
HR_WORKER void hr_transfer_write(uint8_t *to, const uint8_t *from, uint32_t bytes,
				 uint32_t *claimed)
{
	hr_write_shared(to, from, bytes);
	if (!hr_ballot(claimed != NULL))
		return;
	hr_lanes_sync();
	if (claimed)
		hr_cache_filled(claimed);
}

/* Read from the frame of another gpu, then request a copy of the page. Collective. */
HR_WORKER_SLOW void hr_transfer_of_peer(struct hr_objects *objects, const struct hr_object *object,
					uint64_t offset, uint8_t *to, const uint8_t *from,
					uint32_t bytes)
{
	const uint32_t shift = objects->cache->shape.page_shift;
	const uint32_t page = object->first_page + (uint32_t)(offset >> shift);

	hr_read_sys(to, from, bytes);
	hr_peer_request(objects, page, hr_lane() == 0);
}

HR_WORKER int64_t hr_transfer(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t offset, uint8_t *to, const uint8_t *from, uint64_t bytes,
			      bool writes)
{
	const int error = hr_transfer_check(objects, object, writes);
	const uint32_t page_bytes = (uint32_t)1 << objects->cache->shape.page_shift;
	uint64_t length, done, left;
	struct hr_transfer_target at;
	uint32_t in_page, part;

	if (error)
		return error;
	length = hr_within(object, offset, bytes);
	hr_lanes_sync(); /* other lanes have written *from, and read *to */
	for (done = 0; done < length; done += part) {
		left = length - done;
		in_page = (uint32_t)(offset + done) & (page_bytes - 1);
		part = left < page_bytes - in_page ? (uint32_t)left : page_bytes - in_page;
		at = hr_transfer_frame(objects, object, offset + done, left, writes);
		if (!at.frame)
			return objects->error;
		if (writes)
			hr_transfer_write(at.frame + in_page, from + done, part, at.claimed);
		else if (at.of_peer)
			hr_transfer_of_peer(objects, object, offset + done, to + done,
					    at.frame + in_page, part);
		else
			hr_read_shared(to + done, at.frame + in_page, part);
		hr_cache_used(objects);
	}
	hr_lanes_sync();
	return (int64_t)length;
}

HR_WORKER int64_t hr_pread(struct hr_objects *objects, const struct hr_object *object,
			   uint64_t offset, void *to, uint64_t bytes)
{
	return hr_transfer(objects, object, offset, (uint8_t *)to, NULL, bytes, false);
}

HR_WORKER int64_t hr_pwrite(struct hr_objects *objects, const struct hr_object *object,
			    uint64_t offset, const void *from, uint64_t bytes)
{
	return hr_transfer(objects, object, offset, NULL, (const uint8_t *)from, bytes, true);
}

HR_WORKER int64_t hr_pread_prefetch(struct hr_objects *objects, const struct hr_object *object,
				    uint64_t offset, uint64_t bytes)
{
	const int error = hr_transfer_check(objects, object, false);
	const struct hr_page_cache *cache = objects->cache;
	const uint32_t shift = cache->shape.page_shift;
	const uint64_t most = hr_page_frames(&cache->shape) / 2;
	uint64_t length, pages;

	if (error)
		return error;
	length = hr_within(object, offset, bytes);
	if (length) {
		pages = ((offset + length - 1) >> shift) - (offset >> shift) + 1;
		hr_cache_request_all(objects, object->first_page + (uint32_t)(offset >> shift),
				     (uint32_t)(pages < most ? pages : most), false,
				     hr_whole_pages(shift, offset, length, false));
	} else {
		offset = object->bytes; /* one value for all offsets without data to read */
	}
	hr_cache_used(objects);
	return (int64_t)((uint64_t)object->index << HR_ID_OFFSET_BITS | offset);
}

HR_WORKER_SLOW void hr_page_prefetch(struct hr_objects *objects, const struct hr_object *object,
				     uint64_t page)
{
	uint32_t number = HR_NO_PAGE;

	if (!objects->error && object && page < object->pages)
		number = object->first_page + (uint32_t)page;
	if (number != HR_NO_PAGE && hr_cache_word(objects->cache, number) != HR_PAGE_FREE)
		number = HR_NO_PAGE;
	if (hr_ballot(number != HR_NO_PAGE))
		hr_cache_request(objects, hr_cache_awaited(objects->cache, number).ring, number,
				 false, hr_request_flags(objects->cache, false, false),
				 objects->held);
	hr_cache_used(objects);
}

HR_WORKER int64_t hr_consume_prefetch_pread(struct hr_objects *objects, int64_t id, void *to,
					    uint64_t bytes)
{
	const uint64_t index = (uint64_t)id >> HR_ID_OFFSET_BITS;
	const uint64_t offset = (uint64_t)id & (((uint64_t)1 << HR_ID_OFFSET_BITS) - 1);
	const struct hr_object *object = hr_cache_object(objects->cache, index);

	if (object && offset > object->bytes)
		object = NULL;
	return hr_pread(objects, object, offset, to, bytes);
}

#endif
