/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/supervise.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/appliance/machine/machine.h"
#include "boot/appliance/attempt/remember.h"
#include "config/base/text.h"
#include "boot/appliance/supervisor/repeat.h"
#include "boot/engine/exclude.h"
#include "config/base/clock.h"
#include "config/base/error.h"
#include "config/base/log.h"
#include "config/base/process.h"
#include "config/base/tick.h"
#include "nvme/queue/status.h"
#include "nvme/transport/transport.h"

#define LOOK_NS (100 * HR_NS_PER_MS) /* interval of looks at absent ssds */

/* ---- gpus */

/* True: a look at the gpus runs. A gpu that has been awaited for too long is not looked at. */
static bool look_at_gpus(struct hr_supervisor *s)
{
	const struct hr_config *config = &s->engine->config;
	const uint32_t awaited = hr_gpus_awaited(&s->gpus, config);
	uint32_t which = 0;
	bool looks;

	for (uint32_t g = 0; config->boot.wait_s && g < config->gpus; g++)
		if (hr_backend_may_come(config->gpu[g].device) &&
		    (awaited >> g & 1 || !(s->gpus.absent >> g & 1)))
			which |= 1u << g;
	looks = hr_gpus_step(&s->gpus, config, which);
	s->repeat.absent_gpus = hr_gpus_awaited(&s->gpus, config);
	return looks;
}

/* ---- the periodic function of the supervising thread */

/* For readers of the status, and for requests. */
static void take_suspensions(struct hr_supervisor *s, uint64_t now_ns)
{
	const struct hr_moment at = { now_ns, 0 };

	for (uint32_t i = 0; s->repeat.begun && i < s->engine->config.pipelines; i++) {
		s->status.deaths[i] = s->repeat.timetable.starts.suspension[i].deaths;
		s->status.suspended_until_ns[i] =
			now_ns + hr_timetable_suspended_ns(&s->repeat.timetable, i, &at);
	}
}

/* The engine gets a client of the store. */
static int pass_client(void *to, const struct hr_request *request, int fd, struct hr_error *e)
{
	const struct hr_supervisor *s = to;
	const int err = hr_process_pass(&s->child.process, request, fd);

	switch (err) {
	case 0:
		return 0;
	case -EAGAIN:
		return hr_fail(e, HR_ERROR_FAILED, err,
			       "busy: the engine has not taken the earlier requests yet (%s)",
			       hr_phase_name(s->status.phase));
	case -ENOTCONN:
	case -EPIPE:
		return hr_fail(e, HR_ERROR_FAILED, err, "busy: no engine drives the ssds now (%s)",
			       hr_phase_name(s->status.phase));
	default:
		return hr_fail(e, HR_ERROR_FAILED, err, "the engine cannot be reached: %s",
			       strerror(-err));
	}
}

/* When an engine hangs and cannot be killed, the watchdog is not fed, so it resets the machine. */
static void tick(void *to, uint64_t now_ns)
{
	struct hr_supervisor *s = to;

	hr_child_poll(&s->child, &s->engine->config, now_ns);
	s->status.engine_pid = (int)s->child.process.pid;
	s->status.still_ns = s->child.still_ns;
	hr_repeat_meet(&s->repeat); /* before requests */
	hr_control_tick(&s->control, now_ns);
	hr_control_take_hangup(&s->control);
	if (s->gpus.absent) /* while other pipelines run */
		look_at_gpus(s);
	hr_repeat_poll(&s->repeat); /* after requests */
	take_suspensions(s, now_ns);
	if (hr_child_is_alive(&s->child)) {
		hr_notify_alive(&s->notify, now_ns);
		hr_watchdog_feed(&s->watchdog, now_ns);
	}
	if (s->first)
		hr_pid1_reap();
}

static void say_phase(void *to, enum hr_phase phase)
{
	struct hr_supervisor *s = to;

	s->status.phase = phase;
	hr_notify_send(&s->notify, "STATUS=%s", hr_phase_name(phase));
	if (phase == HR_PHASE_RUNNING || phase == HR_PHASE_IDLE)
		hr_notify_send(&s->notify, "READY=1\nSTATUS=%s", hr_phase_name(phase));
}

static void set_phase(struct hr_supervisor *s, enum hr_phase phase)
{
	say_phase(s, phase);
	tick(s, hr_now_ns());
}

static int open_sockets(struct hr_supervisor *s)
{
	struct hr_error e = { 0 };
	const int err = hr_tap_sockets_open(&s->sockets, &s->engine->config, NULL, &e);

	hr_error_log(&e, HR_LOG_ERROR);
	return err;
}

int hr_supervise_open(struct hr_supervisor *s, struct hr_engine *engine, bool first,
		      const char *watchdog)
{
	int err;

	memset(s, 0, sizeof(*s));
	s->engine = engine;
	s->first = first;
	err = open_sockets(s);
	if (err)
		return err;
	err = hr_child_open(&s->child, &s->status.record, say_phase, s);
	if (err) {
		hr_error("out of memory for the record of the engine");
		hr_tap_sockets_close(&s->sockets);
		return err;
	}
	s->child.process.sockets = &s->sockets;
	s->child.progress_ns = engine->config.boot.progress_s * HR_NS_PER_S;
	hr_restarts_begin(&s->budget, &engine->config.boot);
	hr_notify_open(&s->notify);
	hr_status_open(&s->status, engine);
	s->status.history = s->child.process.page ? &s->child.process.page->history : NULL;
	err = hr_repeat_open(&s->repeat, &s->child, engine);
	if (err)
		hr_warn("no epoll descriptor: %s; the supervisor wakes each 5 ms", strerror(-err));
	s->status.repeat = s->repeat.on ? &s->repeat : NULL;
	s->status.told = true;
	hr_record_update(&s->status.record, engine);
	hr_control_open(&s->control, &s->status, &s->repeat, pass_client, s);
	hr_repeat_wake_by(&s->repeat, s->control.wake);
	hr_watchdog_open(&s->watchdog, watchdog, engine->config.boot.watchdog_ns);
	hr_tick_set(tick, s);
	return 0;
}

void hr_supervise_close(struct hr_supervisor *s)
{
	hr_tick_set(NULL, NULL);
	hr_notify_send(&s->notify, "STOPPING=1");
	hr_control_close(&s->control);
	hr_notify_close(&s->notify);
	hr_watchdog_close(&s->watchdog);
	hr_child_close(&s->child);
	s->status.history = NULL; /* it was in the child's memory */
	hr_gpus_close(&s->gpus);
	hr_repeat_close(&s->repeat);
	hr_tap_sockets_close(&s->sockets);
}

static void wait_until(uint64_t end_ns)
{
	uint64_t now_ns;

	while (!hr_signals_pending() && (now_ns = hr_now_ns()) < end_ns)
		hr_wait_ns(end_ns - now_ns < LOOK_NS ? end_ns - now_ns : LOOK_NS);
}

/* ---- pipelines and ssds of the next attempt */

static bool is_left(const struct hr_supervisor *s, uint32_t i)
{
	return !s->pipeline[i].done && !s->pipeline[i].error;
}

static bool any_left(const struct hr_supervisor *s)
{
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
		if (is_left(s, i))
			return true;
	return false;
}

/* The contents of soft:memory are lost with its controller, so all objects must be made again. */
static bool forgets(const struct hr_engine *engine)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (engine->config.ssd[d].in_memory)
			return true;
	return false;
}

/*
 * Select all pipelines except those that are done or have failed permanently, whose outcome stays
 * in the status.
 */
static void choose_runs(struct hr_supervisor *s)
{
	const bool again = forgets(s->engine);

	for (uint32_t i = 0; i < s->engine->config.pipelines; i++) {
		const struct hr_supervised *known = &s->pipeline[i];
		struct hr_run *run = &s->engine->run[i];

		run->suspect = known->suspect;
		if (known->error || (known->done && !again))
			run->selected = false;
		run->error = known->error;
		run->cause = known->cause;
		if (!run->selected)
			run->outcome = known->error ? HR_RUN_FAILED : HR_RUN_COMPLETE;
	}
}

/* True for an absent ssd until wait_s has passed. */
static bool is_awaited(struct hr_supervisor *s, uint32_t d, uint64_t now_ns)
{
	const struct hr_config_ssd *ssd = &s->engine->config.ssd[d];
	uint64_t *since = &s->absent_ns[d];

	if (!hr_transport_is_absent(ssd->device)) {
		*since = 0;
		return false;
	}
	if (!*since) {
		*since = now_ns;
		if (s->engine->config.boot.wait_s)
			hr_warn("ssd '%s': %s is absent; waiting for it for %u s", ssd->name,
				ssd->device, s->engine->config.boot.wait_s);
	}
	return now_ns - *since < s->engine->config.boot.wait_s * HR_NS_PER_S;
}

/* Leave out the pipelines that are suspended. Those that repeat are not dispatched. */
static void choose_trusted(struct hr_supervisor *s)
{
	const uint64_t now_ns = hr_now_ns();

	for (uint32_t i = 0; !s->repeat.on && i < s->engine->config.pipelines; i++)
		if (s->engine->run[i].selected && s->status.suspended_until_ns[i] > now_ns)
			hr_leave_out_run(s->engine, i);
}

static bool any_suspended(const struct hr_supervisor *s)
{
	const uint64_t now_ns = hr_now_ns();

	for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
		if (is_left(s, i) && s->status.suspended_until_ns[i] > now_ns)
			return true;
	return false;
}

/* Leave out the ssds that are absent and awaited. */
static void choose_ssds(struct hr_supervisor *s)
{
	const uint64_t now_ns = hr_now_ns();

	for (uint32_t d = 0; d < s->engine->config.ssds; d++)
		if (is_awaited(s, d, now_ns))
			hr_skip_ssd(s->engine, d);
}

/* Leave out the gpus that are absent and awaited. Asking the driver takes a second or more. */
static void choose_gpus(struct hr_supervisor *s)
{
	const struct hr_config *config = &s->engine->config;

	while (look_at_gpus(s) && !hr_signals_pending())
		hr_wait_ns(LOOK_NS / 10);
	for (uint32_t g = 0; g < config->gpus; g++)
		if (hr_gpus_awaited(&s->gpus, config) >> g & 1)
			hr_leave_out_gpu(s->engine, g);
}

/*
 * Pipelines that are done, and are selected only because the contents of soft:memory are lost, do not
 * run while all others wait for a device.
 */
static void rest_when_done(struct hr_supervisor *s)
{
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
		if (s->engine->run[i].selected && !s->pipeline[i].done)
			return;
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++) {
		if (s->engine->run[i].selected)
			s->engine->run[i].outcome = HR_RUN_COMPLETE;
		s->engine->run[i].selected = false;
	}
}

/* Initialise the appliance again, except its configuration. 0, or -errno of hr_engine_init(). */
static int choose(struct hr_supervisor *s)
{
	const int err = hr_engine_init(s->engine, NULL);

	if (err)
		return err;
	s->engine->keep_going = true;
	s->engine->collect_ns = s->engine->config.boot.collect_ns;
	choose_runs(s);
	choose_ssds(s);
	choose_gpus(s);
	choose_trusted(s);
	rest_when_done(s);
	hr_record_update(&s->status.record, s->engine);
	return 0;
}

/* Wait until all ssds of a remaining pipeline are present, or until wait_s has passed; and for the
 * end of a suspension. */
static int wait_for_any(struct hr_supervisor *s)
{
	int err = choose(s);

	if (!err && !hr_any_selected(s->engine))
		set_phase(s, any_suspended(s) ? HR_PHASE_BACKOFF : HR_PHASE_WAITING);
	while (!err && !hr_any_selected(s->engine) && !s->repeat.next && !hr_signals_pending()) {
		hr_wait_ns(LOOK_NS);
		err = choose(s);
	}
	return err;
}

/* ---- one attempt */

/* A pipeline whose source is the sink of a failed pipeline fails with it. */
static void fail_with_writer(struct hr_supervisor *s, uint32_t i)
{
	for (uint32_t j = 0; j < i; j++) {
		if (!s->pipeline[j].error ||
		    !hr_run_reads_sink(&s->engine->run[i], &s->engine->run[j]))
			continue;
		s->pipeline[i].error = s->pipeline[j].error;
		s->pipeline[i].cause = s->pipeline[j].cause;
		return;
	}
}

static void note_failure(struct hr_supervisor *s, uint32_t i)
{
	const struct hr_run *run = &s->engine->run[i];
	char text[96];

	s->pipeline[i].suspect = true;
	if (!hr_error_is_final(run->error))
		return;
	s->pipeline[i].error = run->error;
	s->pipeline[i].cause = run->cause;
	hr_error("pipeline '%s' is given up: %s, which a restart does not change",
		 run->config->name, hr_error_name(run->error, text, sizeof text));
}

/* The engine has ended, or lost a gpu, in the run of a pipeline that runs once. */
static void suspend(struct hr_supervisor *s, uint32_t i)
{
	const struct hr_config_boot *boot = &s->engine->config.boot;
	const struct hr_run *run = &s->engine->run[i];
	struct hr_supervised *known = &s->pipeline[i];
	uint64_t *deaths = &s->status.deaths[i], pause_ns;

	s->blamed = known->suspect = true;
	if (boot->heal_ns && run->started_ns && run->ended_ns - run->started_ns >= boot->heal_ns)
		*deaths = 0;
	pause_ns = hr_pause_ns(boot, ++*deaths);
	if (*deaths <= boot->restarts) {
		s->status.suspended_until_ns[i] = hr_now_ns() + pause_ns;
		hr_suspension_log(&s->engine->config, i, *deaths, pause_ns);
		return;
	}
	known->error = run->error;
	known->cause = run->cause;
	hr_error("pipeline '%s' is given up after %u restarts", run->config->name, boot->restarts);
}

/* The engine ended in its run, and has not added it to the history. */
static void remember_death(struct hr_supervisor *s, uint32_t i)
{
	const struct hr_record_run *run = &s->status.record.run[i];

	if (!s->status.record.finished && (run->blame || (run->selected && run->started_ns &&
							  run->outcome == HR_RUN_INTERRUPTED)))
		hr_remember_death(&s->child.process.page->history, &s->engine->config, i, 0, run);
}

static void note_outcomes(struct hr_supervisor *s)
{
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++) {
		const struct hr_run *run = &s->engine->run[i];

		remember_death(s, i);

		if (s->status.record.run[i].blame && run->outcome == HR_RUN_FAILED)
			suspend(s, i);
		else if (run->outcome == HR_RUN_FAILED && !s->pipeline[i].error)
			note_failure(s, i);
		else if (run->outcome == HR_RUN_WAITING)
			fail_with_writer(s, i);
		if (run->selected || run->outcome == HR_RUN_FAILED)
			s->pipeline[i].done =
				run->outcome == HR_RUN_DONE || run->outcome == HR_RUN_COMPLETE;
	}
}

static int attempt(struct hr_supervisor *s)
{
	int own[HR_CONTROL_FDS + 3] = { s->notify.fd, s->watchdog.fd, s->repeat.wake };
	const unsigned count = 3 + hr_control_descriptors(&s->control, own + 3);
	const int err = hr_child_run(&s->child, s->engine, own, count, &s->cause);

	s->status.engine_pid = 0;
	s->has_run = s->status.record.has_run;
	s->ran_ns = hr_child_ran_ns(&s->child);
	s->mute |= s->status.record.mute;
	s->blamed = false;
	if (s->repeat.on)
		hr_repeat_engine_ended(&s->repeat);
	else
		note_outcomes(s);
	s->blamed |= s->repeat.blamed != 0;
	s->repeat.blamed = 0;
	return err;
}

/* ---- attempts */

/* Exit code of the first pipeline that failed permanently. */
static int code_of_failures(struct hr_supervisor *s)
{
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
		if (s->pipeline[i].error)
			return hr_error_report(&s->pipeline[i].cause, s->pipeline[i].error);
	return HR_EXIT_DONE;
}

/* Exit code after a signal: a clean stop is a success, also when pipelines are left. */
static int code_of_stop(struct hr_supervisor *s, int err)
{
	if (hr_any_controller_stuck(s->engine) || s->child.unsafe)
		return HR_EXIT_DEVICE;
	/* a pipeline that ends the engine is suspended; that is no failure of the appliance */
	return err && err != -EINTR && !s->blamed ? hr_error_report(&s->cause, err) : HR_EXIT_DONE;
}

/* True when a pipeline is left for another reason than an awaited ssd, or a device has failed while no
 * pipeline of a schedule ran. */
static bool has_failed(const struct hr_supervisor *s, int err)
{
	if (s->repeat.on && s->has_run && err && err != -EINTR)
		return true;
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
		if (is_left(s, i) &&
		    (s->engine->run[i].selected || s->engine->run[i].outcome == HR_RUN_FAILED))
			return true;
	return false;
}

/* True when no pipeline failed and another attempt would fail in the same way. */
static bool is_hopeless(const struct hr_supervisor *s, int err)
{
	return !s->has_run && hr_any_selected(s->engine) &&
	       (s->engine->refused || hr_error_is_final(err));
}

/* Wait before the next attempt. False: no restart is left. */
static bool restart(struct hr_supervisor *s)
{
	const uint32_t restarts = s->engine->config.boot.restarts;
	uint64_t pause_ns;
	char span[32];

	if (s->child.unsafe)
		return false;
	if (!hr_restarts_account(&s->budget, s->ran_ns, &pause_ns)) {
		hr_error("given up after %u restarts", restarts);
		return false;
	}
	s->status.restarts++;
	s->status.restarts_left = restarts - s->budget.used;
	hr_warn("restart %u of %u in %s", s->budget.used, restarts,
		hr_span_format(span, sizeof span, pause_ns));
	set_phase(s, HR_PHASE_BACKOFF);
	wait_until(hr_now_ns() + pause_ns);
	return true;
}

/* ---- another configuration */

static void change_sockets(struct hr_supervisor *s)
{
	struct hr_error e = { 0 };

	if (hr_tap_sockets_change(&s->sockets, &s->engine->config, &e) != 0)
		hr_error_log(&e, HR_LOG_ERROR);
	memset(s->absent_ns, 0, sizeof s->absent_ns);
}

/* Between two engines. */
static void take_configuration(struct hr_supervisor *s)
{
	const struct hr_moment at = hr_moment_now();

	if (hr_reload_switch(&s->repeat, &at))
		change_sockets(s);
}

/* True: no engine has come up with the new configuration, and the earlier one is in force again. */
static bool revert_configuration(struct hr_supervisor *s)
{
	const struct hr_moment at = hr_moment_now();

	if (s->child.unsafe || !hr_reload_revert(&s->repeat, &s->cause, &at))
		return false;
	change_sockets(s);
	return true;
}

/* A pipeline is to blame for the end of the engine. False: the next one would not run any. */
static bool go_on(struct hr_supervisor *s)
{
	const uint32_t restarts = s->engine->config.boot.restarts;

	if (s->child.unsafe)
		return false;
	if (s->repeat.on && !hr_repeat_can_run(&s->repeat)) {
		hr_error("given up: more than %u engines in a row have ended in the runs of each "
			 "pipeline",
			 restarts);
		return false;
	}
	s->status.restarts++;
	return true;
}

int hr_supervise(struct hr_supervisor *s)
{
	int err;

	s->status.restarts_left = s->engine->config.boot.restarts;
	for (;;) {
		take_configuration(s);
		err = wait_for_any(s);
		if (err && revert_configuration(s))
			continue;
		if (err)
			return HR_EXIT_USAGE;
		if (!hr_any_selected(s->engine) && s->repeat.next && !hr_signals_pending())
			continue; /* another configuration than that which waits for its devices */
		if (!hr_signals_pending())
			err = attempt(s);
		if (hr_signals_pending())
			return code_of_stop(s, err);
		if (revert_configuration(s))
			continue;
		if (s->repeat.renew) { /* the supervisor has asked the engine to end */
			s->repeat.renew = false;
			continue;
		}
		if (!any_left(s))
			return code_of_failures(s);
		if (s->blamed ? !go_on(s)
			      : has_failed(s, err) && (is_hopeless(s, err) || !restart(s)))
			return hr_error_report(&s->cause, err);
		if (hr_signals_pending())
			return code_of_stop(s, 0);
	}
}

void hr_supervise_stay(struct hr_supervisor *s)
{
	hr_tap_sockets_close(&s->sockets); /* no engine accepts connections any more */
	set_phase(s, HR_PHASE_STAYING);
	wait_until(UINT64_MAX);
}
