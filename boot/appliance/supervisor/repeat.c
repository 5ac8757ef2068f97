/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/supervisor/repeat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "boot/appliance/attempt/remember.h"
#include "boot/appliance/attempt/dispatch.h"
#include "boot/engine/devices/devices.h"
#include "config/base/process.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "config/base/tick.h"
#include "boot/engine/runner/health_action.h"
#include "config/derived.h"

/* Longest sleep: the wall clock may jump, and the watchdog is fed. */
#define SLEEP_MAX_NS HR_NS_PER_S

/* ---- sleeping */

static uint64_t sleep_ns(struct hr_repeat *r)
{
	const struct hr_moment at = hr_moment_now();
	uint64_t next_ns;

	if (!r->begun || !r->greeted)
		return SLEEP_MAX_NS;
	next_ns = hr_timetable_next_ns(&r->timetable, &at);
	return next_ns - at.now_ns < SLEEP_MAX_NS ? next_ns - at.now_ns : SLEEP_MAX_NS;
}

static void rest(void *to)
{
	struct hr_repeat *r = to;

	hr_wait_readable(r->wake, sleep_ns(r));
	hr_tick_at_once();
}

int hr_repeat_open(struct hr_repeat *r, struct hr_child *child, struct hr_engine *engine)
{
	*r = (struct hr_repeat){ .wake = -1,
				 .child = child,
				 .engine = engine,
				 .on = hr_config_repeats(&engine->config) };
	if (!r->on)
		return 0;
	r->wake = epoll_create1(EPOLL_CLOEXEC);
	if (r->wake < 0)
		return -errno;
	child->wake = r->wake;
	child->rest = rest;
	child->rest_to = r;
	return 0;
}

void hr_repeat_wake_by(const struct hr_repeat *r, int fd)
{
	if (r->wake >= 0 && fd >= 0)
		epoll_ctl(r->wake, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN });
}

void hr_repeat_close(struct hr_repeat *r)
{
	if (r->wake >= 0)
		close(r->wake);
	hr_reload_close(r);
	r->wake = -1;
	r->on = false;
}

/* ---- progress of the engine */

static void note_end(struct hr_repeat *r, uint32_t i, int err, const struct hr_moment *at)
{
	const uint64_t number = r->timetable.starts.start[i].starts;

	r->result[i][number % HR_REPEAT_RESULTS] = err;
	hr_timetable_ended(&r->timetable, i, err, at);
}

static int error_of(const struct hr_record_run *run, int not_begun)
{
	switch ((enum hr_outcome)run->outcome) {
	case HR_RUN_DONE:
	case HR_RUN_COMPLETE:
		return 0;
	case HR_RUN_INTERRUPTED:
		return -EINTR;
	case HR_RUN_FAILED:
		return run->error.code ? (int)run->error.code : -EIO;
	case HR_RUN_WAITING:
		break;
	}
	return not_begun;
}

/* The engine has begun the start that was dispatched last. */
static bool has_begun(const struct hr_repeat *r, uint32_t i)
{
	return r->child->record->run[i].number == r->number[i];
}

/* The run has ended its engine, or lost it a gpu. */
static void suspend(struct hr_repeat *r, uint32_t i, const struct hr_moment *at)
{
	const struct hr_record_run *run = &r->child->record->run[i];
	const bool started = run->started_ns && run->started_ns < at->now_ns;
	const struct hr_suspension *suspension = &r->timetable.starts.suspension[i];

	hr_timetable_died(&r->timetable, i, started ? at->now_ns - run->started_ns : 0, at);
	r->blamed |= 1u << i;
	hr_suspension_log(&r->engine->config, i, suspension->deaths,
			  hr_timetable_suspended_ns(&r->timetable, i, at));
}

static void end_start(struct hr_repeat *r, uint32_t i, int err, const struct hr_moment *at)
{
	r->running &= ~(1u << i);
	note_end(r, i, err, at);
	if (err && err != -EINTR && has_begun(r, i) && r->child->record->run[i].blame)
		suspend(r, i, at);
}

/* A pipeline that has not begun, because one that it reads from has failed, pauses. */
static void take_ends(struct hr_repeat *r, const struct hr_moment *at)
{
	for (uint32_t i = 0; i < r->engine->config.pipelines; i++) {
		const struct hr_record_run *run = &r->child->record->run[i];

		if (r->running >> i & 1 && has_begun(r, i) && run->over)
			end_start(r, i, error_of(run, -EAGAIN), at);
	}
}

/* Called once for each engine, when the engine takes dispatches. */
static void greet(struct hr_repeat *r, const struct hr_moment *at)
{
	const struct hr_record *record = r->child->record;

	r->greeted = true;
	hr_reload_settle(r);
	if (!r->begun)
		hr_timetable_begin(&r->timetable, &r->engine->config,
				   record->starts.sequence ? &record->starts : NULL, at);
	r->begun = true;
}

static void take_versions(struct hr_repeat *r, const struct hr_moment *at)
{
	for (uint32_t i = 0; i < r->engine->config.pipelines; i++)
		hr_timetable_object(&r->timetable, i, r->child->record->version[i], at);
}

/* ---- dispatches to the engine */

static bool is_absent(const struct hr_repeat *r, uint32_t i)
{
	for (uint32_t g = 0; g < r->engine->config.gpus; g++)
		if (r->absent_gpus >> g & 1 &&
		    hr_config_uses_gpu(&r->engine->config.pipeline[i], g))
			return true;
	for (uint32_t d = 0; d < r->engine->config.ssds; d++)
		if (hr_config_uses_ssd(&r->engine->config.pipeline[i], d) &&
		    hr_transport_is_absent(r->engine->config.ssd[d].device))
			return true;
	return false;
}

/*
 * A pipeline is due that this engine cannot run. The first time the pipeline fails with the error
 * of bring-up. After the pause, and when the absent ssd is present again, a new engine is needed.
 */
static void cannot_start(struct hr_repeat *r, uint32_t i, const struct hr_moment *at)
{
	const struct hr_record_run *run = &r->child->record->run[i];

	if (!(r->refused >> i & 1) && run->outcome == HR_RUN_FAILED) {
		r->refused |= 1u << i;
		hr_timetable_started(&r->timetable, 1u << i, at);
		note_end(r, i, error_of(run, -EIO), at);
	} else if (!is_absent(r, i)) {
		hr_info("pipeline '%s' is due, and its ssd or gpu is not up: a new engine brings it up",
			r->engine->config.pipeline[i].name);
		r->renew = true;
	}
}

/* The first ssd of the pipeline with a warning that holds its starts, or -1. */
static int holder(const struct hr_repeat *r, uint32_t i, uint32_t *which)
{
	const struct hr_config *config = &r->engine->config;

	for (uint32_t d = 0; d < config->ssds; d++)
		if (hr_config_uses_ssd(&config->pipeline[i], d) &&
		    hr_warning_action(&config->health, &r->child->record->ssd[d].smart, which) !=
			    HR_WARNING_LOG)
			return (int)d;
	return -1;
}

/* Pipelines that do not start while a warning of an ssd lasts: they stay due. */
static hr_pipeline_set held(struct hr_repeat *r)
{
	const struct hr_config *config = &r->engine->config;
	hr_pipeline_set set = 0;

	for (uint32_t i = 0; i < config->pipelines; i++) {
		uint32_t which = 0;
		const int d = holder(r, i, &which);

		set |= (uint32_t)(d >= 0) << i;
		if (d >= 0 && !(r->held >> i & 1))
			hr_warn("pipeline '%s' does not start: ssd '%s' has a critical warning, "
				"and health.%s is \"%s\"",
				config->pipeline[i].name, config->ssd[d].name,
				hr_smart_warning(which),
				config->health.action[which] == HR_WARNING_STOP ? "stop" : "pause");
		else if (d < 0 && r->held >> i & 1)
			hr_info("pipeline '%s' may start again: its ssds have no such warning",
				config->pipeline[i].name);
	}
	r->held = set;
	return set;
}

static uint64_t newest_run(const struct hr_repeat *r, uint32_t i)
{
	static struct hr_past_run run; /* a page, too large for a stack */
	const struct hr_record_page *page = r->child->process.page;

	return page && hr_history_newest(&page->history, r->engine->config.pipeline[i].name,
					 UINT64_MAX, &run)
		       ? run.sequence
		       : 0;
}

static hr_pipeline_set suspects(const struct hr_repeat *r)
{
	hr_pipeline_set set = 0;

	for (uint32_t i = 0; i < r->engine->config.pipelines; i++)
		set |= (uint32_t)(r->timetable.starts.suspension[i].deaths != 0) << i;
	return set;
}

/* A dispatch that cannot be sent is tried again in a second. */
static void dispatch(struct hr_repeat *r, hr_pipeline_set due, const struct hr_moment *at)
{
	static struct hr_dispatch dispatch; /* one a process */
	static struct hr_timetable before;

	if (!due && !r->timetable.changed)
		return;
	before = r->timetable;
	dispatch.suspects = suspects(r);
	hr_timetable_started(&r->timetable, due, at);
	dispatch.kind = due ? HR_DISPATCH_RUN : HR_DISPATCH_SAVE;
	dispatch.number = r->dispatches + 1;
	dispatch.pipelines = due;
	dispatch.starts = r->timetable.starts;
	for (uint32_t i = 0; i < r->engine->config.pipelines; i++)
		if (due >> i & 1)
			r->before[i] = newest_run(r, i);
	if (hr_process_dispatch(&r->child->process, &dispatch, sizeof dispatch) != 0) {
		r->timetable = before;
		return;
	}
	r->timetable.changed = false;
	r->running |= due;
	r->dispatches += due != 0;
	for (uint32_t i = 0; i < r->engine->config.pipelines; i++)
		if (due >> i & 1)
			r->number[i] = r->dispatches;
}

static void start_due(struct hr_repeat *r, const struct hr_moment *at)
{
	const uint64_t usable = r->child->record->usable;
	const bool stops = hr_signals_pending() || r->renew;
	hr_pipeline_set due = stops ? 0 : hr_timetable_due(&r->timetable, at);

	for (uint32_t i = 0; i < r->engine->config.pipelines; i++)
		if (due >> i & 1 && !(usable >> i & 1))
			cannot_start(r, i, at);
	due &= (hr_pipeline_set)usable & ~held(r);
	dispatch(r, r->renew ? 0 : due, at);
	if (r->renew && !r->running) /* pipelines that run end first */
		hr_child_stop(r->child, at->now_ns);
}

static bool takes_dispatches(const struct hr_repeat *r)
{
	return r->child->record->ready && r->child->process.pid != 0;
}

void hr_repeat_meet(struct hr_repeat *r)
{
	const struct hr_moment at = hr_moment_now();

	if (r->on && !r->greeted && takes_dispatches(r))
		greet(r, &at);
}

void hr_repeat_poll(struct hr_repeat *r)
{
	const struct hr_moment at = hr_moment_now();

	if (!r->on)
		return;
	hr_reload_poll(r, &at);
	if (!takes_dispatches(r))
		return;
	hr_repeat_meet(r);
	take_ends(r, &at);
	take_versions(r, &at);
	start_due(r, &at);
}

/* A pipeline that had not begun when the engine died has not failed: the next engine starts it. */
void hr_repeat_engine_ended(struct hr_repeat *r)
{
	const struct hr_moment at = hr_moment_now();

	for (uint32_t i = 0; r->begun && i < r->engine->config.pipelines; i++) {
		if (r->running >> i & 1 && has_begun(r, i) && !r->child->record->finished &&
		    newest_run(r, i) == r->before[i]) /* the engine has not added the run */
			hr_remember_death(&r->child->process.page->history, &r->engine->config, i,
					  r->timetable.starts.start[i].starts,
					  &r->child->record->run[i]);
		if (r->running >> i & 1)
			end_start(r, i,
				  has_begun(r, i) ? error_of(&r->child->record->run[i], -EINTR)
						  : -EINTR,
				  &at);
	}
	r->greeted = false;
	r->refused = 0;
}

bool hr_repeat_can_run(const struct hr_repeat *r)
{
	for (uint32_t i = 0; i < r->engine->config.pipelines; i++)
		if (!r->timetable.timed[i].over &&
		    r->timetable.starts.suspension[i].deaths <= r->engine->config.boot.restarts)
			return true;
	return !r->begun;
}
