/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/io/io.h - an I/O worker of an access operator's run; only for files of this
 * folder. Worker code.
 *
 * A worker with nothing to do takes a single request the short way: single.c. Otherwise it
 * repeats rounds. In each round it
 *   - reaps completions: commands.c
 *   - takes requests, gives frames to pages, posts reads, removes victims: requests.c
 * and in a round with such work, and from time to time, it also
 *   - reads the shared words, and does its part in the change of epochs
 *   - with several gpus, serves messages of other gpus: peers.h
 *   - begins to write dirty pages, and serves hr_flush(): writeback.c
 *   - sends commands again, and those that waited for an epoch: commands.c
 * A doorbell is written once per queue pair and step.
 *
 * The files are one worker, so this header declares functions of all of them.
 *
 * A round handles up to HR_IO_BATCH pages, a request or a set of a row each. Page i of a batch
 * belongs to lane i mod HR_LANES; a lane has HR_IO_SLICES of them (1 on a GPU, all on the CPU). Masks
 * of a batch have bit i for page i, and are the same in all lanes.
 */
#ifndef GPU_WORKER_IO_IO_H
#define GPU_WORKER_IO_IO_H

#include "gpu/worker/io/access.h"
#include "gpu/worker/role.h"
#include "nvme/queue/queue.h"

#define HR_IO_BATCH 32u
#define HR_IO_SLICES ((HR_IO_BATCH + HR_LANES - 1) / HR_LANES)
#define HR_IO_NONE UINT32_MAX
#define HR_IO_DRAIN UINT64_MAX /* number of the flush at the end of the run */

HR_STATIC_ASSERT(HR_IO_BATCH == 1u << HR_GROUP_SHIFT_MAX, "a batch covers a row");
HR_STATIC_ASSERT(HR_IO_COMMANDS_MAX <= 256, "hr_io_block.unused has bytes");

/* Memory of a worker in the memory of its block. */
struct hr_io_block {
	struct hr_io_counters count;
	/* Pages that wait for a frame, and the low bits of the tickets of their requests. */
	uint32_t waiting[HR_IO_BATCH], ticket[HR_IO_BATCH];
	uint8_t flags[HR_IO_BATCH]; /* of these requests: enum hr_io_flags */
	/* Commands that are not in use. The last is the next, whose staging memory is in a cache. */
	uint8_t unused[HR_IO_COMMANDS_MAX];
} __attribute__((aligned(16)));

/* Flags of a request: HR_REQUEST_WRITE, HR_REQUEST_WHOLE. */
enum hr_io_flags { HR_IO_WRITES = 1, HR_IO_WHOLE = 2 };

/* The next step of a flush. */
enum hr_io_flush {
	HR_IO_FLUSH_NONE,
	HR_IO_FLUSH_SWEEP,  /* begin to write the dirty pages of all own rows */
	HR_IO_FLUSH_WRITE,  /* wait for writes */
	HR_IO_FLUSH_OTHERS, /* worker 0: wait until the other workers have written */
	HR_IO_FLUSH_DEVICE, /* worker 0: NVMe FLUSH */
};

/* Each lane has a copy. */
struct hr_io_worker {
	struct hr_role_worker role; /* heartbeat, status, cost */
	struct hr_access *access;
	struct hr_nvme_qp *qp;	       /* [access->ssds] */
	struct hr_io_command *command; /* [access->commands] */
	struct hr_io_block *block;
	/* Shared words, as of this round. */
	uint32_t seen, settled;
	uint32_t published; /* the epoch in its own word `seen` */
	bool ended, stopped;
	bool unread; /* the compute workers of all gpus have ended */
	/* Commands. */
	uint32_t unused; /* commands in block->unused */
	uint32_t unsent; /* parked, or waiting for an epoch */
	uint32_t sent;	 /* at the controller, flushes too; without lost commands */
	/* Requests. */
	uint64_t taken;	  /* next ticket to take */
	uint64_t told;	  /* ring's `taken`: below the ticket of every waiting page */
	uint32_t waiting; /* pages in block->waiting */
	/* Sets of the lane's pages of the last batch where pages are to be removed: so many, 0: none.
	 * room_waits: a page waits for a frame there. */
	uint32_t room_set[HR_IO_SLICES], room_wanted[HR_IO_SLICES];
	bool room_waits[HR_IO_SLICES];
	bool room; /* there are such sets */
	/* Frames that each set keeps free, or on the way to it: from the pages that got a frame since
	 * `settled` changed, and while a frame that is given up cannot be used, mean: io.c. */
	uint32_t reserve, entered, leaving;
	bool calm; /* leaving is small: few pages would wait for a frame if epochs ended late */
	bool offers_wait; /* one waits for frames of OFFERED pages, until the epoch offers_end */
	uint32_t offers_end;
	uint64_t moved_ns; /* latest time when a waiting page got a frame, or a command ended */
	/* Write-back. */
	uint32_t row;	 /* next of its rows to sweep */
	uint32_t urgent; /* row of a set without clean frames, or HR_IO_NONE */
	/* Write commands in use that began in an even and in an odd sweep; the parity of the sweep. */
	uint32_t writing[2], sweep;
	uint32_t flush_step; /* enum hr_io_flush */
	uint32_t flush_row;
	/* 1: a page was changed during its write; 2: and the rows are swept again */
	uint32_t flush_again;
	uint64_t flush_wanted, flush, flushed; /* numbers: newest, current, last done */
	uint32_t flush_left, flush_sent;       /* bit q: queue pair q has to flush, flushes */
	uint32_t flush_tries;
	uint64_t flush_again_ns, flush_first_ns;
	/* With several gpus. */
	uint32_t asked;			/* pages with a GET: a command is kept for each */
	uint64_t pending;		/* sets that were taken from the list */
	uint32_t peer_row;		/* next of its rows to check for late answers */
	uint32_t peer_shift, peer_time; /* a unit of time is 1 << peer_shift ns; the present time */
	uint32_t peer;			/* for hr_failure.peer */
	uint32_t confirmed; /* worker 0: its epoch when it has confirmed those of other gpus */
	bool stop_told;	    /* worker 0: other gpus know of the end of the run */
	bool done_told;	    /* other gpus know that this worker wants nothing any more */
	bool peers_done;    /* and the workers of the other gpus want nothing */
	/* Of the words `seen` that are checked: the number of those with the present epoch, and of
	 * those that have ended: io.c. */
	uint32_t scan, scan_ended;
	uint32_t lag;	 /* of the first poll for a single command: single.c */
	uint32_t object; /* of the last single request */
};

/* Pages that are handled together. Members with [HR_IO_SLICES] are of the lane's pages. */
struct hr_io_batch {
	uint32_t count;		       /* the same in all lanes */
	uint32_t page[HR_IO_SLICES];   /* HR_NO_PAGE: nothing to do */
	uint32_t ticket[HR_IO_SLICES]; /* of a request: low bits */
	uint8_t flags[HR_IO_SLICES];   /* of a request: enum hr_io_flags */
	uint32_t set[HR_IO_SLICES], tag[HR_IO_SLICES];
	uint32_t way[HR_IO_SLICES]; /* way of the page; HR_WAYS: none */
};

/* Index in a batch of slice `s` of the calling lane. */
HR_WORKER uint32_t hr_io_index(uint32_t s)
{
	return s * HR_LANES + hr_lane();
}

/* The value of page i, from its lane. Collective. */
HR_WORKER uint32_t hr_io_of(const uint32_t value[HR_IO_SLICES], uint32_t i)
{
	return hr_shfl_u32(value[HR_IO_SLICES == 1 ? 0 : i / HR_LANES], i % HR_LANES);
}

/* The part of a batch's mask from one slice: bit i for page i. Collective. */
HR_WORKER uint32_t hr_io_mask(bool p, uint32_t s)
{
	return (uint32_t)hr_ballot(p) << (HR_IO_SLICES == 1 ? 0 : s * HR_LANES);
}

HR_WORKER bool hr_io_in(uint32_t mask, uint32_t s)
{
	return hr_io_index(s) < HR_IO_BATCH && mask >> hr_io_index(s) & 1;
}

/* True when the mask has a page of slice s. */
HR_WORKER bool hr_io_slice(uint32_t mask, uint32_t s)
{
	return HR_IO_SLICES == 1 ? mask != 0
				 : (mask >> s * HR_LANES & ((1u << HR_LANES % 32) - 1)) != 0;
}

/* Number of bits below bit i of a mask of a batch. */
HR_WORKER uint32_t hr_io_before(uint32_t mask, uint32_t i)
{
	return hr_count_bits((hr_mask)(mask & (((uint32_t)1 << (i & 31)) - 1)));
}

/* Add to a counter. Collective. */
HR_WORKER void hr_io_count(uint64_t *counter, uint64_t n)
{
	if (hr_lane() == 0)
		*counter += n;
}

/* The index of the object with that page, or cache->objects. */
HR_WORKER uint32_t hr_io_object(const struct hr_page_cache *cache, uint32_t page)
{
	uint32_t i = 0;

	while (i < cache->objects && page - cache->object[i].first_page >= cache->object[i].pages)
		i++;
	return i;
}

/* The first index of the worker's commands among those of all I/O workers. */
HR_WORKER uint64_t hr_io_first_command(const struct hr_io_worker *w)
{
	return (uint64_t)w->role.index * w->access->commands;
}

/* Page k of a command in the staging memory. */
HR_WORKER uint64_t hr_io_staging_at(const struct hr_io_worker *w, uint32_t number, uint32_t k)
{
	const struct hr_access *access = w->access;
	const uint64_t all = (uint64_t)hr_access_io_workers(access) * access->commands;

	return (k * all + hr_io_first_command(w) + number) << access->cache.shape.page_shift;
}

/* Commands that can be begun, without those that are kept for answers to GET. */
HR_WORKER uint32_t hr_io_unused(const struct hr_io_worker *w)
{
	return w->unused - w->asked;
}

/* True when every worker, of all gpus, has passed the epoch, or no compute worker is left. */
HR_WORKER bool hr_io_passed(const struct hr_io_worker *w, uint32_t epoch)
{
	return w->unread || hr_epoch_passed(w->settled, epoch);
}

/* True when the worker has work that neither a completion nor a request begins. */
HR_WORKER bool hr_io_is_busy(const struct hr_io_worker *w)
{
	return w->access->cache.peers || w->waiting || w->unsent || w->flush_step ||
	       w->urgent != HR_IO_NONE || w->ended || w->stopped;
}

/* Polls of a round, which wait for a completion. Without a command hr_io_one() waits for requests. */
#define IO_POLLS_SENT 6u

/* How a round of a GPU waits for completions and requests: a short loop, when the worker has nothing
 * else to do, and one queue pair. */
HR_WORKER struct hr_qp_wait hr_io_waits(const struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	struct hr_qp_wait wait = { 1, NULL, 0, 0 };

	if (HR_LANES == 1 || w->access->ssds != 1 || !w->sent || hr_io_is_busy(w))
		return wait;
	wait.polls = IO_POLLS_SENT;
	wait.word = &cache->ring[w->role.index].entry[w->taken % HR_REQUESTS];
	wait.mask = ~HR_REQUEST_FLAGS & ~(uint64_t)UINT32_MAX;
	wait.value = hr_request_entry(w->taken, 0);
	return wait;
}

/* The epoch after which a frame that is given up now may be used again. */
HR_WORKER uint32_t hr_io_grace(const struct hr_io_worker *w)
{
	return hr_epoch_next(hr_epoch_next(w->seen));
}

/* The word of a way when its page is removed. */
HR_WORKER uint32_t hr_io_left(const struct hr_io_worker *w, uint32_t word)
{
	const bool known = w->access->cache.peers && HR_PAGE_STATE(word) != HR_PAGE_ERROR;

	return HR_PAGE_WORD(hr_io_grace(w), HR_PAGE_LEFT) | (known ? HR_PAGE_SHARED : 0);
}

/* Note a command that begins. One lane. */
HR_WORKER void hr_io_fill(const struct hr_io_worker *w, uint32_t number, uint32_t page,
			  uint32_t pages, uint8_t opcode)
{
	struct hr_io_command *c = &w->command[number];

	c->page = page;
	c->pages = pages;
	c->opcode = opcode;
	c->state = HR_IO_SETTLING;
	c->tries = c->single = c->at = 0;
	c->sweep = (uint8_t)w->sweep;
	c->until = hr_io_grace(w);
}

/*
 * Block-collective, by an I/O block: the descriptor for hr_io_run(). It is a copy in the memory of the
 * block when that has room, because each access to the descriptor in GPU memory after an acquire takes
 * as long as the access to a word that other workers write. Nothing of it changes during the run.
 */
HR_DEVICE struct hr_access *hr_io_block_access(struct hr_access *access);

/* One I/O worker, until all compute workers have ended or the run stops. */
HR_DEVICE void hr_io_run(struct hr_access *access, uint32_t worker);

/* Record the first failure of the worker, and stop the run. page: HR_NO_PAGE: no page is the cause.
 * Collective. */
HR_DEVICE_SLOW void hr_io_fail(struct hr_io_worker *w, uint32_t queue, uint8_t opcode,
			       uint32_t page, uint16_t cid, int32_t error);

/* Result of hr_io_one(). */
enum hr_io_one {
	HR_IO_ONE_NOT,	 /* the worker has other work, or takes the request as a batch */
	HR_IO_ONE_IDLE,	 /* no request has come */
	HR_IO_ONE_NEWS,	 /* none has come, and shared words have changed */
	HR_IO_ONE_BEGUN, /* the read of a page was sent */
	HR_IO_ONE_DONE,	 /* and has completed: the page is READY */
};

/* When the worker has nothing to do, wait for a request, and serve a single one that reads a page.
 * Collective. */
HR_DEVICE_SLOW enum hr_io_one hr_io_one(struct hr_io_worker *w);

/*
 * Begin commands for the pages of a batch that have a way: neighbours share one. A read is sent; a
 * write waits for its epoch. There are at least as many unused commands as such pages. Collective.
 */
HR_DEVICE void hr_io_begin(struct hr_io_worker *w, const struct hr_io_batch *b, uint8_t opcode);

/* Read the shared words, and do the worker's part in the change of epochs: in the midst of long work,
 * too, because an epoch ends after all I/O workers have done so. Collective. */
HR_DEVICE_SLOW void hr_io_epoch(struct hr_io_worker *w);

/* Reap the completions of all queue pairs. True when there were any. Collective. */
HR_DEVICE bool hr_io_reap_all(struct hr_io_worker *w);

/* Send the commands that are due; after a stop give them up. True when there were any. Collective. */
HR_DEVICE_SLOW bool hr_io_send_due(struct hr_io_worker *w);

/* Write the doorbells of queue pairs with new commands. Collective. */
HR_DEVICE void hr_io_publish_all(const struct hr_io_worker *w);

/* Take requests, and serve them and the waiting ones. True when pages got frames. Collective. */
HR_DEVICE bool hr_io_requests(struct hr_io_worker *w);

/*
 * Remove pages of the sets that the pages of the last call of hr_io_requests() have entered, or wait
 * for, so that later pages find frames there. A round does this after completions, because the reads of
 * that call do not wait for it, and a worker waits for the pages of completions. Collective.
 */
HR_DEVICE void hr_io_make_room(struct hr_io_worker *w);

/* Begin to write dirty pages, and go on with a flush. idle: there was no other work. True when
 * something was begun. Collective. */
HR_DEVICE_SLOW bool hr_io_writeback(struct hr_io_worker *w, bool idle);

/* A flush of queue pair `queue` has completed. Collective. */
HR_DEVICE_SLOW void hr_io_flush_completed(struct hr_io_worker *w, uint32_t queue,
					  const struct hr_completion *done);

#endif
