/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of a pipeline with an access operator, on gpus whose size the test sets: blocks, threads,
 * frames and commands, and each refusal. Expected values are computed by hand.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/shape/shape.h"
#include "config/operator.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define PAGE 4096u

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;
static struct hr_ssd_controller controller[2];
static struct hr_gpu_facts facts[2];
static struct hr_operator operator_;
static uint64_t scratch;
static uint32_t per_processor; /* blocks of 256 threads that fit one processor */
static int fails;	       /* result of the next question to a backend */

static int resident(struct hr_backend *b, enum hr_entry entry, uint32_t threads,
		    uint32_t shared_bytes, uint32_t *blocks, struct hr_error *e)
{
	if (fails)
		return hr_fail(e, HR_ERROR_DEVICE, fails, "the gpu has failed");
	*blocks = threads > b->max_threads ? 0 : b->processors * (per_processor * 256 / threads);
	return 0;
}

static int share(struct hr_backend *b, const struct hr_region *region, struct hr_backend *other,
		 struct hr_error *e)
{
	cr_assert_null(region, "only a question");
	return fails ? hr_fail(e, HR_ERROR_MISSING, fails, "no path") : 0;
}

static int share_of_another_kind(struct hr_backend *b, const struct hr_region *region,
				 struct hr_backend *other, struct hr_error *e)
{
	return 0;
}

static const struct hr_backend_ops ops = { .resident = resident, .share = share };
static const struct hr_backend_ops other_ops = { .resident = resident,
						 .share = share_of_another_kind };

static uint64_t scratch_bytes(const void *args, const uint64_t *object_bytes)
{
	return scratch + (object_bytes[0] != run->object[0].bytes);
}

static void gpu(uint32_t g, uint32_t lanes, uint32_t processors)
{
	engine->backend[g] = (struct hr_backend){ .ops = &ops,
						  .lanes = lanes,
						  .wave = lanes,
						  .processors = processors,
						  .side_by_side = 60,
						  .max_threads = lanes == 1 ? 1 : 1024,
						  .facts = lanes == 1 ? NULL : &facts[g] };
	snprintf(engine->backend[g].name, sizeof engine->backend[g].name, "far:%u", g);
	snprintf(engine->config.gpu[g].name, sizeof engine->config.gpu[g].name, "g%u", g);
	engine->gpu_up[g] = true;
}

static void ssd(uint32_t d, uint32_t queues)
{
	controller[d] = (struct hr_ssd_controller){ .queues = queues + 1, .queues_used = 1 };
	engine->ssd[d].controller = &controller[d];
	engine->ssd[d].ns.lba_shift = 12;
	engine->ssd[d].chunk_bytes = HR_CHUNK_MAX;
	engine->ssd[d].queue_entries = 1024;
	snprintf(engine->config.ssd[d].name, sizeof engine->config.ssd[d].name, "d%u", d);
	run->ssd[d] = d;
}

/* One object of 1 GiB on one ssd with enough queues, one gpu with direct access. */
static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
	engine->config.file = "f";
	engine->config.ssds = 2;
	engine->config.gpus = 2;
	engine->config.pipelines = 1;
	operator_ =
		(struct hr_operator){ .name = "op", .objects = 1, .scratch_bytes = scratch_bytes };
	scratch = 0;
	fails = 0;
	per_processor = 2;
	*pipeline = (struct hr_config_pipeline){ .name = "p", .op = &operator_, .objects = 1 };
	pipeline->cache.page_bytes = PAGE;
	strcpy(pipeline->object[0].object, "in");
	*run = (struct hr_run){ .config = pipeline, .selected = true, .ssds = 1 };
	run->object[0] = (struct hr_run_object){ .used = true, .bytes = GIB };
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(facts[i].pci, sizeof facts[i].pci, "0000:0%u:00.0", i);
		facts[i].memory_bytes = 80 * GIB;
		ssd(i, 127);
		gpu(i, 32, 132);
		engine->path[i][0].direct = engine->path[i][1].direct = true;
	}
}

static void end(void)
{
	free(engine);
}

TestSuite(access_shape, .init = begin, .fini = end, .timeout = 60);

static int shape(void)
{
	hr_error_clear(&engine->error);
	return hr_access_shape(engine, run);
}

static void expect_refusal(const char *text)
{
	cr_expect_eq(shape(), -EINVAL, "%s", text);
	cr_expect_eq(engine->error.kind, HR_ERROR_USAGE, "%s", text);
	cr_expect(strstr(engine->error.text, text), "'%s' is not in '%s'", text,
		  engine->error.text);
	cr_expect(strstr(engine->error.text, "pipeline 'p'"), "%s", engine->error.text);
}

Test(access_shape, blocks_and_threads_fit_the_gpu_and_its_queues)
{
	static const struct {
		uint32_t processors, queues, max_threads, of_entry;
		struct {
			uint32_t threads, io, access;
		} given, want;
	} row[] = {
		{ 132, 127, 1024, 0, { 0, 0, 0 }, { 512, 6, 126 } },
		/* few queues: fewer warps, then fewer blocks */
		{ 132, 64, 1024, 0, { 0, 0, 0 }, { 512, 4, 128 } },
		{ 132, 63, 1024, 0, { 0, 0, 0 }, { 512, 3, 129 } },
		{ 132, 16, 1024, 0, { 0, 0, 0 }, { 512, 1, 131 } },
		{ 132, 15, 1024, 0, { 0, 0, 0 }, { 256, 1, 256 } },
		{ 132, 4, 1024, 0, { 0, 0, 0 }, { 128, 1, 256 } },
		{ 132, 1, 1024, 0, { 0, 0, 0 }, { 32, 1, 256 } },
		{ 132, 0, 1024, 0, { 0, 0, 0 }, { 32, 1, 256 } },
		/* whole warps within the limit of the gpu, or of the worker code */
		{ 132, 127, 100, 0, { 0, 0, 0 }, { 96, 6, 256 } },
		{ 132, 127, 1024, 100, { 0, 0, 0 }, { 96, 6, 256 } },
		{ 132, 127, 96, 1024, { 0, 0, 0 }, { 512, 0, 0 } },
		{ 132, 2, 1024, 96, { 0, 0, 0 }, { 32, 2, 256 } },
		/* small and large gpus */
		{ 2, 127, 1024, 0, { 0, 0, 0 }, { 512, 1, 1 } },
		{ 3, 127, 1024, 0, { 0, 0, 0 }, { 512, 1, 2 } },
		{ 4, 127, 1024, 0, { 0, 0, 0 }, { 512, 2, 2 } },
		{ 262, 127, 1024, 0, { 0, 0, 0 }, { 512, 6, 256 } },
		{ 261, 127, 1024, 0, { 0, 0, 0 }, { 512, 6, 255 } },
		/* values of the configuration are kept */
		{ 132, 127, 1024, 0, { 256, 5, 7 }, { 256, 5, 7 } },
		{ 132, 4, 1024, 0, { 512, 0, 0 }, { 512, 1, 131 } },
		{ 132, 127, 1024, 0, { 0, 100, 32 }, { 512, 0, 0 } },
		{ 132, 127, 1024, 0, { 512, 32, 100 }, { 512, 32, 100 } },
		{ 132, 127, 1024, 0, { 512, 32, 101 }, { 512, 0, 0 } },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		gpu(0, 32, row[i].processors);
		engine->backend[0].max_threads = row[i].max_threads;
		run->gpu[0].entry_threads = row[i].of_entry;
		ssd(0, row[i].queues);
		pipeline->threads = row[i].given.threads;
		pipeline->io_blocks = row[i].given.io;
		pipeline->compute_blocks = row[i].given.access;
		if (!row[i].want.io) {
			cr_expect_eq(shape(), -EINVAL, "row %zu", i);
			continue;
		}
		cr_assert_eq(shape(), 0, "row %zu: %s", i, engine->error.text);
		cr_expect_eq(run->threads, row[i].want.threads, "row %zu: %u threads", i,
			     run->threads);
		cr_expect_eq(run->blocks[HR_ROLE_IO], row[i].want.io, "row %zu: %u I/O blocks", i,
			     run->blocks[HR_ROLE_IO]);
		cr_expect_eq(run->blocks[HR_ROLE_ACCESS], row[i].want.access, "row %zu: %u", i,
			     run->blocks[HR_ROLE_ACCESS]);
		cr_expect_eq(run->workers[HR_ROLE_IO], row[i].want.threads / 32, "row %zu", i);
		cr_expect_eq(run->workers[HR_ROLE_ACCESS], row[i].want.threads / 32, "row %zu", i);
		cr_expect_eq(run->gpu[0].cpu.io_blocks, row[i].want.io, "row %zu", i);
		cr_expect_eq(run->gpu[0].cpu.compute_blocks, row[i].want.access, "row %zu", i);
		cr_expect_eq(run->gpu[0].cpu.warps, row[i].want.threads / 32, "row %zu", i);
	}
}

/* A block of 512 threads for each processor by default, which can have more registers. */
Test(access_shape, a_gpu_that_holds_more_threads_is_not_filled_by_default)
{
	static const struct {
		uint32_t given, threads, io, access;
	} row[] = { { 0, 512, 6, 94 }, { 256, 256, 6, 194 }, { 1024, 1024, 3, 97 } };

	per_processor = 4;
	for (size_t i = 0; i < ROWS(row); i++) {
		gpu(0, 32, 100);
		ssd(0, 127);
		pipeline->threads = row[i].given;
		cr_assert_eq(shape(), 0, "row %zu: %s", i, engine->error.text);
		cr_expect_eq(run->threads, row[i].threads, "row %zu", i);
		cr_expect_eq(run->blocks[HR_ROLE_IO], row[i].io, "row %zu: %u", i,
			     run->blocks[HR_ROLE_IO]);
		cr_expect_eq(run->blocks[HR_ROLE_ACCESS], row[i].access, "row %zu: %u", i,
			     run->blocks[HR_ROLE_ACCESS]);
	}
}

Test(access_shape, a_cpu_has_one_block_of_each_kind_by_default)
{
	gpu(0, 1, 16);
	run->shared_bytes = 5;
	run->blocks[HR_ROLE_PREFETCH] = 3;
	run->workers[HR_ROLE_PREFETCH] = 3;
	cr_assert_eq(shape(), 0, "%s", engine->error.text);
	cr_expect_eq(run->threads, 1);
	cr_expect_eq(run->blocks[HR_ROLE_IO], 1);
	cr_expect_eq(run->blocks[HR_ROLE_ACCESS], 1);
	cr_expect_eq(run->workers[HR_ROLE_IO], 1);
	cr_expect_eq(run->workers[HR_ROLE_ACCESS], 1);
	cr_expect_eq(run->shared_bytes, 0);
	cr_expect_eq(run->blocks[HR_ROLE_PREFETCH], 0);
	cr_expect_eq(run->workers[HR_ROLE_PREFETCH], 0);
	pipeline->io_blocks = 3;
	pipeline->compute_blocks = 5;
	pipeline->threads = 256;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->threads, 1);
	cr_expect_eq(run->blocks[HR_ROLE_IO], 3);
	cr_expect_eq(run->blocks[HR_ROLE_ACCESS], 5);
}

Test(access_shape, impossible_blocks_are_refused_with_their_numbers)
{
	gpu(0, 32, 1);
	expect_refusal("1 I/O + 1 compute blocks of 512 threads, but far:0 holds 1 of them");
	gpu(0, 32, 132);
	engine->backend[0].wave = 64;
	pipeline->threads = 96;
	expect_refusal("threads is 96, but far:0 needs a multiple of 64");
	pipeline->threads = 128;
	cr_expect_eq(shape(), 0);
	gpu(0, 32, 132);
	pipeline->threads = 512;
	pipeline->io_blocks = 33;
	expect_refusal("33 I/O blocks of 16 warps are 528 workers, expected at most 512");
	pipeline->io_blocks = 32;
	cr_expect_eq(shape(), 0);
	fails = -EIO;
	cr_expect_eq(shape(), -EIO);
	cr_expect_eq(engine->error.kind, HR_ERROR_DEVICE);
	cr_expect(strstr(engine->error.text, "'p': the gpu has failed"), "%s", engine->error.text);
}

/* 8 queue pairs of the first ssd. A warp of an I/O block needs one on each ssd. */
Test(access_shape, queue_pairs_are_shared_by_pipelines_and_gpus)
{
	ssd(0, 8);
	engine->config.pipelines = 2;
	engine->run[1] = *run;
	engine->config.pipeline[1] = *pipeline;
	engine->run[1].config = &engine->config.pipeline[1];
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->threads, 128, "4 of the 8 are for the other pipeline");
	engine->run[1].selected = false;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->threads, 256);
	engine->run[1].selected = true;
	engine->config.pipeline[1].object[0].ssd = 1;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->threads, 256, "the other pipeline uses another ssd");
	engine->config.pipeline[1].object[0].ssd = 0;
	engine->config.pipeline[1].other_gpus = 2;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->threads, 64, "the other pipeline runs on three gpus");
	run->ssds = 2;
	pipeline->objects = 2;
	strcpy(pipeline->object[1].object, "more");
	pipeline->object[1].ssd = 1;
	run->object[1] = (struct hr_run_object){ .used = true, .bytes = GIB, .queue = 1 };
	ssd(1, 1);
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->threads, 32, "the ssd with the fewest queues decides");
	cr_expect_eq(run->gpu[0].cpu.ssds, 2);
	cr_expect_eq(run->gpu[0].cpu.queue_of[1], 1);
	cr_expect_eq(run->gpu[0].layout.queue[1].ssd, &engine->ssd[1]);
	cr_expect_str_eq(run->gpu[0].layout.queue[1].name, "d1");
}

Test(access_shape, pipelines_side_by_side_divide_the_blocks)
{
	engine->config.gpu[0].blocks = 20;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->blocks[HR_ROLE_IO] + run->blocks[HR_ROLE_ACCESS], 20);
	engine->config.gpu[0].blocks = 0;
	engine->config.pipelines = engine->config.parallel = 2;
	engine->run[1] = *run;
	engine->config.pipeline[1] = *pipeline;
	engine->run[1].config = &engine->config.pipeline[1];
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->blocks[HR_ROLE_IO] + run->blocks[HR_ROLE_ACCESS], 30, "half of 60");
}

static void use_two_gpus(void)
{
	pipeline->other_gpus = 1;
	pipeline->other_gpu[0] = 1;
}

Test(access_shape, the_smallest_of_several_gpus_decides)
{
	use_two_gpus();
	gpu(1, 32, 6);
	cr_assert_eq(shape(), 0, "%s", engine->error.text);
	cr_expect_eq(run->blocks[HR_ROLE_IO], 3);
	cr_expect_eq(run->blocks[HR_ROLE_ACCESS], 3);
	gpu(1, 32, 1);
	expect_refusal("far:1 holds 1 of them at once");
	gpu(1, 32, 132);
	engine->backend[1].max_threads = 200;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->threads, 192);
	for (uint32_t p = 0; p < 2; p++) {
		cr_expect_eq(run->gpu[p].layout.gpus, 2);
		cr_expect_eq(run->gpu[p].layout.self, p);
		cr_expect_eq(run->gpu[p].layout.access, &run->gpu[p].cpu);
		cr_expect_eq(run->gpu[p].layout.args, pipeline->op_args);
	}
}

Test(access_shape, gpus_that_cannot_work_together_are_refused)
{
	use_two_gpus();
	gpu(1, 64, 132);
	expect_refusal("gpu 'g0' is far:0 and gpu 'g1' is far:1, expected gpus of one kind");
	gpu(1, 32, 132);
	engine->backend[1].ops = &other_ops;
	expect_refusal("expected gpus of one kind");
	gpu(1, 32, 132);
	strcpy(facts[1].pci, facts[0].pci);
	expect_refusal("gpus 'g0' and 'g1' are the same device, 0000:00:00.0");
	strcpy(facts[1].pci, "0000:01:00.0");
	fails = -ENOTSUP;
	cr_expect_eq(shape(), -ENOTSUP);
	cr_expect_eq(engine->error.kind, HR_ERROR_MISSING);
	cr_expect(strstr(engine->error.text, "gpu 'g1' cannot use the memory of gpu 'g0': no path"),
		  "%s", engine->error.text);
	fails = 0;
	scratch = 100;
	expect_refusal("shares 100 bytes of memory among its workers, so it runs on one gpu; "
		       "expected gpu = \"g0\"");
	pipeline->other_gpus = 0;
	cr_expect_eq(shape(), 0);
	cr_expect_eq(run->gpu[0].cpu.scratch_bytes, 100);
}

/* ---- frames */

static uint64_t frames(void)
{
	cr_assert_eq(shape(), 0, "%s", engine->error.text);
	return hr_page_frames(&run->gpu[0].cpu.cache.shape);
}

/* The numbers of frames here are whole rows of sets: 7 * 32 * n. */
Test(access_shape, frames_come_from_the_configuration_the_objects_or_the_memory)
{
	const uint64_t row = 7 * 32, bytes = row * 4096 * PAGE;

	/* 25 % more than its 64 * 7 * 100 pages, and 112 */
	run->object[0].bytes = 64 * 7 * 100 * (uint64_t)PAGE;
	cr_expect_eq(frames(), (44800 + 448 * 25 + 112) / row * row);
	/* less than the objects need: a part of the memory */
	run->object[0].bytes = 1024 * GIB;
	facts[0].memory_bytes = 4 * bytes;
	cr_expect_eq(frames(), 3 * 4096 * row);
	engine->config.memory_gpu = 2 * bytes;
	cr_expect_eq(frames(), 4096 * row);
	engine->config.memory_gpu = 0;
	strcpy(engine->backend[0].peer, "pci");
	engine->backend[0].peer_bytes = 8 * bytes;
	cr_expect_eq(frames(), 6 * 4096 * row);
	engine->config.memory_gpu = 2 * bytes;
	cr_expect_eq(frames(), 4096 * row);
	pipeline->cache.frame_bytes = 2 * bytes;
	cr_expect_eq(frames(), 2 * 4096 * row);
	pipeline->cache.frames = 512 * 7;
	cr_expect_eq(frames(), 512 * 7);
}

Test(access_shape, several_pipelines_divide_the_memory_for_frames)
{
	const uint64_t row = 7 * 32, bytes = row * 4096 * PAGE;

	run->object[0].bytes = 1024 * GIB;
	engine->config.memory_gpu = 4 * bytes;
	engine->config.pipelines = 4;
	for (uint32_t i = 1; i < 4; i++) {
		engine->run[i] = *run;
		engine->config.pipeline[i] = *pipeline;
		engine->run[i].config = &engine->config.pipeline[i];
	}
	engine->run[1].selected = false;
	engine->config.pipeline[2].objects = 0; /* a stream operator */
	engine->config.pipeline[3].gpu = 1;
	cr_expect_eq(frames(), 2 * 4096 * row);
	engine->config.pipeline[3].gpu = 0;
	cr_expect_eq(frames(), 4096 * row);
}

Test(access_shape, gpus_of_the_host_share_its_memory)
{
	const uint64_t row = 7 * 32;
	const uint64_t quarter =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4;

	gpu(0, 1, 4);
	gpu(1, 1, 4);
	run->object[0].bytes = 4096 * GIB;
	cr_expect_eq(frames(), quarter / PAGE / row * row);
	use_two_gpus();
	cr_expect_eq(frames(), quarter / 2 / PAGE / row * row);
	engine->config.memory_host = 2 * 4096 * row * PAGE;
	cr_expect_eq(frames(), 4096 * row);
	engine->config.memory_gpu = 5 * MIB; /* of GPU memory */
	cr_expect_eq(frames(), 4096 * row);
}

/* The gpu with the least memory decides. */
Test(access_shape, frames_fit_the_smallest_gpu)
{
	const uint64_t row = 7 * 32, bytes = row * 4096 * PAGE;

	use_two_gpus();
	run->object[0].bytes = 1024 * GIB;
	facts[0].memory_bytes = 8 * bytes;
	facts[1].memory_bytes = 4 * bytes;
	cr_expect_eq(frames(), 3 * 4096 * row);
	facts[1].memory_bytes = 16 * bytes;
	cr_expect_eq(frames(), 6 * 4096 * row);
}

Test(access_shape, a_cache_is_one_set_of_frames_at_least)
{
	engine->config.memory_gpu = 1;
	cr_expect_eq(frames(), HR_WAYS);
	pipeline->cache.frames = HR_WAYS - 1;
	expect_refusal("room for 6 frames of 4096 bytes, expected at least 7");
	pipeline->cache.frames = HR_WAYS;
	cr_expect_eq(frames(), HR_WAYS);
}

Test(access_shape, pages_are_numbered_by_groups_and_limited)
{
	const struct hr_page_cache *cache = &run->gpu[0].cpu.cache;

	pipeline->objects = 4;
	run->object[0].bytes = PAGE + 1;
	run->object[1] = (struct hr_run_object){ .used = true, .bytes = 32 * PAGE };
	run->object[2] = (struct hr_run_object){ .bytes = 7 };
	run->object[3] = (struct hr_run_object){ .used = true, .bytes = 33 * PAGE };
	pipeline->object[3].writes = true;
	cr_assert_eq(shape(), 0, "%s", engine->error.text);
	cr_expect_eq(cache->objects, 4);
	cr_expect_eq(cache->object[0].first_page, 0);
	cr_expect_eq(cache->object[0].pages, 2);
	cr_expect_eq(cache->object[0].bytes, PAGE + 1);
	cr_expect_not(cache->object[0].writable);
	cr_expect_eq(cache->object[1].first_page, 32);
	cr_expect_eq(cache->object[1].pages, 32);
	cr_expect_eq(cache->object[1].index, 1);
	cr_expect_eq(cache->object[2].first_page, HR_NO_PAGE);
	cr_expect_eq(cache->object[3].first_page, 64);
	cr_expect_eq(cache->object[3].pages, 33);
	cr_expect(cache->object[3].writable);
	cr_expect_eq(cache->policy, pipeline->cache.policy);

	pipeline->objects = 2;
	pipeline->cache.frames = 7 << 20;
	run->object[0].bytes = ((uint64_t)HR_PAGES_MAX - 31) * PAGE - 32 * PAGE;
	cr_expect_eq(shape(), 0, "%s", engine->error.text);
	run->object[1].bytes++;
	expect_refusal("too many pages of 4096 bytes for 7340032 frames");
	run->object[0].bytes = UINT64_MAX;
	expect_refusal("too many pages");
}

/* ---- commands */

Test(access_shape, pages_are_whole_blocks_and_fit_a_command)
{
	engine->ssd[0].ns.lba_shift = 13;
	expect_refusal("object 'in': pages have 4096 bytes, expected whole blocks of 8192 bytes of "
		       "ssd 'd0'");
	run->object[0].used = false;
	cr_expect_eq(shape(), 0, "no object is used");
	run->object[0].used = true;
	engine->ssd[0].ns.lba_shift = 9;
	engine->ssd[0].chunk_bytes = PAGE - 512;
	expect_refusal("transfer at most 3584 (MDTS)");
	engine->ssd[0].chunk_bytes = PAGE;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->gpu[0].cpu.merge_pages, 1);
	engine->ssd[0].chunk_bytes = 5 * PAGE;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->gpu[0].cpu.merge_pages, 5);
	engine->ssd[0].chunk_bytes = 64 * PAGE;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->gpu[0].cpu.merge_pages, 32, "a group");
	pipeline->objects = 2;
	run->object[1] = (struct hr_run_object){ .used = true, .bytes = GIB };
	pipeline->object[1].ssd = 1;
	engine->ssd[1].chunk_bytes = 3 * PAGE;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->gpu[0].cpu.merge_pages, 3);
}

Test(access_shape, a_queue_limits_the_commands_of_a_worker)
{
	static const struct {
		uint32_t entries, commands;
	} row[] = { { 1024, 64 }, { 65, 64 }, { 64, 63 }, { 3, 2 }, { 2, 1 }, { 1, 1 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		engine->ssd[0].queue_entries = row[i].entries;
		cr_assert_eq(shape(), 0);
		cr_expect_eq(run->gpu[0].cpu.commands, row[i].commands, "%u entries: %u",
			     row[i].entries, run->gpu[0].cpu.commands);
	}
	use_two_gpus();
	expect_refusal("an I/O worker has 1 command at a time, expected 2 or more");
	engine->ssd[0].queue_entries = 3;
	cr_expect_eq(shape(), 0);
}

/* 4 I/O blocks of 16 warps with 64 commands: 4096 buffers. */
Test(access_shape, staging_buffers_fit_a_quarter_of_the_host_memory)
{
	static const struct {
		uint64_t memory;
		uint32_t merge, commands;
	} row[] = {
		{ 0, 8, 64 },	      { 4096 * MIB, 8, 64 }, { 512 * MIB, 8, 64 },
		{ 511 * MIB, 4, 64 }, { 64 * MIB, 1, 64 },   { 63 * MIB, 1, 32 },
		{ 16 * MIB, 1, 16 },  { 8 * MIB, 1, 8 },     { 1 * MIB, 1, 8 },
	};

	pipeline->io_blocks = 4;
	for (size_t i = 0; i < ROWS(row); i++) {
		engine->path[0][0].direct = false;
		engine->config.memory_host = row[i].memory;
		cr_assert_eq(shape(), 0);
		cr_expect(run->gpu[0].layout.stages);
		cr_expect_eq(run->gpu[0].cpu.merge_pages, row[i].merge, "row %zu: %u", i,
			     run->gpu[0].cpu.merge_pages);
		cr_expect_eq(run->gpu[0].cpu.commands, row[i].commands, "row %zu: %u", i,
			     run->gpu[0].cpu.commands);
		engine->path[0][0].direct = true;
		cr_assert_eq(shape(), 0);
		cr_expect_eq(run->gpu[0].cpu.merge_pages, 32, "frames need no buffers");
		cr_expect_eq(run->gpu[0].cpu.commands, 64);
	}
}

Test(access_shape, frames_lie_where_all_controllers_reach_them)
{
	use_two_gpus();
	engine->path[1][0].direct = false;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->gpu[0].layout.frames_in, HR_PLACE_GPU);
	cr_expect_not(run->gpu[0].layout.stages);
	cr_expect_eq(run->gpu[1].layout.frames_in, HR_PLACE_GPU);
	cr_expect(run->gpu[1].layout.stages);
	cr_expect_eq(run->gpu[0].cpu.merge_pages, 8, "one gpu that stages limits all");
	pipeline->other_gpus = 0;
	gpu(0, 1, 4);
	engine->path[0][0].direct = false;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->gpu[0].layout.frames_in, HR_PLACE_HOST);
	cr_expect_not(run->gpu[0].layout.stages);
	strcpy(engine->backend[0].peer, "pci");
	engine->backend[0].peer_bytes = GIB;
	cr_assert_eq(shape(), 0);
	cr_expect_eq(run->gpu[0].layout.frames_in, HR_PLACE_GPU);
	cr_expect(run->gpu[0].layout.stages);
}
