/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/runs.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_store test_runs_disk[TEST_RUNS_SSDS];

static struct hr_engine *engine;

struct hr_engine *test_runs_begin(uint32_t pipelines)
{
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	engine->config.file = "f";
	engine->config.ssds = TEST_RUNS_SSDS;
	engine->config.pipelines = pipelines;
	for (uint32_t d = 0; d < TEST_RUNS_SSDS; d++) {
		fake_store_init(&test_runs_disk[d], 4096);
		snprintf(engine->config.ssd[d].name, HR_NAME_MAX, "%c", 'a' + (int)d);
		snprintf(engine->config.ssd[d].device, HR_DEVICE_MAX, "soft:%c", 'x' + (int)d);
		engine->ssd[d].has_store = true;
		engine->ssd[d].blk = &test_runs_disk[d].disk.blk;
		engine->ssd[d].store = test_runs_disk[d].store;
	}
	for (uint32_t i = 0; i < pipelines; i++) {
		snprintf(engine->config.pipeline[i].name, HR_NAME_MAX, "p%u", i);
		engine->run[i].config = &engine->config.pipeline[i];
		engine->run[i].selected = true;
	}
	return engine;
}

void test_runs_end(void)
{
	for (uint32_t d = 0; d < TEST_RUNS_SSDS; d++)
		fake_store_fini(&test_runs_disk[d]);
	free(engine);
}

uint64_t test_runs_put(uint32_t d, const char *name, uint64_t bytes, uint64_t tag, bool whole)
{
	struct hr_store *store = &engine->ssd[d].store;
	struct hr_store_object *object;
	uint64_t id;

	cr_assert_eq(hr_store_create(store, name, bytes, tag, true, &object, NULL), 0, "%s", name);
	id = object->id;
	if (whole)
		cr_assert_eq(hr_store_finish(store, id, false, 0, NULL), 0, "%s", name);
	return id;
}

void test_runs_fail(uint32_t d, uint64_t after, int status)
{
	struct memdisk *disk = &test_runs_disk[d].disk;

	disk->fail_at = disk->writes + disk->flushes + after + 1;
	disk->fail_status = status;
}
