/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/peer.h - pages that a compute worker reads in the cache of another gpu, for calls of
 * cache/objects/objects.h that have not found them in the own one: "Reads in place" of
 * cache/peers.h. Worker code; include cache/objects/objects.h. None of this runs with one gpu.
 *
 * A frame of another gpu is used as one of the own gpu: until the worker's next quiescent state. Its
 * word and data are loaded at system scope, and its data after the word, because their address depends
 * on it.
 */
#ifndef CACHE_OBJECTS_PEER_H
#define CACHE_OBJECTS_PEER_H

#include "cache/objects/find.h"
#include "cache/objects/wait.h"
#include "cache/peers.h"
#include "nvme/queue/worker.h"

/* Of so many pages that a lane reads in the frames of other gpus it requests a copy of one. Lanes begin
 * at different counts, so that a worker whose lanes read a few pages each requests copies, too. The I/O
 * workers of a GPU copy one page in the time of 10 to 20 such reads. When they copy all the time, they
 * slow the compute workers on their processors, which then end last. */
#define HR_PEER_READS_OF_COPY 128u

/* The frame of a page in the cache of one gpu, or NULL, and the address of its word in *tag. For each
 * lane by itself. */
HR_WORKER const uint8_t *hr_peer_frame_of(const struct hr_page_cache *cache, uint32_t gpu,
					  struct hr_page_position position, const uint32_t **tag)
{
	const uint32_t want = HR_PAGE_WORD(position.tag, HR_PAGE_READY);
	const struct hr_peer *peer = &cache->peers->gpu[gpu];
	const struct hr_page_set *set = &peer->set[position.set];
	uint32_t word[HR_WAYS + 1], way, found = HR_WAYS;

	hr_poll_sys_u32x8(set->tag, word);
	for (way = 0; way < HR_WAYS; way++)
		if ((word[way] & ~(HR_PAGE_SHARED | 3u)) == want)
			found = way;
	if (found == HR_WAYS)
		return NULL;
	*tag = &set->tag[found];
	hr_polled_sys(*tag);
	return peer->frame + (hr_page_frame(position.set, found) << cache->shape.page_shift);
}

/* The number of the gpu `step` after this one. */
HR_WORKER uint32_t hr_peer_after(const struct hr_peers *peers, uint32_t step)
{
	return (peers->self + step) % peers->gpus;
}

/* The frame of a page in the cache of any other gpu, or NULL; the same in all lanes, each of which
 * looks at one gpu. Collective. */
HR_WORKER const uint8_t *hr_peer_frame(const struct hr_page_cache *cache, uint32_t page)
{
	const struct hr_page_position position = hr_page_position_of(&cache->shape, page);
	const struct hr_peers *peers = cache->peers;
	uint32_t step;

	for (step = 1; step < peers->gpus; step += HR_LANES) {
		const uint32_t mine = step + hr_lane();
		const uint8_t *frame = NULL;
		const uint32_t *tag;
		hr_mask found;

		if (mine < peers->gpus)
			frame = hr_peer_frame_of(cache, hr_peer_after(peers, mine), position, &tag);
		found = hr_ballot(frame != NULL);
		if (found)
			return (const uint8_t *)(uintptr_t)hr_shfl_u64((uintptr_t)frame,
								       hr_lowest_bit(found));
	}
	return NULL;
}

/* The same in the cache of the first other gpu that has the page. */
HR_WORKER const uint8_t *hr_peer_find(const struct hr_page_cache *cache,
				      struct hr_page_position position, const uint32_t **tag)
{
	const uint8_t *frame = NULL;
	uint32_t step;

	for (step = 1; step < cache->peers->gpus && !frame; step++)
		frame = hr_peer_frame_of(cache, hr_peer_after(cache->peers, step), position, tag);
	return frame;
}

/* Pages of lanes with `used` were read in the frames of other gpus: count them, and request copies of
 * some as far as rings have room. The worker uses no frame. Collective. */
HR_WORKER void hr_peer_request(struct hr_objects *objects, uint32_t page, bool used)
{
	struct hr_awaited awaited;
	bool copies;

	objects->peer_reads += used;
	copies = used && (objects->peer_reads + hr_lane() * (HR_PEER_READS_OF_COPY / HR_LANES)) %
					 HR_PEER_READS_OF_COPY ==
				 0;
	if (!hr_ballot(copies))
		return;
	awaited = hr_cache_awaited(objects->cache, copies ? page : 0);
	(void)hr_cache_request(objects, awaited.ring, copies ? page : HR_NO_PAGE, false, 0,
			       objects->held);
}

/* Read the elements of pending lanes whose pages other gpus have. Returns whether this lane is still
 * pending. Collective. */
HR_WORKER_SLOW bool hr_peer_elements(struct hr_objects *objects, struct hr_lane_pages *use,
				     bool pending)
{
	const struct hr_page_cache *cache = objects->cache;
	const struct hr_page_position position =
		hr_page_position_of(&cache->shape, pending ? use->page : 0);
	const uint32_t *tag;
	const uint8_t *frame = pending ? hr_peer_find(cache, position, &tag) : NULL;

	if (frame && use->bytes == 4)
		use->value =
			hr_fresh_sys_u32((const uint32_t *)(const void *)(frame + use->in_page));
	else if (frame)
		use->value =
			hr_fresh_sys_u64((const uint64_t *)(const void *)(frame + use->in_page));
	if (hr_ballot(frame != NULL))
		hr_peer_request(objects, use->page, frame != NULL);
	return pending && !frame;
}

#endif
