/*
 * The supervisor with engines that die, on the fake clock: restarts, pauses, the pipelines that run
 * again and their order, and the watchdog. tests/unit/boot/appliance/child.c has the same causes of
 * death with real processes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/appliance/supervise.h"
#include "boot/engine/exit.h"
#include "boot/engine/signals.h"
#include "config/clock.h"
#include "config/log.h"
#include "gpu/ops/operators.h"
#include "tests/fakes/attempts.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/inline.h"
#include "tests/fakes/log.h"

#define COUNT(array) (unsigned)(sizeof(array) / sizeof *(array))

static char folder[32];
static struct hr_appliance *app;
static struct hr_supervisor *s;
static bool still; /* the engine publishes nothing */

/* The watchdog is a file that accepts every timeout. */
int ioctl(int fd, unsigned long request, ...)
{
	return 0;
}

static void step(void *context)
{
	if (!still)
		fake_inline_publish();
}

static void begin(void)
{
	strcpy(folder, "/tmp/hr-deaths-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	setenv("RUNTIME_DIRECTORY", folder, 1);
	app = calloc(1, sizeof *app);
	s = calloc(1, sizeof *s);
	cr_assert(app && s);
	strcpy(app->config.name, "box");
	app->config.file = "f";
	app->config.ssds = app->config.gpus = 1;
	snprintf(app->config.ssd[0].device, HR_DEVICE_MAX, "soft:%s/0.img,size=1M", folder);
	app->config.pipelines = 3;
	for (uint32_t i = 0; i < 3; i++) {
		struct hr_config_pipeline *p = &app->config.pipeline[i];

		snprintf(p->name, sizeof p->name, "p%u", i);
		p->op = hr_op_get(HR_OP_copy);
		p->sources = 1;
		strcpy(p->source[0].object, "in");
	}
	app->config.boot = (struct hr_config_boot){ .post = HR_BOOT_POST_FULL,
						    .restarts = 2,
						    .backoff_ns = HR_NS_PER_S,
						    .heal_ns = 600 * HR_NS_PER_S };
	hr_signals_catch();
	fake_clock_start(100 * HR_NS_PER_S, step, NULL);
}

static void end(void)
{
	char command[64];

	fake_clock_stop();
	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
	free(app);
	free(s);
}

TestSuite(deaths, .init = begin, .fini = end, .timeout = 60);

static int supervise(const struct fake_attempt *attempt, unsigned count)
{
	char path[64];
	int code;

	snprintf(path, sizeof path, "%s/watchdog", folder);
	fake_attempts_begin(attempt, count);
	cr_assert_eq(hr_supervise_open(s, app, false, path), 0);
	code = hr_supervise(s);
	hr_supervise_close(s);
	return code;
}

#define SUPERVISE(...)                                          \
	supervise((const struct fake_attempt[]){ __VA_ARGS__ }, \
		  COUNT(((const struct fake_attempt[]){ __VA_ARGS__ })))

static void expect_log(const char *log)
{
	cr_expect_str_eq(fake_attempts_log(), log, "%s", fake_attempts_log());
}

Test(deaths, an_engine_that_dies_before_a_run_is_started_again)
{
	cr_expect_eq(SUPERVISE({ .dies = SIGSEGV, .dies_in = 'P' },
			       { .dies = SIGABRT, .dies_in = 'U' }, { 0 }),
		     HR_EXIT_DONE);
	expect_log("P! PpU! PpUR012D");
	cr_expect_eq(s->status.restarts, 2u);
}

Test(deaths, restarts_are_used_up)
{
	const struct fake_attempt dies = { .dies = SIGKILL, .dies_in = 'U' };

	cr_expect_eq(SUPERVISE(dies, dies, dies), HR_EXIT_FAILED);
	expect_log("PpU! PpU! PpU!");
	cr_expect_eq(fake_attempts_up_ns(1) - fake_attempts_up_ns(0), HR_NS_PER_S);
	cr_expect_eq(fake_attempts_up_ns(2) - fake_attempts_up_ns(1), 2 * HR_NS_PER_S);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "given up after 2 restarts");
}

Test(deaths, the_exit_code_of_an_engine_that_gave_up_is_that_of_a_device)
{
	app->config.boot.restarts = 0;
	cr_expect_eq(SUPERVISE({ .dies = -HR_EXIT_DEVICE, .dies_in = 'R' }), HR_EXIT_DEVICE);
}

/* The pipeline that ran at the death is suspect, and runs after the others. */
Test(deaths, the_pipeline_that_ran_runs_last)
{
	app->config.boot.restarts = 1;
	cr_expect_eq(SUPERVISE({ .dies = SIGSEGV, .dies_in = 'R' }, { 0 }), HR_EXIT_DONE);
	expect_log("PpUR012! PpUR/0/1/2D");
}

Test(deaths, pipelines_done_before_a_death_stay_done)
{
	const struct fake_attempt fails = { .run = { -ETIMEDOUT, 0, 0 } };

	cr_expect_eq(SUPERVISE(fails, { .dies = SIGSEGV, .dies_in = 'U' }, { 0 }), HR_EXIT_DONE);
	expect_log("PpUR012D PpU! PpUR/0D");
}

Test(deaths, a_long_run_before_a_death_resets_the_restarts)
{
	const struct fake_attempt early = { .dies = SIGKILL, .dies_in = 'R' };
	const struct fake_attempt late = { .dies = SIGKILL,
					   .dies_in = 'R',
					   .run_ns = 600 * HR_NS_PER_S };

	cr_expect_eq(SUPERVISE(early, early, late, early, early), HR_EXIT_FAILED);
	cr_expect_eq(s->status.restarts, 4u);
}

static unsigned feeds(void)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof path, "%s/watchdog", folder);
	cr_assert_eq(stat(path, &st), 0);
	return (unsigned)st.st_size;
}

/* Fed every 10 s, until the limit of an engine without progress; disarmed at the end. */
Test(deaths, the_watchdog_of_an_engine_without_progress_is_not_fed)
{
	char path[64];

	snprintf(path, sizeof path, "%s/watchdog", folder);
	cr_assert_eq(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
	app->config.boot.watchdog_ns = 30 * HR_NS_PER_S;
	still = true;
	cr_expect_eq(SUPERVISE({ .run_ns = 300 * HR_NS_PER_S }), HR_EXIT_DONE);
	cr_expect_geq(feeds(), HR_CHILD_TIMEOUT_NS / (10 * HR_NS_PER_S), "%u", feeds());
	cr_expect_leq(feeds(), HR_CHILD_TIMEOUT_NS / (10 * HR_NS_PER_S) + 4, "%u", feeds());
}

Test(deaths, the_status_after_a_death_names_the_failed_pipeline)
{
	static char text[HR_STATUS_MAX];

	app->config.boot.restarts = 0;
	cr_expect_eq(SUPERVISE({ .dies = SIGSEGV, .dies_in = 'R' }), HR_EXIT_FAILED);
	hr_status_format(&s->status, hr_now_ns(), text, sizeof text);
	cr_expect(strstr(text, "\"engine_pid\": 0, "), "%s", text);
	cr_expect(strstr(text,
			 "\"name\": \"p0\", \"operator\": \"copy\", \"gpu\": \"\", "
			 "\"gpus\": [\"\"], \"outcome\": \"failed\", \"error\": \"Owner died\""),
		  "%s", text);
}
