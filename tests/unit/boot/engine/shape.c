/* What a pipeline looks like on a gpu whose size the test chooses: slots, blocks, workers, threads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/shape.h"
#include "boot/engine/stages.h"
#include "gpu/ops/operators.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MIB (1u << 20)

static struct hr_appliance *app;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;
static uint32_t per_processor; /* blocks of 256 threads that one holds */

static uint32_t resident(struct hr_backend *b, enum hr_kernel kernel, uint32_t threads,
			 uint32_t shared_bytes)
{
	return threads > b->max_threads ? 0 : b->processors * (per_processor * 256 / threads);
}

static const struct hr_backend_ops ops = { .resident = resident };

static void gpu(uint32_t lanes, uint32_t processors)
{
	app->backend[0] = (struct hr_backend){ .ops = &ops,
					       .name = "far:0",
					       .lanes = lanes,
					       .processors = processors,
					       .max_threads = lanes == 1 ? 1 : 1024 };
	per_processor = 2;
}

static struct hr_controller controller;

/* A pipeline over one ssd with plenty of queues, `tiles` tiles of 1 MiB. */
static void begin(void)
{
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	run = &app->run[0];
	pipeline = &app->config.pipeline[0];
	app->config.file = "f";
	app->config.ssds = app->config.pipelines = 1;
	controller = (struct hr_controller){ .queues = 128, .queues_used = 1 };
	app->ssd[0].controller = &controller;
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
	free(app);
}

TestSuite(shape, .init = begin, .fini = end, .timeout = 20);

Test(shape, a_cpu_has_one_block_of_each_role_unless_told)
{
	gpu(1, 16);
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_eq(run->slots, 8);
	cr_expect_eq(run->threads, 1);
	cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], 1);
	cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], 1);
	cr_expect_eq(run->blocks[HR_ROLE_WRITEBACK], 0);
	cr_expect_null(hr_run_bounce(app, run));
	pipeline->has_sink = true;
	pipeline->slots = 3;
	pipeline->prefetch_blocks = 2;
	pipeline->compute_blocks = 3;
	pipeline->threads = 512;
	pipeline->bounce = HR_BOUNCE_COPY;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_eq(run->slots, 3);
	cr_expect_eq(run->threads, 1);
	cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], 2);
	cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], 3);
	cr_expect_eq(run->blocks[HR_ROLE_WRITEBACK], 1);
	cr_expect_not(run->copies);
}

/* Whatever the GPU, the tiles and the ssd: never more than there is, and someone for each role. */
Test(shape, what_is_chosen_fits_and_spares_the_processors)
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
		cr_assert_eq(hr_shape_run(app, run), 0);
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
	controller.queues = 9; /* 8 left */
	app->config.pipelines = 2;
	app->run[1] = app->run[0];
	app->config.pipeline[1] = *pipeline;
	app->run[1].config = &app->config.pipeline[1];
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(hr_shape_run(app, &app->run[i]), 0);
		cr_expect_eq(hr_run_workers(&app->run[i], HR_ROLE_PREFETCH), 2);
		cr_expect_eq(hr_run_workers(&app->run[i], HR_ROLE_WRITEBACK), 2);
	}
	app->run[1].selected = false;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_eq(hr_run_workers(run, HR_ROLE_PREFETCH), 4);
}

Test(shape, what_the_configuration_says_holds_or_is_refused)
{
	pipeline->has_sink = true;
	pipeline->slots = 40;
	pipeline->prefetch_blocks = 3;
	pipeline->compute_blocks = 20;
	pipeline->writeback_blocks = 2;
	pipeline->threads = 128;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_eq(run->slots, 40);
	cr_expect_eq(run->threads, 128);
	cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], 3);
	cr_expect_eq(run->blocks[HR_ROLE_COMPUTE], 20);
	cr_expect_eq(run->blocks[HR_ROLE_WRITEBACK], 2);
	cr_expect_eq(run->workers[HR_ROLE_COMPUTE], 4);
	gpu(32, 8);
	cr_expect_eq(hr_shape_run(app, run), 0);
	pipeline->threads = 512;
	cr_expect_eq(hr_shape_run(app, run), -EINVAL, "25 blocks, room for 8");
}

Test(shape, a_limit_of_host_memory_limits_the_slots)
{
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_eq(run->slots, 64);
	app->config.memory_host = 40 * MIB;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_eq(run->slots, 20);
}

Test(shape, operators_that_read_once_read_in_place_unless_told)
{
	struct hr_operator twice = *hr_op_find("crc32c");

	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_str_eq(hr_run_bounce(app, run), "in place");
	pipeline->bounce = HR_BOUNCE_COPY;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_str_eq(hr_run_bounce(app, run), "copied to the GPU");
	cr_expect_eq(hr_run_copy_bytes(run), MIB);
	twice.reads_once = false;
	pipeline->op = &twice;
	pipeline->bounce = HR_BOUNCE_AUTO;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect(run->copies);
	pipeline->bounce = HR_BOUNCE_IN_PLACE;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_not(run->copies);
}

/* Nothing crosses the link twice, and what needs no checksum costs no memory. */
Test(shape, what_has_a_checksum_is_copied)
{
	pipeline->op = hr_op_find("cast_f32_bf16");
	pipeline->has_sink = true;
	run->sink_tile_bytes = MIB / 2;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect(!run->copies && !run->stages);
	cr_expect_eq(run->shared_bytes, 0);
	cr_expect_eq(hr_run_copy_bytes(run), 0);
	run->source[0].verifiable = true;
	pipeline->bounce = HR_BOUNCE_IN_PLACE;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect(run->copies && !run->stages);
	cr_expect_eq(run->shared_bytes, HR_CHECKSUM_MEMORY);
	cr_expect_eq(hr_run_copy_bytes(run), MIB);
	pipeline->sink.checksum = true;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect(run->copies && run->stages);
	cr_expect_eq(hr_run_copy_bytes(run), MIB + MIB / 2);
	app->path[0][0].direct = true; /* all lies in GPU memory */
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect(!run->copies && !run->stages);
	cr_expect_eq(run->shared_bytes, HR_CHECKSUM_MEMORY);
	gpu(1, 16);
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_eq(run->shared_bytes, 0);
}

/* Its records are the checksums: they are not computed again, so tiles are read in place. */
Test(shape, the_checksum_operator_needs_no_copy)
{
	run->source[0].verifiable = true;
	cr_assert_eq(hr_shape_run(app, run), 0);
	cr_expect_not(run->copies);
	cr_expect_eq(run->shared_bytes, 0);
}
