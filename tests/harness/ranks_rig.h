/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/ranks_rig.h - the appliances of three ranks with the same work, as they are after the
 * stage `partition`, for tests of what ranks compare. Nothing is up. Each test that includes this has
 * its own.
 */
#ifndef TESTS_HARNESS_RANKS_RIG_H
#define TESTS_HARNESS_RANKS_RIG_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "boot/ranks/agree.h"
#include "config/operator.h"
#include "tests/fakes/ranks.h"

#define RANKS 3u
#define ROW 16u

/* Rows of each rank, and of the data set. */
static const uint64_t first_row[RANKS + 1] = { 0, 8, 20, 30 };

static const struct hr_operator stream = { .name = "stream" }, other = { .name = "streaM" },
				tream = { .name = "tream" },
				access_op = { .name = "access", .several_ranks = true },
				whole_op = { .name = "whole" };

static struct hr_engine *engine[RANKS];
static struct hr_store_object stored[RANKS][2][4]; /* of each rank and ssd */
static struct hr_job job[RANKS];
static struct hr_error error[RANKS];
static int result[RANKS];

static inline void name_object(struct hr_config_object *object, const char *name, uint32_t ssd,
			       unsigned line)
{
	strcpy(object->object, name);
	object->ssd = ssd;
	object->line = line;
}

static inline struct hr_store_shard shard_of(uint32_t r, uint32_t row_bytes)
{
	return (struct hr_store_shard){ .first_row = first_row[r],
					.rows = first_row[RANKS],
					.set = 7,
					.row_bytes = row_bytes,
					.index = (uint16_t)r,
					.last = RANKS - 1 };
}

/* Pipeline "t": two whole sources and a sink. */
static inline void make_tiles(struct hr_config_pipeline *p, struct hr_run *run)
{
	p->op = &stream;
	p->shard = HR_SHARD_TILES;
	p->sources = 2;
	name_object(&p->source[0], "in", 0, 21);
	name_object(&p->source[1], "date", 1, 22);
	p->has_sink = true;
	name_object(&p->sink, "out", 1, 23);
	p->op_args_bytes = 3;
	for (uint32_t s = 0; s < 2; s++)
		run->source[s] = (struct hr_run_source){
			.id = 1 + s, .bytes = 1000 + s, .held = 1000 + s, .tile_bytes = 64
		};
}

/* Pipeline "s": two sources that are shards. */
static inline void make_shards(struct hr_config_pipeline *p, struct hr_run *run, uint32_t r)
{
	p->op = &stream;
	p->shard = HR_SHARD_OBJECTS;
	p->sources = 2;
	name_object(&p->source[0], "x", 0, 31);
	name_object(&p->source[1], "y", 1, 32);
	for (uint32_t s = 0; s < 2; s++)
		run->source[s] = (struct hr_run_source){
			.id = 3,
			.bytes = first_row[RANKS] * ROW << s,
			.held = (first_row[r + 1] - first_row[r]) * ROW << s,
			.tile_bytes = 4 * ROW << s,
			.is_shard = true,
			.shard = shard_of(r, ROW << s),
		};
}

/* Pipeline "a": two whole objects, one that is written in shards, one that is left out. */
static inline void make_access(struct hr_config_pipeline *p, struct hr_run *run, uint32_t r)
{
	p->op = &access_op;
	p->shard = HR_SHARD_OBJECTS;
	p->objects = 4;
	name_object(&p->object[0], "w", 0, 41);
	name_object(&p->object[1], "r", 0, 42);
	name_object(&p->object[3], "v", 1, 43);
	p->object[1].writes = true;
	run->object[0] = (struct hr_run_object){ .used = true, .id = 1, .bytes = 500 };
	run->object[1] = (struct hr_run_object){ .used = true,
						 .bytes = (first_row[r + 1] - first_row[r]) * ROW,
						 .is_shard = true,
						 .shard = shard_of(r, ROW) };
	run->object[3] = (struct hr_run_object){ .used = true, .id = 2, .bytes = 600 };
}

static inline struct hr_engine *make(uint32_t r)
{
	struct hr_engine *a = calloc(1, sizeof *a);

	cr_assert_not_null(a);
	a->config.file = "f";
	a->config.ssds = 2;
	for (uint32_t d = 0; d < 2; d++) {
		struct hr_store *store = &a->ssd[d].store;

		snprintf(a->config.ssd[d].name, HR_NAME_MAX, "%c", 'a' + (int)d);
		memset(store->uuid, 0x10, sizeof store->uuid);
		store->uuid[15] = (uint8_t)(5 * d + RANKS - r); /* sorted, not in order of ranks */
		memset(stored[r][d], 0, sizeof stored[r][d]);
		store->object = stored[r][d];
		for (store->count = 0; store->count < 3; store->count++)
			stored[r][d][store->count] =
				(struct hr_store_object){ .id = store->count + 1,
							  .flags = HR_OBJECT_HAS_CRC,
							  .crc = 0xab0 + store->count };
	}
	a->config.pipelines = 4;
	for (uint32_t i = 0; i < 4; i++) {
		struct hr_config_pipeline *p = &a->config.pipeline[i];

		p->name[0] = "tsau"[i];
		p->line = 20 + 10 * i;
		a->run[i].config = p;
		a->run[i].selected = i < 3;
		if (i % 3 == 0)
			make_tiles(p, &a->run[i]);
		else if (i == 1)
			make_shards(p, &a->run[i], r);
		else
			make_access(p, &a->run[i], r);
	}
	/* of the one that is not selected nothing counts */
	a->run[3].source[1].bytes = r;
	a->run[3].source[0].is_shard = true;
	a->config.pipeline[3].op_args[0] = (uint8_t)r;
	return a;
}

static inline void same(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = ranks->rank;

	job[r].ranks = *ranks;
	result[r] = hr_ranks_same(&job[r], engine[r], &error[r]);
}

static inline void begin(void)
{
	memset(job, 0, sizeof job);
	memset(error, 0, sizeof error);
	for (uint32_t r = 0; r < RANKS; r++)
		engine[r] = make(r);
}

static inline void end(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		free(engine[r]);
}

#endif
