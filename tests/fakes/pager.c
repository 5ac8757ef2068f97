/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/pager.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cache/page_policy.h"

#define NOT_READ UINT32_MAX /* in due[]: no command fills the frame */

static void *zeroed(size_t count, size_t bytes)
{
	const size_t all = (count * bytes + 4095) & ~(size_t)4095;
	void *memory = aligned_alloc(4096, all ? all : 4096);

	if (!memory)
		abort();
	return memset(memory, 0, all);
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void change(uint32_t *word, uint32_t to)
{
	__atomic_store_n(word, to, __ATOMIC_RELEASE);
}

static bool replace(uint32_t *word, uint32_t was, uint32_t now)
{
	return __atomic_compare_exchange_n(word, &was, now, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void place_objects(struct pager *pager, const struct pager_shape *shape)
{
	struct hr_page_cache *c = &pager->cache;

	for (uint32_t i = 0; i < shape->objects; i++) {
		const bool left_out = shape->bytes[i] == UINT64_MAX;
		const uint64_t bytes = left_out ? 0 : shape->bytes[i];
		const uint32_t pages =
			(uint32_t)((bytes + (1u << shape->page_shift) - 1) >> shape->page_shift);

		c->object[i] =
			(struct hr_object){ .bytes = bytes,
					    .first_page = left_out ? HR_NO_PAGE : pager->pages,
					    .pages = pages,
					    .index = i,
					    .writable = !shape->read_only[i] };
		pager->pages += (pages + 31) & ~31u;
	}
	c->objects = shape->objects;
}

void pager_init(struct pager *pager, const struct pager_shape *shape, uint64_t seed)
{
	struct hr_page_cache *c = &pager->cache;
	const uint32_t workers = shape->computers + shape->io_workers;
	uint64_t frames;

	memset(pager, 0, sizeof *pager);
	pager->random.state = seed | 1;
	pager->bad_page = HR_NO_PAGE;
	place_objects(pager, shape);
	if (hr_page_shape(&c->shape, shape->frames, shape->page_shift, pager->pages + 1))
		abort();
	frames = hr_page_frames(&c->shape);
	c->policy = shape->policy;
	c->computers = shape->computers;
	hr_cache_set_io_workers(c, shape->io_workers);
	c->set = zeroed(hr_page_sets(&c->shape), sizeof *c->set);
	for (uint32_t i = 0; i < hr_page_sets(&c->shape); i++)
		c->set[i].recency = hr_policy_init((enum hr_page_policy)shape->policy);
	c->frame = pager->frame_memory = zeroed(frames, 1u << shape->page_shift);
	c->ring = zeroed(shape->io_workers, sizeof *c->ring);
	c->worker = zeroed(workers, sizeof *c->worker);
	for (uint32_t i = 0; i < workers; i++)
		c->worker[i].seen = HR_EPOCH_FIRST;
	c->flushed = zeroed(shape->io_workers, sizeof *c->flushed);
	c->words = zeroed(1, sizeof *c->words);
	c->words->epoch = c->words->settled = HR_EPOCH_FIRST;
	pager->due = zeroed(frames, sizeof *pager->due);
	pager->since = zeroed(frames, sizeof *pager->since);
	pager->owed = zeroed(frames, sizeof *pager->owed);
	pager->reads_of = zeroed(pager->pages, sizeof *pager->reads_of);
	pager->disk = zeroed(pager->pages, 1u << shape->page_shift);
	for (uint64_t i = 0; i < (uint64_t)pager->pages << shape->page_shift; i += 8)
		*(uint64_t *)(void *)(pager->disk + i) = fake_random_u64(&pager->random);
}

void pager_fini(struct pager *pager)
{
	struct hr_page_cache *c = &pager->cache;

	free(c->set);
	free(pager->frame_memory);
	free(c->ring);
	free(c->worker);
	free(c->flushed);
	free(c->words);
	free(pager->due);
	free(pager->since);
	free(pager->owed);
	free(pager->reads_of);
	free(pager->disk);
}

uint8_t *pager_disk_of(const struct pager *pager, uint32_t object)
{
	const struct hr_page_cache *c = &pager->cache;

	return pager->disk + ((uint64_t)c->object[object].first_page << c->shape.page_shift);
}

/* ---- epochs */

static void advance_epoch(struct pager *pager)
{
	struct hr_page_cache *c = &pager->cache;
	uint32_t settled = UINT32_MAX;

	for (uint32_t i = 0; i < c->computers; i++) {
		const uint32_t seen = load(&c->worker[i].seen);

		settled = seen < settled ? seen : settled;
	}
	if (settled == HR_EPOCH_ENDED)
		settled = c->words->epoch;
	change(&c->words->settled, settled);
	if (settled == c->words->epoch)
		change(&c->words->epoch, settled + 1);
}

static bool passed(const struct pager *pager, uint32_t epoch)
{
	return hr_epoch_passed(pager->cache.words->settled, epoch);
}

/* ---- frames and the disk: words at a time, because workers may write to a frame that is copied */

static void read_page(struct pager *pager, uint32_t page, uint8_t *frame)
{
	const uint32_t shift = pager->cache.shape.page_shift;

	memcpy(frame, pager->disk + ((uint64_t)page << shift), (size_t)1 << shift);
	pager->reads_of[page]++;
	pager->did.reads++;
}

static void write_page(struct pager *pager, uint32_t page, const uint8_t *frame)
{
	const uint32_t shift = pager->cache.shape.page_shift;
	uint8_t *to = pager->disk + ((uint64_t)page << shift);

	for (uint32_t i = 0; i < 1u << shift; i += 4) {
		const uint32_t word = __atomic_load_n((const uint32_t *)(const void *)(frame + i),
						      __ATOMIC_RELAXED);

		memcpy(to + i, &word, 4);
	}
	pager->did.write_backs++;
}

/* ---- ways */

static void evict(struct pager *pager, uint32_t *word, uint32_t was)
{
	if (replace(word, was, HR_PAGE_WORD(pager->cache.words->epoch + 2, HR_PAGE_LEFT)))
		pager->did.evictions++;
}

static void begin_write(struct pager *pager, uint32_t *word, uint32_t was, uint64_t frame)
{
	if (!replace(word, was, HR_PAGE_WORD(HR_PAGE_TAG(was), HR_PAGE_WRITING)))
		return;
	pager->since[frame] = pager->cache.words->epoch + 2;
	pager->due[frame] = pager->delay;
}

static void end_read(struct pager *pager, uint32_t set, uint32_t way, uint32_t was)
{
	struct hr_page_cache *c = &pager->cache;
	const uint32_t page = hr_page_at(&c->shape, set, HR_PAGE_TAG(was));
	uint8_t *frame = hr_cache_frame(c, set, way);

	if (page == pager->bad_page) {
		*(struct hr_page_error *)(void *)frame =
			(struct hr_page_error){ .error = 0x281, .page = page };
		pager->did.errors++;
		change(&c->set[set].tag[way], HR_PAGE_WORD(HR_PAGE_TAG(was), HR_PAGE_ERROR));
		return;
	}
	read_page(pager, page, frame);
	change(&c->set[set].tag[way], HR_PAGE_WORD(HR_PAGE_TAG(was), HR_PAGE_READY));
}

static void end_write(struct pager *pager, uint32_t set, uint32_t way, uint32_t was)
{
	struct hr_page_cache *c = &pager->cache;
	uint32_t *word = &c->set[set].tag[way];
	const uint32_t tag = HR_PAGE_TAG(was);

	write_page(pager, hr_page_at(&c->shape, set, tag), hr_cache_frame(c, set, way));
	pager->owed[hr_page_frame(set, way)] = false;
	if (HR_PAGE_STATE(was) == HR_PAGE_WRITING &&
	    replace(word, was, HR_PAGE_WORD(tag, HR_PAGE_READY)))
		return;
	change(word, HR_PAGE_WORD(tag, HR_PAGE_DIRTY));
}

static void step_way(struct pager *pager, uint32_t set, uint32_t way)
{
	const uint64_t frame = hr_page_frame(set, way);
	uint32_t *word = &pager->cache.set[set].tag[way];
	const uint32_t was = load(word), state = HR_PAGE_STATE(was);

	if (state == HR_PAGE_LEFT && passed(pager, HR_PAGE_TAG(was)))
		change(word, HR_PAGE_WORD(0, HR_PAGE_FREE));
	if (HR_PAGE_KIND(was) == HR_PAGE_READING && pager->due[frame] != NOT_READ &&
	    pager->due[frame]-- == 0)
		end_read(pager, set, way, was);
	if ((state == HR_PAGE_WRITING || state == HR_PAGE_REDIRTY) &&
	    passed(pager, pager->since[frame]) && pager->due[frame]-- == 0)
		end_write(pager, set, way, was);
	if (state == HR_PAGE_DIRTY && pager->owed[frame])
		begin_write(pager, word, was, frame);
}

/* ---- requests */

/* A FREE way, or HR_WAYS after the eviction of a way was started. */
static uint32_t make_room(struct pager *pager, uint32_t set)
{
	struct hr_page_set *s = &pager->cache.set[set];
	uint32_t candidates = 0, offered = 0, word[HR_WAYS], recency, way;
	bool leaving = false;

	for (way = 0; way < HR_WAYS; way++) {
		const uint32_t state = HR_PAGE_STATE(word[way] = load(&s->tag[way]));

		if (state == HR_PAGE_FREE)
			return way;
		leaving |= state == HR_PAGE_LEFT;
		if (state == HR_PAGE_READY || state == HR_PAGE_ERROR || state == HR_PAGE_DIRTY)
			candidates |= 1u << way;
		if (HR_PAGE_KIND(word[way]) == HR_PAGE_OFFERED)
			offered |= 1u << way;
	}
	candidates = candidates ? candidates : offered;
	if (leaving || !candidates)
		return HR_WAYS;
	recency = __atomic_load_n(&s->recency, __ATOMIC_RELAXED);
	way = hr_policy_victim((enum hr_page_policy)pager->cache.policy, &recency, candidates);
	__atomic_store_n(&s->recency, recency, __ATOMIC_RELAXED);
	if (HR_PAGE_STATE(word[way]) == HR_PAGE_DIRTY)
		begin_write(pager, &s->tag[way], word[way], hr_page_frame(set, way));
	else
		evict(pager, &s->tag[way], word[way]);
	return HR_WAYS;
}

/* The page has a way. An OFFERED one is read, unless a worker that writes all of it has claimed it. */
static void serve_found(struct pager *pager, uint32_t *word, uint32_t was, uint64_t frame,
			bool whole)
{
	pager->did.merges++;
	if (HR_PAGE_KIND(was) != HR_PAGE_OFFERED || whole)
		return;
	pager->due[frame] = pager->delay;
	if (replace(word, was, HR_PAGE_WORD(HR_PAGE_TAG(was), HR_PAGE_READING)))
		pager->did.merges--;
	else
		pager->due[frame] = NOT_READ;
}

/* True when the page has a way now. */
static bool serve(struct pager *pager, uint32_t page, bool whole)
{
	struct hr_page_cache *c = &pager->cache;
	const struct hr_page_position place = hr_page_position_of(&c->shape, page);
	struct hr_page_set *s = &c->set[place.set];
	uint32_t word[HR_WAYS], recency, way;

	if (page >= pager->pages)
		abort();
	for (way = 0; way < HR_WAYS; way++)
		word[way] = load(&s->tag[way]);
	way = hr_page_find(word, place.tag);
	if (way < HR_WAYS) {
		serve_found(pager, &s->tag[way], word[way], hr_page_frame(place.set, way), whole);
		return true;
	}
	way = make_room(pager, place.set);
	if (way == HR_WAYS)
		return false;
	pager->due[hr_page_frame(place.set, way)] = whole ? NOT_READ : pager->delay;
	pager->did.whole += whole;
	recency = __atomic_load_n(&s->recency, __ATOMIC_RELAXED);
	recency = hr_policy_enter((enum hr_page_policy)c->policy, recency, way);
	__atomic_store_n(&s->recency, recency, __ATOMIC_RELAXED);
	change(&s->tag[way], HR_PAGE_WORD(place.tag, whole ? HR_PAGE_OFFERED : HR_PAGE_READING));
	return true;
}

static bool serve_ring(struct pager *pager, struct hr_request_ring *ring)
{
	const uint64_t waiting = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED) - ring->taken;

	if (waiting > pager->entries_max)
		pager->entries_max = (uint32_t)waiting;
	for (;;) {
		const uint64_t entry =
			__atomic_load_n(&ring->entry[ring->taken % HR_REQUESTS], __ATOMIC_ACQUIRE);

		if ((entry & ~HR_REQUEST_FLAGS) >> 32 != ring->taken / HR_REQUESTS + 1)
			return true;
		if (!serve(pager, (uint32_t)entry, (entry & HR_REQUEST_WHOLE) != 0))
			return false;
		pager->did.requests++;
		__atomic_store_n(&ring->taken, ring->taken + 1, __ATOMIC_RELEASE);
	}
}

static void serve_rings(struct pager *pager)
{
	bool all = true;

	for (uint32_t i = 0; i < pager->cache.io_workers; i++)
		all &= serve_ring(pager, &pager->cache.ring[i]);
	pager->starved = all ? 0 : pager->starved + 1;
	if (pager->patience && pager->starved > pager->patience)
		change(&pager->cache.words->stop, HR_CACHE_DEADLOCK);
}

/* ---- flush: pages that are dirty at its start must be written before its end */

static void step_flush(struct pager *pager)
{
	struct hr_page_cache *c = &pager->cache;
	const uint64_t frames = hr_page_frames(&c->shape);
	uint64_t wanted = __atomic_load_n(&c->words->flush_wanted, __ATOMIC_ACQUIRE);
	bool owes = false;

	for (uint64_t i = 0; i < frames; i++)
		owes |= pager->owed[i];
	if (owes)
		return;
	for (uint32_t i = 0; i < c->io_workers; i++)
		__atomic_store_n(&c->flushed[i], pager->flushing, __ATOMIC_RELEASE);
	if (wanted == pager->flushing)
		return;
	pager->flushing = wanted;
	for (uint64_t i = 0; i < frames; i++)
		pager->owed[i] =
			HR_PAGE_STATE(load(&c->set[i / HR_WAYS].tag[i % HR_WAYS])) > HR_PAGE_READY;
}

static void evict_by_chance(struct pager *pager)
{
	struct hr_page_cache *c = &pager->cache;
	const uint32_t frames = (uint32_t)hr_page_frames(&c->shape);
	uint32_t frame, *word, was;

	if (!pager->evict_one_of || fake_random_below(&pager->random, pager->evict_one_of))
		return;
	frame = fake_random_below(&pager->random, frames);
	word = &c->set[frame / HR_WAYS].tag[frame % HR_WAYS];
	was = load(word);
	if (HR_PAGE_STATE(was) == HR_PAGE_READY || HR_PAGE_STATE(was) == HR_PAGE_ERROR)
		evict(pager, word, was);
	else if (HR_PAGE_STATE(was) == HR_PAGE_DIRTY)
		begin_write(pager, word, was, frame);
}

void pager_step(struct pager *pager)
{
	advance_epoch(pager);
	evict_by_chance(pager);
	for (uint32_t set = 0; set < hr_page_sets(&pager->cache.shape); set++)
		for (uint32_t way = 0; way < HR_WAYS; way++)
			step_way(pager, set, way);
	step_flush(pager);
	if (!pager->asleep)
		serve_rings(pager);
}

uint32_t pager_count(const struct pager *pager, enum hr_page_state state)
{
	uint32_t count = 0;

	for (uint32_t set = 0; set < hr_page_sets(&pager->cache.shape); set++)
		for (uint32_t way = 0; way < HR_WAYS; way++)
			count += HR_PAGE_KIND(load(&pager->cache.set[set].tag[way])) == state;
	return count;
}

void pager_settle(struct pager *pager)
{
	while (pager_count(pager, HR_PAGE_READING) || pager_count(pager, HR_PAGE_WRITING) ||
	       pager_count(pager, HR_PAGE_REDIRTY))
		pager_step(pager);
}

static void *pager_main(void *argument)
{
	struct pager *pager = argument;

	while (!load(&pager->stop_thread)) {
		pager_step(pager);
		sched_yield();
	}
	return NULL;
}

void pager_start(struct pager *pager)
{
	if (pthread_create(&pager->thread, NULL, pager_main, pager))
		abort();
}

void pager_stop(struct pager *pager)
{
	change(&pager->stop_thread, 1);
	pthread_join(pager->thread, NULL);
}
