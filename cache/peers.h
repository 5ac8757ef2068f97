/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/peers.h - the page caches of several gpus over the same objects: what their I/O workers share.
 *
 * All caches have the same shape, I/O workers and compute workers. So a page has the same set and tag
 * on each gpu, and its row has an I/O worker with the same index there. The home of a row is one of the
 * gpus. It keeps the directory: for each frame of each gpu, for the home's rows only, which page it
 * holds, and how. A gpu that misses a page chooses a frame and asks the home (GET). The home answers
 * FILL (read the ssd), or COPY (copy the page from the frame of another gpu). So each page is read from
 * an ssd once, as long as any gpu holds it.
 *
 * The word of a way (cache/page_table.h) tells compute workers what they may do:
 *   READY + SHARED             readers may use the page; other gpus may have copies
 *   READY .. REDIRTY           this gpu is the only holder; writers change the state as ever
 *   DIRTY .. REDIRTY + SHARED  the home wants the page clean; no writer begins any more
 *   LEFT + SHARED              the page was removed, and the home has not confirmed it yet
 * Only the owner, the I/O worker of the row, sets and clears SHARED.
 *
 * Messages of a gpu to the home, of one page and way (DROP and DROPPED have the set in place of the
 * page, because the tag is gone):
 *   GET       it wants the page in this way, which is READING. Flag: to write to it
 *   UPGRADE   it has a SHARED copy and wants to write
 *   FILLED    the page is in the frame (READY + SHARED). Flag: it is not, the ssd has failed
 *   CLEANED   answer to CLEAN: the page is on the ssd, and READY + SHARED
 *   DROP      the page has left the way, and every worker has passed the epoch. The frame is used again
 *             after DROPPED. Also the answer to INVALIDATE, or to a CLEAN that met a page which left
 * Messages of the home to a gpu:
 *   FILL      read the page from the ssd
 *   COPY      copy the page from that way of that gpu
 *   GRANT     it is the only holder and may write: the way loses SHARED
 *   CLEAN     set SHARED, write a dirty page to the ssd, answer CLEANED
 *   INVALIDATE   remove the page, answer DROP
 *   DROPPED   the home has forgotten the way
 *
 * States of an entry of the directory. The home looks at all entries of the page after each message:
 *   NONE                        the frame holds no page of interest
 *   WANTS -> FILLING, COPYING   GET, until FILL or COPY is sent. It waits while another entry is
 *                               EXCLUSIVE (which becomes CLEANING), CLEANING, INVALIDATING, FILLING, or
 *                               wants to write and is older. A SHARED entry is the source of a COPY
 *   FILLING, COPYING -> SHARED  FILLED; NONE when the ssd has failed
 *   SHARED -> EXCLUSIVE         the oldest entry with the flag WRITE, when no other one holds the page.
 *                               When none is FILLING or COPYING, SHARED ones become INVALIDATING, and
 *                               their WRITE is void
 *   EXCLUSIVE -> CLEANING -> SHARED   CLEAN, CLEANED
 *   any that holds -> NONE      DROP; a SHARED entry that is the source of a COPY waits (flag DROP)
 * A WRITE flag has the order of its GET or UPGRADE, so a gpu does not write twice before another one
 * that asked earlier. A gpu can have two entries of a page: one that leaves and one that wants it.
 *
 * A CLEAN or INVALIDATE takes effect one grace period (two epochs) after it came, so that workers
 * of this gpu that waited for the page use it first, and two gpus that write to one page both make
 * progress.
 *
 * A mailbox has two rings, to the home and from it. A message from the home is always taken, whatever
 * else waits; a message to the home is taken when the rings from it have room for all answers: to a
 * gpu at most one for each entry that it has of the page then, and one more. So no two gpus wait
 * for room of each other. The home's own gpu has a mailbox like the others.
 *
 * Reads in place. A compute worker that wants to read a page, and does not find it in the cache of
 * its gpu, looks at the sets of the other gpus. It reads a page that it finds there, in any state with
 * data, from the frame of that gpu. It requests a copy for later reads only now and then, so that
 * pages that are read often become local (HR_PEER_READS_OF_COPY). A prefetch does not request a page
 * that another gpu has. No message is needed: the holder's frame has the last version as long as the
 * holder keeps the page, and the reader has no copy that a writer would have to invalidate.
 *
 * So a frame is used again only after the workers of all gpus have passed an epoch. I/O worker 0 of
 * each gpu tells the others its epoch. When a local epoch begins, it samples the epochs of the others;
 * when all workers of its gpu have seen this local epoch, it confirms the samples
 * (hr_peer_words.passed). hr_cache_words.settled is the oldest epoch of those that the own workers and
 * the other gpus have passed. Local epochs go on meanwhile, at most HR_PEER_EPOCHS before it: a gpu
 * whose epochs stood still until the others had confirmed them could not confirm theirs.
 *
 * A gpu that does not answer for timeout_ns ends the run: -ETIMEDOUT, with its index in
 * hr_failure.peer. A page that a compute worker keeps by hr_page() so long: -EDEADLK.
 *
 * With one gpu hr_page_cache.peers is NULL, and the structures of this header do not exist.
 */
#ifndef CACHE_PEERS_H
#define CACHE_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/page_cache.h"
#include "config/base/limits.h"
#include "nvme/queue/worker.h"

#define HR_PEERS_ALIGN 64u /* of the memory of hr_peers_bytes() */
/* Rings of a mailbox, and their messages, powers of two. A ring to the home has room for the
 * requests of a batch, and as many answers. The home answers one message by a few, so its ring is
 * longer. */
enum { HR_TO_HOME, HR_FROM_HOME, HR_PEER_RINGS };
#define HR_PEER_RING_TO (HR_LANES > 32 ? 128u : 64u) /* the CPU plans for at most 32 lanes */
#define HR_PEER_RING_FROM 128u
#define HR_PEER_RING(ring) ((ring) == HR_TO_HOME ? HR_PEER_RING_TO : HR_PEER_RING_FROM)

/* Epochs of a gpu after the last one that all gpus have passed, at most. Ways keep five bits of an
 * epoch (hr_peer_set), so it is below 14. */
#define HR_PEER_EPOCHS 8u

enum hr_peer_kind {
	HR_PEER_NOTHING,
	HR_PEER_GET,
	HR_PEER_UPGRADE,
	HR_PEER_FILLED,
	HR_PEER_CLEANED,
	HR_PEER_DROP,
	HR_PEER_FILL,
	HR_PEER_COPY,
	HR_PEER_GRANT,
	HR_PEER_CLEAN,
	HR_PEER_INVALIDATE,
	HR_PEER_DROPPED,
	HR_ENDPOINT_KINDS,
};

/* A message is 8 bytes: page in bits 31:0, way 34:32, kind 38:35, flag 39, of COPY the gpu 42:40 and
 * way 45:43 of the source. In a ring bits 63:48 are the lap, from 1 on, so that a new one is known. */
struct hr_peer_message {
	uint32_t page, way;
	enum hr_peer_kind kind;
	bool flag;
	uint32_t from_gpu, from_way;
};

#define HR_PEER_LAP_SHIFT 48u
#define HR_PEER_LAP(ring, ticket) ((((uint64_t)(ticket) / HR_PEER_RING(ring)) + 1) & 0xffff)

HR_BOTH uint64_t hr_peer_pack(const struct hr_peer_message *m)
{
	return m->page | (uint64_t)m->way << 32 | (uint64_t)m->kind << 35 |
	       (uint64_t)m->flag << 39 | (uint64_t)m->from_gpu << 40 | (uint64_t)m->from_way << 43;
}

HR_BOTH struct hr_peer_message hr_peer_unpack(uint64_t entry)
{
	const struct hr_peer_message m = {
		(uint32_t)entry,
		(uint32_t)(entry >> 32) & 7,
		(enum hr_peer_kind)(entry >> 35 & 15),
		(entry >> 39 & 1) != 0,
		(uint32_t)(entry >> 40) & 7,
		(uint32_t)(entry >> 43) & 7,
	};
	return m;
}

/*
 * The mailbox of one I/O worker for messages of the worker with the same index on one gpu. It lies in
 * the receiver's memory. The sender writes all of it, at system scope; the receiver reads. The sender
 * stores a message after the receiver has taken the former message of the same entry, as `taken` of
 * the mailbox in the other direction shows.
 */
struct hr_mailbox {
	uint64_t entry[HR_PEER_RING_TO + HR_PEER_RING_FROM]; /* hr_peer_entry(); release */
	uint64_t taken[HR_PEER_RINGS]; /* messages that the sender has taken from the receiver */
	/* the sender's compute workers have ended, its pages are written, and it waits for none */
	uint32_t done;
	uint32_t unused[11];
};

/* The entry of the ring for a message. */
HR_BOTH uint64_t *hr_peer_entry(struct hr_mailbox *box, uint32_t ring, uint64_t ticket)
{
	return &box->entry[(ring == HR_TO_HOME ? 0 : HR_PEER_RING_TO) +
			   ticket % HR_PEER_RING(ring)];
}

/* Words of a gpu that other gpus write; with [HR_GPUS_MAX] by I/O worker 0 of the gpu with that
 * index. */
struct hr_peer_words {
	uint64_t barrier; /* of gpu 0: as hr_cache_words.barrier, of all gpus; system scope */
	uint32_t stop;	  /* 1: the run has ended on another gpu; by its I/O worker 0 */
	uint32_t unused[13];
	uint32_t epoch[HR_GPUS_MAX];  /* of the other gpu */
	uint32_t passed[HR_GPUS_MAX]; /* of this gpu: all workers of the other gpu have passed it */
	/* By I/O worker 0 of this gpu: the epoch of the other gpu that it confirms next. */
	uint32_t sampled[HR_GPUS_MAX];
	uint32_t more_unused[8];
};

/* The state of a way besides its tag word. Only the owner of the way uses this state. A request that
 * the owner sent and the home has not answered: */
enum hr_peer_request_kind {
	HR_PEER_NO_REQUEST,
	HR_PEER_REQUEST_PAGE,  /* GET */
	HR_PEER_REQUEST_WRITE, /* UPGRADE, or FILLED after a GET with the flag */
	HR_PEER_REQUEST_DROP,  /* DROP */
};
/* An answer that the owner has to send to the home: */
enum hr_peer_answer {
	HR_PEER_NO_ANSWER,
	HR_PEER_ANSWER_FILLED,
	HR_PEER_ANSWER_FAILED, /* FILLED with the flag */
	HR_PEER_ANSWER_CLEAN,  /* CLEAN came; SHARED is set after the grace period */
	HR_PEER_ANSWER_CLEANED,
	HR_PEER_ANSWER_INVALIDATE, /* INVALIDATE came; the page leaves after the grace period */
};

struct hr_peer_set {
	/* Bits 1:0 hr_peer_request; 4:2 hr_peer_answer; 5: the GET had the flag; 10:6 low bits of the
	 * epoch at the end of a grace period; 15:11 time of the latest change. */
	uint16_t way[HR_WAYS];
	uint16_t unused;
	uint32_t listed; /* the set is in the list of pending sets */
};

/* Counters of an I/O worker that its lanes change; worker memory of its gpu. */
struct hr_peer_worker {
	uint64_t sent[HR_GPUS_MAX][HR_PEER_RINGS];  /* messages to each gpu */
	uint64_t taken[HR_GPUS_MAX][HR_PEER_RINGS]; /* messages of each gpu */
	uint64_t pending;			    /* sets that were put into the list */
	uint64_t unused[7];
};

/* An entry of the directory is 8 bytes: tag in bits 63:36; state 35:33; flags WRITE 32, DROP 31; source
 * of a copy: gpu 30:28, way 27:25; order of GET or UPGRADE 23:8; time of the last message to it 7:0. */
enum hr_peer_state {
	HR_PEER_NONE,
	HR_PEER_WANTS,
	HR_PEER_FILLING,
	HR_PEER_COPYING,
	HR_PEER_SHARED,
	HR_PEER_EXCLUSIVE,
	HR_PEER_CLEANING,
	HR_PEER_INVALIDATING,
};

/* A gpu, as the workers of this gpu see it: addresses are valid here. For the own gpu, too. */
struct hr_peer {
	uint8_t *frame;		       /* its hr_page_cache.frame */
	const struct hr_page_set *set; /* its hr_page_cache.set; polled at system scope */
	struct hr_mailbox *to;	       /* [io_workers]: its mailboxes for messages of this gpu */
	struct hr_peer_words *words;   /* its words */
	const uint64_t *flushed;       /* its hr_page_cache.flushed; polled at system scope */
	const uint8_t *states;	       /* its hr_access.op_states; read by gpu 0 before finish() */
};

struct hr_peers {
	uint32_t self, gpus; /* this gpu, of 2 to HR_GPUS_MAX */
	uint64_t timeout_ns; /* for an answer of another gpu */
	struct hr_peer gpu[HR_GPUS_MAX];
	/* Of this gpu, in HR_PLACE_WORKER. */
	struct hr_mailbox *from;       /* [gpus][io_workers] */
	uint64_t *directory;	       /* hr_peers_directory() */
	struct hr_peer_set *set;       /* [hr_page_sets()] */
	struct hr_peer_worker *worker; /* [io_workers] */
	uint32_t *pending;	       /* [io_workers][hr_peers_own_sets()]: rings of sets */
	struct hr_peer_words *words;
};

/* The gpu that is the home of a row. */
HR_BOTH uint32_t hr_peers_home(const struct hr_page_cache *cache, uint32_t gpus, uint32_t row)
{
	return row / cache->io_workers % gpus;
}

/* Index of the entries of a set in the home's directory: gpu by gpu, HR_WAYS each. */
HR_BOTH uint64_t hr_peers_directory(const struct hr_page_cache *cache, uint32_t gpus, uint32_t set)
{
	const uint32_t row = set >> cache->shape.group_shift;
	const uint64_t its = (uint64_t)(row / (cache->io_workers * gpus)) * cache->io_workers +
			     row % cache->io_workers;
	const uint32_t in_row = set & ((1u << cache->shape.group_shift) - 1);

	return ((its << cache->shape.group_shift) + in_row) * gpus * HR_WAYS;
}

/* Sets that an I/O worker owns, at most. */
HR_BOTH uint64_t hr_peers_own_sets(const struct hr_page_shape *shape, uint32_t io_workers)
{
	return (uint64_t)((shape->rows + io_workers - 1) / io_workers) << shape->group_shift;
}

/* Bytes of the memory of one gpu for the structures of this header: HR_PLACE_WORKER, zeroed before
 * each run, aligned to HR_PEERS_ALIGN, open to the other gpus. About 11.4 per frame, and 1.6 KiB
 * per I/O worker and gpu. */
uint64_t hr_peers_bytes(const struct hr_page_shape *shape, uint32_t io_workers, uint32_t gpus);

/* Memory of a gpu, at its addresses for the workers of the gpu that is wired. */
struct hr_peer_memory {
	uint8_t *peers; /* hr_peers_bytes() */
	uint8_t *frame;
	const struct hr_page_set *set;
	const uint64_t *flushed;
	const uint8_t *states; /* NULL: operators without states */
};

/*
 * Fill in the struct of gpu `self`. memory: of each gpu, as gpu `self` sees it. Reads and writes no
 * memory but `peers`, so the addresses may be those of a gpu. The host copies the struct to where
 * hr_page_cache.peers points.
 */
void hr_peers_wire(struct hr_peers *peers, const struct hr_page_shape *shape, uint32_t io_workers,
		   uint32_t self, uint32_t gpus, const struct hr_peer_memory *memory,
		   uint64_t timeout_ns);

#endif
