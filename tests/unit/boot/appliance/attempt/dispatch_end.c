/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an engine whose pipelines repeat: the ends of its starts are durable before it ends.
 * The engine runs in this process; its periodic function plays the supervisor, step by step.
 */
#include "boot/appliance/attempt/dispatch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/process.h"
#include "config/file/file.h"
#include "config/base/tick.h"
#include "tests/fakes/clock.h"
#include "tests/harness/error.h"

TestSuite(orders_end, .timeout = 200);

#define S HR_NS_PER_S

static const char text[] =
	"appliance = { checkpoint = 0; };\n"
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=16M\"; objects = ( { name = \"in\"; "
	"bytes = \"256K\"; } ); } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"pipelines = ( { name = \"a\"; operator = \"crc32c\"; source = { object = \"in\"; };\n"
	"  tile = \"64K\"; every = \"1h\"; } );\n";

static struct hr_attempt *attempt;
static struct hr_dispatch *dispatch;
static int supervisor; /* its end of the socket */
static int step;

static const struct hr_start *durable(void)
{
	return &attempt->record.starts.start[0];
}

static void send_dispatch(enum hr_dispatch_kind kind, enum hr_start_outcome outcome)
{
	struct hr_start *start = &dispatch->starts.start[0];

	dispatch->kind = kind;
	dispatch->number += kind == HR_DISPATCH_RUN;
	dispatch->pipelines = kind == HR_DISPATCH_RUN;
	strcpy(start->name, "a");
	start->outcome = outcome;
	start->starts = dispatch->number;
	start->done = outcome == HR_START_DONE;
	cr_assert_eq(send(supervisor, dispatch, sizeof *dispatch, 0), (ssize_t)sizeof *dispatch);
}

static bool is_over(void)
{
	return attempt->record.run[0].over && attempt->record.run[0].number == dispatch->number;
}

/* Serve until the engine ends; play() does the steps of the supervisor. */
static int serve(void (*play)(void *to, uint64_t now_ns))
{
	int pair[2], err;

	attempt = calloc(1, sizeof *attempt);
	dispatch = calloc(1, sizeof *dispatch);
	cr_assert(attempt && dispatch);
	attempt->engine = calloc(1, sizeof *attempt->engine);
	attempt->page = calloc(1, sizeof *attempt->page);
	cr_assert(attempt->engine && attempt->page);
	cr_assert_eq(hr_config_parse(&attempt->engine->config, &hr_lookup, "f", text,
				     sizeof text - 1, test_error()),
		     0, "%s", test_error_text());
	hr_engine_init(attempt->engine, NULL);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	supervisor = pair[0];
	attempt->dispatch = pair[1];
	attempt->clients = -1;
	attempt->phases = open("/dev/null", O_WRONLY);
	hr_signals_hold();
	hr_tick_set(play, NULL);
	err = hr_dispatch_serve(attempt);
	hr_tick_set(NULL, NULL);
	return err;
}

/* The stop comes after the end of the start, and before the dispatch that notes this end. */
static void stop_before_the_order(void *to, uint64_t now_ns)
{
	if (step == 0 && attempt->record.ready) {
		send_dispatch(HR_DISPATCH_RUN, HR_START_RUNNING);
		step++;
	} else if (step == 1 && is_over()) {
		cr_assert_eq(attempt->record.run[0].outcome, HR_RUN_DONE);
		hr_signals_stop();
		step++;
	} else if (step == 2) {
		send_dispatch(HR_DISPATCH_SAVE, HR_START_DONE);
		step++;
	}
}

Test(orders_end, the_end_of_a_start_is_durable)
{
	cr_expect_eq(serve(stop_before_the_order), 0);
	cr_expect_eq(step, 3);
	cr_expect_eq(durable()->outcome, HR_START_DONE);
	cr_expect_eq(durable()->done, 1u);
}

/* The stop comes with a dispatch: that start does not begin, and is no crash. */
static void stop_with_the_order(void *to, uint64_t now_ns)
{
	if (step == 0 && attempt->record.ready) {
		send_dispatch(HR_DISPATCH_RUN, HR_START_RUNNING);
		hr_signals_stop();
		step++;
	} else if (step == 1 && is_over()) {
		cr_assert_eq(attempt->record.run[0].outcome, HR_RUN_INTERRUPTED);
		send_dispatch(HR_DISPATCH_SAVE, HR_START_INTERRUPTED);
		step++;
	}
}

Test(orders_end, a_start_that_was_ordered_with_the_stop_is_interrupted)
{
	cr_expect_eq(serve(stop_with_the_order), 0);
	cr_expect_eq(step, 2);
	cr_expect_eq(durable()->outcome, HR_START_INTERRUPTED);
}

/* A supervisor that hangs: the time for the last dispatch passes. */
static void stop_and_hang(void *to, uint64_t now_ns)
{
	if (step == 0 && attempt->record.ready) {
		send_dispatch(HR_DISPATCH_RUN, HR_START_RUNNING);
		step++;
	} else if (step == 1 && is_over()) {
		hr_signals_stop();
		step++;
	} else if (step == 2) {
		fake_clock_skip(60 * S);
	}
}

Test(orders_end, a_supervisor_that_hangs_does_not_hold_the_engine)
{
	cr_expect_eq(serve(stop_and_hang), 0);
	cr_expect_eq(step, 2);
	cr_expect_eq(durable()->outcome, HR_START_RUNNING);
}

/* A supervisor that has died: the start that it has dispatched does not begin. */
static void die(void *to, uint64_t now_ns)
{
	if (step == 0 && attempt->record.ready) {
		send_dispatch(HR_DISPATCH_RUN, HR_START_RUNNING);
		close(supervisor);
		step++;
	}
}

Test(orders_end, an_engine_without_a_supervisor_ends)
{
	cr_expect_eq(serve(die), 0);
	cr_expect_eq(step, 1);
}
