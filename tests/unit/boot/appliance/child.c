/*
 * Engines as processes that end in all ways: signals, exit codes, hangs. A script replaces the work
 * of the engines (tests/fakes/attempts.h); the clock is the real one.
 */
#include "boot/appliance/child.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/engine/exit.h"
#include "boot/engine/signals.h"
#include "config/log.h"
#include "config/seam.h"
#include "config/tick.h"
#include "gpu/ops/operators.h"
#include "pci/undo.h"
#include "tests/fakes/attempts.h"
#include "tests/fakes/log.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

#define SHORT_NS (300 * HR_NS_PER_MS)
#define LONG_NS (600 * HR_NS_PER_S)

static struct hr_appliance *app;
static struct hr_child *child;
static struct hr_record record;
static char heard[256];
static bool stop_when_running;
static bool short_after_end; /* the deadline is short from the end of the script on */

static void hear(void *to, enum hr_phase phase)
{
	snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s;", hr_phase_name(phase));
	if (stop_when_running && phase == HR_PHASE_RUNNING)
		raise(SIGTERM);
}

static void look(void *to, uint64_t now_ns)
{
	hr_child_look(child, &app->config, now_ns);
	if (short_after_end && strchr(fake_attempts_log(), '!'))
		child->timeout_ns = SHORT_NS;
}

static void begin(void)
{
	app = calloc(1, sizeof *app);
	child = calloc(1, sizeof *child);
	cr_assert(app && child);
	strcpy(app->config.name, "box");
	app->config.ssds = app->config.gpus = 1;
	strcpy(app->config.ssd[0].device, "soft:memory,size=1M");
	app->config.pipelines = 2;
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(app->config.pipeline[i].name, HR_NAME_MAX, "p%u", i);
		app->config.pipeline[i].op = hr_op_get(HR_OP_copy);
		app->config.pipeline[i].sources = 1;
	}
	app->config.boot.post = HR_BOOT_POST_FULL;
	hr_signals_catch();
	cr_assert_eq(hr_child_open(child, &record, hear, NULL), 0);
	hr_tick_set(look, NULL);
}

static void end(void)
{
	hr_tick_set(NULL, NULL);
	hr_child_close(child);
	free(child);
	free(app);
}

TestSuite(child, .init = begin, .fini = end, .timeout = 300);

static int attempt(const struct fake_attempt *script)
{
	fake_attempts_begin(script, 1);
	cr_assert_eq(hr_appliance_init(app, NULL), 0);
	app->keep_going = true;
	return hr_child_attempt(child, app, NULL, 0, test_error());
}

#define ATTEMPT(...) attempt(&(const struct fake_attempt){ __VA_ARGS__ })

static bool has_said(const char *text)
{
	return strstr(fake_log_last_of(HR_LOG_ERROR), text) != NULL;
}

Test(child, a_successful_attempt_leaves_its_results)
{
	cr_expect_eq(ATTEMPT(.run = { 0 }), 0);
	cr_expect_str_eq(heard, "post;bring-up;running;going down;", "%s", heard);
	cr_expect_str_eq(fake_attempts_log(), "PpUR01D", "%s", fake_attempts_log());
	cr_expect_eq(app->run[0].outcome, HR_RUN_DONE);
	cr_expect_eq(app->run[1].outcome, HR_RUN_DONE);
	cr_expect_eq(record.has_run, 1u);
	cr_expect_eq(child->process.pid, 0);
	cr_expect_eq(child->process.phases, -1);
	cr_expect(hr_child_moves(child));
	cr_expect_not(child->unsafe);
}

/* The supervisor exits with the kind of the error, and no errno determines that kind. */
Test(child, the_kind_of_an_error_comes_from_the_engine)
{
	for (enum hr_error_kind kind = HR_ERROR_FAILED; kind <= HR_ERROR_DEVICE; kind++) {
		cr_expect_eq(ATTEMPT(.kind = kind, .run = { 0, -EINVAL }), -EINVAL);
		cr_expect_eq(test_error_kind(), kind);
		cr_expect_eq(app->run[1].cause.kind, kind);
		cr_expect_str_eq(app->run[1].cause.text, test_error_text());
		cr_expect(test_error_last.printed, "by the engine");
		cr_expect_eq(ATTEMPT(.kind = kind, .up = -EIO), -EIO);
		cr_expect_eq(test_error_kind(), kind);
		cr_expect_eq(ATTEMPT(.kind = kind, .machine = -ENOTSUP), -ENOTSUP);
		cr_expect_eq(test_error_kind(), kind);
	}
	cr_expect_eq(ATTEMPT(.run = { 0 }), 0);
	cr_expect_eq(test_error_kind(), HR_ERROR_NONE);
}

Test(child, the_error_of_an_attempt_reaches_the_supervisor)
{
	cr_expect_eq(ATTEMPT(.run = { 0x281, -ETIMEDOUT }), 0x281);
	cr_expect_eq(app->run[0].error, 0x281);
	cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app->run[1].error, -ETIMEDOUT);
	cr_expect_eq(ATTEMPT(.up = -EINVAL), -EINVAL);
	cr_expect_eq(record.has_run, 0u);
	cr_expect_eq(ATTEMPT(.stuck = true), 0);
	cr_expect(hr_any_stuck(app));
}

/* ---- deaths */

static void expect_death(int dies, char in, int want, const char *said)
{
	cr_expect_eq(ATTEMPT(.dies = dies, .dies_in = in), want, "%d", dies);
	cr_expect(has_said(said), "%s", fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(child->process.pid, 0);
	cr_expect_not(child->unsafe);
}

Test(child, an_engine_ended_by_a_signal_is_reported_with_the_signal)
{
	expect_death(SIGKILL, 'R', -EOWNERDEAD, "ended by signal 9 (Killed)");
	expect_death(SIGSEGV, 'P', -EOWNERDEAD, "ended by signal 11 (Segmentation fault)");
	expect_death(SIGABRT, 'U', -EOWNERDEAD, "ended by signal 6 (Aborted)");
	expect_death(SIGBUS, 'R', -EOWNERDEAD, "ended by signal 7 (Bus error)");
}

Test(child, an_engine_that_exits_early_is_reported_with_its_code)
{
	expect_death(-HR_EXIT_DEVICE, 'R', -EIO, "exited with code 4 in the middle of its work");
	expect_death(-HR_EXIT_FAILED, 'R', -EOWNERDEAD, "exited with code 1");
	expect_death(-77, 'U', -EOWNERDEAD, "exited with code 77");
}

Test(child, the_pipeline_that_ran_failed_and_waiting_ones_did_not)
{
	expect_death(SIGKILL, 'R', -EOWNERDEAD,
		     "it ran: pipeline 'p0', 0 of 0 tiles done; pipeline 'p1', "
		     "0 of 0 tiles done");
	cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app->run[0].error, -EOWNERDEAD);
	cr_expect(app->run[0].selected);
	expect_death(SIGKILL, 'U', -EOWNERDEAD, "it ran: no pipeline, stage");
	cr_expect_eq(app->run[0].outcome, HR_RUN_WAITING);
	cr_expect_eq(app->run[0].error, 0);
	cr_expect(app->run[0].selected);
}

Test(child, the_engine_after_a_killed_engine_works)
{
	expect_death(SIGKILL, 'R', -EOWNERDEAD, "signal 9");
	cr_expect_eq(ATTEMPT(.run = { 0 }), 0);
	cr_expect_eq(app->run[0].outcome, HR_RUN_DONE);
}

/* ---- hangs, and requests to stop */

Test(child, an_engine_that_hangs_is_killed)
{
	short_after_end = true;
	cr_expect_eq(ATTEMPT(.dies = FAKE_HANGS, .dies_in = 'R'), -ETIMEDOUT);
	cr_expect(has_said("; it is killed; it ran: pipeline 'p0'"), "%s",
		  fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app->run[0].error, -ETIMEDOUT);
	cr_expect_str_eq(fake_attempts_log(), "PpUR01!", "%s", fake_attempts_log());
}

/* A stopped engine, as under a debugger, is alive and makes no progress. */
Test(child, an_engine_stopped_by_sigstop_is_killed)
{
	short_after_end = true;
	cr_expect_eq(ATTEMPT(.dies = SIGSTOP, .dies_in = 'U'), -ETIMEDOUT);
}

Test(child, a_signal_is_passed_on)
{
	stop_when_running = true;
	child->stop_ns = LONG_NS;
	ATTEMPT(.dies = FAKE_WAITS, .dies_in = 'R');
	cr_expect(child->asked_ns > 0);
	cr_expect_eq(child->killed_ns, 0u);
}

Test(child, an_engine_that_ignores_the_stop_signal_is_killed)
{
	stop_when_running = true;
	child->stop_ns = SHORT_NS;
	cr_expect_eq(ATTEMPT(.dies = FAKE_HANGS, .dies_in = 'R'), -ETIMEDOUT);
	cr_expect(has_said("after the signal; it is killed"), "%s", fake_log_last_of(HR_LOG_ERROR));
}

static void stop_often(void)
{
	for (int i = 0; i < 5; i++) {
		raise(SIGTERM);
		raise(SIGINT);
	}
}

/* A service manager may signal all processes, and the supervisor also forwards the signal. */
Test(child, an_engine_ends_in_order_after_repeated_stop_signals)
{
	cr_expect_eq(ATTEMPT(.dies = FAKE_WAITS, .dies_in = 'U', .last = stop_often), -EOWNERDEAD);
	cr_expect(has_said("exited with code 0 in the middle"), "%s",
		  fake_log_last_of(HR_LOG_ERROR));
}

/* ---- remains of an engine */

static char path[64];

static void leave_a_write(void)
{
	if (hr_undo_add(HR_UNDO_BEFORE_CLOSE, path, 0, "stopped", 7) < 0)
		_exit(99);
}

/* The undo helper of an engine has done its work before the next engine may start. */
Test(child, undo_helper_ends_before_the_next_engine)
{
	char text[16] = "";
	int fd;

	for (int i = 0; i < 10; i++) {
		strcpy(path, "/tmp/hr-child-XXXXXX");
		fd = mkstemp(path);
		cr_assert_geq(fd, 0);
		expect_death(SIGKILL, 'R', -EOWNERDEAD, "signal 9");
		ATTEMPT(.dies = SIGKILL, .dies_in = 'R', .last = leave_a_write);
		cr_expect_eq(read(fd, text, sizeof text), 7);
		cr_expect_str_eq(text, "stopped");
		close(fd);
		unlink(path);
	}
}

/* ---- controllers, on files in place of /sys */

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

static void master(void)
{
	set_command(0x6);
}

static void master_with_undo(void)
{
	static const uint16_t silent = 0x2;

	if (hr_undo_add(HR_UNDO_BEFORE_CLOSE, CONFIG, 4, &silent, 2) < 0)
		_exit(99);
	master();
}

static int leave_controllers(void *arg)
{
	static const struct fake_attempt killed = { .dies = SIGKILL, .dies_in = 'R' };
	struct fake_attempt script = killed;

	snprintf(app->config.ssd[0].device, HR_DEVICE_MAX, "pci:%s", SSD);
	script.last = master_with_undo;
	if (attempt(&script) != -EOWNERDEAD || child->unsafe)
		return 1;
	script.last = master;
	child->undo_ns = SHORT_NS; /* no process turns bus mastering off */
	if (attempt(&script) != -EOWNERDEAD || !child->unsafe)
		return 2;
	child->undo_ns = HR_CHILD_UNDO_NS;
	if (!has_said("still masters the bus after the end of the engine"))
		return 3;
	/* The function mastered the bus before, so the engine is not the cause. */
	return attempt(&killed) != -EOWNERDEAD || child->unsafe ? 4 : 0;
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

static void expect_closed(void)
{
	struct stat st;

	if (fstat(200, &st) == 0)
		_exit(99);
}

Test(child, the_supervisor_s_descriptors_are_not_the_engine_s)
{
	const int fds[] = { -1, 200 };
	const struct fake_attempt script = { .dies = -77, .dies_in = 'P', .last = expect_closed };

	cr_assert_eq(dup2(STDERR_FILENO, 200), 200);
	fake_attempts_begin(&script, 1);
	cr_assert_eq(hr_appliance_init(app, NULL), 0);
	app->keep_going = true;
	cr_expect_eq(hr_child_attempt(child, app, fds, 2, test_error()), -EOWNERDEAD);
	cr_expect(has_said("code 77"), "%s", fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(fcntl(200, F_GETFD), 0, "the supervisor keeps it");
	close(200);
}

static int workers_nice;

static void *expect_nice_of_worker(void *argument)
{
	if (getpriority(PRIO_PROCESS, 0) != workers_nice)
		_exit(99);
	return argument;
}

static void expect_nice(void)
{
	struct hr_thread thread;

	if (sched_getscheduler(0) != SCHED_OTHER)
		_exit(96);
	if (getpriority(PRIO_PROCESS, 0) >= workers_nice)
		_exit(98);
	if (hr_thread_start(&thread, NULL, expect_nice_of_worker, NULL) != 0)
		_exit(97);
	hr_thread_join(&thread);
}

Test(child, the_control_path_has_a_higher_priority_than_workers)
{
	const struct fake_attempt script = { .dies = -77, .dies_in = 'P', .last = expect_nice };

	workers_nice = child->process.nice;
	if (setpriority(PRIO_PROCESS, 0, workers_nice - 1) != 0)
		cr_skip("the kernel does not permit a higher priority");
	cr_expect_neq(attempt(&script), 0);
	cr_expect(has_said("code 77"), "%s", fake_log_last_of(HR_LOG_ERROR));
}

/* Children of the supervisor are in the default class again. */
Test(child, the_supervisor_has_a_real_time_priority)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	hr_child_close(child);
	cr_expect_eq(sched_getscheduler(0), SCHED_OTHER);
	if (sched_setscheduler(0, SCHED_RR, &lowest) != 0)
		cr_skip("the kernel does not permit a real-time priority");
	cr_assert_eq(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }), 0);
	cr_assert_eq(hr_child_open(child, &record, hear, NULL), 0);
	cr_expect_eq(sched_getscheduler(0), SCHED_RR | SCHED_RESET_ON_FORK);
}

/* A process without the privileges keeps its priority, and says so in the debug log. */
static int open_without_privileges(void)
{
	const struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_RTPRIO, &none) != 0 || setrlimit(RLIMIT_NICE, &none) != 0 ||
	    setresuid(65534, 65534, 65534) != 0)
		return 90;
	if (hr_child_open(child, &record, hear, NULL) != 0)
		return 91;
	if (sched_getscheduler(0) != SCHED_OTHER)
		return 92;
	return getpriority(PRIO_PROCESS, 0) == child->process.nice ? 0 : 93;
}

Test(child, an_appliance_without_privileges_keeps_its_priority)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip("only root can become a user without privileges");
	hr_child_close(child);
	pid = fork();
	if (pid == 0)
		_exit(open_without_privileges());
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", status);
	cr_assert_eq(hr_child_open(child, &record, hear, NULL), 0);
}

static void scribble(void)
{
	memset(child->process.page, 0x5a, sizeof *child->process.page);
}

/* The supervisor uses no value of an engine that has overwritten its memory. */
Test(child, an_invalid_record_is_not_used)
{
	expect_death(SIGKILL, 'R', -EOWNERDEAD, "signal 9");
	cr_expect_eq(ATTEMPT(.dies = SIGSEGV, .dies_in = 'R', .last = scribble), -EOWNERDEAD);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "'stage' is out of range"), "%s",
		  fake_log_last_of(HR_LOG_WARN));
	cr_expect_leq(app->run[0].outcome, HR_RUN_FAILED);
}
