/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a pipeline on a gpu whose size the test sets: slots, blocks, workers, threads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/concurrency.h"
#include "boot/engine/shape/shape.h"
#include "boot/engine/bringup/stages.h"
#include "gpu/ops/operators.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MIB (1u << 20)

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;
static uint32_t per_processor; /* blocks of 256 threads that fit one processor */
static int resident_error;

static int resident(struct hr_backend *b, enum hr_entry entry, uint32_t threads,
		    uint32_t shared_bytes, uint32_t *blocks, struct hr_error *e)
{
	if (resident_error)
		return resident_error;
	*blocks = threads > b->max_threads ? 0 : b->processors * (per_processor * 256 / threads);
	return 0;
}

static const struct hr_backend_ops ops = { .resident = resident };

static void gpu(uint32_t lanes, uint32_t processors)
{
	engine->backend[0] = (struct hr_backend){ .ops = &ops,
						  .name = "far:0",
						  .lanes = lanes,
						  .wave = lanes,
						  .processors = processors,
						  .max_threads = lanes == 1 ? 1 : 1024 };
	per_processor = 2;
}

static struct hr_ssd_controller controller;

/* A pipeline over one ssd with enough queues, `tiles` tiles of 1 MiB. */
static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
	engine->config.file = "f";
	engine->config.ssds = engine->config.pipelines = 1;
	controller = (struct hr_ssd_controller){ .queues = 128, .queues_used = 1 };
	engine->ssd[0].controller = &controller;
	run->config = pipeline;
	run->selected = true;
	run->ssds = 1;
	run->tiles = 100000;
	run->source[0].tile_bytes = MIB;
	run->sink_tile_bytes = MIB;
	pipeline->sources = 1;
	pipeline->op = hr_op_find("crc32c");
	strcpy(pipeline->name, "p");
	gpu(32, 132);
}

static void end(void)
{
	free(engine);
}

TestSuite(shape, .init = begin, .fini = end, .timeout = 60);

Test(shape, a_cpu_has_one_block_of_each_role_by_default)
{
	gpu(1, 16);
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_eq(run->slots, 8);
	cr_expect_eq(run->threads, 1);
	cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], 1);
	cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], 1);
	cr_expect_eq(run->blocks[HR_ROLE_WRITEBACK], 0);
	for (int role = 0; role < HR_ROLES; role++)
		cr_expect_eq(run->workers[role], 1);
	cr_expect_null(hr_run_bounce(engine, run));
	pipeline->has_sink = true;
	pipeline->slots = 3;
	pipeline->prefetch_blocks = 2;
	pipeline->compute_blocks = 3;
	pipeline->threads = 512;
	pipeline->bounce = HR_BOUNCE_COPY;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_eq(run->slots, 3);
	cr_expect_eq(run->threads, 1);
	cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], 2);
	cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], 3);
	cr_expect_eq(run->blocks[HR_ROLE_WRITEBACK], 1);
	cr_expect_not(run->copies);
}

/*
 * For every GPU, number of tiles and ssd a shape needs no more than is available, and has at least
 * one worker for each role.
 */
Test(shape, chosen_values_fit_and_leave_processors_free)
{
	static const uint32_t processors[] = { 2, 3, 8, 20, 84, 108, 132, 148 };
	static const uint32_t tile[] = { 4096, 65536, MIB, 64 * MIB };
	static const uint32_t tiles[] = { 0, 1, 7, 100000 };
	static const uint32_t queues[] = { 2, 8, 31, 256 };

	for (uint32_t i = 0; i < ROWS(processors) * ROWS(tile) * ROWS(tiles) * ROWS(queues); i++) {
		const uint32_t sms = processors[i % 8], io_most = sms < 40 ? 2 : sms / 20;
		uint32_t io, all;

		gpu(32, sms);
		pipeline->has_sink = i % 3 == 0;
		run->source[0].tile_bytes = tile[i / 8 % 4];
		run->tiles = tiles[i / 32 % 4];
		controller.queues = queues[i / 128 % 4] + 1;
		cr_assert_eq(hr_shape_run(engine, run), 0);
		io = run->blocks[HR_ROLE_PREFETCH] + run->blocks[HR_ROLE_WRITEBACK];
		all = io + run->blocks[HR_ROLE_COMPUTE];
		cr_assert_leq(io, io_most, "%u of %u SMs", io, sms);
		cr_assert_geq(run->blocks[HR_ROLE_PREFETCH], 1);
		cr_assert_eq(run->blocks[HR_ROLE_WRITEBACK] != 0, pipeline->has_sink);
		cr_assert_geq(run->blocks[HR_ROLE_COMPUTE], 1);
		cr_assert_leq(run->blocks[HR_ROLE_COMPUTE], run->slots);
		cr_assert_leq(all, sms < 3 ? 3 : sms);
		cr_assert(run->slots >= 8 && run->slots <= HR_SLOTS_MAX);
		cr_assert_leq(hr_run_workers(run, HR_ROLE_PREFETCH), run->slots);
		cr_assert_leq(hr_run_workers(run, HR_ROLE_PREFETCH) +
				      hr_run_workers(run, HR_ROLE_WRITEBACK),
			      queues[i / 128 % 4]);
	}
}

Test(shape, queue_pairs_are_shared_with_the_other_pipelines)
{
	pipeline->has_sink = true;
	controller.queues = 9; /* 8 queue pairs remain */
	engine->config.pipelines = 2;
	engine->run[1] = engine->run[0];
	engine->config.pipeline[1] = *pipeline;
	engine->run[1].config = &engine->config.pipeline[1];
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(hr_shape_run(engine, &engine->run[i]), 0);
		cr_expect_eq(hr_run_workers(&engine->run[i], HR_ROLE_PREFETCH), 2);
		cr_expect_eq(hr_run_workers(&engine->run[i], HR_ROLE_WRITEBACK), 2);
	}
	engine->run[1].selected = false;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_eq(hr_run_workers(run, HR_ROLE_PREFETCH), 4);
}

Test(shape, values_of_the_configuration_are_kept_or_refused)
{
	pipeline->has_sink = true;
	pipeline->slots = 40;
	pipeline->prefetch_blocks = 3;
	pipeline->compute_blocks = 20;
	pipeline->writeback_blocks = 2;
	pipeline->threads = 128;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_eq(run->slots, 40);
	cr_expect_eq(run->threads, 128);
	cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], 3);
	cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], 20);
	cr_expect_eq(run->blocks[HR_ROLE_WRITEBACK], 2);
	cr_expect_eq(run->workers[HR_ROLE_COMPUTE], 4);
	gpu(32, 8);
	cr_expect_eq(hr_shape_run(engine, run), 0);
	pipeline->threads = 512;
	cr_expect_eq(hr_shape_run(engine, run), -EINVAL, "25 blocks, room for 8");
}

Test(shape, a_limit_of_host_memory_limits_the_slots)
{
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_eq(run->slots, 64);
	engine->config.memory_host = 40 * MIB;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_eq(run->slots, 20);
}

Test(shape, operators_that_read_once_read_in_place_by_default)
{
	struct hr_operator twice = *hr_op_find("crc32c");

	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_str_eq(hr_run_bounce(engine, run), "in place");
	pipeline->bounce = HR_BOUNCE_COPY;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_str_eq(hr_run_bounce(engine, run), "copied to the GPU");
	cr_expect_eq(hr_run_copy_bytes(run), MIB);
	twice.reads_once = false;
	pipeline->op = &twice;
	pipeline->bounce = HR_BOUNCE_AUTO;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect(run->copies);
	pipeline->bounce = HR_BOUNCE_IN_PLACE;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_not(run->copies);
}

/* No byte crosses the link twice, and tiles without checksums need no extra memory. */
Test(shape, tiles_with_a_checksum_are_copied)
{
	pipeline->op = hr_op_find("cast_f32_bf16");
	pipeline->has_sink = true;
	run->sink_tile_bytes = MIB / 2;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect(!run->copies && !run->stages);
	cr_expect_eq(run->shared_bytes, 0);
	cr_expect_eq(hr_run_copy_bytes(run), 0);
	run->source[0].verify.wanted = true;
	pipeline->bounce = HR_BOUNCE_IN_PLACE;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect(run->copies && !run->stages);
	cr_expect_eq(run->shared_bytes, HR_CHECKSUM_MEMORY);
	cr_expect_eq(hr_run_copy_bytes(run), MIB);
	pipeline->sink.checksum = true;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect(run->copies && run->stages);
	cr_expect_eq(hr_run_copy_bytes(run), MIB + MIB / 2);
	engine->path[0][0].direct = true; /* the whole tile lies in GPU memory */
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect(!run->copies && !run->stages);
	cr_expect_eq(run->shared_bytes, HR_CHECKSUM_MEMORY);
	gpu(1, 16);
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_eq(run->shared_bytes, 0);
}

/* Its records are the checksums. They are not computed again, so tiles are read in place. */
Test(shape, the_checksum_operator_needs_no_copy)
{
	run->source[0].verify.wanted = true;
	cr_assert_eq(hr_shape_run(engine, run), 0);
	cr_expect_not(run->copies);
	cr_expect_eq(run->shared_bytes, 0);
}

/* The configuration takes multiples of 32; what the GPU executes together may be more. */
Test(shape, a_block_has_whole_waves)
{
	static const struct {
		uint32_t lanes, wave, threads;
		bool fits;
	} row[] = {
		{ 64, 64, 32, false }, { 64, 64, 96, false }, { 64, 64, 128, true },
		{ 32, 64, 96, false }, { 32, 64, 128, true }, { 32, 32, 96, true },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		gpu(row[i].lanes, 132);
		engine->backend[0].wave = row[i].wave;
		pipeline->threads = row[i].threads;
		if (!row[i].fits) {
			cr_expect_eq(hr_shape_run(engine, run), -EINVAL, "row %zu", i);
			continue;
		}
		cr_assert_eq(hr_shape_run(engine, run), 0, "row %zu", i);
		cr_expect_eq(run->workers[HR_ROLE_COMPUTE], row[i].threads / row[i].lanes);
	}
}

/* Pipelines that may run at the same time divide the blocks of their gpu, and stay within them. */
Test(shape, pipelines_side_by_side_share_the_blocks)
{
	static const uint32_t limit[] = { 0, 200, 100, 20, 12 };

	for (uint32_t n = 2; n <= 4; n++) {
		for (size_t i = 0; i < ROWS(limit); i++) {
			engine->config.pipelines = engine->config.parallel = n;
			engine->config.gpu[0].blocks = limit[i];
			engine->backend[0].side_by_side = 132;
			engine->gpu_up[0] = true;
			for (uint32_t k = 0; k < n; k++) {
				engine->run[k] = engine->run[0];
				engine->config.pipeline[k] = engine->config.pipeline[0];
				engine->run[k].config = &engine->config.pipeline[k];
				cr_assert_eq(hr_shape_run(engine, &engine->run[k]), 0);
			}
			cr_expect_eq(hr_concurrency_check(engine), 0, "%u within %u", n, limit[i]);
			cr_expect_leq(hr_concurrency_budget(engine, 0), 132);
			cr_expect_geq(run->blocks[HR_ROLE_COMPUTE], 1);
			if (limit[i] == 0)
				cr_expect_geq(n * (run->blocks[HR_ROLE_PREFETCH] +
						   run->blocks[HR_ROLE_COMPUTE]),
					      128, "no processor is left idle without need");
		}
	}
}

/* A pipeline without slots and blocks in its configuration, on a gpu with 32 lanes. */
struct shape_row {
	uint32_t processors, tile, tiles, queues, sink_tile, entry_threads;
	uint32_t slots, threads, prefetch[2], compute, writeback[2]; /* blocks and workers */
};

static void expect_shape(const struct shape_row *row, size_t i)
{
	gpu(32, row->processors);
	run->gpu[0].entry_threads = row->entry_threads;
	run->source[0].tile_bytes = row->tile;
	run->tiles = row->tiles;
	controller.queues = row->queues + 1;
	pipeline->has_sink = row->sink_tile;
	run->sink_tile_bytes = row->sink_tile;
	/* nothing of an earlier shape remains */
	memset(run->blocks, 7, sizeof run->blocks);
	memset(run->workers, 7, sizeof run->workers);
	run->copies = run->stages = true;
	run->shared_bytes = 7;
	cr_assert_eq(hr_shape_run(engine, run), 0, "row %zu", i);
	cr_expect_eq(run->slots, row->slots, "row %zu: %u slots", i, run->slots);
	cr_expect_eq(run->threads, row->threads, "row %zu: %u threads", i, run->threads);
	for (unsigned k = 0; k < 2; k++) {
		const uint32_t *got = k ? run->workers : run->blocks;

		cr_expect_eq(got[HR_ROLE_PREFETCH], row->prefetch[k], "row %zu: prefetch[%u] %u", i,
			     k, got[HR_ROLE_PREFETCH]);
		cr_expect_eq(got[HR_ROLE_WRITEBACK], row->writeback[k], "row %zu: writeback[%u] %u",
			     i, k, got[HR_ROLE_WRITEBACK]);
	}
	cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], row->compute, "row %zu: compute %u", i,
		     run->blocks[HR_ROLE_COMPUTE]);
	cr_expect_eq(run->workers[HR_ROLE_COMPUTE], row->threads / 32, "row %zu", i);
	cr_expect(!run->copies && !run->stages && run->shared_bytes == 0, "row %zu", i);
}

Test(shape, exact_numbers_on_both_sides_of_each_limit)
{
	static const struct shape_row row[] = {
		{ 2, MIB, 100000, 127, MIB, 0, 32, 256, { 1, 8 }, 1, { 1, 8 } },
		{ 3, MIB, 100000, 127, 0, 0, 64, 256, { 1, 8 }, 2, { 0, 0 } },
		{ 19, MIB, 100000, 127, 0, 0, 64, 256, { 1, 8 }, 18, { 0, 0 } },
		{ 19, MIB, 100000, 127, MIB, 0, 32, 256, { 1, 8 }, 17, { 1, 8 } },
		{ 20, MIB, 100000, 127, 0, 0, 64, 256, { 1, 8 }, 19, { 0, 0 } },
		{ 39, MIB, 100000, 127, MIB, 0, 32, 256, { 1, 8 }, 32, { 1, 8 } },
		{ 40, MIB, 100000, 127, 0, 0, 64, 256, { 2, 8 }, 38, { 0, 0 } },
		{ 40, MIB, 100000, 127, MIB, 0, 32, 256, { 1, 8 }, 32, { 1, 8 } },
		{ 79, MIB, 100000, 127, MIB, 0, 32, 256, { 1, 8 }, 32, { 1, 8 } },
		{ 80, MIB, 100000, 127, MIB, 0, 32, 256, { 2, 8 }, 32, { 2, 8 } },
		{ 132, MIB, 100000, 127, 0, 0, 64, 256, { 2, 8 }, 64, { 0, 0 } },
		{ 132, MIB, 100000, 127, MIB, 0, 32, 256, { 2, 8 }, 32, { 2, 8 } },
		{ 132, 4096, 100000, 127, 0, 0, 1024, 256, { 6, 8 }, 126, { 0, 0 } },
		{ 132, MIB / 4 - 4096, 100000, 127, 0, 0, 260, 256, { 6, 8 }, 126, { 0, 0 } },
		{ 132, MIB / 4, 100000, 127, 0, 0, 256, 256, { 2, 8 }, 130, { 0, 0 } },
		{ 132, 64 * MIB, 100000, 127, 0, 0, 8, 256, { 1, 4 }, 8, { 0, 0 } },
		{ 132, MIB / 8, 100000, 127, MIB / 8 - 4096, 0, 260, 256, { 3, 8 }, 126, { 3, 8 } },
		{ 132, MIB / 8, 100000, 127, MIB / 8, 0, 256, 256, { 2, 8 }, 128, { 2, 8 } },
		{ 132, MIB / 8, 100000, 127, 1, 0, 496, 256, { 3, 8 }, 126, { 3, 8 } },
		{ 132, MIB, 1, 127, 0, 0, 8, 256, { 1, 4 }, 8, { 0, 0 } },
		{ 132, MIB, 5, 127, 0, 0, 8, 256, { 1, 4 }, 8, { 0, 0 } },
		{ 132, MIB, 63, 127, 0, 0, 63, 256, { 2, 8 }, 63, { 0, 0 } },
		{ 132, MIB, 65, 127, 0, 0, 64, 256, { 2, 8 }, 64, { 0, 0 } },
		{ 132, MIB, 100000, 1, 0, 0, 64, 256, { 1, 1 }, 64, { 0, 0 } },
		{ 132, MIB, 100000, 1, MIB, 0, 32, 256, { 1, 1 }, 32, { 1, 1 } },
		{ 132, MIB, 100000, 2, 0, 0, 64, 256, { 1, 2 }, 64, { 0, 0 } },
		{ 132, MIB, 100000, 2, MIB, 0, 32, 256, { 1, 1 }, 32, { 1, 1 } },
		{ 132, MIB, 100000, 15, 0, 0, 64, 256, { 2, 7 }, 64, { 0, 0 } },
		{ 132, MIB, 100000, 15, MIB, 0, 32, 256, { 1, 7 }, 32, { 1, 7 } },
		{ 132, MIB, 100000, 16, 0, 0, 64, 256, { 2, 8 }, 64, { 0, 0 } },
		{ 132, MIB, 100000, 16, MIB, 0, 32, 256, { 1, 8 }, 32, { 1, 8 } },
		{ 132, MIB, 100000, 31, MIB, 0, 32, 256, { 2, 7 }, 32, { 2, 7 } },
		{ 132, MIB, 100000, 32, MIB, 0, 32, 256, { 2, 8 }, 32, { 2, 8 } },
		{ 132, 4096, 100000, 47, 0, 0, 1024, 256, { 6, 7 }, 126, { 0, 0 } },
		{ 132, 4096, 100000, 48, 0, 0, 1024, 256, { 6, 8 }, 126, { 0, 0 } },
		{ 132, MIB, 100000, 127, 0, 32, 64, 32, { 6, 1 }, 64, { 0, 0 } },
		{ 132, MIB, 100000, 127, 0, 64, 64, 64, { 6, 2 }, 64, { 0, 0 } },
		{ 132, MIB, 100000, 127, 0, 224, 64, 224, { 3, 5 }, 64, { 0, 0 } },
		{ 132, 4096, 100000, 127, 0, 224, 1024, 224, { 6, 7 }, 126, { 0, 0 } },
		{ 132, MIB, 100000, 127, 0, 1024, 64, 256, { 2, 8 }, 64, { 0, 0 } },
	};

	engine->path[0][0].direct = true;
	for (size_t i = 0; i < ROWS(row); i++)
		expect_shape(&row[i], i);
}

Test(shape, errors_have_the_numbers)
{
	strcpy(pipeline->name, "p");
	pipeline->line = 9;
	pipeline->threads = 80;
	cr_expect_eq(hr_shape_run(engine, run), -EINVAL);
	cr_expect_str_eq(engine->error.text,
			 "f:9: pipeline 'p': blocks.threads is 80, but far:0 needs "
			 "a multiple of 32");
	hr_error_clear(&engine->error);
	gpu(32, 8);
	pipeline->threads = 0;
	pipeline->has_sink = true;
	pipeline->prefetch_blocks = 2;
	pipeline->writeback_blocks = 3;
	pipeline->compute_blocks = 11; /* 16 fit */
	cr_expect_eq(hr_shape_run(engine, run), 0);
	pipeline->compute_blocks = 12;
	cr_expect_eq(hr_shape_run(engine, run), -EINVAL);
	cr_expect_str_eq(
		engine->error.text,
		"f:9: pipeline 'p': 2 + 12 + 3 blocks of 256 threads, but far:0 holds 16 of "
		"them at once; use fewer blocks, or threads");
	hr_error_clear(&engine->error);
	resident_error = -EIO;
	cr_expect_eq(hr_shape_run(engine, run), -EIO);
	resident_error = 0;
}

/* Prefetch takes at most a quarter of the blocks that the configuration allows. */
Test(shape, a_limit_of_blocks_is_divided)
{
	static const struct {
		uint32_t limit, prefetch, compute;
	} row[] = { { 2, 1, 1 },   { 3, 1, 2 },	  { 4, 1, 3 },	   { 7, 1, 6 },
		    { 8, 2, 6 },   { 11, 2, 9 },  { 12, 3, 9 },	   { 23, 5, 18 },
		    { 24, 6, 18 }, { 28, 6, 22 }, { 132, 6, 126 }, { 133, 6, 126 } };

	run->source[0].tile_bytes = 4096;
	for (size_t i = 0; i < ROWS(row); i++) {
		engine->config.gpu[0].blocks = row[i].limit;
		cr_assert_eq(hr_shape_run(engine, run), 0);
		cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], row[i].prefetch, "%u", row[i].limit);
		cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], row[i].compute, "%u", row[i].limit);
	}
}

/* A process on this machine that takes or fills tiles gets most of the gpu. */
Test(shape, processes_on_the_same_gpu_get_their_part)
{
	static const struct {
		const char *tap, *to, *feed, *from;
		uint32_t limit, prefetch, writeback, compute;
	} row[] = {
		{ "", "", "f", "", 0, 1, 0, 32 },     { "", "", "f", "a:1", 0, 1, 0, 64 },
		{ "t", "", "", "", 0, 2, 1, 30 },     { "t", "a:1", "", "", 0, 2, 1, 32 },
		{ "t", "", "f", "", 0, 1, 1, 31 },    { "t", "", "f", "a:1", 0, 1, 1, 31 },
		{ "t", "a:1", "f", "", 0, 1, 1, 31 }, { "t", "a:1", "f", "a:1", 0, 1, 1, 32 },
		{ "", "", "f", "", 12, 1, 0, 11 },    { "t", "", "", "", 12, 2, 1, 9 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		strcpy(pipeline->tap.name, row[i].tap);
		strcpy(pipeline->to.address, row[i].to);
		strcpy(pipeline->feed.name, row[i].feed);
		strcpy(pipeline->from.address, row[i].from);
		engine->config.gpu[0].blocks = row[i].limit;
		cr_assert_eq(hr_shape_run(engine, run), 0);
		cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], row[i].prefetch, "row %zu", i);
		cr_expect_eq(run->blocks[HR_ROLE_WRITEBACK], row[i].writeback, "row %zu", i);
		cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], row[i].compute, "row %zu", i);
	}
}

/* A feed is copied for a user operator, but not from another appliance. */
Test(shape, a_feed_is_copied_for_operators_of_users)
{
	struct hr_operator own = *hr_op_find("crc32c");
	static const struct {
		enum hr_bounce_policy bounce;
		bool own, remote, copies;
	} row[] = {
		{ HR_BOUNCE_AUTO, false, false, false }, { HR_BOUNCE_AUTO, true, false, true },
		{ HR_BOUNCE_AUTO, true, true, false },	 { HR_BOUNCE_AUTO, false, true, false },
		{ HR_BOUNCE_COPY, false, true, true },	 { HR_BOUNCE_IN_PLACE, true, false, false },
	};

	own.gpu = (const uint8_t *)"image";
	strcpy(pipeline->feed.name, "f");
	for (size_t i = 0; i < 2 * ROWS(row); i++) {
		gpu(i < ROWS(row) ? 32 : 1, 132);
		pipeline->bounce = row[i % ROWS(row)].bounce;
		pipeline->op = row[i % ROWS(row)].own ? &own : hr_op_find("crc32c");
		strcpy(pipeline->from.address, row[i % ROWS(row)].remote ? "a:1" : "");
		cr_assert_eq(hr_shape_run(engine, run), 0);
		cr_expect_eq(run->copies, row[i % ROWS(row)].copies, "row %zu", i);
	}
}
