/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several gpus: the home of rows. After each message it looks at all entries of the page, and does one
 * step after another as long as cache/peers.h allows one.
 */
#include "gpu/worker/io/peers.h"

/* Messages to one gpu after a message at most: one for each of its entries of the page, and one more
 * for the entry that got GRANT, because CLEAN can follow. A GET adds an entry. */
#define HOME_ANSWERS (HR_WAYS + 1)
/* A gpu may take so many times timeout_ns for an answer: its own check for kept pages comes first. */
#define HOME_PATIENCE 2u
#define HOME_NONE UINT32_MAX

/* An entry of the directory. */
#define HOME_TAG(e) ((uint32_t)((e) >> 36))
#define HOME_STATE(e) ((uint32_t)((e) >> 33) & 7u)
#define HOME_WRITE ((uint64_t)1 << 32)
#define HOME_DROP ((uint64_t)1 << 31)
#define HOME_SOURCE(e) (((uint32_t)(e) >> 28 & 7u) * HR_WAYS + ((uint32_t)(e) >> 25 & 7u))
#define HOME_ORDER(e) ((uint16_t)((e) >> 8))
#define HOME_TIME(e) ((uint8_t)(e))

/* The entries of a page. Masks have bit gpu * HR_WAYS + way. */
struct home_page {
	uint64_t *entry; /* of the set: [gpus * HR_WAYS] */
	uint32_t page, tag, entries;
	uint64_t wants, fills, copies, shared, exclusive, cleaning, leaving; /* by state */
	uint64_t dropped; /* shared ones with the flag DROP */
	uint64_t sources; /* of copies */
	uint32_t writer;  /* the oldest entry with the flag WRITE, or HOME_NONE */
};

HR_STATIC_ASSERT(HR_GPUS_MAX *HR_WAYS <= 64, "a mask has a bit for each way of each gpu");
HR_STATIC_ASSERT(HR_GPUS_MAX <= 8, "a gpu has 3 bits in messages and entries");

HR_WORKER bool home_older(uint64_t a, uint64_t b)
{
	return (int16_t)(HOME_ORDER(a) - HOME_ORDER(b)) < 0;
}

HR_WORKER void home_state(const struct hr_io_worker *w, uint64_t *entry, uint32_t state)
{
	*entry = (*entry & ~((uint64_t)7 << 33 | 0xff)) | (uint64_t)state << 33 |
		 (w->peer_time & 0xff);
}

/* Send a message to the gpu of entry i. */
HR_WORKER void home_tell(const struct hr_io_worker *w, uint32_t i, enum hr_peer_kind kind,
			 uint32_t page, uint32_t source)
{
	const struct hr_peer_message m = { page,  i % HR_WAYS,	    kind,
					   false, source / HR_WAYS, source % HR_WAYS };

	hr_peer_send(w, i / HR_WAYS, HR_FROM_HOME, &m);
}

/* Load the entries of a gpu together: one after the other they would take seven times as long. */
HR_WORKER void home_load(uint64_t e[HR_WAYS], const uint64_t *entry)
{
	uint32_t way;

	for (way = 0; way < HR_WAYS; way++)
		e[way] = entry[way];
}

HR_WORKER bool home_has(uint64_t e, uint32_t tag)
{
	return HOME_STATE(e) != HR_PEER_NONE && HOME_TAG(e) == tag;
}

HR_WORKER void home_sort(struct home_page *p, uint32_t i, uint64_t e)
{
	const uint64_t bit = (uint64_t)1 << i;
	const uint32_t state = HOME_STATE(e);

	p->wants |= state == HR_PEER_WANTS ? bit : 0;
	p->fills |= state == HR_PEER_FILLING ? bit : 0;
	p->copies |= state == HR_PEER_COPYING ? bit : 0;
	p->shared |= state == HR_PEER_SHARED ? bit : 0;
	p->exclusive |= state == HR_PEER_EXCLUSIVE ? bit : 0;
	p->cleaning |= state == HR_PEER_CLEANING ? bit : 0;
	p->leaving |= state == HR_PEER_INVALIDATING ? bit : 0;
	p->dropped |= state == HR_PEER_SHARED && (e & HOME_DROP) ? bit : 0;
	if (state == HR_PEER_COPYING)
		p->sources |= (uint64_t)1 << HOME_SOURCE(e);
	if ((e & HOME_WRITE) && (p->writer == HOME_NONE || home_older(e, p->entry[p->writer])))
		p->writer = i;
}

HR_WORKER void home_look(struct home_page *p)
{
	uint64_t e[HR_WAYS];
	uint32_t first, way;

	p->wants = p->fills = p->copies = p->shared = p->exclusive = p->cleaning = p->leaving = 0;
	p->dropped = p->sources = 0;
	p->writer = HOME_NONE;
	for (first = 0; first < p->entries; first += HR_WAYS) {
		home_load(e, p->entry + first);
		for (way = 0; way < HR_WAYS; way++)
			if (home_has(e[way], p->tag))
				home_sort(p, first + way, e[way]);
	}
}

/* Forget copies that left, unless another gpu reads them. */
HR_WORKER bool home_drop(const struct hr_io_worker *w, struct home_page *p, uint32_t set)
{
	const uint64_t may = p->dropped & ~p->sources;
	uint32_t i;

	if (!may)
		return false;
	i = hr_highest_bit_u64(may);
	p->entry[i] = 0;
	home_tell(w, i, HR_PEER_DROPPED, set, 0);
	return true;
}

/* Begin to serve entry i in the state WANTS. True when a message was sent. */
HR_WORKER bool home_want(const struct hr_io_worker *w, struct home_page *p, uint32_t i)
{
	const uint64_t from = p->shared & ~p->dropped;
	uint64_t *entry = &p->entry[i];

	if (p->writer != HOME_NONE && p->writer != i && home_older(p->entry[p->writer], *entry))
		return false;
	if (p->exclusive) {
		const uint32_t owner = hr_highest_bit_u64(p->exclusive);

		home_state(w, &p->entry[owner], HR_PEER_CLEANING);
		home_tell(w, owner, HR_PEER_CLEAN, p->page, 0);
		return true;
	}
	if (p->cleaning | p->leaving | p->fills)
		return false;
	if (from) {
		const uint32_t source = hr_highest_bit_u64(from);

		home_state(w, entry, HR_PEER_COPYING);
		*entry |= (uint64_t)(source / HR_WAYS) << 28 | (uint64_t)(source % HR_WAYS) << 25;
		home_tell(w, i, HR_PEER_COPY, p->page, source);
		return true;
	}
	if (p->copies | p->dropped)
		return false;
	home_state(w, entry, HR_PEER_FILLING);
	home_tell(w, i, HR_PEER_FILL, p->page, 0);
	return true;
}

HR_WORKER bool home_wants(const struct hr_io_worker *w, struct home_page *p)
{
	uint64_t rest = p->wants;

	for (; rest; rest &= rest - 1)
		if (home_want(w, p, hr_highest_bit_u64(rest & (~rest + 1))))
			return true;
	return false;
}

/* One step for the oldest writer. True when a message was sent. */
HR_WORKER bool home_write(const struct hr_io_worker *w, struct home_page *p)
{
	const uint64_t self = p->writer != HOME_NONE ? (uint64_t)1 << p->writer : 0;
	uint64_t others = p->shared & ~self;

	if (!(p->shared & self) || (p->fills | p->copies | p->leaving))
		return false;
	if (!others) {
		p->entry[p->writer] &= ~HOME_WRITE;
		home_state(w, &p->entry[p->writer], HR_PEER_EXCLUSIVE);
		home_tell(w, p->writer, HR_PEER_GRANT, p->page, 0);
		return true;
	}
	for (; others; others &= others - 1) {
		const uint32_t i = hr_highest_bit_u64(others & (~others + 1));

		p->entry[i] &= ~HOME_WRITE;
		home_state(w, &p->entry[i], HR_PEER_INVALIDATING);
		home_tell(w, i, HR_PEER_INVALIDATE, p->page, 0);
	}
	return true;
}

/* The order of a new GET or UPGRADE, as bits of an entry: one more than the youngest entry of the
 * page that waits. The order of an entry that does not wait has no meaning. */
HR_WORKER uint64_t home_order(const uint64_t *entry, uint32_t entries, uint32_t tag)
{
	uint64_t youngest = 0, e[HR_WAYS];
	uint32_t first, way;

	for (first = 0; first < entries; first += HR_WAYS) {
		home_load(e, entry + first);
		for (way = 0; way < HR_WAYS; way++)
			if (home_has(e[way], tag) &&
			    (HOME_STATE(e[way]) == HR_PEER_WANTS || (e[way] & HOME_WRITE)) &&
			    (!youngest || home_older(youngest, e[way])))
				youngest = e[way];
	}
	return (uint64_t)(uint16_t)(HOME_ORDER(youngest) + 1) << 8;
}

/* DROP of entry i. A page that left was clean, and needs no other answer. */
HR_WORKER bool home_dropped(const struct hr_io_worker *w, uint64_t *entry, uint32_t i, uint32_t set)
{
	const uint32_t state = HOME_STATE(*entry);

	if (state == HR_PEER_SHARED && !(*entry & HOME_DROP)) {
		*entry |= HOME_DROP;
		return true;
	}
	if (state != HR_PEER_EXCLUSIVE && state != HR_PEER_CLEANING &&
	    state != HR_PEER_INVALIDATING)
		return false;
	*entry &= ~((uint64_t)7 << 33); /* NONE; the tag stays, because it identifies the page */
	home_tell(w, i, HR_PEER_DROPPED, set, 0);
	return true;
}

/* Change entry i as a message demands. False: the gpu has broken the protocol. */
HR_WORKER bool home_apply(const struct hr_io_worker *w, const struct home_page *p, uint32_t i,
			  const struct hr_peer_message *m, uint32_t set)
{
	uint64_t *entry = &p->entry[i];
	const uint32_t state = HOME_STATE(*entry);

	if (m->kind == HR_PEER_DROP)
		return home_dropped(w, entry, i, set);
	if (m->kind == HR_PEER_GET) {
		*entry = (uint64_t)p->tag << 36 | (m->flag ? HOME_WRITE : 0) |
			 home_order(p->entry, p->entries, p->tag);
		home_state(w, entry, HR_PEER_WANTS);
		return state == HR_PEER_NONE;
	}
	if (state == HR_PEER_NONE || HOME_TAG(*entry) != p->tag)
		return false;
	if (m->kind == HR_PEER_UPGRADE) {
		if (state == HR_PEER_SHARED && !(*entry & HOME_WRITE))
			*entry = (*entry & ~(uint64_t)0xffff00) | HOME_WRITE |
				 home_order(p->entry, p->entries, p->tag);
		return true; /* in other states INVALIDATE or GRANT is under way */
	}
	if (m->kind == HR_PEER_CLEANED) {
		home_state(w, entry, HR_PEER_SHARED);
		return state == HR_PEER_CLEANING;
	}
	*entry &= ~((uint64_t)63 << 25); /* FILLED: no source any more */
	if (m->flag)
		*entry = 0;
	else
		home_state(w, entry, HR_PEER_SHARED);
	return state == HR_PEER_FILLING || state == HR_PEER_COPYING;
}

/* Handle a message. One lane. False: the gpu has broken the protocol. */
HR_WORKER bool home_handle(const struct hr_io_worker *w, uint32_t gpu,
			   const struct hr_peer_message *m, uint32_t set)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const struct hr_peers *peers = cache->peers;
	const uint32_t i = gpu * HR_WAYS + m->way;
	struct home_page p;

	p.entry = &peers->directory[hr_peers_directory(cache, peers->gpus, set)];
	p.entries = peers->gpus * HR_WAYS;
	p.page = m->page;
	if (m->kind == HR_PEER_DROP)
		p.page = hr_page_at(&cache->shape, set, HOME_TAG(p.entry[i]));
	p.tag = hr_page_position_of(&cache->shape, p.page).tag;
	if (!home_apply(w, &p, i, m, set))
		return false;
	do
		home_look(&p);
	while (home_drop(w, &p, set) || home_wants(w, &p) || home_write(w, &p));
	return true;
}

/* Messages to one gpu after a message at most, when no other message of its set comes first. */
HR_WORKER uint32_t home_answers(const struct hr_io_worker *w, uint32_t gpu,
				const struct hr_peer_message *m, uint32_t set)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const uint32_t gpus = cache->peers->gpus;
	const uint64_t *entry = &cache->peers->directory[hr_peers_directory(cache, gpus, set)];
	const uint32_t tag = m->kind == HR_PEER_DROP
				     ? HOME_TAG(entry[gpu * HR_WAYS + m->way])
				     : hr_page_position_of(&cache->shape, m->page).tag;
	uint32_t most = 0, its, g, way;
	uint64_t e[HR_WAYS];

	for (g = 0; g < gpus; g++) {
		home_load(e, entry + g * HR_WAYS);
		for (way = its = 0; way < HR_WAYS; way++)
			its += home_has(e[way], tag);
		most = its > most ? its : most;
	}
	return most + 1 + (m->kind == HR_PEER_GET);
}

/* Whether two messages of the batch have the same set. Collective. */
HR_WORKER bool home_meets(const struct hr_peer_batch *b)
{
	bool meets = false;
	uint32_t s, i;

	for (s = 0; s < HR_IO_SLICES; s++) {
		const bool mine = hr_io_index(s) < b->count;

		meets |= hr_ballot(mine) != hr_peer_first_of_sets(mine, b->set[s]);
		for (i = 0; HR_IO_SLICES > 1 && i < s * HR_LANES && i < b->count; i++)
			meets |= hr_io_of(b->set, i) == b->set[s] && mine;
	}
	return hr_ballot(meets) != 0;
}

/* How many messages of the batch can be answered now. Collective. */
HR_WORKER uint32_t home_room(const struct hr_io_worker *w, const struct hr_peer_batch *b)
{
	const uint32_t gpus = w->access->cache.peers->gpus;
	uint32_t room = HR_PEER_RING_FROM, answers = 1, s, g = 0;

	do {
		const uint32_t its = hr_peer_room(w, g, HR_FROM_HOME);

		room = its < room ? its : room;
	} while (++g < gpus);
	for (s = 0; s < HR_IO_SLICES; s++) {
		const bool mine = hr_io_index(s) < b->count;
		const uint32_t its = mine ? home_answers(w, b->gpu, &b->m[s], b->set[s]) : 0;

		while (answers < HOME_ANSWERS && hr_ballot(its > answers))
			answers++;
	}
	if (home_meets(b))
		answers = HOME_ANSWERS;
	room = hr_shfl_u32(room / answers, 0);
	return room < b->count ? room : b->count;
}

HR_DEVICE bool hr_peer_home_take(struct hr_io_worker *w, uint32_t gpu)
{
	struct hr_peer_batch b;
	bool bad = false;
	uint32_t s;

	if (!hr_peer_read(w, gpu, HR_TO_HOME, &b))
		return false;
	hr_peer_take(w, HR_TO_HOME, home_room(w, &b), &b);
	if (!b.count)
		return false;
	for (s = 0; s < HR_IO_SLICES && s * HR_LANES < b.count; s++) {
		bool mine = b.m[s].kind != HR_PEER_NOTHING;
		hr_mask lanes;

		while ((lanes = hr_peer_first_of_sets(mine, b.set[s])) != 0) {
			if (hr_in_mask(lanes)) {
				bad |= !home_handle(w, gpu, &b.m[s], b.set[s]);
				mine = false;
			}
			hr_lanes_sync();
		}
	}
	if (hr_ballot(bad))
		hr_peer_fail(w, gpu, HR_NO_PAGE, -EPROTO);
	return true;
}

HR_DEVICE bool hr_peer_home_late(const struct hr_io_worker *w, uint32_t set, uint32_t *gpu,
				 uint32_t *page)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const struct hr_peers *peers = cache->peers;
	const uint64_t *entry = &peers->directory[hr_peers_directory(cache, peers->gpus, set)];
	const uint32_t patience =
		HOME_PATIENCE * (uint32_t)(peers->timeout_ns >> w->peer_shift) + 1;
	uint32_t i;

	for (i = 0; i < peers->gpus * HR_WAYS; i++) {
		const uint32_t state = HOME_STATE(entry[i]);

		if (state == HR_PEER_NONE || state == HR_PEER_WANTS || state == HR_PEER_SHARED ||
		    state == HR_PEER_EXCLUSIVE ||
		    ((w->peer_time - HOME_TIME(entry[i])) & 0xff) <= patience)
			continue;
		*gpu = i / HR_WAYS;
		*page = hr_page_at(&cache->shape, set, HOME_TAG(entry[i]));
		return true;
	}
	return false;
}
