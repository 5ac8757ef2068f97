/* SPDX-License-Identifier: Apache-2.0 */
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
#include "gpu/worker/io/io.h"
#include "gpu/worker/vector.h"
#include "nvme/queue/single.h"

/* Polls for a request, in a call; the same for a worker that is calm; polls for the completion of a
 * command. A poll of host memory takes a GPU more than 1 us. */
#define IO_ONE_POLLS_IDLE (HR_LANES == 1 ? 1u : 32u)
#define IO_ONE_POLLS_CALM (HR_LANES == 1 ? 1u : 128u)
#define IO_ONE_POLLS_SENT (HR_LANES == 1 ? 1u : 8u)

/* A poll that misses the completion delays the page by its own time, so the first one comes at a time
 * after the doorbell at which most completions have come: hr_io_worker.lag, in cycles. It falls by a
 * step when the first poll finds the completion, and rises by more when it does not. */
#define IO_ONE_LAG_FALL 8u
#define IO_ONE_LAG_RISE 120u
#define IO_ONE_LAG_MAX 6000u
#define IO_ONE_LAG_LOOK 128u /* a look at the ring meanwhile takes longer */

#define IO_ONE_WORDS 2u /* of 64 bits, that lanes of an idle worker watch */

/* The high half of an entry that is there, without flags. */
#define IO_ONE_LAP (UINT32_MAX & ~(uint32_t)(HR_REQUEST_FLAGS >> 32))

/* Loads of the words of a set by a lane. */
#define IO_ONE_WAYS ((HR_WAYS + HR_LANES - 1) / HR_LANES)

/* What a request was compared with: of the lane's ways. */
struct io_one_look {
	uint32_t word[IO_ONE_WAYS];
	uint64_t next; /* the ring's entry behind the request */
};

/* An object's place, for commands. */
struct io_one_extent {
	uint32_t first_page, pages;
	uint32_t nsid, lba_shift;
	uint64_t lba, capacity;
};

/* What does not depend on the page, loaded before the request comes: afterwards each of these loads,
 * also of block memory, would delay the page. The same in all lanes, but where noted. */
struct io_one_before {
	struct hr_page_shape shape;
	struct hr_page_set *set; /* of the cache */
	/* The ring's entry behind the request; high halves of both when they are there. */
	const uint64_t *next;
	uint32_t lap, next_lap;
	uint64_t staging_bus;	     /* where the command reads to, if `staged` */
	struct io_one_extent extent; /* of the object of the last request */
	uint32_t settled;	     /* of struct hr_io_worker */
	bool unread, staged;
	/* What a lane polls, and a value of this word that it knows: of lane 0 the request; the next
	 * IO_ONE_WORDS lanes watch the shared words. */
	const uint64_t *polled;
	uint64_t known;
	uint32_t polls;
};

/* The same in all lanes. */
struct io_one {
	struct hr_single qp;
	uint32_t number, page;
	uint32_t set, tag, way;
	uint32_t recency; /* of the set, before the page enters */
	bool fills;	  /* the page takes the last way of the set that has no page */
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

HR_WORKER uint32_t io_one_lap(uint64_t ticket)
{
	return (uint32_t)(hr_request_entry(ticket, 0) >> 32);
}

HR_WORKER bool io_one_is_there(uint64_t entry, uint32_t lap)
{
	return ((uint32_t)(entry >> 32) & IO_ONE_LAP) == lap;
}

HR_WORKER struct io_one_extent io_one_extent(const struct hr_page_cache *cache, uint32_t object)
{
	struct io_one_extent at;

	at.first_page = cache->object[object].first_page;
	at.pages = cache->object[object].pages;
	at.nsid = cache->extent[object].nsid;
	at.lba_shift = cache->extent[object].lba_shift;
	at.lba = cache->extent[object].lba;
	at.capacity = cache->extent[object].capacity;
	return at;
}

/* True for lanes that watch the shared words while the worker is idle. */
HR_WORKER bool io_one_watches(void)
{
	return hr_lane() >= 1 && hr_lane() <= IO_ONE_WORDS;
}

/* Prepare to poll. The words are stop and ended (0: a worker with other values is never idle), and
 * flush_wanted. The epoch is not among them: a calm worker has time for it. */
HR_WORKER void io_one_watch(const struct hr_io_worker *w, const uint64_t *request,
			    struct io_one_before *before)
{
	const uint64_t *words = (const uint64_t *)(const void *)w->access->cache.words;

	before->polled = io_one_watches() ? &words[hr_lane()] : request;
	before->known = hr_lane() == IO_ONE_WORDS ? w->flush_wanted : 0;
	before->polls = w->calm ? IO_ONE_POLLS_CALM : IO_ONE_POLLS_IDLE;
}

/* Prepare for a request. */
HR_WORKER struct io_one_before io_one_before(const struct hr_io_worker *w, struct io_one *one)
{
	const struct hr_access *access = w->access;
	const struct hr_page_cache *cache = &access->cache;
	const uint64_t *entry = cache->ring[w->role.index].entry;
	struct io_one_before before;

	one->qp = hr_single_next(w->qp);
	one->number = w->block->unused[w->unused - 1];
	before.shape = cache->shape;
	before.set = cache->set;
	io_one_watch(w, &entry[w->taken % HR_REQUESTS], &before);
	before.next = &entry[(w->taken + 1) % HR_REQUESTS];
	before.lap = io_one_lap(w->taken);
	before.next_lap = io_one_lap(w->taken + 1);
	before.staged = access->staging != NULL;
	before.staging_bus = access->staging_bus + hr_io_staging_at(w, one->number, 0);
	before.extent = io_one_extent(cache, w->object);
	before.settled = w->settled;
	before.unread = w->unread;
	return before;
}

/*
 * Wait for the next request; *entry: of lane 0. Other lanes look at the shared words meanwhile, so that
 * the rounds of an idle worker may be rare: a request that comes in such a round waits for its end. The
 * entry is all that the owner needs, so its load orders nothing. Collective.
 * HR_IO_ONE_DONE: the request is there.
 */
HR_WORKER enum hr_io_one io_one_poll(const struct io_one_before *before, uint64_t *entry)
{
	uint32_t polls = before->polls;
	hr_mask news;

	for (;; polls--) {
		uint32_t spins = HR_QP_SPINS;

		*entry = hr_fresh_u64(before->polled);
		news = hr_ballot(hr_lane() == 0 ? io_one_is_there(*entry, before->lap)
						: io_one_watches() && *entry != before->known);
		if (news || polls <= 1)
			break;
		hr_idle(&spins);
	}
	if (news & 1)
		return HR_IO_ONE_DONE;
	return news ? HR_IO_ONE_NEWS : HR_IO_ONE_IDLE;
}

/* Begin to load what io_one_find() compares; the loads overlap. */
HR_WORKER void io_one_look(const struct io_one_before *before, struct io_one *one,
			   struct io_one_look *look)
{
	const struct hr_page_position position = hr_page_position_of(&before->shape, one->page);
	const struct hr_page_set *set = &before->set[position.set];
	uint32_t i;

	for (i = 0; i < IO_ONE_WAYS; i++) {
		const uint32_t way = i * HR_LANES + hr_lane();

		look->word[i] = hr_fresh_u32(&set->tag[way < HR_WAYS ? way : 0]);
	}
	/* requests of several lanes come one after the other */
	look->next = hr_fresh_u64(before->next);
	one->recency = hr_fresh_u32(&set->recency);
	one->set = position.set;
	one->tag = position.tag;
}

/* Find a frame for the page. False: it is in the cache, no frame is free, or another request has come,
 * so that both are a batch. Collective. */
HR_WORKER bool io_one_find(const struct io_one_before *before, struct io_one *one,
			   const struct io_one_look *look)
{
	bool batch = hr_lane() == 0 && io_one_is_there(look->next, before->next_lap);
	uint32_t usable = 0, i;

	for (i = 0; i < IO_ONE_WAYS; i++) {
		const uint32_t base = i * HR_LANES, word = look->word[i];
		const uint32_t state = HR_PAGE_STATE(word), tag = HR_PAGE_TAG(word);
		const bool left = state == HR_PAGE_LEFT &&
				  (before->unread || hr_epoch_passed(before->settled, tag));
		const bool is = base + hr_lane() < HR_WAYS;

		batch |= is && state >= HR_PAGE_READING && tag == one->tag;
		usable |= (uint32_t)hr_ballot(is && (state == HR_PAGE_FREE || left)) << base;
	}
	if (hr_ballot(batch) || !usable)
		return false;
	one->way = hr_highest_bit_u64(usable);
	return true;
}

/* Of the words of the page's set before it enters: no other way was without a page. Collective. */
HR_WORKER bool io_one_fills(const struct io_one *one, const struct io_one_look *look)
{
	bool other = false;
	uint32_t i;

	for (i = 0; i < IO_ONE_WAYS; i++) {
		const uint32_t way = i * HR_LANES + hr_lane();

		other |= way < HR_WAYS && way != one->way &&
			 HR_PAGE_STATE(look->word[i]) <= HR_PAGE_LEFT;
	}
	return !hr_ballot(other);
}

/* Write the read of a page of an object for the controller, which does not see it yet. bus: where the
 * page goes. Collective. */
HR_WORKER void io_one_write(const struct io_one *one, const struct io_one_extent *extent,
			    uint64_t bus)
{
	const uint64_t from = (uint64_t)(one->page - extent->first_page) << HR_PAGE_SHIFT_MIN;
	const uint64_t left = extent->capacity - from;
	const uint32_t bytes = left < HR_PAGE ? (uint32_t)left : HR_PAGE;
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, extent->nsid, extent->lba + (from >> extent->lba_shift),
		  bytes >> extent->lba_shift, bus, 0);
	hr_single_write_sqe(&one->qp, &sqe);
}

/*
 * Find a frame for the page, and send its read. A command that reads to staging memory does not
 * depend on the frame, so its way to memory and the look at the set overlap; when the worker finds no
 * frame, the command is not sent. The release takes as long without a written entry, and it waits for
 * loads, so all that the doorbell depends on comes before. False: as io_one_find(). Collective.
 */
HR_WORKER bool io_one_send(const struct hr_io_worker *w, const struct io_one_before *before,
			   struct io_one *one)
{
	struct io_one_look look;

	io_one_look(before, one, &look);
	one->entered = hr_cycles();
	if (before->staged)
		io_one_write(one, &before->extent, before->staging_bus);
	if (!io_one_find(before, one, &look))
		return false;
	if (!before->staged)
		io_one_write(one, &before->extent,
			     w->access->frame_bus +
				     (hr_page_frame(one->set, one->way) << HR_PAGE_SHIFT_MIN));
	hr_single_release_cqe();
	hr_single_submit(w->qp, &one->qp);
	one->sent = hr_cycles();
	one->fills = io_one_fills(one, &look);
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

	if (!one->fills)
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
	hr_single_end(w->qp, &one->qp);
}

/* Wait until the first poll for the completion is due, or another request comes. Collective. */
HR_WORKER void io_one_wait_for_lag(const struct hr_io_worker *w, const struct io_one *one)
{
	const uint64_t *next = &w->access->cache.ring[w->role.index].entry[w->taken % HR_REQUESTS];
	const uint32_t lap = io_one_lap(w->taken), lag = w->lag;
	/* not a constant, because compilers would repeat the code of the loop so many times */
	uint32_t looks = HR_LANES == 1 ? 0 : lag / IO_ONE_LAG_LOOK;
	bool ends = hr_cycles() - one->sent >= lag;

	for (; looks && !(hr_ballot(ends) & 1); looks--)
		ends = io_one_is_there(hr_fresh_u64(next), lap) || hr_cycles() - one->sent >= lag;
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
	polls = hr_single_wait(w->qp, &one->qp, &wait);
	if (polls)
		io_one_end(w, one, frame, staging, tag);
	else
		hr_single_track(w->qp, &one->qp, one->number);
	if (polls > 1)
		w->lag = w->lag < IO_ONE_LAG_MAX ? w->lag + IO_ONE_LAG_RISE : IO_ONE_LAG_MAX;
	else if (polls)
		w->lag -= w->lag < IO_ONE_LAG_FALL ? w->lag : IO_ONE_LAG_FALL;
	return polls != 0;
}

/* The page is of an object; before->extent is then this object's. */
HR_WORKER bool io_one_of_object(struct hr_io_worker *w, struct io_one_before *before, uint32_t page)
{
	const struct hr_page_cache *cache = &w->access->cache;
	uint32_t object;

	if (page - before->extent.first_page < before->extent.pages)
		return true;
	object = hr_io_object(cache, page);
	if (object == cache->objects)
		return false;
	w->object = object;
	before->extent = io_one_extent(cache, object);
	return true;
}

HR_DEVICE_SLOW enum hr_io_one hr_io_one(struct hr_io_worker *w)
{
	struct io_one_before before;
	enum hr_io_one polled;
	struct io_one one;
	uint64_t entry, began;
	bool done;

	if (!io_one_may(w))
		return HR_IO_ONE_NOT;
	before = io_one_before(w, &one);
	polled = io_one_poll(&before, &entry);
	if (polled != HR_IO_ONE_DONE)
		return polled;
	began = hr_cycles();
	if (hr_ballot((entry & HR_REQUEST_FLAGS) != 0) & 1)
		return HR_IO_ONE_NOT;
	one.page = hr_shfl_u32((uint32_t)entry, 0);
	if (!io_one_of_object(w, &before, one.page) || !io_one_send(w, &before, &one))
		return HR_IO_ONE_NOT;
	io_one_enter(w, &one);
	done = io_one_finish(w, &one);
	io_one_note(w, &one, began, done);
	io_one_make_room(w, &one);
	return done ? HR_IO_ONE_DONE : HR_IO_ONE_BEGUN;
}
