/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/conclude_rig.h - a run that ends, over stores on disks in memory. The test writes what
 * workers leave. Each test that includes this has one of its own.
 */
#ifndef TESTS_HARNESS_CONCLUDE_RIG_H
#define TESTS_HARNESS_CONCLUDE_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/runner/conclude.h"
#include "boot/engine/objects/new_objects.h"
#include "gpu/ops/operators.h"
#include "tests/harness/error.h"
#include "tests/harness/runs.h"

#define UNIT HR_STORE_ALIGN
#define TILES 4u

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;
static struct hr_worker_status status[8]; /* prefetch 2, compute 1, write-back 2, others */
static struct hr_slot slot[3];
static uint64_t written[3];
static struct hr_nvme_qp read_qp[5], write_qp[3], io_qp[3];
static uint32_t sums[9];

static inline struct hr_store_object *object(void)
{
	return hr_store_find_id(&engine->ssd[1].store, run->sink_id);
}

static inline void make_sink(void)
{
	run->sink_id = test_runs_put(1, "out", run->sink_bytes / (run->parts ? run->parts : 1),
				     hr_sink_tag(run->fingerprint, false), false);
}

/* p0 copies "x" of ssd a, and another source of ssd b, to "out" of ssd b: 4 tiles of a unit. */
static inline void begin(void)
{
	memset(status, 0, sizeof status);
	memset(slot, 0, sizeof slot);
	memset(written, 0, sizeof written);
	memset(read_qp, 0, sizeof read_qp);
	memset(write_qp, 0, sizeof write_qp);
	memset(io_qp, 0, sizeof io_qp);
	engine = test_runs_begin(4);
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
	for (uint32_t i = 0; i < 4; i++)
		engine->config.pipeline[i].op = hr_op_find("copy");
	for (uint32_t d = 0; d < HR_SSDS_MAX; d++)
		engine->ssd[d].health.state = HR_HEALTH_UP;
	strcpy(engine->config.gpu[0].name, "g");
	strcpy(engine->config.gpu[1].name, "h");
	run->source[0].id = test_runs_put(0, "x", TILES * UNIT, 0, true);
	strcpy(pipeline->source[0].object, "x");
	pipeline->source[1].ssd = 1;
	pipeline->sources = 2;
	pipeline->tile_bytes = UNIT;
	pipeline->has_sink = true;
	pipeline->sink = (struct hr_config_object){ .object = "out", .ssd = 1, .line = 7 };
	run->source[0].bytes = run->sink_bytes = TILES * UNIT;
	run->source[0].tile_bytes = run->sink_tile_bytes = UNIT;
	run->source[0].verify.check = run->source[1].verify.check = HR_SOURCE_NO_CHECKSUM;
	run->source[0].writer = run->source[1].writer = -1;
	run->tiles = run->cpu.tiles = TILES;
	run->fingerprint = 0xf1;
	run->ssds = 2;
	run->ssd[1] = 1;
	for (uint32_t role = 0; role < HR_ROLES; role++) {
		run->blocks[role] = run->cpu.blocks[role] = 1;
		run->workers[role] = run->cpu.workers[role] = role == HR_ROLE_COMPUTE ? 1 : 2;
	}
	run->slots = run->cpu.slots = 2;
	run->cpu.status = status;
	run->cpu.slot = slot;
	run->cpu.written = written;
	run->cpu.read_qp = read_qp;
	run->cpu.write_qp = write_qp;
	run->cpu.sink_crc = sums;
	run->pipe = &run->cpu;
	run->started_ns = 1;
	for (unsigned i = 0; i < 5; i++)
		read_qp[i].entries = 8;
	for (unsigned i = 0; i < 3; i++)
		write_qp[i].entries = io_qp[i].entries = 8;
	make_sink();
}

static inline void end(void)
{
	test_runs_end();
}

/* Workers have written these tiles, and are done with so many. */
static inline void write_tiles(uint64_t first, uint64_t second, uint64_t done)
{
	written[0] = first;
	written[1] = second;
	status[3].tiles = done / 2;
	status[4].tiles = done - done / 2;
	status[2].tiles = status[5].tiles = 50; /* of other roles */
}

static inline int finish(struct hr_run_ending how)
{
	return hr_run_conclude(engine, run, &how, 0, test_error());
}

static inline void expect_warning(const char *text)
{
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), text, "%s", fake_log_last_of(HR_LOG_WARN));
}

static inline void expect_logged(const char *text)
{
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), text), "%s: %s", text,
		  fake_log_last_of(HR_LOG_ERROR));
}

static inline void expect_end(enum hr_outcome outcome, int error, uint64_t durable)
{
	cr_expect_eq(run->outcome, outcome, "%d", run->outcome);
	cr_expect_eq(run->error, error, "%d", run->error);
	cr_expect_eq(run->durable_tiles, durable, "%llu", (unsigned long long)run->durable_tiles);
}

static inline void fail_worker(unsigned i, uint64_t tile, int error)
{
	status[i].failed = 1;
	status[i].failure = (struct hr_failure){ .error = error,
						 .role = i < 2 ? HR_ROLE_PREFETCH : HR_ROLE_COMPUTE,
						 .tile = tile };
}

#endif
