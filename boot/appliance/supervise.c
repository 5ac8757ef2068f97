#include "boot/appliance/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "boot/clock.h"
#include "boot/cmd.h"
#include "boot/appliance/init.h"
#include "boot/log.h"
#include "boot/post/post.h"
#include "boot/report/report.h"
#include "boot/runner.h"
#include "boot/signals.h"
#include "boot/start.h"

#define PAUSE_NS (20 * HR_NS_PER_MS)
#define BACKOFF_MAX_NS (60 * HR_NS_PER_S)

/* ---- everybody who is told */

static void feed(struct hr_supervisor *s, uint64_t now_ns)
{
	if (s->watchdog < 0 || now_ns < s->next_feed_ns)
		return;
	s->next_feed_ns = now_ns + s->feed_ns;
	/* Any byte but V feeds it, with drivers, too, that have no such call. */
	if (write(s->watchdog, "", 1) != 1)
		hr_error("/dev/watchdog: cannot be fed: %s; it will reset this machine",
			 strerror(errno));
}

static void tick(void *to, const struct hr_appliance *app, uint64_t now_ns)
{
	struct hr_supervisor *s = to;

	hr_notify_alive(&s->notify, now_ns);
	hr_status_tick(&s->status, app, now_ns);
	feed(s, now_ns);
	if (s->first)
		hr_init_reap();
}

static void phase(struct hr_supervisor *s, const char *name)
{
	s->status.phase = name;
	hr_notify_send(&s->notify, "STATUS=%s", name);
	tick(s, s->app, hr_now_ns());
}

/* A machine without its watchdog works; whoever has asked for one must read that it has none. */
static void open_watchdog(struct hr_supervisor *s, uint64_t timeout_ns)
{
	int seconds = (int)(timeout_ns / HR_NS_PER_S);

	s->watchdog = -1;
	if (!timeout_ns)
		return;
	s->watchdog = open("/dev/watchdog", O_WRONLY | O_CLOEXEC);
	if (s->watchdog < 0 || ioctl(s->watchdog, WDIOC_SETTIMEOUT, &seconds) != 0) {
		hr_error("/dev/watchdog: %s; nothing resets this machine if it hangs",
			 strerror(errno));
		if (s->watchdog >= 0 && write(s->watchdog, "V", 1) < 0)
			hr_debug("/dev/watchdog: cannot be turned off");
		if (s->watchdog >= 0)
			close(s->watchdog);
		s->watchdog = -1;
		return;
	}
	/* The driver may have rounded it. */
	s->feed_ns = HR_NS_PER_S * (unsigned)(seconds > 0 ? seconds : 1) / 3;
	hr_info("/dev/watchdog: %d s", seconds);
}

void hr_supervise_open(struct hr_supervisor *s, struct hr_appliance *app, bool first)
{
	memset(s, 0, sizeof(*s));
	s->app = app;
	s->first = first;
	app->tick = tick;
	app->tick_to = s;
	hr_notify_open(&s->notify);
	hr_status_open(&s->status, app->config.name);
	open_watchdog(s, app->config.boot.watchdog_ns);
}

void hr_supervise_close(struct hr_supervisor *s)
{
	hr_notify_send(&s->notify, "STOPPING=1");
	hr_status_close(&s->status);
	hr_notify_close(&s->notify);
	/* The magic that says: this is no crash. */
	if (s->watchdog >= 0 && write(s->watchdog, "V", 1) < 0)
		hr_warn("/dev/watchdog: cannot be turned off: %s", strerror(errno));
	if (s->watchdog >= 0)
		close(s->watchdog);
	s->watchdog = -1;
	s->app->tick = NULL;
}

/* ---- one attempt */

static int test(struct hr_supervisor *s)
{
	struct hr_post post = { .app = s->app, .out = stdout };

	if (s->app->config.boot.post == HR_BOOT_POST_OFF)
		return HR_EXIT_DONE;
	phase(s, "post");
	hr_post_machine(&post);
	if (s->app->config.boot.post == HR_BOOT_POST_FULL)
		hr_post_ssds(&post);
	hr_info("self-test: %u passed, %u failed, %u skipped", post.passed, post.failed,
		post.skipped);
	return post.failed ? post.code : HR_EXIT_DONE;
}

/* What is in memory is gone once a controller goes down, so all of it has to be made again. */
static bool forgets(const struct hr_appliance *app)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (app->config.ssd[d].in_memory)
			return true;
	return false;
}

static void choose_runs(struct hr_supervisor *s)
{
	if (!forgets(s->app))
		for (uint32_t i = 0; i < s->app->config.pipelines; i++)
			s->app->run[i].selected &= !s->done[i];
}

static void note_done(struct hr_supervisor *s)
{
	for (uint32_t i = 0; i < s->app->config.pipelines; i++) {
		const struct hr_run *run = &s->app->run[i];

		s->done[i] |= run->outcome == HR_RUN_DONE || run->outcome == HR_RUN_COMPLETE;
		if (run->first_submit_ns && run->selected)
			hr_info("pipeline '%s': first tile submitted %.1f ms after the start",
				run->config->name,
				(double)(run->first_submit_ns - hr_start_ns()) / 1e6);
	}
}

static int run(struct hr_supervisor *s)
{
	int err, code;

	phase(s, "bring-up");
	err = hr_appliance_up(s->app, HR_STAGE_QUEUES);
	if (err)
		return hr_exit_code(err);
	phase(s, "running");
	hr_notify_send(&s->notify, "READY=1\nSTATUS=running");
	err = hr_run_all(s->app, false);
	code = err == -EINTR ? HR_EXIT_FAILED : hr_exit_code(err);
	hr_unseal();
	note_done(s);
	hr_report_runs(s->app, stdout);
	fflush(stdout);
	phase(s, "going down");
	hr_appliance_down(s->app);
	return code;
}

static int attempt(struct hr_supervisor *s)
{
	int code;

	/* All but the configuration is set anew. */
	if (hr_appliance_init(s->app, NULL) != 0)
		return HR_EXIT_USAGE;
	s->app->tick = tick;
	s->app->tick_to = s;
	s->app->collect_ns = s->app->config.boot.collect_ns;
	choose_runs(s);
	code = test(s);
	if (hr_signals_pending())
		return HR_EXIT_FAILED;
	return code ? code : run(s);
}

/* ---- attempts */

static void wait_until(struct hr_supervisor *s, uint64_t end_ns)
{
	uint64_t now_ns;

	while (!hr_signals_pending() && (now_ns = hr_now_ns()) < end_ns) {
		tick(s, s->app, now_ns);
		hr_wait_ns(end_ns - now_ns < PAUSE_NS ? end_ns - now_ns : PAUSE_NS);
	}
}

int hr_supervise(struct hr_supervisor *s)
{
	const struct hr_config_boot *boot = &s->app->config.boot;
	uint64_t backoff_ns = boot->backoff_ns;
	int code;

	for (;; s->status.restarts++) {
		code = attempt(s);
		if (code == HR_EXIT_DONE || code == HR_EXIT_USAGE || hr_signals_pending())
			return code;
		if (s->app->refused) {
			hr_error(
				"no restart: the reason is the same until the configuration or the "
				"objects change");
			return code;
		}
		if (s->app->stuck) {
			hr_error("a controller does not stop: no restart in this process");
			return code;
		}
		if (s->status.restarts == boot->restarts)
			break;
		hr_warn("restart %u of %u in %.1f s", s->status.restarts + 1, boot->restarts,
			(double)backoff_ns / 1e9);
		phase(s, "backoff");
		wait_until(s, hr_now_ns() + backoff_ns);
		if (hr_signals_pending())
			return HR_EXIT_FAILED;
		backoff_ns = backoff_ns * 2 < BACKOFF_MAX_NS ? backoff_ns * 2 : BACKOFF_MAX_NS;
	}
	hr_error("given up after %u restarts", boot->restarts);
	return code;
}

void hr_supervise_stay(struct hr_supervisor *s)
{
	phase(s, "staying");
	wait_until(s, UINT64_MAX);
}
