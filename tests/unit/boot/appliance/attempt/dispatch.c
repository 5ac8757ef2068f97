/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of an engine whose pipelines repeat: dispatches, starts, ends, signals, sleep. Each time
 * the engine sleeps, the test makes the next event, so no test waits.
 */
#include "boot/appliance/attempt/dispatch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/process.h"
#include "config/file/file.h"
#include "config/base/tick.h"
#include "nvme/soft/internal.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

static const char text[] =
	"appliance = { name = \"box\"; parallel = 2; log = \"warn\"; };\n"
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\";\n"
	"           objects = ( { name = \"in\"; bytes = \"256K\"; } ); } );\n"
	"gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
	"pipelines = (\n"
	"  { name = \"make\"; source = { object = \"in\"; }; operator = \"copy\"; tile = \"64K\";\n"
	"    sink = { object = \"out\"; replace = true; }; on = \"request\"; },\n"
	"  { name = \"read\"; source = { object = \"out\"; }; operator = \"crc32c\"; tile = \"64K\";\n"
	"    on = \"request\"; },\n"
	"  { name = \"broken\"; source = { object = \"none\"; }; operator = \"copy\"; tile = \"64K\";\n"
	"    sink = { object = \"lost\"; replace = true; }; on = \"request\"; },\n"
	"  { name = \"after\"; source = { object = \"lost\"; }; operator = \"crc32c\";\n"
	"    tile = \"64K\";\n"
	"    on = \"request\"; },\n"
	"  { name = \"watch\"; source = { object = \"out\"; }; operator = \"crc32c\"; tile = \"64K\";\n"
	"    on = \"object out\"; } );\n";

enum { MAKE, READ, BROKEN, AFTER, WATCH, PIPELINES };

static struct hr_attempt *attempt;
static int dispatch[2], pipe_ends[2];
static unsigned idle; /* how often the engine has slept */

/* What the supervisor does when the engine sleeps for the nth time, from 0 on. */
static void (*script)(unsigned n);

static bool serving;

struct pollfd;
int poll(struct pollfd *fds, unsigned long count, int timeout);
int ppoll(struct pollfd *fds, unsigned long count, const struct timespec *limit, const void *mask);

/* The sleep of the engine. */
int ppoll(struct pollfd *fds, unsigned long count, const struct timespec *limit, const void *mask)
{
	if (serving)
		script(idle++);
	return poll(fds, count, 0);
}

static void begin(void)
{
	attempt = calloc(1, sizeof *attempt);
	cr_assert_not_null(attempt);
	attempt->engine = calloc(1, sizeof *attempt->engine);
	attempt->page = calloc(1, sizeof *attempt->page);
	cr_assert(attempt->engine && attempt->page);
	cr_assert_eq(hr_config_parse(&attempt->engine->config, &hr_lookup, "f", text, strlen(text),
				     test_error()),
		     0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(attempt->engine, NULL), 0);
	attempt->engine->keep_going = true;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, dispatch), 0);
	cr_assert_eq(pipe2(pipe_ends, O_NONBLOCK), 0);
	attempt->dispatch = dispatch[1];
	attempt->phases = pipe_ends[1];
	attempt->clients = -1;
}

static void end(void)
{
	close(dispatch[1]);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	free(attempt->page);
	free(attempt->engine);
	free(attempt);
}

TestSuite(dispatch, .init = begin, .fini = end, .timeout = 120);

static int serve(void (*steps)(unsigned n))
{
	int err;

	script = steps;
	serving = true;
	err = hr_dispatch_serve(attempt);
	serving = false;
	return err;
}

static void send_dispatch(enum hr_dispatch_kind kind, uint64_t number, uint64_t pipelines)
{
	static struct hr_dispatch o;

	o = (struct hr_dispatch){ .kind = kind, .number = number, .pipelines = pipelines };
	strcpy(o.starts.start[MAKE].name, "make");
	o.starts.start[MAKE].starts = number;
	o.starts.start[MAKE].outcome =
		pipelines >> MAKE & 1 ? HR_START_RUNNING : HR_START_INTERRUPTED;
	cr_assert_eq(send(dispatch[0], &o, sizeof o, 0), (ssize_t)sizeof o);
}

static void hang_up(void)
{
	close(dispatch[0]);
}

static const struct hr_record_run *published(uint32_t i)
{
	static struct hr_record record;

	cr_assert(hr_record_read(attempt->page, &record));
	return &record.run[i];
}

static void expect_end(uint32_t i, uint64_t number, enum hr_outcome outcome)
{
	const struct hr_record_run *run = published(i);

	cr_expect_eq(run->number, number, "start %u of pipeline %u", (unsigned)run->number, i);
	cr_expect_eq(run->over, 1u, "pipeline %u", i);
	cr_expect_eq(run->outcome, (uint64_t)outcome, "pipeline %u: %u", i, (unsigned)run->outcome);
}

/* ---- starts */

static void run_twice(unsigned n)
{
	switch (n) {
	case 0:
		cr_expect_eq(attempt->record.ready, 1u);
		cr_expect_eq(published(MAKE)->number, 0u);
		send_dispatch(HR_DISPATCH_RUN, 1, 1u << MAKE);
		break;
	case 1:
		expect_end(MAKE, 1, HR_RUN_DONE);
		cr_expect_eq(published(READ)->number, 0u);
		/* the reader waits for the new version of its source */
		send_dispatch(HR_DISPATCH_RUN, 2, 1u << MAKE | 1u << READ);
		break;
	case 2:
		expect_end(MAKE, 2, HR_RUN_DONE);
		expect_end(READ, 2, HR_RUN_DONE);
		cr_expect_eq(attempt->record.starts.start[MAKE].starts, 2u);
		send_dispatch(HR_DISPATCH_SAVE, 7, 1u << READ);
		break;
	default:
		cr_expect_eq(attempt->record.starts.start[MAKE].starts, 7u, "saved");
		expect_end(READ, 2, HR_RUN_DONE);
		hang_up();
		break;
	}
}

Test(dispatch, each_start_is_saved_run_and_published)
{
	unsigned char phase[64];
	ssize_t phases;

	cr_expect_eq(serve(run_twice), 0);
	cr_expect_eq(idle, 4u);
	cr_expect_eq(attempt->record.starts.sequence, 3u, "one write for each dispatch");
	phases = read(pipe_ends[0], phase, sizeof phase);
	cr_assert_geq(phases, 6);
	cr_expect_eq(phase[0], HR_PHASE_BRING_UP);
	cr_expect_eq(phase[1], HR_PHASE_IDLE);
	cr_expect_eq(phase[2], HR_PHASE_RUNNING);
	cr_expect_eq(phase[phases - 2], HR_PHASE_IDLE);
	cr_expect_eq(phase[phases - 1], HR_PHASE_GOING_DOWN);
}

/* `out` does not exist, so no memory was planned for its reader. */
static void read_first(unsigned n)
{
	if (n == 0) {
		send_dispatch(HR_DISPATCH_RUN, 1, 1u << READ);
		return;
	}
	expect_end(READ, 1, HR_RUN_FAILED);
	cr_expect(strstr(published(READ)->error.text, "there is no object 'out'"), "%s",
		  published(READ)->error.text);
	hang_up();
}

Test(dispatch, a_start_without_its_source_fails_and_the_engine_stays)
{
	cr_expect_eq(serve(read_first), 0);
	cr_expect_eq(idle, 2u);
}

static void several_at_once(unsigned n)
{
	if (n == 0) {
		for (uint64_t number = 1; number <= 3; number++)
			send_dispatch(HR_DISPATCH_RUN, number, 1u << MAKE);
		return;
	}
	expect_end(MAKE, 3, HR_RUN_DONE); /* dispatches of a start that has not begun become one */
	cr_expect_eq(attempt->record.starts.sequence, 3u);
	hang_up();
}

Test(dispatch, all_dispatches_that_have_come_are_taken)
{
	cr_expect_eq(serve(several_at_once), 0);
	cr_expect_eq(idle, 2u);
}

/* ---- ends */

static void hang_up_at_once(unsigned n)
{
	send_dispatch(HR_DISPATCH_RUN, 1, 1u << MAKE);
	hang_up();
}

Test(dispatch, no_start_begins_when_the_supervisor_has_gone)
{
	cr_expect_eq(serve(hang_up_at_once), 0);
	cr_expect_eq(idle, 1u);
	cr_expect_eq(published(MAKE)->number, 0u);
	cr_expect_eq(attempt->record.starts.sequence, 1u, "its state is durable");
}

static void send_part(unsigned n)
{
	cr_assert_eq(send(dispatch[0], "half", 4, 0), 4);
}

Test(dispatch, a_dispatch_of_another_size_ends_the_engine)
{
	cr_expect_eq(serve(send_part), 0);
	cr_expect_eq(idle, 1u);
	hang_up();
}

/* The second sleep waits for the dispatch that makes the end durable. */
static void stop_before_the_start(unsigned n)
{
	if (n == 0) {
		raise(SIGTERM);
		send_dispatch(HR_DISPATCH_RUN, 1, 1u << MAKE);
		return;
	}
	expect_end(MAKE, 1, HR_RUN_INTERRUPTED);
	send_dispatch(HR_DISPATCH_SAVE, 5, 0);
}

Test(dispatch, a_signal_interrupts_the_starts_that_wait)
{
	hr_signals_catch();
	cr_expect_eq(serve(stop_before_the_start), 0);
	cr_expect_eq(idle, 2u);
	cr_expect_eq(attempt->record.starts.start[MAKE].starts, 5u, "the last dispatch is saved");
	hang_up();
}

/* The engine waits 10 s for the dispatch that makes the end of a start durable, and no longer. */
static void stop_and_send_nothing(unsigned n)
{
	switch (n) {
	case 0:
		send_dispatch(HR_DISPATCH_RUN, 1, 1u << MAKE);
		break;
	case 1:
		expect_end(MAKE, 1, HR_RUN_DONE);
		cr_expect_eq(published(READ)->over, 0u, "it was not dispatched");
		raise(SIGTERM);
		break;
	default:
		fake_clock_skip(5 * HR_NS_PER_S);
		break;
	}
}

Test(dispatch, the_last_dispatch_has_ten_seconds)
{
	hr_signals_catch();
	cr_expect_eq(serve(stop_and_send_nothing), 0);
	cr_expect_eq(idle, 4u, "%u", idle);
	cr_expect_eq(attempt->record.starts.start[MAKE].outcome, HR_START_RUNNING);
	hang_up();
}

/* ---- pipelines whose writer fails */

static void fail_the_writer(unsigned n)
{
	if (n == 0) {
		send_dispatch(HR_DISPATCH_RUN, 1, 1u << BROKEN | 1u << AFTER | 1u << MAKE);
		return;
	}
	expect_end(BROKEN, 1, HR_RUN_FAILED);
	expect_end(AFTER, 1, HR_RUN_WAITING);
	expect_end(MAKE, 1, HR_RUN_DONE);
	cr_expect_eq(published(READ)->over, 0u);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "pipeline 'after' does not run: it reads the sink of pipeline 'broken'");
	hang_up();
}

/* Each engine decides once: no start of the reader is left behind. */
Test(dispatch, a_reader_of_a_failed_sink_does_not_run)
{
	cr_expect_eq(serve(fail_the_writer), 0);
	cr_expect_eq(idle, 2u);
}

/* ---- what the record of the engine says */

static void watch_versions(unsigned n)
{
	static uint64_t first;

	switch (n) {
	case 0:
		cr_expect_eq(attempt->record.has_run, 1u);
		cr_expect_eq(attempt->record.usable, (1u << PIPELINES) - 1);
		cr_expect_eq(attempt->record.ssd[0].smart.known, 1u, "read before the first start");
		for (uint32_t i = 0; i < PIPELINES; i++)
			cr_expect_eq(attempt->record.version[i], 0u, "%u", i);
		send_dispatch(HR_DISPATCH_RUN, 1, 1u << MAKE);
		break;
	case 1:
		first = attempt->record.version[WATCH];
		cr_expect_neq(first, 0u, "the sink exists");
		send_dispatch(HR_DISPATCH_RUN, 2, 1u << MAKE);
		break;
	default:
		cr_expect_gt(attempt->record.version[WATCH], first, "the sink was replaced");
		for (uint32_t i = 0; i < WATCH; i++)
			cr_expect_eq(attempt->record.version[i], 0u, "%u is asked for", i);
		fake_clock_skip(5 * HR_NS_PER_S);
		hang_up();
		break;
	}
}

Test(dispatch, versions_of_watched_objects_are_in_the_record)
{
	const uint64_t began = hr_now_ns();

	cr_expect_eq(serve(watch_versions), 0);
	cr_expect_eq(idle, 3u);
	cr_expect_geq(attempt->record.ran_ns, 5 * HR_NS_PER_S);
	cr_expect_leq(attempt->record.ran_ns, hr_now_ns() - began);
}

/* ---- devices that fail while nothing runs */

static void fail_gpu(unsigned n)
{
	attempt->engine->gpu_failed[0] = true;
	send_dispatch(HR_DISPATCH_SAVE, 1, 0);
}

Test(dispatch, a_failed_gpu_ends_the_engine)
{
	cr_expect_eq(serve(fail_gpu), -EIO);
	cr_expect_eq(idle, 1u);
	cr_expect_str_eq(attempt->engine->error.text, "gpu 'g' has failed: it needs a new engine");
	hang_up();
}

/* The controller has failed when the host sees it. */
static void fail_ssd(void)
{
	struct hr_ctrl *ctrl = attempt->engine->ssd[0].ctrl;

	hr_transport_set_idle(ctrl->transport,
			      false); /* it rests during this sleep of the engine */
	soft_fail(ctrl->transport->impl);
	while (!NVME_CSTS_CFS(hr_reg_read32(ctrl->transport, NVME_REG_CSTS)))
		usleep(1000);
}

static void fail_between_looks(unsigned n)
{
	if (n == 0) /* the first look follows */
		return;
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 0u);
	fail_ssd();
	fake_clock_skip(HR_NS_PER_S);
}

Test(dispatch, an_ssd_that_fails_while_nothing_runs_is_found_within_a_second)
{
	cr_expect_eq(serve(fail_between_looks), -EIO);
	cr_expect_eq(idle, 2u, "%u", idle);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "ssd 'a' is lost: "), "%s",
		  fake_log_last_of(HR_LOG_ERROR));
	cr_expect_str_eq(attempt->engine->error.text, "ssd 'a' has failed: it needs a new engine");
	hang_up();
}

/* ---- rest */

static void wait_asleep(unsigned n)
{
	struct soft *soft = attempt->engine->ssd[0].ctrl->transport->impl;

	for (bool asleep = false; !asleep; hr_wait_ns(HR_NS_PER_MS)) {
		pthread_mutex_lock(&soft->rest_lock);
		asleep = soft->asleep == soft->threads;
		pthread_mutex_unlock(&soft->rest_lock);
	}
	if (n == 0)
		send_dispatch(HR_DISPATCH_RUN, 1, 1u << MAKE);
	else
		hang_up();
}

/* The test ends only when all threads sleep. */
Test(dispatch, the_ssds_rest_while_the_engine_sleeps)
{
	cr_expect_eq(serve(wait_asleep), 0);
	cr_expect_eq(idle, 2u);
	expect_end(MAKE, 1, HR_RUN_DONE);
}
