/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines that end in all ways, as the supervisor sees them: the text and kind of each end, the outcome
 * of each pipeline, limits of time, and controllers that an engine leaves. Engines follow a script
 * (tests/fakes/engine.h), and the clock is a fake.
 */
#include "boot/appliance/supervisor/child.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/error.h"
#include "config/base/process.h"
#include "config/base/tick.h"
#include "gpu/ops/operators.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/engine.h"
#include "tests/fakes/log.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

#define S HR_NS_PER_S
#define CORE 0x80 /* of a status of wait(2) */
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct hr_engine *engine;
static struct hr_child *child;
static struct hr_record record;
static char heard[256];
static void (*at_step)(void);
static uint64_t start_ns; /* of the attempt */

static void hear(void *to, enum hr_phase phase)
{
	cr_expect(phase != HR_PHASE_RUNNING || record.has_run, "the record is read before");
	snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s;", hr_phase_name(phase));
}

static void look(void *to, uint64_t now_ns)
{
	hr_child_poll(child, &engine->config, now_ns);
}

static void step(void *context)
{
	fake_engine_step();
	if (at_step)
		at_step();
}

static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	child = calloc(1, sizeof *child);
	cr_assert(engine && child);
	strcpy(engine->config.name, "box");
	engine->config.ssds = engine->config.gpus = 1;
	strcpy(engine->config.ssd[0].name, "s0");
	strcpy(engine->config.ssd[0].device, "soft:memory,size=1M");
	engine->config.pipelines = 3;
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(engine->config.pipeline[i].name, HR_NAME_MAX, "p%u", i);
		engine->config.pipeline[i].op = hr_op_get(HR_OP_copy);
		engine->config.pipeline[i].sources = 1;
	}
	hr_signals_catch();
	fake_clock_start(100 * S, step, NULL);
	cr_assert_eq(hr_child_open(child, &record, hear, NULL), 0);
	hr_tick_set(look, NULL);
}

static void end(void)
{
	hr_tick_set(NULL, NULL);
	hr_child_close(child);
	fake_clock_stop();
	free(child);
	free(engine);
}

TestSuite(child, .init = begin, .fini = end, .timeout = 60);

static int attempt(const struct fake_engine *script)
{
	int err;

	start_ns = hr_now_ns();
	fake_engine_begin(child, engine, script, 1);
	cr_assert_eq(hr_engine_init(engine, NULL), 0);
	err = hr_child_run(child, engine, NULL, 0, test_error());
	cr_expect(err == -ETIMEDOUT || child->process.pid == 0);
	return err;
}

#define ATTEMPT(...) attempt(&(const struct fake_engine){ __VA_ARGS__ })

Test(child, a_successful_attempt_leaves_its_results)
{
	cr_expect_eq(ATTEMPT(.post_ns = S, .up_ns = S, .run_ns = 7 * S), 0);
	cr_expect_str_eq(heard, "post;bring-up;running;going down;", "%s", heard);
	cr_expect_eq(hr_child_ran_ns(child), 7 * S);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(engine->run[i].outcome, HR_RUN_DONE);
	cr_expect(record.has_run && !child->unsafe && hr_child_is_alive(child));
	cr_expect_eq(child->process.phases, -1);
	cr_expect_eq(ATTEMPT(.stuck = true), 0);
	cr_expect(hr_any_controller_stuck(engine));
}

/* The supervisor exits with the kind of the error, and no errno determines that kind. */
Test(child, the_error_of_an_engine)
{
	for (enum hr_error_kind kind = HR_ERROR_FAILED; kind <= HR_ERROR_DEVICE; kind++) {
		cr_expect_eq(ATTEMPT(.kind = kind, .run = { 0, -EINVAL, 0x281 }), -EINVAL);
		cr_expect_eq(test_error_kind(), kind);
		cr_expect(engine->run[1].cause.kind == kind && engine->run[1].error == -EINVAL);
		cr_expect_str_eq(engine->run[1].cause.text, test_error_text());
		cr_expect(test_error_last.printed, "by the engine");
		cr_expect(engine->run[2].outcome == HR_RUN_FAILED && engine->run[2].error == 0x281);
		cr_expect(!engine->refused && record.has_run);
		cr_expect_eq(ATTEMPT(.kind = kind, .up = -EIO, .refused = true), -EIO);
		cr_expect(test_error_kind() == kind && engine->refused && !record.has_run);
	}
	cr_expect_eq(ATTEMPT(.run = { 0 }), 0);
	cr_expect_eq(test_error_kind(), HR_ERROR_NONE);
}

/* ---- the text of each end */

/* Pipeline 0 has done its tiles, 1 has done some, 2 is of an access operator. */
static void progress(struct hr_record *of)
{
	of->run[0].ended_ns = of->run[0].started_ns;
	of->run[0].outcome = HR_RUN_DONE;
	of->run[1].count = (struct hr_counters){ .tiles = 8, .first_tile = 1, .tiles_done = 2 };
	of->run[2].count.role[HR_ROLE_IO].blocks = 1;
	of->run[2].count.cache.pages_read = 80;
}

#define RAN "; it ran: pipeline 'p1', 3 of 8 tiles done; pipeline 'p2', 80 pages read"
#define NONE "; it ran: no pipeline, stage 'none'"
#define AT(...) .crash = { .known = 1, ##__VA_ARGS__ }

Test(child, the_text_of_an_end)
{
	static const struct {
		struct fake_engine engine;
		int err;
		enum hr_error_kind kind;
		const char *text; /* after "engine 5000000: " */
	} row[] = {
		{ { .status = SIGKILL },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "ended by signal 9 (Killed)" RAN },
		{ { .status = SIGSEGV | CORE },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "ended by signal 11 (Segmentation fault), core dumped" RAN },
		{ { .status = SIGABRT, .in = HR_PHASE_BRING_UP },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "ended by signal 6 (Aborted)" NONE },
		{ { .status = 77 << 8, .in = HR_PHASE_POST },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "exited with code 77 in the middle of its work" NONE },
		{ { .status = HR_EXIT_DEVICE << 8 },
		  -EIO,
		  HR_ERROR_DEVICE,
		  "exited with code 4 in the middle of its work" RAN },
		{ { .status = 0 },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "exited with code 0 in the middle of its work" RAN },
		{ { .status = SIGBUS, AT(.pipeline = 1, .call = HR_WORK_TILE, .tile = 3) },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "ended by signal 7 (Bus error) in operator 'copy' of pipeline 'p1', tile 3" RAN },
		{ { .status = SIGKILL,
		    AT(.pipeline = 1, .call = HR_WORK_TILE, .tile = 3, .hangs = 1) },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "ended by signal 9 (Killed) in operator 'copy' of pipeline 'p1', tile 3, which it "
		  "does not end" RAN },
		{ { .status = 1 << 8, AT(.pipeline = 2, .call = HR_WORK_INIT) },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "exited with code 1 in the middle of its work in init() of operator 'copy' of "
		  "pipeline 'p2'" RAN },
		{ { .status = 1 << 8, AT(.pipeline = 2, .call = HR_WORK_REPORT, .hangs = 1) },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "exited with code 1 in the middle of its work in report() of operator 'copy' of "
		  "pipeline 'p2', which does not return" RAN },
		{ { .status = SIGKILL, AT(.pipeline = 2, .hangs = 1) },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "ended by signal 9 (Killed) in a worker of pipeline 'p2', which hangs" RAN },
		{ { .status = SIGKILL, AT(.pipeline = 3) },
		  -EOWNERDEAD,
		  HR_ERROR_FAILED,
		  "ended by signal 9 (Killed)" RAN },
	};

	for (size_t i = 0; i < COUNT(row); i++) {
		struct fake_engine one = row[i].engine;
		char want[256];

		one.dies = true;
		one.in = one.in || one.status == 77 << 8 ? one.in : HR_PHASE_RUNNING;
		one.last = one.in == HR_PHASE_RUNNING ? progress : NULL;
		cr_expect_eq(attempt(&one), row[i].err, "row %zu", i);
		snprintf(want, sizeof want, "engine 5000000: %s", row[i].text);
		cr_expect_str_eq(test_error_text(), want, "%s", test_error_text());
		cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), want);
		cr_expect(test_error_kind() == row[i].kind && !child->unsafe, "row %zu", i);
	}
}

/* ---- pipelines of an engine that died */

/* 0: done and reported; 1: done and not reported; 2: runs */
static void mixed(struct hr_record *of)
{
	of->run[0].reported = 1;
	of->run[0].outcome = of->run[1].outcome = HR_RUN_DONE;
	of->run[0].ended_ns = of->run[1].ended_ns = of->run[2].started_ns;
	for (uint32_t i = 0; i < 3; i++) {
		of->run[i].count.tiles = 9;
		of->run[i].count.tap.waiting = of->run[i].count.feed.present = 1;
		of->run[i].count.cache.pages_read = 1;
	}
	of->consumer[31].attached = of->producer[0].attached = 1;
	of->store.job[7].kind = HR_REQUEST_STORE_GET;
	of->store.requests = 8;
}

Test(child, pipelines_of_an_engine_that_died)
{
	static const struct {
		const char *name;
		struct hr_crash crash;
		enum hr_outcome outcome[3];
		enum hr_blame blame[3];
	} row[] = {
		{ "what ran is suspected",
		  { 0 },
		  { HR_RUN_DONE, HR_RUN_WAITING, HR_RUN_FAILED },
		  { 0, 0, HR_BLAME_SUSPECT } },
		{ "what crashed is known",
		  { .known = 1, .pipeline = 2 },
		  { HR_RUN_DONE, HR_RUN_WAITING, HR_RUN_FAILED },
		  { 0, 0, HR_BLAME_CERTAIN } },
		{ "what crashed was in its report",
		  { .known = 1, .pipeline = 1 },
		  { HR_RUN_DONE, HR_RUN_FAILED, HR_RUN_INTERRUPTED },
		  { 0, HR_BLAME_CERTAIN, 0 } },
	};

	for (size_t n = 0; n < COUNT(row); n++) {
		cr_expect_eq(ATTEMPT(.dies = true, .in = HR_PHASE_RUNNING, .status = SIGSEGV,
				     .run_ns = 3 * S, .last = mixed, .crash = row[n].crash),
			     -EOWNERDEAD);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0u, "%s",
			     fake_log_last_of(HR_LOG_WARN));
		for (uint32_t i = 0; i < 3; i++) {
			const int err = row[n].outcome[i] == HR_RUN_FAILED	  ? -EOWNERDEAD
					: row[n].outcome[i] == HR_RUN_INTERRUPTED ? -EINTR
										  : 0;
			const struct hr_counters *count = &record.run[i].count;

			cr_expect_eq(engine->run[i].outcome, row[n].outcome[i], "%s: %u",
				     row[n].name, i);
			cr_expect_eq(record.run[i].blame, (uint64_t)row[n].blame[i], "%s: %u",
				     row[n].name, i);
			cr_expect_eq(engine->run[i].error, err, "%s: %u", row[n].name, i);
			cr_expect(count->tiles == 9 && !count->tap.waiting &&
				  !count->feed.present && !count->cache.pages_read);
		}
		cr_expect(hr_child_ran_ns(child) > 29 * S / 10 && hr_child_ran_ns(child) <= 3 * S);
		cr_expect(engine->run[2].ended_ns && !engine->run[1].started_ns == (n < 2));
		cr_expect(!record.consumer[31].attached && !record.producer[0].attached &&
			  !record.store.job[7].kind && record.store.requests == 8);
	}
}

static void out_of_range(struct hr_record *of)
{
	of->has_run = 2;
	of->run[0].outcome = HR_RUN_DONE;
}

/* The supervisor uses no value of an engine that has overwritten its memory. */
Test(child, a_record_that_is_out_of_range_is_not_used)
{
	cr_expect_eq(ATTEMPT(.dies = true, .in = HR_PHASE_RUNNING, .status = SIGSEGV, .run_ns = S,
			     .last = out_of_range),
		     -EOWNERDEAD);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "engine 5000000: its record is ignored: 'has_run' is out of range");
	cr_expect(record.has_run == 1 && engine->run[0].outcome == HR_RUN_FAILED);
}

/* ---- limits of time */

/* The phases in which calls of drivers may take long have the longer limit. */
Test(child, an_engine_without_progress_is_killed)
{
	static const struct {
		enum hr_phase phase;
		uint64_t progress_ns, limit_ns;
	} row[] = {
		{ HR_PHASE_POST, 0, 120 * S },	     { HR_PHASE_RUNNING, 0, 120 * S },
		{ HR_PHASE_RUNNING, 2 * S, 2 * S },  { HR_PHASE_BRING_UP, 2 * S, 120 * S },
		{ HR_PHASE_POST, 2 * S, 120 * S },   { HR_PHASE_GOING_DOWN, 2 * S, 120 * S },
		{ HR_PHASE_POST, 130 * S, 130 * S }, { HR_PHASE_RUNNING, 130 * S, 130 * S },
	};

	for (size_t i = 0; i < COUNT(row); i++) {
		char want[64];

		child->progress_ns = row[i].progress_ns;
		cr_expect_eq(ATTEMPT(.hangs = true, .in = row[i].phase), -ETIMEDOUT);
		cr_expect(fake_engine_killed_ns() - start_ns >= row[i].limit_ns &&
				  fake_engine_killed_ns() - start_ns < row[i].limit_ns + S / 10,
			  "row %zu: %f s", i, (double)(fake_engine_killed_ns() - start_ns) / 1e9);
		snprintf(want, sizeof want, "engine 5000000: no progress for %llu ms; it is killed",
			 (unsigned long long)(row[i].limit_ns / HR_NS_PER_MS));
		cr_expect_eq(strncmp(test_error_text(), want, strlen(want)), 0, "%s",
			     test_error_text());
		cr_expect(test_error_kind() == HR_ERROR_DEVICE && !child->unsafe);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), "engine 5000000: ended");
	}
	cr_expect_eq(ATTEMPT(.run_ns = 1000 * S), 0, "it publishes");
}

static void sleep_once(void)
{
	at_step = NULL;
	fake_clock_advance(1000 * S);
}

/* A machine that was suspended is no engine that hangs: one look counts a second. */
Test(child, the_time_between_two_looks_counts_a_second)
{
	at_step = sleep_once;
	cr_expect_eq(ATTEMPT(.hangs = true, .in = HR_PHASE_RUNNING), -ETIMEDOUT);
	cr_expect_geq(fake_engine_killed_ns() - start_ns, 1119 * S);
}

static void stop_at_2_s(void)
{
	if (hr_now_ns() >= start_ns + 2 * S && !hr_signals_pending())
		raise(SIGTERM);
}

/* It is asked once, and killed when it does not end in time. */
Test(child, an_engine_that_does_not_stop)
{
	at_step = stop_at_2_s;
	cr_expect_eq(ATTEMPT(.run_ns = 1000 * S, .deaf = true), -ETIMEDOUT);
	cr_expect(fake_engine_asked_ns() >= start_ns + 2 * S &&
		  fake_engine_asked_ns() < start_ns + 3 * S);
	cr_expect_eq(fake_engine_killed_ns() - fake_engine_asked_ns(), HR_CHILD_STOP_NS);
	cr_expect_str_eq(test_error_text(),
			 "engine 5000000: not stopped 100000 ms after the signal; it is killed; it "
			 "ran: pipeline 'p0', 0 of 0 tiles done; pipeline 'p1', 0 of 0 tiles done; "
			 "pipeline 'p2', 0 of 0 tiles done");
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
}

Test(child, an_engine_that_stops_in_time)
{
	at_step = stop_at_2_s;
	cr_expect_eq(ATTEMPT(.run_ns = 1000 * S), -EINTR);
	cr_expect(fake_engine_asked_ns() && !fake_engine_killed_ns());
	cr_expect_eq(engine->run[0].outcome, HR_RUN_INTERRUPTED);
	cr_expect_lt(hr_now_ns(), start_ns + 3 * S);
}

/* An engine that hangs in the kernel: no other one starts, and the watchdog is not fed. */
Test(child, an_engine_that_a_kill_does_not_end)
{
	cr_expect_eq(ATTEMPT(.hangs = true, .unkillable = true), -ETIMEDOUT);
	cr_expect_eq(hr_now_ns() - fake_engine_killed_ns(), HR_CHILD_KILL_NS);
	cr_expect_str_eq(test_error_text(), "engine 5000000: SIGKILL has not ended it within 30000 "
					    "ms: it hangs in the kernel");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), test_error_text());
	cr_expect(child->unsafe && !hr_child_is_alive(child) &&
		  test_error_kind() == HR_ERROR_DEVICE);
}

Test(child, an_engine_that_cannot_start)
{
	cr_expect_eq(ATTEMPT(.fork_error = EAGAIN), -EAGAIN);
	cr_expect_str_eq(test_error_text(), "the engine cannot be started: Resource temporarily "
					    "unavailable");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), test_error_text());
	cr_expect(test_error_kind() == HR_ERROR_FAILED && child->process.phases == -1);
}

static void rest(void *to)
{
	++*(unsigned *)to;
	hr_wait_ns(S);
}

Test(child, the_caller_rests_in_place_of_the_pause)
{
	unsigned rests = 0;

	child->rest = rest;
	child->rest_to = &rests;
	cr_expect_eq(ATTEMPT(.run_ns = 5 * S), 0);
	cr_expect_eq(rests, 5u);
}

/* ---- remains of an engine: a process with its pipe, as the undo helper, and controllers */

Test(child, a_process_that_the_engine_left_is_waited_for)
{
	cr_expect_eq(ATTEMPT(.orphans = true), 0);
	cr_expect_eq(hr_now_ns() - start_ns, HR_CHILD_UNDO_NS);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "a process that the engine started still runs after 10000 ms");
	cr_expect_not(child->unsafe);
}

#define SSD "0000:03:00.0"
#define CONFIG "/sys/bus/pci/devices/" SSD "/config"

static struct fake_tree tree;

static void set_command(uint16_t command)
{
	const int config = open(CONFIG, O_WRONLY | O_CLOEXEC);

	if (config < 0 || pwrite(config, &command, 2, 4) != 2)
		_exit(99);
	close(config);
}

static void master(struct hr_record *of)
{
	set_command(0x6);
}

static void quiet_at_5_s(void)
{
	if (hr_now_ns() >= start_ns + 5 * S)
		set_command(0x2);
}

static int leave_controllers(void *arg)
{
	const struct fake_engine killed = { .dies = true, .status = SIGKILL };
	struct fake_engine masters = killed;

	snprintf(engine->config.ssd[0].device, HR_DEVICE_MAX, "pci:%s", SSD);
	masters.last = master;
	at_step = quiet_at_5_s; /* the undo helper turns bus mastering off */
	if (attempt(&masters) != -EOWNERDEAD || child->unsafe || hr_now_ns() < start_ns + 5 * S)
		return 1;
	at_step = NULL;
	if (attempt(&masters) != -EOWNERDEAD || !child->unsafe ||
	    hr_now_ns() < start_ns + HR_CHILD_UNDO_NS)
		return 2;
	if (!strstr(fake_log_last_of(HR_LOG_ERROR),
		    "still masters the bus after the end of the engine: no other engine is started"))
		return 3;
	/* The function mastered the bus before, so the engine is not the cause. */
	if (attempt(&killed) != -EOWNERDEAD || child->unsafe || hr_now_ns() != start_ns)
		return 4;
	masters.orphans = true; /* but the process that it left may be */
	return attempt(&masters) != -EOWNERDEAD || !child->unsafe ? 5 : 0;
}

Test(child, a_controller_that_does_not_stop_prevents_the_next_engine)
{
	int at;

	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, 0x010802, NULL, -1, 0, 0, 0x2 });
	at = fake_tree_run(&tree, leave_controllers, NULL);
	fake_tree_expect(&tree, at, "step %d", at);
	fake_tree_remove(&tree);
}
