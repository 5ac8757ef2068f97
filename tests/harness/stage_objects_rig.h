/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/stage_objects_rig.h - pipelines over stores on disks in memory, for tests of the stage
 * `objects`. Each test that includes this has one of its own.
 */
#ifndef TESTS_HARNESS_STAGE_OBJECTS_RIG_H
#define TESTS_HARNESS_STAGE_OBJECTS_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/bringup/stage.h"
#include "gpu/ops/operators.h"
#include "tests/harness/runs.h"

#define UNIT HR_STORE_ALIGN

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;
static struct hr_operator own; /* an operator of the test: a copy of "copy" */
static uint32_t row_bytes[3];

static inline uint32_t own_row(const void *args, uint32_t s)
{
	return row_bytes[s];
}

static inline void add_source(uint32_t i, uint32_t d, const char *name)
{
	struct hr_config_pipeline *p = &engine->config.pipeline[i];
	struct hr_config_object *source = &p->source[p->sources];

	source->ssd = d;
	source->line = 20 + 10 * i + p->sources++;
	strcpy(source->object, name);
}

static inline void set_sink(uint32_t i, uint32_t d, const char *name)
{
	struct hr_config_pipeline *p = &engine->config.pipeline[i];

	p->has_sink = true;
	p->sink = (struct hr_config_object){ .ssd = d, .line = 29 + 10 * i };
	strcpy(p->sink.object, name);
}

/* Three pipelines of an operator that copies, of which only p0 is selected. */
static inline void begin(void)
{
	engine = test_runs_begin(3);
	own = *hr_op_find("copy");
	own.sources_max = 3;
	own.row_bytes = own_row;
	for (uint32_t i = 0; i < 3; i++) {
		row_bytes[i] = 4;
		engine->config.pipeline[i].op = &own;
		engine->config.pipeline[i].tile_bytes = UNIT;
		engine->config.pipeline[i].tile_line = 15 + i;
		engine->run[i].selected = i == 0;
	}
	for (uint32_t d = 0; d < TEST_RUNS_SSDS; d++) {
		engine->ssd[d].ns.lba_shift = 12;
		engine->ssd[d].queue_entries = 3;
		engine->ssd[d].chunk_bytes = UNIT;
		strcpy(engine->ssd[d].transport.name, d ? "soft:y" : "soft:x");
	}
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
}

/* Object "x" is a part of a data set of so many bytes. */
static inline void be_shard(uint64_t rows)
{
	struct hr_store_object *object = hr_store_find(&engine->ssd[0].store, "x");

	object->flags |= HR_OBJECT_SHARD;
	object->shard = (struct hr_store_shard){ 0, rows, 5, 1, 0, 1 };
}

static inline void expect_error(int err, const char *text)
{
	cr_expect_eq(err, -EINVAL);
	cr_expect_eq(engine->error.kind, HR_ERROR_USAGE);
	cr_expect_str_eq(engine->error.text, text, "%s", engine->error.text);
	hr_error_clear(&engine->error);
}

#endif
