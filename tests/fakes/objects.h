/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/objects.h - cache/objects/objects.h over plain memory, without cache and I/O
 * workers, and a run of an access operator over it, with the lanes of tests/fakes/lanes.h.
 *
 * Include this header before all headers of headrace. Collective calls check that all lanes call
 * them with the same arguments.
 */
#ifndef TESTS_FAKES_OBJECTS_H
#define TESTS_FAKES_OBJECTS_H

#define CACHE_OBJECTS_OBJECTS_H /* replaced by this header */
#define CACHE_OBJECTS_FIND_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/lanes.h"

#include "cache/page_cache.h"
#include "config/operator.h"

#define HR_NO_INDEX UINT64_MAX
#define FAKE_PAGE 4096u

struct hr_objects {
	const struct hr_page_cache *cache;
	uint32_t worker, workers;
	uint32_t rank, ranks;
	uint8_t *scratch;
	uint64_t scratch_bytes;
	int32_t error;
	uint32_t error_object;
	uint64_t error_index;
};

#include "cache/objects/ranks.h"

/* The objects, set by the test (data NULL: omitted), and the results of a run. */
static struct fake_access {
	struct hr_object object[HR_OBJECTS_MAX];
	uint8_t *data[HR_OBJECTS_MAX];
	struct hr_page_cache cache;
	struct hr_cache_words words;
	const struct hr_operator *op;
	const void *args;
	uint32_t workers, rank, ranks;
	uint8_t *scratch, *states; /* states: of the workers of all ranks */
	uint64_t scratch_bytes;
	uint32_t state_bytes;
	uint64_t arrived; /* arrivals at barriers so far */
	uint8_t result[HR_OP_RESULT_MAX] __attribute__((aligned(16)));
	int32_t error;	  /* the first error of a worker */
	uint64_t refused; /* index of the refused element; HR_NO_INDEX: none */
	uint32_t refused_object;
	uint64_t prefetches;
	uint64_t pages; /* asked for by hr_page() */
	uint64_t finds; /* of hr_page_try(): each page whose number this divides; 0: none */
} fake_access;

HR_WORKER void fake_same(uint64_t v)
{
	if (hr_ballot(hr_shfl_u64(v, 0) != v)) {
		fprintf(stderr, "objects: lanes call with different arguments\n");
		abort();
	}
}

/* The run has the first error of a worker; -ECANCELED only follows from another error. */
HR_WORKER void fake_keep_error(int32_t error)
{
	int32_t none = 0;

	if (!error || error == -ECANCELED)
		return;
	__atomic_compare_exchange_n(&fake_access.error, &none, error, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	hr_release_u32(&fake_access.words.stop, 1);
}

/* The error of any lane becomes the error of the worker. Collective. */
HR_WORKER int32_t fake_error(struct hr_objects *objects, int32_t error)
{
	const hr_mask mask = hr_ballot(error != 0);

	if (mask && !objects->error) {
		objects->error = (int32_t)hr_shfl_u32((uint32_t)error, hr_lowest_bit(mask));
		fake_keep_error(objects->error);
	}
	return objects->error;
}

HR_WORKER const struct hr_object *hr_get_object_map(const struct hr_objects *objects,
						    uint32_t index)
{
	fake_same(index);
	return fake_access.data[index] ? &fake_access.object[index] : NULL;
}

/* Bytes of [offset, offset + bytes) within the object. */
HR_WORKER uint64_t fake_clip(const struct hr_object *object, uint64_t offset, uint64_t bytes)
{
	if (offset >= object->bytes)
		return 0;
	return object->bytes - offset < bytes ? object->bytes - offset : bytes;
}

HR_WORKER int64_t fake_move(struct hr_objects *objects, const struct hr_object *object,
			    uint64_t offset, uint64_t bytes, void *to, const void *from)
{
	const uint64_t some = fake_clip(object, offset, bytes);

	fake_same((uintptr_t)object);
	fake_same(offset);
	fake_same(bytes);
	hr_lanes_sync();
	if (objects->error)
		return objects->error;
	if (hr_lane() == 0)
		memcpy(to ? to : fake_access.data[object->index] + offset,
		       to ? fake_access.data[object->index] + offset : from, some);
	hr_lanes_sync();
	return (int64_t)some;
}

HR_WORKER int64_t hr_pwrite(struct hr_objects *objects, const struct hr_object *object,
			    uint64_t offset, const void *from, uint64_t bytes)
{
	if (!object->writable)
		return fake_error(objects, -EINVAL);
	return fake_move(objects, object, offset, bytes, NULL, from);
}

HR_WORKER int64_t hr_pread_prefetch(struct hr_objects *objects, const struct hr_object *object,
				    uint64_t offset, uint64_t bytes)
{
	fake_same((uintptr_t)object);
	fake_same(offset);
	fake_same(bytes);
	if (hr_lane() == 0)
		hr_fetch_add_u64(&fake_access.prefetches, 1);
	return objects->error ? objects->error : (int64_t)(offset * HR_OBJECTS_MAX + object->index);
}

HR_WORKER void hr_page_prefetch(struct hr_objects *objects, const struct hr_object *object,
				uint64_t page)
{
	const hr_mask mask = hr_ballot(!objects->error && page < object->pages);

	fake_same((uintptr_t)object);
	if (hr_lane() == 0)
		hr_fetch_add_u64(&fake_access.prefetches, hr_count_bits(mask));
}

HR_WORKER int64_t hr_consume_prefetch_pread(struct hr_objects *objects, int64_t id, void *to,
					    uint64_t bytes)
{
	fake_same((uint64_t)id);
	return fake_move(objects, &fake_access.object[(uint64_t)id % HR_OBJECTS_MAX],
			 (uint64_t)id / HR_OBJECTS_MAX, bytes, to, NULL);
}

HR_WORKER uint64_t fake_element(struct hr_objects *objects, const struct hr_object *object,
				uint64_t index, uint32_t bytes)
{
	const bool beyond = index != HR_NO_INDEX && index >= object->bytes / bytes;
	uint64_t value = 0;

	fake_same((uintptr_t)object);
	if (fake_error(objects, beyond ? -ERANGE : 0) || index == HR_NO_INDEX)
		return 0;
	memcpy(&value, fake_access.data[object->index] + index * bytes, bytes);
	return value;
}

HR_WORKER uint32_t hr_get_u32(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t index)
{
	return (uint32_t)fake_element(objects, object, index, sizeof(uint32_t));
}

HR_WORKER uint64_t hr_get_u64(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t index)
{
	return fake_element(objects, object, index, sizeof(uint64_t));
}

HR_WORKER const void *hr_page(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t page)
{
	const bool beyond = page != HR_NO_INDEX && page * FAKE_PAGE >= object->bytes;

	fake_same((uintptr_t)object);
	if (fake_error(objects, beyond ? -ERANGE : 0) || page == HR_NO_INDEX)
		return NULL;
	hr_fetch_add_u64(&fake_access.pages, 1);
	return fake_access.data[object->index] + page * FAKE_PAGE;
}

HR_WORKER const void *hr_page_try(struct hr_objects *objects, const struct hr_object *object,
				  uint64_t page)
{
	const bool within = !objects->error && page < (object->bytes + FAKE_PAGE - 1) / FAKE_PAGE;

	fake_same((uintptr_t)object);
	if (!within || !fake_access.finds || page % fake_access.finds)
		return NULL;
	return fake_access.data[object->index] + page * FAKE_PAGE;
}

HR_WORKER uint32_t hr_page_bytes(const struct hr_objects *objects)
{
	return FAKE_PAGE;
}

HR_WORKER uint64_t hr_frames(const struct hr_objects *objects)
{
	return 64;
}

HR_WORKER void hr_quiescent(struct hr_objects *objects)
{
	hr_lanes_sync();
}

HR_WORKER int hr_workers_sync(struct hr_objects *objects)
{
	bool stop = false;

	fake_same(objects->error != 0);
	hr_lanes_sync();
	if (objects->error)
		return objects->error;
	if (hr_lane() == 0) {
		const uint64_t turn =
			__atomic_fetch_add(&fake_access.arrived, 1, __ATOMIC_ACQ_REL) /
			fake_access.workers;

		while (hr_acquire_u64(&fake_access.arrived) / fake_access.workers == turn &&
		       !stop) {
			stop = hr_acquire_u32(&fake_access.words.stop);
			sched_yield();
		}
	}
	return hr_ballot(stop) ? fake_error(objects, -ECANCELED) : 0;
}

HR_WORKER void fake_access_worker(uint32_t worker)
{
	struct hr_objects objects = { .cache = &fake_access.cache,
				      .worker = worker,
				      .workers = fake_access.workers,
				      .rank = fake_access.rank,
				      .ranks = fake_access.ranks,
				      .scratch = fake_access.scratch,
				      .scratch_bytes = fake_access.scratch_bytes };

	fake_access.op->run(fake_access.args,
			    fake_access.states +
				    ((size_t)fake_access.rank * fake_access.workers + worker) *
					    fake_access.state_bytes,
			    &objects);
	if (objects.error == -EBADMSG && hr_lane() == 0) {
		__atomic_store_n(&fake_access.refused_object, objects.error_object,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&fake_access.refused, objects.error_index, __ATOMIC_RELAXED);
	}
	fake_keep_error(objects.error); /* the operator may set it */
}

static void fake_access_body(void)
{
	fake_access_worker(hr_warp());
}

static bool fake_access_workers(void)
{
	return fake_blocks_run(fake_access_body, 1, fake_access.workers);
}

static struct hr_op_all fake_access_all;

static void fake_access_finish_body(void)
{
	fake_access.op->finish(&fake_access_all);
}

static void fake_access_finish(const struct hr_op_all *all)
{
	fake_access_all = *all;
	if (!fake_blocks_run(fake_access_finish_body, 1, 2))
		abort();
}

/* Set object `index`: `bytes` at data, which the test owns; NULL: the object is omitted. */
static void fake_access_object(uint32_t index, void *data, uint64_t bytes)
{
	fake_access.data[index] = data;
	fake_access.object[index] =
		(struct hr_object){ .bytes = data ? bytes : 0,
				    .pages = data ? (uint32_t)((bytes + FAKE_PAGE - 1) / FAKE_PAGE)
						  : 0,
				    .index = index };
}

/* Set object `index` to the bytes at .. end - 1 of a data set of all_bytes, which ranks divide. */
HR_BOTH void fake_access_shard(uint32_t index, void *data, uint64_t at, uint64_t end,
			       uint64_t all_bytes)
{
	fake_access_object(index, (uint8_t *)data + at, end - at);
	fake_access.object[index].divided = 1;
	fake_access.object[index].at = at;
	fake_access.object[index].all_bytes = all_bytes;
}

/* The run of one rank. */
static void fake_access_run_rank(const struct hr_operator *op, const void *args,
				 struct hr_op_all *all)
{
	fake_access.arrived = 0;
	for (uint32_t i = 0; i < op->objects; i++) {
		fake_access.object[i].writable = op->object[i].writes;
		all->object_bytes[i] = hr_all_bytes(&fake_access.object[i]);
	}
	fake_access.scratch_bytes =
		op->scratch_bytes ? op->scratch_bytes(args, all->object_bytes) : 0;
	free(fake_access.scratch);
	fake_access.scratch =
		fake_access.scratch_bytes ? calloc(1, fake_access.scratch_bytes) : NULL;
	if (!fake_access_workers())
		abort();
}

/*
 * Run the operator on one rank after another; place(rank) sets the objects of a rank (NULL: they are
 * set). Returns 0, and sets fake_access.result from the states of all ranks; the first error of a
 * worker, and sets fake_access.refused.
 */
static int32_t fake_access_run_ranks(const struct hr_operator *op, const void *args,
				     uint32_t workers, uint32_t ranks, void (*place)(uint32_t rank))
{
	struct hr_op_all all = { .args = args,
				 .workers = ranks * workers,
				 .result = fake_access.result };

	fake_access.op = op;
	fake_access.args = args;
	fake_access.workers = workers;
	fake_access.ranks = ranks;
	fake_access.error = 0;
	fake_access.prefetches = fake_access.pages = 0;
	fake_access.refused = HR_NO_INDEX;
	fake_access.words.stop = 0;
	fake_access.cache.words = &fake_access.words;
	fake_access.state_bytes = all.state_bytes = op->state_bytes(args);
	all.states = fake_access.states = calloc((size_t)ranks * workers, all.state_bytes);
	if (!all.states)
		abort();
	for (uint32_t r = 0; !fake_access.error && r < ranks; r++) {
		fake_access.rank = r;
		if (place)
			place(r);
		fake_access_run_rank(op, args, &all);
	}
	all.scratch = ranks > 1 ? NULL : fake_access.scratch;
	memset(fake_access.result, 0, sizeof fake_access.result);
	if (!fake_access.error)
		fake_access_finish(&all);
	free(fake_access.scratch);
	fake_access.scratch = NULL;
	free(fake_access.states);
	return fake_access.error;
}

/* The same on one rank. */
static int32_t fake_access_run(const struct hr_operator *op, const void *args, uint32_t workers)
{
	return fake_access_run_ranks(op, args, workers, 1, NULL);
}

#endif
