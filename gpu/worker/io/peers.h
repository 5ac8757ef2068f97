/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/io/peers.h - an I/O worker's part in the protocol of cache/peers.h; only for this
 * folder. Worker code. None of this runs with one gpu.
 *
 *   peers.c        mailboxes, late answers, the end of the run
 *   peers_home.c   the home: the directory of its rows
 *   peers_pages.c  the gpu that has or wants pages: requests, answers, the list of pending sets
 *
 * The list of pending sets has the sets with a way that waits: for its epoch, for the end of a write,
 * or for room in a ring. Each set is in it once.
 */
#ifndef GPU_WORKER_IO_PEERS_H
#define GPU_WORKER_IO_PEERS_H

#include "cache/peers.h"
#include "gpu/worker/io/io.h"

/* A way in struct hr_peer_set. */
struct hr_peer_way {
	uint32_t request, answer; /* hr_peer_request, hr_peer_answer */
	bool writes;
	uint32_t epoch, time;
};

/* Answers that lanes send at the same time. */
#define HR_PEER_ANSWERS (HR_LANES < HR_IO_BATCH ? HR_LANES : HR_IO_BATCH)

HR_STATIC_ASSERT(HR_PEER_RING_TO >= HR_IO_BATCH + HR_PEER_ANSWERS,
		 "a ring has room for a batch of requests and for answers");

#define HR_PEER_CLOCK 31u /* mask of the epoch and time of a way */

HR_WORKER struct hr_peer_way hr_peer_way(uint32_t bits)
{
	const struct hr_peer_way way = { bits & 3, bits >> 2 & 7, (bits >> 5 & 1) != 0,
					 bits >> 6 & HR_PEER_CLOCK, bits >> 11 & HR_PEER_CLOCK };
	return way;
}

HR_WORKER uint16_t hr_peer_way_bits(const struct hr_peer_way *way)
{
	return (uint16_t)(way->request | way->answer << 2 | (uint32_t)way->writes << 5 |
			  way->epoch << 6 | way->time << 11);
}

/* The mailbox for messages of a gpu. */
HR_WORKER struct hr_mailbox *hr_peer_from(const struct hr_io_worker *w, uint32_t gpu)
{
	const struct hr_page_cache *cache = &w->access->cache;

	return &cache->peers->from[gpu * cache->io_workers + w->role.index];
}

/* The mailbox of a gpu for messages of this one. */
HR_WORKER struct hr_mailbox *hr_peer_to(const struct hr_io_worker *w, uint32_t gpu)
{
	return &w->access->cache.peers->gpu[gpu].to[w->role.index];
}

HR_WORKER struct hr_peer_worker *hr_peer_counters(const struct hr_io_worker *w)
{
	return &w->access->cache.peers->worker[w->role.index];
}

/* The home of a set. */
HR_WORKER uint32_t hr_peer_home(const struct hr_io_worker *w, uint32_t set)
{
	const struct hr_page_cache *cache = &w->access->cache;

	return hr_peers_home(cache, cache->peers->gpus, set >> cache->shape.group_shift);
}

/* Messages that a ring to a gpu has room for. For each lane by itself. */
HR_WORKER uint32_t hr_peer_room(const struct hr_io_worker *w, uint32_t gpu, uint32_t ring)
{
	const uint64_t taken = hr_poll_sys_u64(&hr_peer_from(w, gpu)->taken[ring]);
	const uint64_t sent = hr_fresh_u64(&hr_peer_counters(w)->sent[gpu][ring]);
	const uint32_t used = (uint32_t)(sent - taken);

	return used < HR_PEER_RING(ring) ? HR_PEER_RING(ring) - used : 0;
}

/* Send a message. The ring has room for one of each lane. After hr_release_sys() of this lane, unless
 * the message announces no data: many messages share this fence, which takes a microsecond and more
 * on a GPU whose warps use it at the same time. One lane. */
HR_WORKER void hr_peer_send(const struct hr_io_worker *w, uint32_t gpu, uint32_t ring,
			    const struct hr_peer_message *m)
{
	const uint64_t ticket = hr_fetch_add_u64(&hr_peer_counters(w)->sent[gpu][ring], 1);

	hr_fenced_sys_u64(hr_peer_entry(hr_peer_to(w, gpu), ring, ticket),
			  hr_peer_pack(m) | HR_PEER_LAP(ring, ticket) << HR_PEER_LAP_SHIFT);
}

/* Messages that are handled together: HR_IO_SLICES for each lane. */
struct hr_peer_batch {
	uint32_t count, gpu;			/* of gpu; the same in all lanes */
	struct hr_peer_message m[HR_IO_SLICES]; /* HR_PEER_NOTHING: none */
	uint32_t set[HR_IO_SLICES];
};

/* Read the next messages of a gpu from a ring, and check their form. Returns their number. They stay
 * in the ring. Collective. */
HR_DEVICE uint32_t hr_peer_read(struct hr_io_worker *w, uint32_t gpu, uint32_t ring,
				struct hr_peer_batch *b);

/* Take the first `count` of these messages: their entries may be used again, and the batch keeps no
 * others. Messages that are sent because of them need no further fence. Collective. */
HR_DEVICE void hr_peer_take(const struct hr_io_worker *w, uint32_t ring, uint32_t count,
			    struct hr_peer_batch *b);

/* End the run: a gpu did not answer (-ETIMEDOUT) or broke the protocol (-EPROTO), or a worker of this
 * gpu keeps pages (-EDEADLK; gpu HR_IO_NONE). Collective. */
HR_DEVICE void hr_peer_fail(struct hr_io_worker *w, uint32_t gpu, uint32_t page, int32_t error);

/* The lanes with `mine` that may handle their messages now: for each set the lowest lane. Returns
 * their mask. Collective. */
HR_WORKER hr_mask hr_peer_first_of_sets(bool mine, uint32_t set)
{
	const hr_mask all = hr_ballot(mine);
	const hr_mask same = hr_match_u32(set) & all;

	return hr_ballot(mine && !(same & (((hr_mask)1 << hr_lane()) - 1)));
}

/* Begin. Collective. */
HR_DEVICE_SLOW void hr_io_peers_start(struct hr_io_worker *w);

/* A round: take and send messages, look for late answers. True when there were any. Collective. */
HR_DEVICE_SLOW bool hr_io_peers(struct hr_io_worker *w, bool idle);

/* True while a page of this gpu waits for another gpu, or a set for its epoch: the next message or
 * epoch comes soon. Collective. */
HR_DEVICE bool hr_io_peers_busy(const struct hr_io_worker *w);

/* Result of hr_io_peers_epoch(). */
struct hr_peers_epoch {
	uint32_t settled; /* epoch of this gpu that the workers of all gpus have passed */
	bool ends;	  /* the next epoch of this gpu may begin */
	bool unread;	  /* the compute workers of all gpus have ended */
};

/*
 * Worker 0, when the workers of this gpu have seen its epoch: confirm the epochs of the other gpus that
 * were sampled before it began, and sample them again. ended: all compute workers of this gpu have
 * ended, which confirms all epochs. Collective.
 */
HR_DEVICE_SLOW struct hr_peers_epoch hr_io_peers_epoch(struct hr_io_worker *w, bool ended);

/* Worker 0, when the epoch of this gpu after w->seen has begun: tell the other gpus. Collective. */
HR_DEVICE_SLOW void hr_io_peers_next_epoch(const struct hr_io_worker *w);

/* The gpu whose workers keep this gpu from beginning an epoch, or HR_IO_NONE. For each lane by
 * itself. */
HR_DEVICE uint32_t hr_io_peers_behind(const struct hr_io_worker *w);

/* The worker ends. Collective. */
HR_DEVICE_SLOW void hr_io_peers_end(struct hr_io_worker *w);

/* ---- an I/O worker as the home of rows */

/* Messages to the home of this gpu: take them from a gpu, and act. True when there were any.
 * Collective. */
HR_DEVICE bool hr_peer_home_take(struct hr_io_worker *w, uint32_t gpu);

/* The first entry of a set of this home that is late, in *entry. For one lane. False: none. */
HR_DEVICE bool hr_peer_home_late(const struct hr_io_worker *w, uint32_t set, uint32_t *gpu,
				 uint32_t *page);

/* ---- pages of the own gpu that other gpus have or want */

/* Messages of homes: take them from a gpu, and act. True when there were any. Collective. */
HR_DEVICE bool hr_peer_pages_take(struct hr_io_worker *w, uint32_t gpu);

/* Go on with pending sets. True when something was done. Collective. */
HR_DEVICE bool hr_peer_pages_pending(struct hr_io_worker *w);

/* An answer that is late for a way of a set; *gpu HR_IO_NONE: the epoch is. For one lane. */
HR_DEVICE bool hr_peer_pages_late(const struct hr_io_worker *w, uint32_t set, uint32_t *gpu,
				  uint32_t *page);

/* Put a set into the list of pending sets. One lane. */
HR_DEVICE_SLOW void hr_io_peers_list(const struct hr_io_worker *w, uint32_t set);

/* The number of pages, at most `room`, for which GET or UPGRADE fits into the mailboxes. Collective. */
HR_DEVICE_SLOW uint32_t hr_io_peers_room(const struct hr_io_worker *w, uint32_t room);

/* Send GET for a page of a batch that got a frame. One lane. */
HR_DEVICE_SLOW void hr_io_peers_get(const struct hr_io_worker *w, const struct hr_io_batch *b,
				    uint32_t s);

/* A request to write to a page in a way: true when it has to wait, and UPGRADE is sent. One lane. */
HR_DEVICE_SLOW bool hr_io_peers_upgrade(const struct hr_io_worker *w, uint32_t page, uint32_t set,
					uint32_t way, uint32_t word);

/* The ways of a set, as a mask, that no message is on its way for. One lane. */
HR_DEVICE_SLOW uint32_t hr_io_peers_idle(const struct hr_io_worker *w, uint32_t set);

/* The frame of a way has its page (READY), or the read has failed (ERROR): set the state, and tell the
 * home. One lane. */
HR_DEVICE_SLOW void hr_io_peers_filled(const struct hr_io_worker *w, uint32_t set, uint32_t way,
				       enum hr_page_state state);

#endif
