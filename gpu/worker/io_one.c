/*
 * One request at a time: the way from a request to its page for a worker with nothing else to do.
 *
 * A batch is the fast way for many requests. For a single one most of its instructions find nothing
 * to merge, sort or send, and a GPU executes each of them once, in 5 to 8 cycles. So this way has
 * few: values that do not depend on the page are computed before the request comes, lanes check the
 * ways of a set side by side, and steps that no other worker waits for come after the doorbell, while
 * the controller reads, or after the page is READY. A request of another kind is served as a batch,
 * and so is a command that does not complete soon, or not with status 0.
 */
#include "cache/page_policy.h"
#include "gpu/worker/io.h"
#include "gpu/worker/vector.h"
#include "nvme/queue_one.h"

/* Polls for a request, and for the completion of its command. A poll of host memory takes a GPU more
 * than 1 us. */
#define IO_ONE_POLLS_IDLE (HR_LANES == 1 ? 1u : 32u)
#define IO_ONE_POLLS_SENT (HR_LANES == 1 ? 1u : 8u)

/* The same in all lanes. */
struct io_one {
	struct hr_qp_one qp;
	uint32_t number, page;
	uint32_t set, tag, way;
	uint32_t gone;	  /* the ways of the set without a page, before it enters */
	uint32_t recency; /* of the set, before */
	uint64_t entered; /* hr_cycles() before the command was sent */
};

/* True when the worker has nothing else to do, and pages of one piece. */
HR_WORKER bool io_one_may(const struct hr_io_worker *w)
{
	const struct hr_access *access = w->access;

	return access->ssds == 1 && access->cache.shape.page_shift == HR_PAGE_SHIFT_MIN &&
	       !w->sent && w->unused == access->commands && !w->room && !hr_io_is_busy(w) &&
	       hr_qp_is_unused(w->qp);
}

HR_WORKER bool io_one_is_there(uint64_t entry, uint64_t ticket)
{
	return (entry & ~HR_REQUEST_FLAGS) >> 32 == hr_request_entry(ticket, 0) >> 32;
}

/* Wait for the next request; *entry: of lane 0. True: it is there. The entry is all that the owner
 * needs, so its load orders nothing. Collective. */
HR_WORKER bool io_one_poll(const struct hr_io_worker *w, uint64_t *entry)
{
	const struct hr_request_ring *ring = &w->access->cache.ring[w->role.index];
	const uint64_t *at = &ring->entry[w->taken % HR_REQUESTS];
	uint32_t polls = IO_ONE_POLLS_IDLE;

	for (;; polls--) {
		uint32_t spins = HR_QP_SPINS;

		*entry = hr_fresh_u64(at);
		if (hr_ballot(io_one_is_there(*entry, w->taken)) & 1)
			return true;
		if (polls <= 1)
			return false;
		hr_idle(&spins);
	}
}

/* Find a frame for the page. False: it is in the cache, no frame is free, or another request has come,
 * so that both are a batch. Collective. */
HR_WORKER bool io_one_find(const struct hr_io_worker *w, struct io_one *one)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const struct hr_page_position position = hr_page_position_of(&cache->shape, one->page);
	const struct hr_page_set *set = &cache->set[position.set];
	/* requests of several lanes come one after the other; this load and the set's overlap */
	const uint64_t next = w->taken + 1;
	const uint64_t entry = hr_fresh_u64(&cache->ring[w->role.index].entry[next % HR_REQUESTS]);
	uint32_t found = 0, usable = 0, gone = 0, base;

	for (base = 0; base < HR_WAYS; base += HR_LANES) {
		const uint32_t way = base + hr_lane();
		const bool is = way < HR_WAYS;
		const uint32_t word = hr_fresh_u32(&set->tag[is ? way : 0]);
		const uint32_t state = HR_PAGE_STATE(word), tag = HR_PAGE_TAG(word);
		const bool left = state == HR_PAGE_LEFT && hr_io_passed(w, tag);

		found |= (uint32_t)hr_ballot(is && state >= HR_PAGE_READING && tag == position.tag)
			 << base;
		gone |= (uint32_t)hr_ballot(is && state <= HR_PAGE_LEFT) << base;
		usable |= (uint32_t)hr_ballot(is && (state == HR_PAGE_FREE || left)) << base;
	}
	one->recency = hr_fresh_u32(&set->recency);
	if (found || !usable || (hr_ballot(io_one_is_there(entry, next)) & 1))
		return false;
	one->set = position.set;
	one->tag = position.tag;
	one->gone = gone;
	one->way = hr_highest_bit_u64(usable);
	return true;
}

/* Send the read of a page of an object. Collective. */
HR_WORKER void io_one_send(const struct hr_io_worker *w, struct io_one *one, uint32_t object)
{
	const struct hr_access *access = w->access;
	const struct hr_page_cache *cache = &access->cache;
	const struct hr_extent *extent = &cache->extent[object];
	const uint64_t from = (uint64_t)(one->page - cache->object[object].first_page)
			      << HR_PAGE_SHIFT_MIN;
	const uint64_t left = extent->capacity - from;
	const uint32_t bytes = left < HR_PAGE ? (uint32_t)left : HR_PAGE;
	const uint64_t bus = access->staging
				     ? access->staging_bus + hr_io_staging_at(w, one->number, 0)
				     : access->frame_bus + (hr_page_frame(one->set, one->way)
							    << HR_PAGE_SHIFT_MIN);
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, extent->nsid, extent->lba + (from >> extent->lba_shift),
		  bytes >> extent->lba_shift, bus, 0);
	hr_qp_one_write(w->qp, &one->qp, &sqe);
	one->entered = hr_cycles();
	hr_qp_one_send(w->qp, &one->qp, one->number);
}

/* The command is at the controller: note it, as for a batch, and tell the requester. began:
 * hr_cycles() when the request came. Collective. */
HR_WORKER void io_one_note(struct hr_io_worker *w, const struct io_one *one, uint64_t began)
{
	const struct hr_page_cache *cache = &w->access->cache;
	struct hr_page_set *set = &cache->set[one->set];
	struct hr_io_counters *count = &w->block->count;

	w->told = ++w->taken;
	if (hr_lane() == 0) {
		count->serve_cycles += hr_cycles() - began;
		count->serves++;
		hr_relaxed_u32(&set->recency, hr_policy_enter((enum hr_page_policy)cache->policy,
							      one->recency, one->way));
		hr_relaxed_u32(&set->tag[one->way], HR_PAGE_WORD(one->tag, HR_PAGE_READING));
		hr_release_u64(&cache->ring[w->role.index].taken, w->told);
		hr_io_fill(w, one->number, one->page, 1, nvme_cmd_read);
		w->command[one->number].way[0] = (uint8_t)one->way;
		w->command[one->number].state = HR_IO_SENT;
		w->command[one->number].until = one->entered;
		count->requests++;
		count->reads++;
		count->read_commands++;
	}
	w->unused--;
	w->sent++;
	hr_lanes_sync();
}

/* When the page has taken the last way of its set that was free or leaving, another page leaves; the
 * controller reads meanwhile. Collective. */
HR_WORKER void io_one_make_room(struct hr_io_worker *w, const struct io_one *one)
{
	uint32_t s;

	if (one->gone & ~(1u << one->way))
		return;
	for (s = 0; s < HR_IO_SLICES; s++) {
		w->room_wanted[s] = hr_io_index(s) == 0;
		w->room_set[s] = one->set;
		w->room_waits[s] = false;
	}
	w->room = true;
	hr_io_make_room(w);
}

/* The command has completed: copy the page from staging memory, and let workers use it; count then.
 * Collective. */
HR_WORKER void io_one_end(struct hr_io_worker *w, const struct io_one *one, uint8_t *frame,
			  const uint8_t *staging, uint32_t *tag)
{
	struct hr_io_counters *count = &w->block->count;
	const uint64_t began = hr_cycles();
	struct hr_stream stream;
	uint64_t settled;

	if (staging) {
		hr_stream_begin(&stream);
		hr_stream_copy(&stream, frame, staging, HR_PAGE);
		hr_stream_end(&stream);
		hr_lanes_sync();
	}
	if (hr_lane() == 0)
		hr_release_u32(tag, HR_PAGE_WORD(one->tag, HR_PAGE_READY));
	settled = hr_cycles();
	hr_qp_one_end(w->qp, &one->qp);
	if (hr_lane() == 0) {
		count->ssd_cycles += began - one->entered;
		count->settle_cycles += settled - began;
		count->settles++;
		w->command[one->number].at = 1;
		w->command[one->number].state = HR_IO_UNUSED;
		w->block->unused[w->unused] = (uint8_t)one->number;
	}
	w->unused++;
	w->sent--;
	w->moved_ns = hr_clock_ns();
	hr_lanes_sync();
}

/* Wait for the completion, and no longer than until the next request. Collective. */
HR_WORKER bool io_one_finish(struct hr_io_worker *w, const struct io_one *one)
{
	const struct hr_page_cache *cache = &w->access->cache;
	uint8_t *frame = hr_cache_frame(cache, one->set, one->way);
	const uint8_t *staging = w->access->staging;
	uint32_t *tag = &cache->set[one->set].tag[one->way];
	struct hr_qp_wait wait;

	wait.polls = IO_ONE_POLLS_SENT;
	wait.word = &cache->ring[w->role.index].entry[w->taken % HR_REQUESTS];
	wait.mask = ~HR_REQUEST_FLAGS & ~(uint64_t)UINT32_MAX;
	wait.value = hr_request_entry(w->taken, 0);
	if (staging)
		staging += hr_io_staging_at(w, one->number, 0);
	if (!hr_qp_one_wait(w->qp, &one->qp, &wait))
		return false;
	io_one_end(w, one, frame, staging, tag);
	return true;
}

HR_DEVICE_SLOW enum hr_io_one hr_io_one(struct hr_io_worker *w)
{
	struct io_one one;
	uint64_t entry, began;
	uint32_t object;

	if (!io_one_may(w))
		return HR_IO_ONE_NOT;
	one.qp = hr_qp_one_next(w->qp);
	one.number = w->block->unused[w->unused - 1];
	if (!io_one_poll(w, &entry))
		return HR_IO_ONE_IDLE;
	began = hr_cycles();
	if (hr_ballot((entry & HR_REQUEST_FLAGS) != 0) & 1)
		return HR_IO_ONE_NOT;
	one.page = hr_shfl_u32((uint32_t)entry, 0);
	object = hr_io_object(&w->access->cache, one.page);
	if (object == w->access->cache.objects || !io_one_find(w, &one))
		return HR_IO_ONE_NOT;
	io_one_send(w, &one, object);
	io_one_note(w, &one, began);
	io_one_make_room(w, &one);
	return io_one_finish(w, &one) ? HR_IO_ONE_DONE : HR_IO_ONE_BEGUN;
}
