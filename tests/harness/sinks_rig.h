/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/sinks_rig.h - one pipeline from two objects to a sink, over stores on disks in memory,
 * for tests of the stage `sinks`. Each test that includes this has one of its own.
 */
#ifndef TESTS_HARNESS_SINKS_RIG_H
#define TESTS_HARNESS_SINKS_RIG_H

#include <criterion/criterion.h>
#include <string.h>

#include "boot/engine/bringup/sinks.h"
#include "boot/engine/objects/new_objects.h"
#include "gpu/ops/operators.h"
#include "tests/harness/runs.h"

#define UNIT HR_STORE_ALIGN

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;

/* Pipeline p0 copies objects "x" of ssd a and "y" of ssd b to "out" of ssd a: 3 tiles of a unit. */
static inline void begin(void)
{
	engine = test_runs_begin(1);
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
	pipeline->op = hr_op_find("copy");
	pipeline->sources = 2;
	pipeline->tile_bytes = UNIT;
	for (uint32_t s = 0; s < 2; s++) {
		pipeline->source[s].ssd = s;
		strcpy(pipeline->source[s].object, s ? "y" : "x");
		run->source[s] = (struct hr_run_source){ .id = test_runs_put(s, s ? "y" : "x",
									     3 * UNIT, 0, true),
							 .bytes = 3 * UNIT,
							 .tile_bytes = UNIT,
							 .writer = -1 };
	}
	pipeline->has_sink = true;
	pipeline->sink = (struct hr_config_object){ .object = "out", .line = 7 };
	run->tiles = 3;
	run->sink_bytes = 3 * UNIT;
	run->sink_tile_bytes = UNIT;
}

static inline void end(void)
{
	test_runs_end();
}

/* Put the tag of the run's own sink, plus `other`, into an object. */
static inline uint64_t mine(bool checksum, uint64_t other)
{
	return hr_sink_tag(hr_run_fingerprint(engine, run), checksum) + other;
}

static inline struct hr_store_object *found(uint32_t d, const char *name)
{
	struct hr_store_object *object = hr_store_find(&engine->ssd[d].store, name);

	return object ? object : hr_store_find_pending(&engine->ssd[d].store, name);
}

#endif
