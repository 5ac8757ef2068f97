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

/* A poll that misses the completion delays the page by its own time, so the first one comes at a time
 * after the doorbell at which most completions have come: hr_io_worker.lag, in cycles. It falls by a
 * step when the first poll finds the completion, and rises by more when it does not. */
#define IO_ONE_LAG_FALL 8u
#define IO_ONE_LAG_RISE 120u
#define IO_ONE_LAG_MAX 6000u
#define IO_ONE_LAG_LOOKS 32u /* at the ring meanwhile, at most */

/* Loads of the words of a set by a lane. */
#define IO_ONE_WAYS ((HR_WAYS + HR_LANES - 1) / HR_LANES)

/* What a request was compared with: of the lane's ways. */
struct io_one_look {
	uint32_t word[IO_ONE_WAYS];
	uint64_t next; /* the ring's entry behind the request */
};

/* The same in all lanes. */
struct io_one {
	struct hr_qp_one qp;
	uint32_t number, page;
	uint32_t set, tag, way;
	uint32_t gone;	  /* the ways of the set without a page, before it enters */
	uint32_t recency; /* of the set, before */
	/* hr_cycles(): before the command's entry was written, after its doorbell, when its completion
	 * had come, when the page was READY */
	uint64_t entered, sent, completed, settled;
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

/* Begin to load what io_one_find() compares; the loads overlap. */
HR_WORKER void io_one_look(const struct hr_io_worker *w, struct io_one *one,
			   struct io_one_look *look)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const struct hr_page_position position = hr_page_position_of(&cache->shape, one->page);
	const struct hr_page_set *set = &cache->set[position.set];
	/* requests of several lanes come one after the other */
	const uint64_t next = w->taken + 1;
	uint32_t i;

	for (i = 0; i < IO_ONE_WAYS; i++) {
		const uint32_t way = i * HR_LANES + hr_lane();

		look->word[i] = hr_fresh_u32(&set->tag[way < HR_WAYS ? way : 0]);
	}
	look->next = hr_fresh_u64(&cache->ring[w->role.index].entry[next % HR_REQUESTS]);
	one->recency = hr_fresh_u32(&set->recency);
	one->set = position.set;
	one->tag = position.tag;
}

/* Find a frame for the page. False: it is in the cache, no frame is free, or another request has come,
 * so that both are a batch. Collective. */
HR_WORKER bool io_one_find(const struct hr_io_worker *w, struct io_one *one,
			   const struct io_one_look *look)
{
	uint32_t found = 0, usable = 0, gone = 0, i;

	for (i = 0; i < IO_ONE_WAYS; i++) {
		const uint32_t base = i * HR_LANES, word = look->word[i];
		const uint32_t state = HR_PAGE_STATE(word), tag = HR_PAGE_TAG(word);
		const bool left = state == HR_PAGE_LEFT && hr_io_passed(w, tag);
		const bool is = base + hr_lane() < HR_WAYS;

		found |= (uint32_t)hr_ballot(is && state >= HR_PAGE_READING && tag == one->tag)
			 << base;
		gone |= (uint32_t)hr_ballot(is && state <= HR_PAGE_LEFT) << base;
		usable |= (uint32_t)hr_ballot(is && (state == HR_PAGE_FREE || left)) << base;
	}
	if (found || !usable || (hr_ballot(io_one_is_there(look->next, w->taken + 1)) & 1))
		return false;
	one->gone = gone;
	one->way = hr_highest_bit_u64(usable);
	return true;
}

/* Write the read of a page of an object for the controller, which does not see it yet. bus: where the
 * page goes. Collective. */
HR_WORKER void io_one_write(const struct hr_io_worker *w, const struct io_one *one, uint32_t object,
			    uint64_t bus)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const struct hr_extent *extent = &cache->extent[object];
	const uint64_t from = (uint64_t)(one->page - cache->object[object].first_page)
			      << HR_PAGE_SHIFT_MIN;
	const uint64_t left = extent->capacity - from;
	const uint32_t bytes = left < HR_PAGE ? (uint32_t)left : HR_PAGE;
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, extent->nsid, extent->lba + (from >> extent->lba_shift),
		  bytes >> extent->lba_shift, bus, 0);
	hr_qp_one_write(w->qp, &one->qp, &sqe);
	hr_qp_one_release();
}

/* Find a frame for the page, and send its read. A command that reads to staging memory does not depend
 * on the frame, so its way to memory and the look at the set overlap; when the worker finds no frame,
 * the command is not sent. False: as io_one_find(). Collective. */
HR_WORKER bool io_one_send(const struct hr_io_worker *w, struct io_one *one, uint32_t object)
{
	const struct hr_access *access = w->access;
	const bool staged = access->staging != NULL;
	struct io_one_look look;

	io_one_look(w, one, &look);
	one->entered = hr_cycles();
	if (staged)
		io_one_write(w, one, object,
			     access->staging_bus + hr_io_staging_at(w, one->number, 0));
	if (!io_one_find(w, one, &look))
		return false;
	if (!staged)
		io_one_write(w, one, object,
			     access->frame_bus +
				     (hr_page_frame(one->set, one->way) << HR_PAGE_SHIFT_MIN));
	hr_qp_one_send(w->qp, &one->qp);
	one->sent = hr_cycles();
	return true;
}

/* The command is at the controller: the page has a way. Collective. */
HR_WORKER void io_one_enter(struct hr_io_worker *w, const struct io_one *one)
{
	const struct hr_page_cache *cache = &w->access->cache;
	struct hr_page_set *set = &cache->set[one->set];

	w->taken++;
	if (hr_lane() != 0)
		return;
	hr_relaxed_u32(&set->tag[one->way], HR_PAGE_WORD(one->tag, HR_PAGE_READING));
	hr_relaxed_u32(&set->recency,
		       hr_policy_enter((enum hr_page_policy)cache->policy, one->recency, one->way));
}

/* The page is READY, or its command is left to the way of batches, as one of these: tell the requester
 * that the request was taken, and count. began: hr_cycles() when the request came. Collective. */
HR_WORKER void io_one_note(struct hr_io_worker *w, const struct io_one *one, uint64_t began,
			   bool done)
{
	struct hr_io_counters *count = &w->block->count;
	struct hr_io_command *command = &w->command[one->number];

	w->told = w->taken;
	if (hr_lane() == 0) {
		hr_release_u64(&w->access->cache.ring[w->role.index].taken, w->told);
		count->serve_cycles += one->sent - began;
		count->serves++;
		count->requests++;
		count->reads++;
		count->read_commands++;
	}
	if (hr_lane() == 0 && done) {
		count->ssd_cycles += one->completed - one->entered;
		count->settle_cycles += one->settled - one->completed;
		count->settles++;
	} else if (hr_lane() == 0) {
		hr_io_fill(w, one->number, one->page, 1, nvme_cmd_read);
		command->way[0] = (uint8_t)one->way;
		command->state = HR_IO_SENT;
		command->until = one->entered;
	}
	if (done) {
		w->moved_ns = hr_clock_ns();
	} else {
		w->unused--;
		w->sent++;
	}
	hr_lanes_sync();
}

/* When the page has taken the last way of its set that was free or leaving, another page leaves. This
 * comes after the wait for the completion, because a wait that begins later than the completion comes
 * would take longer. Collective. */
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

/* The command has completed: copy the page from staging memory, and let workers use it. Collective. */
HR_WORKER void io_one_end(const struct hr_io_worker *w, struct io_one *one, uint8_t *frame,
			  const uint8_t *staging, uint32_t *tag)
{
	struct hr_stream stream;

	one->completed = hr_cycles();
	if (staging) {
		hr_stream_begin(&stream);
		hr_stream_copy(&stream, frame, staging, HR_PAGE);
		hr_stream_end(&stream);
		hr_lanes_sync();
	}
	if (hr_lane() == 0)
		hr_release_u32(tag, HR_PAGE_WORD(one->tag, HR_PAGE_READY));
	one->settled = hr_cycles();
	hr_qp_one_end(w->qp, &one->qp);
}

/* Wait until the first poll for the completion is due, or another request comes. Collective. */
HR_WORKER void io_one_wait_for_lag(const struct hr_io_worker *w, const struct io_one *one)
{
	const struct hr_request_ring *ring = &w->access->cache.ring[w->role.index];
	uint32_t looks = HR_LANES == 1 ? 0 : IO_ONE_LAG_LOOKS;
	bool ends = hr_cycles() - one->sent >= w->lag;

	for (; looks && !(hr_ballot(ends) & 1); looks--)
		ends = io_one_is_there(hr_fresh_u64(&ring->entry[w->taken % HR_REQUESTS]),
				       w->taken) ||
		       hr_cycles() - one->sent >= w->lag;
}

/* Wait for the completion, and no longer than until the next request. Collective. */
HR_WORKER bool io_one_finish(struct hr_io_worker *w, struct io_one *one)
{
	const struct hr_page_cache *cache = &w->access->cache;
	uint8_t *frame = hr_cache_frame(cache, one->set, one->way);
	const uint8_t *staging = w->access->staging;
	uint32_t *tag = &cache->set[one->set].tag[one->way];
	struct hr_qp_wait wait;
	uint32_t polls;

	wait.polls = IO_ONE_POLLS_SENT;
	wait.word = &cache->ring[w->role.index].entry[w->taken % HR_REQUESTS];
	wait.mask = ~HR_REQUEST_FLAGS & ~(uint64_t)UINT32_MAX;
	wait.value = hr_request_entry(w->taken, 0);
	if (staging)
		staging += hr_io_staging_at(w, one->number, 0);
	io_one_wait_for_lag(w, one);
	polls = hr_qp_one_wait(w->qp, &one->qp, &wait);
	if (polls > 1)
		w->lag = w->lag < IO_ONE_LAG_MAX ? w->lag + IO_ONE_LAG_RISE : IO_ONE_LAG_MAX;
	else if (polls)
		w->lag -= w->lag < IO_ONE_LAG_FALL ? w->lag : IO_ONE_LAG_FALL;
	if (polls)
		io_one_end(w, one, frame, staging, tag);
	else
		hr_qp_one_track(w->qp, &one->qp, one->number);
	return polls != 0;
}

HR_DEVICE_SLOW enum hr_io_one hr_io_one(struct hr_io_worker *w)
{
	struct io_one one;
	uint64_t entry, began;
	uint32_t object;
	bool done;

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
	if (object == w->access->cache.objects || !io_one_send(w, &one, object))
		return HR_IO_ONE_NOT;
	io_one_enter(w, &one);
	done = io_one_finish(w, &one);
	io_one_note(w, &one, began, done);
	io_one_make_room(w, &one);
	return done ? HR_IO_ONE_DONE : HR_IO_ONE_BEGUN;
}
