/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/page_cache.h - the page cache of one gpu: the data that compute and I/O workers share.
 *
 * Compute workers look pages up (cache/objects/objects.h). A hit reads the set and the frame;
 * it does no atomic operation and writes at most the recency word. For a missing page the worker puts a
 * request into the ring of the page's owner, an I/O worker (gpu/worker/io/io.h), and polls the set
 * until the page is READY or has an ERROR. The owner alone changes which pages are in its rows, so
 * each missing page is read once.
 *
 * Reclaiming frames. A worker that uses a frame leaves no mark on it. Instead, each worker has a word
 * `seen`, and stores the current epoch there when the worker uses no page any more (a quiescent
 * state). Each I/O worker stores the epoch in its own word after a share of the compute workers has
 * done so, and one of them advances the epoch by one when every I/O worker has (with several gpus
 * worker 0): so every worker has seen the epoch. `settled` is the smallest value of all `seen` words.
 * An owner that has itself seen epoch e removes a page and notes e + 2, because:
 *   - the epoch can reach e + 2 only after the owner has stored e + 1 in its own word, which
 *     releases the removal;
 *   - a worker that has seen e + 2 acquired it after that, so its later look-ups find the page gone,
 *     and its earlier uses are complete.
 * So the frame is free when settled has reached e + 2. With several gpus, settled is limited by what
 * the other gpus have passed: cache/peers.h. The same wait comes before write-back reads
 * a frame: workers that found the page DIRTY before may still write to it. hr_epoch_next() computes
 * the next epoch, and skips HR_EPOCH_ENDED.
 *
 * All words are in the place WORKER and used at device scope, except where noted. The host fills
 * them in before the launch.
 */
#ifndef CACHE_PAGE_CACHE_H
#define CACHE_PAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/extent.h"
#include "cache/page_table.h"
#include "config/base/limits.h"
#include "nvme/queue/worker.h"

#define HR_EPOCH_FIRST 1u	  /* in each `seen` before the start, so no worker is missed */
#define HR_EPOCH_ENDED UINT32_MAX /* in `seen`: the worker has ended */
#define HR_REQUESTS 256u	  /* entries of a ring; a power of two */
#define HR_NO_PAGE UINT32_MAX

/* An object of the cache. The pages of an object have consecutive numbers, from a multiple of 32
 * on, so a group never has pages of two objects. */
struct hr_object {
	uint64_t bytes;	     /* length of the data */
	uint32_t first_page; /* number of page 0 of the object */
	uint32_t pages;
	uint32_t index; /* in hr_page_cache.object and .extent */
	uint32_t writable;
	/* 1: the data are the bytes from `at` on of a data set of all_bytes, which ranks divide; 0:
	 * they are the whole data set, and the two numbers are 0. */
	uint32_t divided;
	uint64_t at, all_bytes;
};

/*
 * Requests to one I/O worker. Many workers add, the owner takes. An adder takes a ticket t from
 * `tail`, waits until taken + HR_REQUESTS > t, and stores the entry: page | (lap + 1) << 32, with
 * lap = t / HR_REQUESTS (30 bits), by a release; with several gpus it adds HR_REQUEST_WRITE when it
 * wants to write to the page, with one HR_REQUEST_WHOLE when it wants to write all of it. The owner
 * takes entry t when it has the lap it expects, and stores taken = t + 1 (release) after the page
 * has a way in the table: READING or any later state, or OFFERED after HR_REQUEST_WHOLE. So a
 * worker that finds taken > t, and then finds no way with the page, knows that the page has left
 * again, and requests it again. When a request that waits for a frame blocks a full ring, the owner
 * drops that request, and the worker requests the page again.
 */
struct hr_request_ring {
	uint64_t tail; /* next ticket; hr_fetch_add_u64(), once per warp and owner */
	uint64_t unused[7];
	uint64_t taken; /* by the owner: pages of tickets below this have had a way */
	uint64_t more_unused[7];
	uint64_t entry[HR_REQUESTS];
};

#define HR_REQUEST_WRITE ((uint64_t)1 << 63)
#define HR_REQUEST_WHOLE ((uint64_t)1 << 62)
#define HR_REQUEST_FLAGS (HR_REQUEST_WRITE | HR_REQUEST_WHOLE)

HR_BOTH uint64_t hr_request_entry(uint64_t ticket, uint32_t page)
{
	return page | ((ticket / HR_REQUESTS + 1) << 32 & ~HR_REQUEST_FLAGS);
}

/* One per worker, compute workers first, then I/O workers; a line of its own. */
struct hr_cache_worker {
	uint32_t seen; /* epoch, by the worker (release) */
	/* of an I/O worker: the compute workers of its share have ended; stored before `seen` */
	uint32_t share_ended;
	/* By compute workers when they end: pages looked up, pages not found at once, of these pages
	 * read in the memory of another gpu, and the time in waits. The host reads them. */
	uint64_t accesses, misses, peer_reads, waits_ns;
	uint32_t unused[6];
} __attribute__((aligned(64)));

/* By I/O workers; each has one. The host reads them after the end, or at any time at system scope. */
struct hr_io_counters {
	uint64_t requests; /* taken from the ring */
	uint64_t reads;	   /* pages read from an ssd */
	uint64_t read_commands;
	uint64_t merges;      /* requests for a page that was cached or being read */
	uint64_t evictions;   /* pages removed to free frames */
	uint64_t write_backs; /* pages written */
	uint64_t write_commands;
	uint64_t errors; /* pages that became ERROR */
	uint64_t whole;	 /* pages that were not read, because a worker writes all of them */
	uint64_t waits;	 /* times that a page found no frame in its set, and waited for one */
	/* With several gpus: pages copied from the frame of another gpu; pages that left because
	 * another gpu wrote to them */
	uint64_t copies, invalidations;
	/* By worker 0: epochs that it has seen end. By each: a worker (compute workers first) of its
	 * share that had not seen the current epoch at the latest look, or itself when all had; then
	 * an I/O worker that had not published the epoch */
	uint64_t epochs, behind;
	/* Cycles of the worker's processor, 0 on the CPU: parts of the time that a miss takes. */
	uint64_t serve_cycles, serves; /* from requests taken to their doorbell; batches of them */
	uint64_t ssd_cycles; /* from a command's entry to its completion; of all commands */
	uint64_t settle_cycles, settles; /* from completions to pages READY; batches of them */
};

/* Why a run ends: by I/O worker 0 at the host's request, by a worker that has failed, by an owner
 * that found no frame within timeout_ns. */
enum hr_cache_stop { HR_CACHE_RUNS, HR_CACHE_ENDS, HR_CACHE_FAILED, HR_CACHE_DEADLOCK };

/* Compute workers of this gpu have ended; and those of the other gpus, which may read its frames. */
enum hr_cache_ended { HR_CACHE_COMPUTES, HR_CACHE_UNWRITTEN, HR_CACHE_UNREAD };

#define HR_BARRIER_BITS 40u

/* Words that all workers of the cache share. */
struct hr_cache_words {
	uint32_t epoch, settled; /* by an I/O worker */
	uint32_t stop;	       /* enum hr_cache_stop: not 0: the run ends now, every wait returns */
	uint32_t ended;	       /* by I/O worker 0: enum hr_cache_ended */
	uint64_t flush_wanted; /* number of the newest hr_flush(); hr_arrive_u64() */
	/* hr_workers_sync() of cache/objects/objects.h: arrivals of compute workers in the low
	 * HR_BARRIER_BITS bits, and above them compute workers that have ended without an error */
	uint64_t barrier;
} __attribute__((aligned(32)));

struct hr_peers;

struct hr_page_cache {
	struct hr_page_shape shape;
	uint32_t policy; /* enum hr_page_policy of cache/page_policy.h */
	/* By the index in the operator's description. An optional object that the configuration
	 * leaves out has first_page HR_NO_PAGE and no bytes. */
	uint32_t objects;
	struct hr_object object[HR_OBJECTS_MAX];
	struct hr_extent extent[HR_OBJECTS_MAX]; /* for I/O workers and for messages */
	uint32_t rank,
		ranks; /* this process, of those that divide the run; ranks 0: it runs alone */
	uint32_t computers, io_workers; /* workers of each kind */
	uint32_t io_inverse;		/* hr_cache_set_io_workers() */
	uint64_t
		timeout_ns; /* an owner that finds no frame for a request for so long ends the run */
	struct hr_page_set *set;	/* [hr_page_sets()] */
	uint8_t *frame;			/* [hr_page_frames()] pages, in the place GPU */
	struct hr_request_ring *ring;	/* [io_workers] */
	struct hr_cache_worker *worker; /* [computers + io_workers] */
	/* [io_workers]: by each, the newest hr_flush() it has done, worker 0 as the last; UINT64_MAX at
	 * the end of the run, when all data are durable */
	uint64_t *flushed;
	struct hr_cache_words *words;
	struct hr_peers *peers; /* cache/peers.h: the caches of other gpus; NULL: one gpu */
};

/* Set the number of I/O workers, at least 1, and its inverse: a GPU takes long to divide. Host side. */
static inline void hr_cache_set_io_workers(struct hr_page_cache *cache, uint32_t io_workers)
{
	cache->io_workers = io_workers;
	cache->io_inverse = UINT32_MAX / io_workers;
}

/* Index of the I/O worker that owns a set: its row modulo io_workers. */
HR_BOTH uint32_t hr_cache_owner(const struct hr_page_cache *cache, uint32_t set)
{
	const uint32_t row = set >> cache->shape.group_shift;
	/* at most 1 too small */
	const uint32_t times = (uint32_t)((uint64_t)row * cache->io_inverse >> 32);
	const uint32_t rest = row - times * cache->io_workers;

	return rest < cache->io_workers ? rest : rest - cache->io_workers;
}

/* The address of a way's frame. */
HR_BOTH uint8_t *hr_cache_frame(const struct hr_page_cache *cache, uint32_t set, uint32_t way)
{
	return cache->frame + (hr_page_frame(set, way) << cache->shape.page_shift);
}

/* The object with that index, or NULL. */
HR_BOTH const struct hr_object *hr_cache_object(const struct hr_page_cache *cache, uint64_t index)
{
	if (index >= HR_OBJECTS_MAX || index >= cache->objects ||
	    cache->object[index].first_page == HR_NO_PAGE)
		return NULL;
	return &cache->object[index];
}

HR_BOTH uint32_t hr_epoch_next(uint32_t epoch)
{
	return epoch + 1 == HR_EPOCH_ENDED ? 0 : epoch + 1;
}

/* True when every worker has passed an epoch (of which a tag keeps the low 28 bits). */
HR_BOTH bool hr_epoch_passed(uint32_t settled, uint32_t epoch)
{
	return (int32_t)((settled - epoch) << HR_TAG_SHIFT) >= 0;
}

HR_STATIC_ASSERT(sizeof(struct hr_cache_words) == 32, "read as eight words");

/* Error of a page in the state ERROR: the start of its frame. */
struct hr_page_error {
	int32_t error; /* > 0: NVMe status; -ETIMEDOUT: the command was lost */
	uint32_t page;
	uint64_t lba;
};

#endif
