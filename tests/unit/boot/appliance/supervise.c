/* The supervisor with scripted attempts, on a fake clock. The watchdog is a fifo. */
#include "boot/appliance/supervise.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/clock.h"
#include "boot/cmd/cmd.h"
#include "boot/engine/signals.h"
#include "config/tick.h"
#include "gpu/ops/operators.h"
#include "tests/fakes/attempts.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/inline.h"
#include "tests/fakes/log.h"

#define START_NS (100 * HR_NS_PER_S)
#define MEDIA 0x281 /* Unrecovered Read Error */
#define COUNT(array) (unsigned)(sizeof(array) / sizeof *(array))

static char folder[32], path[64];
static struct hr_appliance *app;
static struct hr_supervisor *s;

/* ---- the watchdog's driver, on a fifo: rounds to supported seconds */

static int driver_seconds, set_seconds, driver_error;

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *data;

	va_start(args, request);
	data = va_arg(args, void *);
	va_end(args);
	if (request != WDIOC_SETTIMEOUT)
		return (int)syscall(SYS_ioctl, fd, request, data);
	if (driver_error) {
		errno = driver_error;
		return -1;
	}
	set_seconds = *(int *)data;
	if (driver_seconds)
		*(int *)data = driver_seconds;
	return 0;
}

static struct {
	int fd;
	unsigned bytes;
	char last;
	uint64_t last_ns, longest_ns; /* between two feeds */
} dog;

static void look_at_dog(void)
{
	char byte;

	while (dog.fd >= 0 && read(dog.fd, &byte, 1) == 1) {
		const uint64_t now = hr_now_ns();

		if (dog.bytes && now - dog.last_ns > dog.longest_ns)
			dog.longest_ns = now - dog.last_ns;
		dog.bytes++;
		dog.last = byte;
		dog.last_ns = now;
	}
}

/* ---- set-up */

static uint64_t stop_ns; /* fake time of SIGTERM; 0: none */
static void (*at_step)(void);

static void step(void *context)
{
	look_at_dog();
	fake_inline_publish();
	if (at_step)
		at_step();
	if (stop_ns && hr_now_ns() >= stop_ns) {
		stop_ns = 0;
		raise(SIGTERM);
	}
}

static void begin(void)
{
	strcpy(folder, "/tmp/hr-supervise-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/watchdog", folder);
	setenv("RUNTIME_DIRECTORY", folder, 1);
	app = calloc(1, sizeof *app);
	s = calloc(1, sizeof *s);
	cr_assert(app && s);
	dog.fd = -1;
	hr_signals_catch();
	fake_clock_start(START_NS, step, NULL);
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

TestSuite(supervise, .init = begin, .fini = end, .timeout = 60);

/* Pipelines over ssd 0, each with its own sink; the group `boot` has its defaults. */
static void configure(uint32_t pipelines)
{
	struct hr_config *c = &app->config;

	strcpy(c->name, "box");
	c->file = "f";
	c->ssds = 2;
	for (uint32_t d = 0; d < c->ssds; d++) {
		snprintf(c->ssd[d].name, sizeof c->ssd[d].name, "s%u", d);
		snprintf(c->ssd[d].device, sizeof c->ssd[d].device, "soft:%s/%u.img,size=1M",
			 folder, d);
	}
	c->gpus = 1;
	c->pipelines = pipelines;
	for (uint32_t i = 0; i < pipelines; i++) {
		struct hr_config_pipeline *p = &c->pipeline[i];

		snprintf(p->name, sizeof p->name, "p%u", i);
		p->op = hr_op_get(HR_OP_copy);
		p->sources = 1;
		strcpy(p->source[0].object, "in");
		p->has_sink = true;
		snprintf(p->sink.object, sizeof p->sink.object, "out%u", i);
	}
	c->boot = (struct hr_config_boot){ .post = HR_BOOT_POST_FULL,
					   .restarts = 3,
					   .backoff_ns = HR_NS_PER_S,
					   .heal_ns = 600 * HR_NS_PER_S,
					   .wait_s = 60 };
}

/* Supervise until the end; returns the exit code. */
static int supervise(const struct fake_attempt *attempt, unsigned count)
{
	int code;

	fake_attempts_begin(attempt, count);
	cr_assert_eq(hr_supervise_open(s, app, false, path), 0);
	code = hr_supervise(s);
	hr_supervise_close(s);
	look_at_dog();
	return code;
}

#define SUPERVISE(...)                                          \
	supervise((const struct fake_attempt[]){ __VA_ARGS__ }, \
		  COUNT(((const struct fake_attempt[]){ __VA_ARGS__ })))

/* ---- attempts */

Test(supervise, one_successful_attempt_is_enough)
{
	configure(2);
	cr_expect_eq(SUPERVISE({ .run_ns = HR_NS_PER_S }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR01D", "%s", fake_attempts_log());
	cr_expect_eq(s->status.restarts, 0u);
}

Test(supervise, the_self_test_has_the_requested_length)
{
	configure(1);
	app->config.boot.post = HR_BOOT_POST_QUICK;
	cr_expect_eq(SUPERVISE({ 0 }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PUR0D", "%s", fake_attempts_log());
	app->config.boot.post = HR_BOOT_POST_OFF;
	cr_expect_eq(SUPERVISE({ 0 }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "UR0D", "%s", fake_attempts_log());
}

/* Down before each restart; pauses of 1, 2 and 4 s; then no restart is left. */
Test(supervise, a_failure_that_may_go_away_has_its_restarts_and_no_more)
{
	configure(1);
	cr_expect_eq(SUPERVISE({ .run = { -ETIMEDOUT } }, { .run = { -ETIMEDOUT } },
			       { .run = { -ETIMEDOUT } }, { .run = { -ETIMEDOUT } }),
		     HR_EXIT_DEVICE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR0D PpUR/0D PpUR/0D PpUR/0D", "%s",
			 fake_attempts_log());
	cr_expect_eq(s->status.restarts, 3u);
	cr_expect_eq(s->status.restarts_left, 0u);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(fake_attempts_up_ns(i + 1) - fake_attempts_up_ns(i), HR_NS_PER_S << i,
			     "pause %u", i);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "given up after 3 restarts");
}

Test(supervise, the_pause_grows_to_a_minute)
{
	struct fake_attempt all[10];

	configure(1);
	for (unsigned i = 0; i < 10; i++)
		all[i] = (struct fake_attempt){ .run = { -ETIMEDOUT } };
	app->config.boot.restarts = 9;
	cr_expect_eq(supervise(all, 10), HR_EXIT_DEVICE);
	cr_expect_eq(fake_attempts_up_ns(6) - fake_attempts_up_ns(5), 32 * HR_NS_PER_S);
	cr_expect_eq(fake_attempts_up_ns(7) - fake_attempts_up_ns(6), 60 * HR_NS_PER_S);
	cr_expect_eq(fake_attempts_up_ns(9) - fake_attempts_up_ns(8), 60 * HR_NS_PER_S);
}

Test(supervise, without_restarts_there_is_one_attempt)
{
	configure(1);
	app->config.boot.restarts = 0;
	cr_expect_eq(SUPERVISE({ .kind = HR_ERROR_MISSING, .run = { -EIO } }), HR_EXIT_MISSING);
	cr_expect_str_eq(fake_attempts_log(), "PpUR0D", "%s", fake_attempts_log());
}

Test(supervise, a_pipeline_that_is_done_does_not_run_again)
{
	configure(3);
	cr_expect_eq(SUPERVISE({ .run = { 0, -ETIMEDOUT, 0 } }, { .run = { 0 } }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR012D PpUR/1D", "%s", fake_attempts_log());
}

/* Data of soft:memory are lost with their controller. */
Test(supervise, a_pipeline_over_memory_runs_again)
{
	configure(3);
	app->config.ssd[1].in_memory = true;
	cr_expect_eq(SUPERVISE({ .run = { 0, -ETIMEDOUT, 0 } }, { .run = { 0 } }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR012D PpUR02/1D", "%s", fake_attempts_log());
}

Test(supervise, a_permanent_failure_is_not_retried_and_stops_no_other_pipeline)
{
	configure(3);
	cr_expect_eq(SUPERVISE({ .run = { MEDIA, -ETIMEDOUT, 0 } }, { .run = { 0 } }),
		     HR_EXIT_DEVICE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR012D PpUR/1D", "%s", fake_attempts_log());
	cr_expect_eq(s->pipeline[0].error, MEDIA);
}

/* The second pipeline reads the sink of the first; the third is independent of both. */
Test(supervise, a_reader_of_a_sink_that_failed_permanently_is_given_up)
{
	configure(3);
	strcpy(app->config.pipeline[1].source[0].object, "out0");
	cr_expect_eq(SUPERVISE({ .run = { MEDIA, FAKE_BLOCKED, 0 } }), HR_EXIT_DEVICE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR012D", "%s", fake_attempts_log());
	cr_expect_eq(s->pipeline[1].error, MEDIA);
}

Test(supervise, a_pipeline_that_another_failure_stopped_is_tried_again)
{
	configure(2);
	cr_expect_eq(SUPERVISE({ .run = { -ETIMEDOUT, FAKE_BLOCKED } }, { .run = { 0 } }),
		     HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR01D PpUR1/0D", "%s", fake_attempts_log());
}

Test(supervise, a_long_run_without_failure_resets_the_restarts)
{
	const struct fake_attempt bad = { .run = { -ETIMEDOUT } };
	struct fake_attempt late = bad, early = bad;

	configure(1);
	late.run_ns = 600 * HR_NS_PER_S;
	early.run_ns = 599 * HR_NS_PER_S;
	/*
	 * Two of three restarts are used. After the long run there are three again, and the short
	 * runs use them up.
	 */
	cr_expect_eq(SUPERVISE(bad, bad, late, bad, early, bad), HR_EXIT_DEVICE);
	cr_expect_eq(s->status.restarts, 5u);
	/* The pause has its first length again. */
	cr_expect_eq(fake_attempts_up_ns(3) - fake_attempts_up_ns(2), 601 * HR_NS_PER_S);
	cr_expect_eq(fake_attempts_up_ns(4) - fake_attempts_up_ns(3), 2 * HR_NS_PER_S);
}

Test(supervise, without_heal_there_is_one_budget)
{
	struct fake_attempt late = { .run = { -ETIMEDOUT }, .run_ns = 700 * HR_NS_PER_S };

	configure(1);
	app->config.boot.heal_ns = 0;
	app->config.boot.restarts = 1;
	cr_expect_eq(SUPERVISE(late, late), HR_EXIT_DEVICE);
}

/* The controller is stopped with its engine: the undo helper turns off bus mastering. */
Test(supervise, a_controller_that_does_not_stop_has_the_restarts_of_others)
{
	configure(1);
	app->config.boot.restarts = 1;
	cr_expect_eq(SUPERVISE({ .run = { -ETIMEDOUT }, .stuck = true }, { 0 }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR0D PpUR/0D", "%s", fake_attempts_log());
	app->config.boot.restarts = 0;
	cr_expect_eq(SUPERVISE({ .run = { -ETIMEDOUT }, .stuck = true }), HR_EXIT_DEVICE);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "given up after 0 restarts");
}

/* ---- self-test and bring-up */

Test(supervise, a_failed_self_test_of_the_machine_prevents_every_run)
{
	configure(2);
	app->config.boot.restarts = 1;
	cr_expect_eq(SUPERVISE({ .machine = -EPROTO }, { .machine = -EPROTO }), HR_EXIT_DEVICE);
	cr_expect_str_eq(fake_attempts_log(), "P P", "%s", fake_attempts_log());
	cr_expect_eq(SUPERVISE({ .machine = -ENOTSUP }), HR_EXIT_MISSING, "it stays so");
}

Test(supervise, an_ssd_that_fails_the_self_test_stops_only_its_pipelines)
{
	configure(2);
	app->config.pipeline[0].source[0].ssd = 1;
	cr_expect_eq(SUPERVISE({ .ssd = { 0, -ETIMEDOUT } }, { .run = { 0 } }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR1D PpUR/0D", "%s", fake_attempts_log());
	cr_expect_eq(SUPERVISE({ .ssd = { 0, -EUCLEAN } }), HR_EXIT_FAILED);
	cr_expect_str_eq(fake_attempts_log(), "PpUR1D", "%s", fake_attempts_log());
	cr_expect_eq(SUPERVISE({ .ssd = { -EUCLEAN, 0 } }), HR_EXIT_FAILED);
	cr_expect_str_eq(fake_attempts_log(), "Pp", "%s", fake_attempts_log());
}

Test(supervise, a_failed_bring_up_is_retried_after_temporary_errors)
{
	configure(1);
	cr_expect_eq(SUPERVISE({ .up = -EBUSY }, { .up = -ENOMEM }, { 0 }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpU PpU PpUR0D", "%s", fake_attempts_log());
	cr_expect_eq(SUPERVISE({ .up = -EINVAL }), HR_EXIT_USAGE);
	cr_expect_eq(SUPERVISE({ .up = -ENOTSUP }), HR_EXIT_MISSING);
	cr_expect_eq(SUPERVISE({ .up = -EEXIST }), HR_EXIT_FAILED);
}

/* ---- ssds that are absent */

static char late_image[64];
static uint64_t comes_ns;

static void comes(void)
{
	int fd;

	if (!comes_ns || hr_now_ns() < comes_ns)
		return;
	comes_ns = 0;
	fd = open(late_image, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	close(fd);
}

/* Ssd 1 is an image that is missing for `ns` from now; pipeline 0 reads it. */
static void absent(uint64_t ns)
{
	snprintf(late_image, sizeof late_image, "%s/late.img", folder);
	unlink(late_image);
	snprintf(app->config.ssd[1].device, HR_DEVICE_MAX, "soft:%s", late_image);
	app->config.pipeline[0].source[0].ssd = 1;
	comes_ns = ns ? START_NS + ns : 0;
	at_step = comes;
}

Test(supervise, an_absent_ssd_is_waited_for)
{
	configure(1);
	absent(50 * HR_NS_PER_S);
	cr_expect_eq(SUPERVISE({ 0 }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR0D", "%s", fake_attempts_log());
	cr_expect_geq(fake_attempts_up_ns(0), START_NS + 50 * HR_NS_PER_S);
	cr_expect_leq(fake_attempts_up_ns(0), START_NS + 51 * HR_NS_PER_S);
	cr_expect_eq(s->status.restarts, 0u);
}

Test(supervise, pipelines_without_the_absent_ssd_run_during_the_wait)
{
	configure(3);
	absent(50 * HR_NS_PER_S);
	/* A pipeline that reads the sink of a waiting one waits, too. */
	strcpy(app->config.pipeline[2].source[0].object, "out0");
	cr_expect_eq(SUPERVISE({ 0 }, { 0 }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR1D PpUR02D", "%s", fake_attempts_log());
	cr_expect_lt(fake_attempts_up_ns(0), START_NS + HR_NS_PER_S);
	cr_expect_eq(s->status.restarts, 0u);
}

/* After that time bring-up uses the ssd: its error is reported, and the usual restarts follow. */
Test(supervise, the_wait_for_an_absent_ssd_has_an_end)
{
	configure(1);
	absent(0);
	app->config.boot.restarts = 1;
	cr_expect_eq(SUPERVISE({ .ssd = { 0, -ENOENT } }, { .ssd = { 0, -ENOENT } }),
		     HR_EXIT_MISSING);
	cr_expect_str_eq(fake_attempts_log(), "Pp Pp", "%s", fake_attempts_log());
	cr_expect_geq(hr_now_ns(), START_NS + 61 * HR_NS_PER_S);
	cr_expect_leq(hr_now_ns(), START_NS + 62 * HR_NS_PER_S);
}

Test(supervise, without_a_backoff_the_next_attempt_starts_at_once)
{
	configure(1);
	absent(0);
	app->config.boot.wait_s = app->config.boot.restarts = 0;
	cr_expect_eq(SUPERVISE({ .ssd = { 0, -ENOENT } }), HR_EXIT_MISSING);
	cr_expect_eq(hr_now_ns(), START_NS);
}

/* ---- signals */

Test(supervise, a_stop_during_a_run_is_success)
{
	configure(1);
	cr_expect_eq(SUPERVISE({ .run_ns = HR_NS_PER_S, .stop = true }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "PpUR0D", "%s", fake_attempts_log());
}

Test(supervise, a_stop_during_the_self_test_is_success)
{
	configure(1);
	stop_ns = START_NS + HR_NS_PER_S;
	cr_expect_eq(SUPERVISE({ .post_ns = 2 * HR_NS_PER_S }), HR_EXIT_DONE);
	cr_expect_null(strchr(fake_attempts_log(), 'U'));
}

Test(supervise, a_stop_during_a_pause_is_success)
{
	configure(1);
	app->config.boot.backoff_ns = 50 * HR_NS_PER_S;
	stop_ns = START_NS + 10 * HR_NS_PER_S;
	cr_expect_eq(SUPERVISE({ .run = { -ETIMEDOUT } }), HR_EXIT_DONE);
	cr_expect_lt(hr_now_ns(), START_NS + 11 * HR_NS_PER_S);
}

Test(supervise, a_stop_ends_the_wait_for_an_ssd)
{
	configure(1);
	absent(0);
	stop_ns = START_NS + 10 * HR_NS_PER_S;
	cr_expect_eq(SUPERVISE({ 0 }), HR_EXIT_DONE);
	cr_expect_str_eq(fake_attempts_log(), "");
	cr_expect_lt(hr_now_ns(), START_NS + 11 * HR_NS_PER_S);
}

Test(supervise, a_stop_with_a_controller_that_does_not_stop_is_a_device_error)
{
	configure(1);
	cr_expect_eq(SUPERVISE({ .stop = true, .stuck = true }), HR_EXIT_DEVICE);
}

/* ---- the watchdog */

static void take_dog(int seconds)
{
	cr_assert_eq(mkfifo(path, 0600), 0);
	dog.fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	cr_assert_geq(dog.fd, 0);
	app->config.boot.watchdog_ns = 30 * HR_NS_PER_S;
	driver_seconds = seconds;
}

/* The watchdog is fed during the self-test, bring-up, a run, a pause and the wait for an ssd. */
Test(supervise, the_watchdog_is_fed_all_the_time_and_disarmed)
{
	const struct fake_attempt bad = { .post_ns = 100 * HR_NS_PER_S,
					  .up_ns = 100 * HR_NS_PER_S,
					  .run_ns = 100 * HR_NS_PER_S,
					  .run = { -ETIMEDOUT } };
	struct fake_attempt good = bad;

	configure(1);
	take_dog(0);
	absent(50 * HR_NS_PER_S);
	app->config.boot.backoff_ns = 60 * HR_NS_PER_S;
	good.run[0] = 0;
	cr_expect_eq(SUPERVISE(bad, good), HR_EXIT_DONE);
	cr_expect_eq(set_seconds, 30);
	cr_expect_leq(dog.longest_ns, 10 * HR_NS_PER_S + 100 * HR_NS_PER_MS);
	cr_expect_geq(dog.bytes, 69u); /* one feeding in 10 s for 710 s, and the last one */
	cr_expect_leq(dog.bytes, 73u);
	cr_expect_eq(dog.last, 'V');
}

Test(supervise, the_timeout_of_the_watchdog_driver_is_used)
{
	configure(1);
	take_dog(6);
	cr_expect_eq(SUPERVISE({ .run_ns = 100 * HR_NS_PER_S }), HR_EXIT_DONE);
	cr_expect_leq(dog.longest_ns, 2 * HR_NS_PER_S + 100 * HR_NS_PER_MS);
	cr_expect_geq(dog.bytes, 50u);
	cr_expect_leq(dog.bytes, 53u);
}

Test(supervise, the_watchdog_is_fed_while_the_supervisor_stays)
{
	configure(1);
	take_dog(0);
	cr_assert_eq(hr_supervise_open(s, app, false, path), 0);
	stop_ns = START_NS + 100 * HR_NS_PER_S;
	hr_supervise_stay(s);
	cr_expect_leq(hr_now_ns(), START_NS + 101 * HR_NS_PER_S);
	look_at_dog();
	cr_expect_geq(dog.bytes, 10u);
	cr_expect_neq(dog.last, 'V');
	hr_supervise_close(s);
	look_at_dog();
	cr_expect_eq(dog.last, 'V');
}

/* A watchdog that does not accept the requested timeout is disarmed at once and not used. */
Test(supervise, a_watchdog_without_a_timeout_is_not_used)
{
	configure(1);
	take_dog(0);
	driver_error = ENOTTY;
	cr_expect_eq(SUPERVISE({ .run_ns = 100 * HR_NS_PER_S }), HR_EXIT_DONE);
	cr_expect_eq(dog.bytes, 1u);
	cr_expect_eq(dog.last, 'V');
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "nothing resets this machine"));
}

Test(supervise, no_device_is_opened_without_a_watchdog)
{
	configure(1);
	take_dog(0);
	app->config.boot.watchdog_ns = 0;
	cr_expect_eq(SUPERVISE({ .run_ns = HR_NS_PER_S }), HR_EXIT_DONE);
	cr_expect_eq(dog.bytes, 0u);
}

/* ---- the service manager, and readers of the status */

static int manager;
static unsigned alive;
static char told[4096];

static void hear(void)
{
	char text[256];
	ssize_t n;

	while ((n = recv(manager, text, sizeof text - 1, 0)) > 0) {
		text[n] = '\0';
		if (strcmp(text, "WATCHDOG=1") == 0) {
			alive++;
			continue;
		}
		strcat(told, text);
		strcat(told, ";");
	}
}

Test(supervise, the_service_manager_is_notified_all_the_time)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	configure(1);
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", folder);
	cr_assert_eq(bind(manager, (const struct sockaddr *)&at, sizeof at), 0);
	setenv("NOTIFY_SOCKET", at.sun_path, 1);
	setenv("WATCHDOG_USEC", "200000000", 1);
	unsetenv("WATCHDOG_PID");
	at_step = hear;
	cr_expect_eq(SUPERVISE({ .post_ns = 300 * HR_NS_PER_S, .run_ns = 300 * HR_NS_PER_S }),
		     HR_EXIT_DONE);
	hear();
	close(manager);
	cr_expect_str_eq(told,
			 "STATUS=post;STATUS=bring-up;STATUS=running;READY=1\nSTATUS=running;"
			 "STATUS=going down;STOPPING=1;",
			 "%s", told);
	cr_expect_geq(alive, 6u, "%u", alive);
	cr_expect_leq(alive, 7u, "%u", alive);
}

Test(supervise, the_periodic_function_ends_with_the_supervisor)
{
	configure(1);
	cr_expect_eq(SUPERVISE({ 0 }), HR_EXIT_DONE);
	cr_expect_not(hr_tick_is_set());
}
