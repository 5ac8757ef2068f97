/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts of single pipelines in the memory of one plan. The backend launches nothing: each test
 * says when a pipeline ends.
 */
#include "boot/appliance/attempt/provision.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

TestSuite(plan, .timeout = 60);

#define PIPE(name, op, in, sink)                                  \
	"{ name = \"" name "\"; operator = \"" op                 \
	"\"; tile = \"64K\"; verify = \"off\"; every = \"1h\";\n" \
	"  source = { object = \"" in "\"; }; " sink " }"
#define HEAD(memory) HEAD_OF("", memory)
#define HEAD_OF(options, memory)                                                               \
	"appliance = { checkpoint = 0; parallel = 4; };\n" memory                              \
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=64M" options "\"; objects = (\n" \
	"  { name = \"in\"; bytes = \"1M\"; }, { name = \"old\"; bytes = \"1M\"; } ); } );\n"  \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
/* clang-format off */
#define PIPELINES                                                                             \
	"pipelines = (\n" PIPE("a", "copy", "in", "sink = { object = \"x\"; replace = true; };") \
	",\n" PIPE("b", "crc32c", "old", "") ",\n" PIPE("c", "crc32c", "x", "") ");\n"
/* clang-format on */

enum { A, B, C, RUNS };

static struct hr_engine *engine;
static struct hr_provision *plan;
static struct hr_runner runner;
static struct hr_backend_ops ops;
static const struct hr_backend_ops *real;
static struct hr_launch handle[RUNS];
static bool ends[RUNS];

static int launch(struct hr_backend *b, const struct hr_launch_args *args,
		  struct hr_launch **launched, struct hr_error *e)
{
	uint32_t i = 0;

	while (!hr_run_wired(&engine->run[i]) || &engine->run[i].cpu.control->stop != args->stop)
		i++;
	handle[i] = (struct hr_launch){ b, args->stop };
	*launched = &handle[i];
	return 0;
}

/* All tiles are through, as the last role counts them. */
static int poll(struct hr_launch *launched, struct hr_error *e)
{
	const uint32_t i = (uint32_t)(launched - handle);
	struct hr_run *run = &engine->run[i];
	const uint32_t role = run->cpu.has_sink ? HR_ROLE_WRITEBACK : HR_ROLE_COMPUTE;

	if (!ends[i])
		return 0;
	run->cpu.status[hr_pipe_first_status(run->pipe, role)].tiles = run->tiles;
	run->pipe->next_tile = run->tiles;
	return 1;
}

static void launch_free(struct hr_launch *launched)
{
}

static void up(const char *text)
{
	engine = calloc(1, sizeof *engine);
	plan = calloc(1, sizeof *plan);
	cr_assert(engine && plan);
	engine_read(engine, text);
	engine->keep_going = true;
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_STORES), 0);
	real = engine->backend[0].ops;
	ops = *real;
	ops.launch = launch;
	ops.poll = poll;
	ops.launch_free = launch_free;
	engine->backend[0].ops = &ops;
	plan->engine = engine;
	plan->usable = (1u << RUNS) - 1;
	memset(ends, 0, sizeof ends);
	memset(&runner, 0, sizeof runner);
	runner.engine = engine;
}

static void down(void)
{
	engine->backend[0].ops = real;
	hr_engine_down(engine);
	free(plan);
	free(engine);
}

static uint32_t queues(void)
{
	return engine->ssd[0].controller->queues_used;
}

static void start(uint32_t i)
{
	ends[i] = false;
	cr_assert_eq(hr_provision_start(plan, i), 0, "%s", engine->run[i].cause.text);
	hr_unseal(); /* asserts may allocate */
	cr_assert_eq(engine->run[i].outcome, HR_RUN_WAITING);
	cr_assert_not(engine->refused, "the appliance itself starts again");
	hr_runner_start(&runner, i);
	cr_assert(runner.running >> i & 1);
}

static void end(uint32_t i, enum hr_outcome outcome)
{
	ends[i] = true;
	hr_runner_poll(&runner);
	cr_assert_not(runner.running >> i & 1);
	cr_expect_eq(engine->run[i].outcome, outcome, "%s", engine->run[i].cause.text);
	hr_provision_end(plan, i);
}

/* Store an object of that size in place of the one that exists. */
static void store(const char *name, uint64_t bytes)
{
	struct hr_store *s = &engine->ssd[0].store;
	const struct hr_store_object *old = hr_store_find(s, name);
	struct hr_store_object *made;

	if (old)
		cr_assert_eq(hr_store_remove(s, old->id, NULL), 0);
	cr_assert_eq(hr_store_create(s, name, bytes, 0, false, &made, NULL), 0);
	cr_assert_eq(hr_store_finish(s, made->id, false, 0, NULL), 0);
}

Test(plan, it_has_the_pipelines_whose_objects_exist_and_says_nothing_about_the_others)
{
	up(HEAD("") PIPELINES);
	cr_expect_eq(hr_provision_make(plan, 0), 0);
	cr_expect_eq(plan->planned, 1u << A | 1u << B);
	cr_expect_eq(engine->up, HR_STAGE_MEMORY);
	cr_expect_eq(engine->run[A].tiles, 0u, "it has not started");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "");
	down();
}

Test(plan, a_wanted_pipeline_without_its_object_is_an_error)
{
	up(HEAD("") PIPELINES);
	cr_expect_eq(hr_provision_make(plan, 1u << C), -EINVAL);
	cr_expect(strstr(engine->error.text, "there is no object 'x'"), "%s", engine->error.text);
	cr_expect_eq(plan->planned, 0u);
	hr_provision_refuse(plan, C, -EINVAL);
	cr_expect_eq(engine->run[C].outcome, HR_RUN_FAILED);
	cr_expect_eq(engine->run[C].error, -EINVAL);
	cr_expect(strstr(engine->run[C].cause.text, "there is no object 'x'"));
	down();
}

Test(plan, a_pipeline_starts_again_and_again_while_another_one_runs)
{
	uint32_t idle, one;

	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	idle = queues();
	start(B);
	one = queues();
	cr_expect_gt(one, idle);
	for (int i = 0; i < 5; i++) {
		start(A);
		cr_expect_gt(queues(), one);
		end(A, HR_RUN_DONE);
		cr_expect_eq(queues(), one, "its queue pairs are gone, those of b are not");
		cr_expect_not_null(hr_store_find(&engine->ssd[0].store, "x"));
		cr_expect(runner.running >> B & 1);
	}
	end(B, HR_RUN_DONE);
	cr_expect_eq(queues(), idle);
	down();
}

Test(plan, a_start_finds_zeros_where_the_last_run_left_its_words)
{
	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	start(B);
	engine->run[B].cpu.status[0].failure.error = 0x281;
	engine->run[B].cpu.status[0].failed = 1;
	end(B, HR_RUN_FAILED);
	start(B);
	end(B, HR_RUN_DONE);
	down();
}

Test(plan, an_object_may_grow_by_half)
{
	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	store("old", 3u << 19);
	start(B);
	cr_expect_eq(engine->run[B].tiles, 24u);
	end(B, HR_RUN_DONE);
	down();
}

Test(plan, an_object_beyond_its_room_needs_a_new_plan)
{
	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	store("old", 16u << 20);
	cr_expect_eq(hr_provision_check(plan, A), 0);
	cr_expect_eq(hr_provision_check(plan, B), -EAGAIN);
	cr_expect_eq(hr_provision_check(plan, C), -EINVAL, "it has no object");
	cr_expect_eq(hr_provision_start(plan, B), -EAGAIN);
	cr_expect_eq(plan->planned, 1u << A);
	cr_expect_eq(hr_provision_make(plan, 1u << B), 0);
	cr_expect_eq(plan->planned, 1u << A | 1u << B);
	start(B);
	cr_expect_eq(engine->run[B].tiles, 256u);
	end(B, HR_RUN_DONE);
	down();
}

Test(plan, a_pipeline_whose_object_came_later_needs_a_new_plan)
{
	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	start(A);
	end(A, HR_RUN_DONE);
	cr_expect_eq(hr_provision_start(plan, C), -EAGAIN);
	cr_expect_eq(hr_provision_make(plan, 1u << C), 0);
	start(C);
	end(C, HR_RUN_DONE);
	down();
}

Test(plan, a_start_without_its_object_fails_and_leaves_nothing)
{
	uint32_t idle;

	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	idle = queues();
	cr_assert_eq(hr_store_remove(&engine->ssd[0].store,
				     hr_store_find(&engine->ssd[0].store, "old")->id, NULL),
		     0);
	cr_expect_eq(hr_provision_start(plan, B), -EINVAL);
	cr_expect_eq(engine->run[B].outcome, HR_RUN_FAILED);
	cr_expect(strstr(engine->run[B].cause.text, "there is no object 'old'"));
	cr_expect_eq(queues(), idle);
	cr_expect_not(engine->refused);
	start(A);
	end(A, HR_RUN_DONE);
	down();
}

/* 16 tiles have room for half as many more, and 16. */
Test(plan, the_room_of_a_source_has_an_exact_end)
{
	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	cr_expect_eq(plan->run[B].tiles, 40u);
	store("old", 40u << 16);
	cr_expect_eq(hr_provision_check(plan, B), 0);
	store("old", (40u << 16) + 4096);
	cr_expect_eq(hr_provision_check(plan, B), -EAGAIN);
	down();
}

static void change_source_tile(struct hr_run *run)
{
	run->source[0].tile_bytes += 4096;
}

static void change_verifiable(struct hr_run *run)
{
	run->source[0].verify.wanted = !run->source[0].verify.wanted;
}

static void change_sink_tile(struct hr_run *run)
{
	run->sink_tile_bytes += 4096;
}

Test(plan, a_start_of_another_shape_needs_a_new_plan)
{
	static void (*const change[])(
		struct hr_run * run) = { change_source_tile, change_verifiable, change_sink_tile };

	up(HEAD("") PIPELINES);
	for (size_t k = 0; k < sizeof change / sizeof *change; k++) {
		cr_assert_eq(hr_provision_make(plan, 0), 0);
		cr_expect_eq(hr_provision_check(plan, A), 0);
		change[k](&plan->run[A]);
		cr_expect_eq(k ? hr_provision_start(plan, A) : hr_provision_check(plan, A), -EAGAIN,
			     "%zu", k);
		cr_expect_eq(plan->planned, 1u << B, "%zu", k);
	}
	down();
}

/* Look for the objects of one pipeline: what belongs to others, and to the backend, stays. */
Test(plan, a_check_changes_nothing_else)
{
	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	engine->run[A].selected = engine->run[C].selected = true;
	for (uint32_t p = 0; p < HR_GPUS_MAX; p++) {
		engine->run[B].gpu[p].entry_threads = 70 + p;
		engine->run[B].gpu[p].entry = (enum hr_entry)(20 + p);
	}
	engine->run[B].durable_tiles = 9;
	cr_expect_eq(hr_provision_check(plan, B), 0);
	cr_expect(engine->keep_going);
	cr_expect(engine->run[A].selected && engine->run[C].selected);
	cr_expect_not(engine->run[B].selected);
	cr_expect_eq(engine->run[B].durable_tiles, 0u, "of the last run");
	for (uint32_t p = 0; p < HR_GPUS_MAX; p++) {
		cr_expect_eq(engine->run[B].gpu[p].entry_threads, 70 + p);
		cr_expect_eq(engine->run[B].gpu[p].entry, 20 + p);
	}
	start(B);
	cr_expect(engine->keep_going);
	cr_expect_not(engine->refused);
	cr_expect(engine->run[A].selected && engine->run[B].selected && engine->run[C].selected);
	end(B, HR_RUN_DONE);
	down();
}

Test(plan, after_a_signal_a_start_is_interrupted)
{
	uint32_t idle;

	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	idle = queues();
	hr_signals_hold();
	hr_signals_stop();
	cr_expect_eq(hr_provision_start(plan, A), -EINTR);
	cr_expect_eq(engine->run[A].outcome, HR_RUN_INTERRUPTED);
	cr_expect_eq(engine->run[A].error, -EINTR);
	cr_expect(engine->run[A].selected);
	cr_expect_eq(engine->error.kind, HR_ERROR_NONE);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "");
	cr_expect_eq(queues(), idle);
	cr_expect_null(hr_store_find(&engine->ssd[0].store, "x"));
	down();
}

Test(plan, memory_for_no_pipeline_is_a_plan_of_none)
{
	up(HEAD("memory = { host = \"64K\"; };") PIPELINES);
	cr_expect_eq(hr_provision_make(plan, 0), 0);
	cr_expect_eq(plan->planned, 0u);
	cr_expect_eq(engine->up, HR_STAGE_STORES);
	cr_expect_eq(engine->error.kind, HR_ERROR_NONE, "%s", engine->error.text);
	cr_expect_neq(hr_provision_make(plan, 1u << B), 0);
	cr_expect_eq(plan->planned, 0u);
	down();
}

/* The limit has room for one of the two. */
Test(plan, pipelines_that_do_not_fit_beside_the_wanted_one_are_left_out)
{
	up(HEAD("memory = { host = \"1200K\"; };") PIPELINES);
	cr_expect_eq(hr_provision_make(plan, 0), 0);
	cr_expect_eq(plan->planned, 1u << A);
	cr_expect_eq(hr_provision_make(plan, 1u << B), 0);
	cr_expect_eq(plan->planned, 1u << B);
	start(B);
	end(B, HR_RUN_DONE);
	down();
}

/* ---- starts and plans that fail */

static int write_fails(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes,
		       bool fua, struct hr_error *e)
{
	return hr_fail(e, HR_ERROR_DEVICE, 0x280, "the write fails");
}

/* The sink cannot be made: only this start fails. */
Test(plan, a_start_that_fails_leaves_nothing)
{
	const struct hr_blk_ops *disk;
	struct hr_blk_ops broken;
	uint32_t idle;

	up(HEAD("") PIPELINES);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	idle = queues();
	disk = engine->ssd[0].blk->ops;
	broken = *disk;
	broken.write = write_fails;
	engine->ssd[0].blk->ops = &broken;
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(hr_provision_start(plan, A), 0x280);
		cr_expect_eq(engine->run[A].outcome, HR_RUN_FAILED);
		cr_expect(strstr(engine->run[A].cause.text, "the write fails"));
		cr_expect(engine->run[A].cause.printed && engine->run[A].selected);
		cr_expect_eq(queues(), idle);
		cr_expect(engine->keep_going && !engine->refused);
	}
	engine->ssd[0].blk->ops = disk;
	start(A);
	end(A, HR_RUN_DONE);
	down();
}

/* clang-format off */
#define MANY_READERS "pipelines = (\n" PIPE("a", "crc32c", "in", "blocks = { prefetch = 9; };") \
	",\n" PIPE("b", "crc32c", "old", "") " );\n"
/* clang-format on */

/* The controller creates eight queue pairs, although it has granted more. */
Test(plan, a_start_without_its_queue_pairs_ends_the_plan)
{
	uint32_t idle;

	up(HEAD_OF(",quirks=few-queues", "") MANY_READERS);
	cr_assert_eq(hr_provision_make(plan, 0), 0);
	cr_expect_eq(plan->planned, 1u << A | 1u << B);
	idle = queues();
	cr_expect_eq(hr_provision_start(plan, A), -EAGAIN);
	cr_expect_eq(plan->planned, 0u);
	cr_expect_eq(queues(), idle);
	cr_expect_eq(engine->run[A].outcome, HR_RUN_WAITING);
	cr_expect_eq(engine->error.kind, HR_ERROR_NONE, "%s", engine->error.text);
	cr_expect_eq(hr_provision_make(plan, 1u << B), 0);
	cr_expect_eq(plan->planned, 1u << B, "there is no room for the other one");
	start(B);
	end(B, HR_RUN_DONE);
	down();
}

static unsigned failing_allocations;

static int allocate(struct hr_backend *b, size_t bytes, struct hr_region *region,
		    struct hr_error *e)
{
	if (failing_allocations && failing_allocations--)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "no memory");
	return real->alloc(b, bytes, region, e);
}

/* The machine has less memory than the limits say: the wanted pipeline comes first. */
Test(plan, missing_memory_is_for_the_wanted_pipeline)
{
	static const struct {
		hr_pipeline_set wanted;
		unsigned failing;
		int want;
		hr_pipeline_set planned;
	} row[] = {
		{ 1u << B, 1, 0, 1u << B },
		{ 1u << B, 2, -ENOMEM, 0 },
		{ 1u << A | 1u << B, 1, -ENOMEM, 0 },
		{ 0, 1, 0, 0 },
	};

	up(HEAD("") PIPELINES);
	ops.alloc = allocate;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		failing_allocations = row[i].failing;
		cr_expect_eq(hr_provision_make(plan, row[i].wanted), row[i].want, "%zu", i);
		if (row[i].want) /* the part to make smaller */
			cr_expect(strstr(engine->error.text, " tiles of "), "%s",
				  engine->error.text);
		cr_expect_eq(plan->planned, row[i].planned, "%zu", i);
		cr_expect_eq(engine->up, row[i].planned ? HR_STAGE_MEMORY : HR_STAGE_STORES, "%zu",
			     i);
		for (uint32_t r = 0; r < RUNS; r++)
			cr_expect_not(engine->run[r].selected || engine->run[r].tiles, "%zu", i);
		hr_error_clear(&engine->error);
	}
	failing_allocations = 0;
	down();
}

#define CHASE                                                                               \
	"pipelines = ( { name = \"a\"; operator = \"chase\"; args = { hops = 5; };\n"       \
	"  objects = { next = { object = \"old\"; }; }; cache = { frames = 70; }; io = 1; " \
	"compute = 1; every = \"1h\"; } );\n"

/* The memory of an access operator depends on the length of its objects. */
Test(plan, an_accessed_object_of_another_length_needs_a_new_plan)
{
	up(HEAD("") CHASE);
	cr_assert_eq(hr_provision_make(plan, 0), 0, "%s", engine->error.text);
	cr_expect_eq(hr_provision_check(plan, A), 0);
	store("old", 1u << 20);
	cr_expect_eq(hr_provision_check(plan, A), 0, "another object of the same length");
	store("old", 2u << 20);
	cr_expect_eq(hr_provision_check(plan, A), -EAGAIN);
	cr_expect_eq(plan->planned, 0u);
	down();
}
