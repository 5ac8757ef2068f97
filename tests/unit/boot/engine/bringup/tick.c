/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The periodic function of the supervising thread is called, and a signal is seen, during long
 * work: waits, and all reads of a slow ssd. Each command takes 20 ms here, so each read has at
 * least one call, on a busy machine, too.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "boot/engine/devices/foreign_data.h"
#include "boot/cmd/post/post.h"
#include "boot/cmd/post/step.h"
#include "config/base/process.h"
#include "config/base/tick.h"
#include "tests/harness/engine.h"

static char faults[64];
static struct hr_engine *engine;
static unsigned ticks, stop_at;

static void begin(void)
{
	strcpy(faults, "/tmp/hr-tick-XXXXXX");
	cr_assert_geq(mkstemp(faults), 0);
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
}

static void end(void)
{
	hr_tick_set(NULL, NULL);
	unlink(faults);
	free(engine);
}

TestSuite(tick, .init = begin, .fini = end, .timeout = 240);

/* Count the calls, and request a stop at call stop_at. */
static void count(void *to, uint64_t now_ns)
{
	cr_assert_eq(to, engine);
	cr_assert_gt(now_ns, 0u);
	if (++ticks == stop_at)
		raise(SIGTERM);
}

static void count_from_now(void)
{
	ticks = 0;
	hr_tick_set(count, engine);
}

static void configure(const char *script, const char *bytes)
{
	FILE *file = fopen(faults, "we");

	fputs(script, file);
	fclose(file);
	engine_print(
		engine,
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M,faults=%s\";\n"
		"  timeout_ms = 60000; objects = ( { name = \"in\"; bytes = \"%s\"; } ); } );\n"
		"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
		"pipelines = ( { name = \"p\"; source = { object = \"in\"; };\n"
		"  operator = \"crc32c\"; tile = \"64K\"; slots = 2; } );\n",
		faults, bytes);
}

#define SLOW "on any count 1000000: delay 20ms\n"

Test(tick, a_long_wait_calls_the_periodic_function_repeatedly)
{
	count_from_now();
	hr_wait_ns(10 * HR_TICK_NS);
	cr_expect_geq(ticks, 9u, "%u", ticks);
	hr_tick_set(NULL, NULL);
	hr_wait_ns(2 * HR_TICK_NS);
	hr_tick();
	cr_expect_leq(ticks, 11u, "%u", ticks);
}

static void waits(void *to, uint64_t now_ns)
{
	unsigned *calls = to;

	++*calls;
	hr_wait_ns(2 * HR_TICK_NS);
}

/* A periodic function that violates its contract and waits is not called again within itself. */
Test(tick, the_periodic_function_does_not_call_itself)
{
	unsigned calls = 0;

	hr_tick_set(waits, &calls);
	hr_tick();
	cr_expect_eq(calls, 1u);
}

static void *wait_elsewhere(void *to)
{
	hr_wait_ns(3 * HR_TICK_NS);
	hr_tick();
	return to;
}

Test(tick, the_periodic_function_is_called_only_in_its_thread)
{
	pthread_t thread;

	count_from_now();
	cr_assert_eq(pthread_create(&thread, NULL, wait_elsewhere, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(ticks, 0u);
}

/* Each step of the self-test, over a disk that is slow from bring-up on. */
Test(tick, the_self_test_of_a_slow_ssd_calls_the_periodic_function)
{
	char detail[HR_POST_DETAIL];

	configure(SLOW, "256K");
	count_from_now();
	cr_assert_eq(hr_post_controller(engine, 0, detail, test_error()), 0);
	ticks = 0;
	cr_assert_eq(hr_post_queue(engine, 0, detail, test_error()), 0);
	cr_expect_geq(ticks, 64u, "queue: %u", ticks);
	ticks = 0;
	cr_assert_eq(hr_post_store(engine, 0, detail, test_error()), 0);
	cr_expect_geq(ticks, 10u, "store: %u", ticks);
	ticks = 0;
	cr_assert_eq(hr_post_loopback(engine, 0, detail, test_error()), 0);
	cr_expect_geq(ticks, 2u, "loopback: %u", ticks);
	ticks = 0;
	cr_assert_eq(hr_post_verify(engine, 0, detail, test_error()), 0);
	cr_expect_geq(ticks, 4u, "map: %u", ticks);
	ticks = 0;
	cr_assert_eq(hr_foreign_data_find(engine->ssd[0].blk, detail, NULL), 0);
	cr_expect_geq(ticks, 4u, "guard: %u", ticks);
	hr_ssd_down(&engine->ssd[0]);
}

/* The step ends within half of the commands that it has without a signal. */
static void ends_at_a_signal(int (*step)(struct hr_engine *engine, uint32_t d, char *detail,
					 struct hr_error *e),
			     uint64_t without_signal)
{
	char detail[HR_POST_DETAIL];
	uint64_t before;

	hr_signals_catch();
	stop_at = 5;
	count_from_now();
	before = engine->ssd[0].disk.qp.stats.completed;
	cr_expect_eq(step(engine, 0, detail, test_error()), -EINTR);
	cr_expect_lt(engine->ssd[0].disk.qp.stats.completed - before, without_signal / 2);
}

Test(tick, a_signal_ends_the_round_trips)
{
	char detail[HR_POST_DETAIL];

	configure(SLOW, "256K");
	cr_assert_eq(hr_post_controller(engine, 0, detail, test_error()), 0);
	ends_at_a_signal(hr_post_queue, 64);
	hr_ssd_down(&engine->ssd[0]);
}

/* 32 MiB in pieces of 256 KiB are 128 commands, and the object map has another 19. */
Test(tick, a_signal_ends_the_making_of_objects)
{
	char detail[HR_POST_DETAIL];

	configure(SLOW, "32M");
	cr_assert_eq(hr_post_controller(engine, 0, detail, test_error()), 0);
	ends_at_a_signal(hr_post_store, 147);
	hr_ssd_down(&engine->ssd[0]);
}

Test(tick, a_signal_ends_the_inspection_of_a_disk)
{
	char detail[HR_POST_DETAIL];

	configure(SLOW, "256K");
	cr_assert_eq(hr_post_controller(engine, 0, detail, test_error()), 0);
	hr_signals_catch();
	stop_at = 3;
	count_from_now();
	cr_expect_eq(hr_foreign_data_find(engine->ssd[0].blk, detail, NULL), -EINTR);
	hr_ssd_down(&engine->ssd[0]);
}

Test(tick, a_signal_ends_bring_up_and_the_self_test)
{
	static struct hr_post post;

	configure("", "256K");
	hr_signals_catch();
	raise(SIGTERM);
	post.engine = engine;
	post.out = stdout;
	hr_post_machine(&post);
	hr_post_ssds(&post);
	cr_expect_eq(post.passed + post.failed + post.skipped, 0u);
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -EINTR);
	cr_expect_eq(engine->up, HR_STAGE_NONE);
}

Test(tick, bring_up_and_going_down_call_the_periodic_function)
{
	configure(SLOW, "256K");
	count_from_now();
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	cr_expect_geq(ticks, 20u, "%u", ticks);
	hr_engine_down(engine);
}
