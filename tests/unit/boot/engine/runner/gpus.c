/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipeline on several gpus: its memory, its launches, and their end when one gpu fails. The
 * backends launch nothing: each test says when the launch of a gpu ends, and how.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/runner/conclude.h"
#include "boot/engine/runner/runner.h"
#include "boot/engine/concurrency.h"
#include "config/base/process.h"
#include "boot/engine/runner/stall.h"
#include "cache/peers.h"
#include "config/base/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

TestSuite(gpus, .timeout = 60);

#define GPUS 3
#define PIPE(name, gpus)                                                                   \
	"{ name = \"" name "\"; operator = \"chase\"; " gpus " args = { hops = 5; };\n"    \
	"  objects = { next = { object = \"in\"; }; }; cache = { frames = 70; }; io = 2; " \
	"compute = 3; }"
#define CONF(parallel, blocks, pipelines)                                              \
	"appliance = { parallel = " parallel "; };\n"                                  \
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=64M\"; objects = (\n"    \
	"  { name = \"in\"; bytes = \"1M\"; } ); } );\n"                               \
	"gpus = ( { name = \"g0\"; device = \"host:1\"; }, { name = \"g1\"; device = " \
	"\"host:1\"; " blocks " },\n  { name = \"g2\"; device = \"host:1\"; } );\n"    \
	"pipelines = ( " pipelines " );\n"
#define ALL "gpus = [ \"g2\", \"g0\", \"g1\" ];"

static struct hr_engine *engine;
static struct hr_backend_ops ops[GPUS];
static const struct hr_backend_ops *real[GPUS];
static struct hr_launch handle[GPUS];
static char order[64];	    /* "+0": launched on gpu 0, "-0": ended */
static int end_of[GPUS];    /* result of poll(); 0: the launch runs */
static int launch_of[GPUS]; /* result of launch() */
static void (*when_polled)(void);

static void note(char what, uint32_t g)
{
	const size_t at = strlen(order);

	snprintf(order + at, sizeof order - at, "%c%u", what, g);
}

static int launch(struct hr_backend *b, const struct hr_launch_args *args,
		  struct hr_launch **launched, struct hr_error *e)
{
	const uint32_t g = (uint32_t)(b - engine->backend);

	if (launch_of[g])
		return hr_fail(e, HR_ERROR_FAILED, launch_of[g], "no room");
	handle[g] = (struct hr_launch){ b, args->stop };
	*launched = &handle[g];
	note('+', g);
	return 0;
}

static int poll(struct hr_launch *launched, struct hr_error *e)
{
	const uint32_t g = (uint32_t)(launched - handle);

	if (when_polled)
		when_polled();
	if (end_of[g] < 0)
		return hr_fail(e, HR_ERROR_DEVICE, end_of[g], "it is gone");
	return end_of[g];
}

static void launch_free(struct hr_launch *launched)
{
	note('-', (uint32_t)(launched - handle));
}

static void up(const char *text)
{
	engine = engine_new(text);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	hr_unseal(); /* assertions may allocate */
	when_polled = NULL;
	order[0] = '\0';
	for (uint32_t g = 0; g < GPUS; g++) {
		end_of[g] = 1;
		launch_of[g] = 0;
		if (!engine->gpu_up[g])
			continue;
		real[g] = engine->backend[g].ops;
		ops[g] = *real[g];
		ops[g].launch = launch;
		ops[g].poll = poll;
		ops[g].launch_free = launch_free;
		engine->backend[g].ops = &ops[g];
	}
}

static void down(void)
{
	for (uint32_t g = 0; g < GPUS; g++)
		if (engine->gpu_up[g])
			engine->backend[g].ops = real[g];
	hr_engine_down(engine);
	free(engine);
}

Test(gpus, each_has_a_part_of_the_same_shape)
{
	const struct hr_run *run;
	uint32_t number;

	up(CONF("1", "", PIPE("p", ALL)));
	run = &engine->run[0];
	cr_assert_eq(hr_run_gpus(run), 3u);
	for (uint32_t p = 0; p < 3; p++) {
		const struct hr_page_cache *c = &run->gpu[p].cpu.cache;

		cr_expect_eq(hr_page_frames(&c->shape), 70u);
		cr_assert_not_null(c->peers);
		cr_expect_eq(c->peers->self, p);
		cr_expect_eq(c->peers->gpus, 3u);
		cr_expect_eq(c->peers->timeout_ns, c->timeout_ns);
		for (uint32_t q = 0; q < 3; q++) {
			cr_expect_eq(c->peers->gpu[q].frame, run->gpu[q].access->cache.frame);
			cr_expect_eq(c->peers->gpu[q].flushed, run->gpu[q].access->cache.flushed);
			cr_expect_eq(c->peers->gpu[q].states, run->gpu[q].access->op_states);
		}
	}
	cr_expect_eq(hr_run_role_statuses(run, HR_ROLE_IO), 6u);
	cr_expect_eq(hr_run_role_statuses(run, HR_ROLE_ACCESS), 9u);
	cr_expect_eq(hr_run_statuses(run), 15u);
	for (uint32_t i = 0; i < 15; i++) {
		const uint32_t of = i < 6 ? 2 : 3, k = i < 6 ? i : i - 6;

		cr_expect_eq(hr_run_status_gpu(run, i, &number), k / of, "record %u", i);
		cr_expect_eq(number, k % of, "record %u", i);
		cr_expect_eq(hr_run_status(run, i),
			     &run->gpu[k / of].cpu.status[(i < 6 ? 0 : 2) + k % of], "record %u",
			     i);
	}
	down();
}

/* g0 ends first, g1 last. */
static void end_one_by_one(void)
{
	static const uint32_t turn[] = { 0, 2, 1 };
	static uint32_t polls;

	end_of[turn[polls++ / 8 % 3]] = 1;
}

Test(gpus, a_run_ends_when_all_launches_have_ended)
{
	up(CONF("1", "", PIPE("p", ALL)));
	end_of[0] = end_of[1] = end_of[2] = 0;
	when_polled = end_one_by_one;
	cr_expect_eq(hr_run_all(engine, false, NULL), 0);
	cr_expect_str_eq(order, "+2+0+1-0-2-1");
	cr_expect_eq(engine->run[0].outcome, HR_RUN_DONE);
	down();
}

/* Launches end when they are asked to stop waiting. */
static void heed(void)
{
	for (uint32_t g = 0; g < GPUS; g++)
		if (end_of[g] == 0 && handle[g].stop && *handle[g].stop == HR_STOP_ABANDON)
			end_of[g] = 1;
}

Test(gpus, a_gpu_that_fails_ends_the_launches_of_the_others)
{
	up(CONF("1", "", PIPE("p", ALL)));
	end_of[2] = end_of[1] = 0;
	end_of[0] = -EIO;
	when_polled = heed;
	cr_expect_eq(hr_run_all(engine, false, NULL), -EIO);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_FAILED);
	cr_expect_str_eq(engine->run[0].cause.text,
			 "pipeline 'p': gpu 'g0' failed after 0 pages were read: it is gone");
	cr_expect(engine->gpu_failed[0] && !engine->gpu_failed[1] && !engine->gpu_failed[2]);
	cr_expect_eq(strlen(order), 12u, "%s", order);
	down();
}

Test(gpus, a_gpu_that_launches_nothing_ends_the_launches_before_it)
{
	up(CONF("1", "", PIPE("p", ALL)));
	end_of[2] = 0;
	launch_of[0] = -EBUSY;
	when_polled = heed;
	cr_expect_eq(hr_run_all(engine, false, NULL), -EBUSY);
	cr_expect_str_eq(order, "+2-2");
	cr_expect(engine->gpu_failed[0] && !engine->gpu_failed[2]);
	down();
}

/* The second look sees a signal; then launches end on request. */
static void interrupt(void)
{
	static unsigned polls;

	if (++polls == 4)
		raise(SIGINT);
	for (uint32_t g = 0; g < GPUS; g++)
		end_of[g] = handle[g].stop && *handle[g].stop == HR_STOP_NEW;
	for (uint32_t p = 0; p < GPUS; p++)
		engine->run[0].gpu[p].cpu.cache.words->stop = HR_CACHE_ENDS;
}

Test(gpus, a_signal_stops_the_launches_of_all)
{
	hr_signals_catch();
	up(CONF("1", "", PIPE("p", ALL)));
	end_of[0] = end_of[1] = end_of[2] = 0;
	when_polled = interrupt;
	cr_expect_eq(hr_run_all(engine, false, NULL), -EINTR);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_INTERRUPTED);
	cr_expect_eq(strlen(order), 12u, "%s", order);
	down();
}

Test(gpus, failures_name_the_gpu_of_the_worker_and_the_gpu_that_does_not_answer)
{
	struct hr_run *run;
	struct hr_worker_status *status;
	struct hr_error e = { 0 };

	up(CONF("1", "", PIPE("p", ALL)));
	run = &engine->run[0];
	status = &run->gpu[1].cpu.status[1];
	status->failure = (struct hr_failure){
		.error = -ETIMEDOUT, .role = HR_ROLE_IO, .tile = 7, .peer = 1 + 2
	};
	status->failed = 1;
	cr_assert(hr_failure_keep(run));
	cr_expect_eq(run->failure_gpu, 1u);
	cr_expect_eq(hr_failure_explain(engine, run, &e), -ETIMEDOUT);
	cr_expect_str_eq(e.text, "pipeline 'p' on gpu 'g0': object 'in', page 7: gpu 'g1' does not "
				 "answer (limit 15000 ms)");
	hr_error_clear(&e);
	status = &run->gpu[0].cpu.status[2];
	status->failure =
		(struct hr_failure){ .error = -ERANGE, .role = HR_ROLE_ACCESS, .tile = 6 };
	status->failed = 1;
	cr_assert(hr_failure_keep(run), "that of the lowest page");
	cr_expect_eq(run->failure_gpu, 0u);
	hr_failure_explain(engine, run, &e);
	cr_expect_str_eq(e.text,
			 "pipeline 'p' on gpu 'g2': operator chase accesses element or page "
			 "6 of object 'in', beyond its 1048576 bytes");
	down();
}

Test(gpus, workers_of_a_gpu_that_failed_need_no_heartbeat)
{
	static struct hr_stall watch;
	const struct hr_run *run;
	uint32_t index;

	up(CONF("1", "", PIPE("p", ALL)));
	run = &engine->run[0];
	hr_stall_begin(&watch, engine, run, 0);
	cr_expect_eq(hr_stall_check(&watch, 1000 * HR_NS_PER_S, &index), HR_ROLE_IO);
	cr_expect_eq(index, 0u);
	watch.failed_gpus = 1u << 0 | 1u << 2;
	cr_expect_eq(hr_stall_check(&watch, 1000 * HR_NS_PER_S, &index), HR_ROLE_IO);
	cr_expect_eq(index, 2u, "the first worker of the gpu between");
	watch.failed_gpus |= 1u << 1;
	cr_expect_eq(hr_stall_check(&watch, 1000 * HR_NS_PER_S, &index), HR_RUN_ROLES);
	down();
}

/* p is on all gpus, q on g1 only: on g1 they run beside each other, with five blocks each. */
Test(gpus, each_gpu_has_a_budget_of_blocks_for_all_its_pipelines)
{
	const uint32_t blocks[HR_PIPELINES_MAX] = { 5, 5 };
	hr_pipeline_set them;

	up(CONF("2", "blocks = 10;", PIPE("p", ALL) ",\n" PIPE("q", "gpu = \"g1\";")));
	cr_expect_eq(hr_concurrency_blocks(engine, 0, blocks, &them), 5u);
	cr_expect_eq(hr_concurrency_blocks(engine, 1, blocks, &them), 10u);
	cr_expect_eq(them, 3u);
	cr_expect_eq(hr_concurrency_blocks(engine, 2, blocks, &them), 5u);
	cr_expect_eq(hr_run_all(engine, false, NULL), 0);
	cr_expect_eq(engine->run[1].outcome, HR_RUN_DONE);
	down();
}
