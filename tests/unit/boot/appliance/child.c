/*
 * Engines that are processes, and end in every way: by signals, exit codes, and not at all. What they
 * would do is scripted (tests/fakes/attempts.h), on the clock of the machine.
 */
#include "boot/appliance/child.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/engine/exit.h"
#include "boot/engine/signals.h"
#include "config/log.h"
#include "config/tick.h"
#include "gpu/ops/operators.h"
#include "pci/custodian.h"
#include "tests/fakes/attempts.h"
#include "tests/fakes/log.h"
#include "tests/fakes/tree.h"

#define SHORT_NS (300 * HR_NS_PER_MS)
#define LONG_NS (600 * HR_NS_PER_S)

static struct hr_appliance *app;
static struct hr_child *child;
static struct hr_record record;
static char heard[256];
static bool stop_when_running;

static void hear(void *to, enum hr_phase phase)
{
	snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s;", hr_phase_name(phase));
	if (stop_when_running && phase == HR_PHASE_RUNNING)
		raise(SIGTERM);
}

static void look(void *to, uint64_t now_ns)
{
	hr_child_look(child, &app->config, now_ns);
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
	return hr_child_attempt(child, app, NULL, 0);
}

#define ATTEMPT(...) attempt(&(const struct fake_attempt){ __VA_ARGS__ })

static bool has_said(const char *text)
{
	return strstr(fake_log_last_of(HR_LOG_ERROR), text) != NULL;
}

Test(child, an_attempt_that_works_leaves_what_it_has_done)
{
	cr_expect_eq(ATTEMPT(.run = { 0 }), 0);
	cr_expect_str_eq(heard, "post;bring-up;running;going down;", "%s", heard);
	cr_expect_str_eq(fake_attempts_log(), "PpUR01D", "%s", fake_attempts_log());
	cr_expect_eq(app->run[0].outcome, HR_RUN_DONE);
	cr_expect_eq(app->run[1].outcome, HR_RUN_DONE);
	cr_expect_eq(record.has_run, 1u);
	cr_expect_eq(child->process.pid, 0);
	cr_expect_eq(child->process.line, -1);
	cr_expect(hr_child_moves(child));
	cr_expect_not(child->unsafe);
}

Test(child, errors_are_those_of_the_attempt)
{
	cr_expect_eq(ATTEMPT(.run = { 0x281, -ETIMEDOUT }), 0x281);
	cr_expect_eq(app->run[0].error, 0x281);
	cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app->run[1].error, -ETIMEDOUT);
	cr_expect_eq(ATTEMPT(.up = -EINVAL), -EINVAL);
	cr_expect_eq(record.has_run, 0u);
	cr_expect_eq(ATTEMPT(.stuck = true), 0);
	cr_expect(app->stuck);
}

/* ---- deaths */

static void expect_death(int dies, char in, int want, const char *said)
{
	cr_expect_eq(ATTEMPT(.dies = dies, .dies_in = in), want, "%d", dies);
	cr_expect(has_said(said), "%s", fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(child->process.pid, 0);
	cr_expect_not(child->unsafe);
}

Test(child, signals)
{
	expect_death(SIGKILL, 'R', -EOWNERDEAD, "ended by signal 9 (Killed)");
	expect_death(SIGSEGV, 'P', -EOWNERDEAD, "ended by signal 11 (Segmentation fault)");
	expect_death(SIGABRT, 'U', -EOWNERDEAD, "ended by signal 6 (Aborted)");
	expect_death(SIGBUS, 'R', -EOWNERDEAD, "ended by signal 7 (Bus error)");
}

Test(child, exit_codes)
{
	expect_death(-HR_EXIT_DEVICE, 'R', -EIO, "exited with code 4 in the middle of its work");
	expect_death(-HR_EXIT_FAILED, 'R', -EOWNERDEAD, "exited with code 1");
	expect_death(-77, 'U', -EOWNERDEAD, "exited with code 77");
}

Test(child, what_ran_has_failed_and_what_waited_has_not)
{
	expect_death(SIGKILL, 'R', -EOWNERDEAD, "it ran: pipeline 'p0', 0 of 0 tiles through");
	cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app->run[0].error, -EOWNERDEAD);
	cr_expect(app->run[0].selected);
	expect_death(SIGKILL, 'U', -EOWNERDEAD, "it ran: no pipeline, stage");
	cr_expect_eq(app->run[0].outcome, HR_RUN_WAITING);
	cr_expect_eq(app->run[0].error, 0);
	cr_expect(app->run[0].selected);
}

Test(child, the_one_after_it_works)
{
	expect_death(SIGKILL, 'R', -EOWNERDEAD, "signal 9");
	cr_expect_eq(ATTEMPT(.run = { 0 }), 0);
	cr_expect_eq(app->run[0].outcome, HR_RUN_DONE);
}

/* ---- hangs, and the wish to stop */

Test(child, one_that_hangs_is_killed)
{
	child->patience_ns = SHORT_NS;
	cr_expect_eq(ATTEMPT(.dies = FAKE_HANGS, .dies_in = 'R'), -ETIMEDOUT);
	cr_expect(has_said("; it is killed; it ran: pipeline 'p0'"), "%s",
		  fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app->run[0].error, -ETIMEDOUT);
	cr_expect_str_eq(fake_attempts_log(), "PpUR01!", "%s", fake_attempts_log());
}

/* Stopped, as by a debugger: it is alive, and does nothing. */
Test(child, one_that_is_stopped_is_killed)
{
	child->patience_ns = SHORT_NS;
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

Test(child, one_that_does_not_stop_is_killed)
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

/* A service manager may signal all processes, and the supervisor does so once more. */
Test(child, however_often_it_is_asked_an_engine_ends_in_order)
{
	cr_expect_eq(ATTEMPT(.dies = FAKE_WAITS, .dies_in = 'U', .last = stop_often), -EOWNERDEAD);
	cr_expect(has_said("exited with code 0 in the middle"), "%s",
		  fake_log_last_of(HR_LOG_ERROR));
}

/* ---- what is left behind */

static char path[64];

static void leave_a_write(void)
{
	if (hr_custodian_add(HR_CUSTODY_NOW, path, 0, "stopped", 7) < 0)
		_exit(99);
}

/* The custodian of an engine has done its work before the next engine may start. */
Test(child, its_custodian_is_waited_for)
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

static void master_under_custody(void)
{
	static const uint16_t silent = 0x2;

	if (hr_custodian_add(HR_CUSTODY_NOW, CONFIG, 4, &silent, 2) < 0)
		_exit(99);
	master();
}

static int leave_controllers(void *arg)
{
	static const struct fake_attempt killed = { .dies = SIGKILL, .dies_in = 'R' };
	struct fake_attempt script = killed;

	snprintf(app->config.ssd[0].device, HR_DEVICE_MAX, "pci:%s", SSD);
	child->custody_ns = SHORT_NS;
	script.last = master_under_custody;
	if (attempt(&script) != -EOWNERDEAD || child->unsafe)
		return 1;
	script.last = master;
	if (attempt(&script) != -EOWNERDEAD || !child->unsafe)
		return 2;
	if (!has_said("still masters the bus after the end of the engine"))
		return 3;
	/* It has been so before, so the engine is not to blame. */
	return attempt(&killed) != -EOWNERDEAD || child->unsafe ? 4 : 0;
}

Test(child, a_controller_that_is_not_stopped_keeps_others_from_starting)
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
	cr_expect_eq(hr_child_attempt(child, app, fds, 2), -EOWNERDEAD);
	cr_expect(has_said("code 77"), "%s", fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(fcntl(200, F_GETFD), 0, "the supervisor keeps it");
	close(200);
}

static void scribble(void)
{
	memset(child->process.page, 0x5a, sizeof *child->process.page);
}

/* An engine that has overwritten its memory is believed nothing. */
Test(child, a_record_that_is_not_sound_is_not_used)
{
	expect_death(SIGKILL, 'R', -EOWNERDEAD, "signal 9");
	cr_expect_eq(ATTEMPT(.dies = SIGSEGV, .dies_in = 'R', .last = scribble), -EOWNERDEAD);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "'stage' is out of range"), "%s",
		  fake_log_last_of(HR_LOG_WARN));
	cr_expect_leq(app->run[0].outcome, HR_RUN_FAILED);
}
