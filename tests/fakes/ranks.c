/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/ranks.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct member {
	pthread_t thread;
	const void *from; /* during gather() and reduce() */
	void *into;	  /* during reduce() */
	uint64_t bytes;
	struct hr_ranks ranks;
	uint32_t calls;
	uint32_t value; /* during max() */
};

static struct member member[FAKE_RANKS_MAX];
static pthread_barrier_t all;
static uint32_t stopping, closed, limit;
static void (*rank_main)(struct hr_ranks *ranks, void *to);
static void *rank_to;

static struct member *of(struct hr_ranks *ranks)
{
	return ranks->impl;
}

static int count(struct hr_ranks *ranks)
{
	if (of(ranks)->calls++ < limit)
		return 0;
	snprintf(ranks->why, sizeof ranks->why, "the fake fails");
	return -EIO;
}

static int gather(struct hr_ranks *ranks, const void *from, uint64_t bytes, void *to,
		  const uint64_t *lengths)
{
	uint8_t *at = to;
	int err = count(ranks);

	if (err)
		return err;
	of(ranks)->from = from;
	of(ranks)->bytes = bytes;
	pthread_barrier_wait(&all);
	for (uint32_t r = 0; !ranks->rank && r < ranks->size; r++) {
		if (lengths[r] != member[r].bytes)
			abort(); /* a library would wait for ever, or write beyond the memory */
		if (lengths[r])
			memcpy(at, member[r].from, lengths[r]);
		at += lengths[r];
	}
	pthread_barrier_wait(&all);
	return 0;
}

/* Rank 0 merges from the last rank on, so that all orders within a tree are right. */
static int reduce(struct hr_ranks *ranks, void *data, void *other, uint64_t bytes,
		  void (*merge)(void *arg, void *into, const void *from), void *arg)
{
	int err = count(ranks);

	if (err)
		return err;
	of(ranks)->from = data;
	of(ranks)->into = data;
	of(ranks)->bytes = bytes;
	pthread_barrier_wait(&all);
	for (uint32_t r = ranks->size - 1; !ranks->rank && r > 0; r--) {
		if (member[r].bytes != bytes)
			abort();
		if (bytes)
			memcpy(other, member[r].from, bytes);
		merge(arg, member[r - 1].into, other);
	}
	pthread_barrier_wait(&all);
	return 0;
}

static int max(struct hr_ranks *ranks, uint32_t value, uint32_t *most)
{
	int err = count(ranks);

	if (err)
		return err;
	of(ranks)->value = value;
	if (ranks->idle)
		ranks->idle(ranks->idle_to);
	pthread_barrier_wait(&all);
	*most = 0;
	for (uint32_t r = 0; r < ranks->size; r++)
		*most = member[r].value > *most ? member[r].value : *most;
	pthread_barrier_wait(&all);
	return 0;
}

static void stop(struct hr_ranks *ranks)
{
	__atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
}

static bool stopped(const struct hr_ranks *ranks)
{
	return __atomic_load_n(&stopping, __ATOMIC_ACQUIRE) != 0;
}

static void leave(struct hr_ranks *ranks)
{
	__atomic_fetch_add(&closed, 1, __ATOMIC_RELAXED);
}

static const struct hr_ranks_ops ops = { .gather = gather,
					 .reduce = reduce,
					 .max = max,
					 .stop = stop,
					 .stopped = stopped,
					 .close = leave };

static void *thread_main(void *to)
{
	struct member *self = to;

	rank_main(&self->ranks, rank_to);
	return NULL;
}

void fake_ranks_run(uint32_t size, uint32_t calls, void (*rank)(struct hr_ranks *ranks, void *to),
		    void *to)
{
	if (size > FAKE_RANKS_MAX || pthread_barrier_init(&all, NULL, size) != 0)
		abort();
	memset(member, 0, sizeof member);
	stopping = closed = 0;
	limit = calls;
	rank_main = rank;
	rank_to = to;
	for (uint32_t r = 0; r < size; r++)
		member[r].ranks = (struct hr_ranks){
			.ops = &ops, .impl = &member[r], .rank = r, .size = size, .local_rank = r
		};
	for (uint32_t r = 0; r < size; r++)
		if (pthread_create(&member[r].thread, NULL, thread_main, &member[r]) != 0)
			abort();
	for (uint32_t r = 0; r < size; r++)
		pthread_join(member[r].thread, NULL);
	pthread_barrier_destroy(&all);
}

uint32_t fake_ranks_calls(void)
{
	return member[0].calls;
}

uint32_t fake_ranks_closed(void)
{
	return closed;
}
