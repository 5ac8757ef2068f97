/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/pager.h - the I/O workers of a page cache (cache/page_cache.h), simulated by one
 * thread or step by step: they serve the rings from an array, the disk, with the delays and errors of
 * a script.
 *
 * A test runs it as a thread (pager_start), or calls pager_step() in the workers' idle function, so
 * that nothing depends on time. It works on the same words as gpu/worker/io/io.c, for any
 * number of lanes of the workers.
 */
#ifndef TESTS_FAKES_PAGER_H
#define TESTS_FAKES_PAGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/page_cache.h"
#include "tests/harness/random.h"

struct pager_shape {
	uint64_t frames;
	uint32_t page_shift, policy;
	uint32_t computers, io_workers;
	uint32_t objects;
	uint64_t bytes[HR_OBJECTS_MAX]; /* UINT64_MAX: object omitted */
	bool read_only[HR_OBJECTS_MAX];
};

struct pager {
	struct hr_page_cache cache;
	uint8_t *disk; /* page p of the cache lies at p << page_shift */
	uint32_t pages;
	/* The script; changed only while no step runs. */
	uint32_t bad_page;     /* page whose read fails; HR_NO_PAGE: none */
	uint32_t delay;	       /* steps from the start to the end of a read or write */
	uint32_t evict_one_of; /* one of so many steps evicts or writes back a page; 0: none */
	uint32_t patience;     /* the run ends after so many steps without a frame; 0: no limit */
	bool asleep;	       /* the pager takes no requests */
	struct fake_random random;
	/* Counters. */
	struct hr_io_counters did; /* sums over all I/O workers */
	uint32_t *reads_of;	   /* [pages] number of reads of each page */
	uint32_t entries_max;	   /* largest number of requests in a ring */
	/* Private. */
	uint32_t *due;	 /* [frames] steps until the command of a frame completes */
	uint32_t *since; /* [frames] epoch to pass before a write-back reads the frame */
	bool *owed;	 /* [frames] the flush in progress waits for this write */
	uint64_t flushing;
	uint32_t starved;
	uint8_t *frame_memory;
	pthread_t thread;
	uint32_t stop_thread;
};

/* Allocate memory; the disk gets random bytes from the seed. Objects begin at multiples of 32 pages. */
void pager_init(struct pager *pager, const struct pager_shape *shape, uint64_t seed);
void pager_fini(struct pager *pager);

/* One round of all I/O workers. */
void pager_step(struct pager *pager);

/* A thread that calls pager_step() until pager_stop(). */
void pager_start(struct pager *pager);
void pager_stop(struct pager *pager);

/* The bytes of an object on the disk. */
uint8_t *pager_disk_of(const struct pager *pager, uint32_t object);

/* Repeat steps until no page is in a command or LEFT: every page then has a settled state. */
void pager_settle(struct pager *pager);

/* Number of ways in a state. */
uint32_t pager_count(const struct pager *pager, enum hr_page_state state);

#endif
