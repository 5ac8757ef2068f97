/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/attempt/dispatch.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "boot/appliance/attempt/mend.h"
#include "boot/appliance/attempt/admission.h"
#include "boot/appliance/attempt/provision.h"
#include "boot/engine/exclude.h"
#include "boot/engine/runner/runner.h"
#include "config/derived.h"
#include "config/base/process.h"
#include "boot/appliance/schedule/starts.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "config/base/tick.h"

/* An idle engine publishes this often, to show that it lives. */
#define IDLE_NS HR_NS_PER_S
/* Before the engine ends: time for the dispatches that make the last ends durable. */
#define LAST_DISPATCH_NS (10 * HR_NS_PER_S)
#define LAST_LOOK_NS (10 * HR_NS_PER_MS)
/* Between two looks at ssds that no running pipeline uses. */
#define LOOK_NS HR_NS_PER_S

/* The starts of one engine. */
struct dispatcher {
	struct hr_attempt *attempt;
	struct hr_engine *engine;
	struct hr_provision plan;
	struct hr_admission admit;
	struct hr_runner runner;
	struct hr_dispatch dispatch;	       /* the newest one */
	uint64_t suspect_ns[HR_PIPELINES_MAX]; /* of a suspect: since it waits, or runs */
	hr_pipeline_set again; /* starts that a lost admin command has stopped are made once more */
	uint64_t looked_ns;
	uint64_t last_ns; /* end of the wait for the last dispatch; 0: the engine does not end */
	int failed;	  /* error of a device: no other start begins in this engine */
	struct hr_error cause; /* of `failed`; ends of other runs clear that of the appliance */
	bool closed;	       /* no more dispatches come */
};

static struct dispatcher the_dispatcher; /* one a process, and too large for a stack */

/* ---- durable state */

/* Log an error once: not when the previous attempt had the same error. */
static void note_save(struct hr_error *e, int err)
{
	static int last;

	if (err && err != last) {
		hr_error_context(e, "the starts of pipelines are not durable");
		hr_error_log(e, HR_LOG_WARN);
	}
	last = err;
}

static void save(struct hr_attempt *attempt, const struct hr_dispatch *dispatch)
{
	struct hr_starts starts = dispatch->starts;
	struct hr_error e = { 0 };
	int err;

	/* the next write must not overwrite the newest page */
	starts.sequence = attempt->record.starts.sequence;
	err = hr_starts_write(attempt->engine, &starts, &e);
	note_save(&e, err);
	if (!err)
		attempt->record.starts = starts;
}

static void load_starts(struct hr_attempt *attempt)
{
	struct hr_error e = { 0 };
	const int err = hr_starts_read(attempt->engine, &attempt->record.starts, &e);

	if (err && err != -ENOENT)
		hr_error_log(&e, HR_LOG_WARN);
}

/* ---- versions of objects */

static uint64_t version_of(const struct hr_engine *engine, const struct hr_config_when *when)
{
	const struct hr_ssd *ssd = &engine->ssd[when->object_ssd];
	const struct hr_store_object *object = when->kind == HR_WHEN_OBJECT && ssd->has_store
						       ? hr_store_find(&ssd->store, when->text)
						       : NULL;

	return object ? object->id : 0;
}

static void note_versions(struct hr_attempt *attempt)
{
	const struct hr_engine *engine = attempt->engine;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		attempt->record.version[i] = version_of(engine, &engine->config.pipeline[i].when);
}

/* ---- devices */

/* Note the first device that has failed. */
static void find_failed(struct dispatcher *dispatcher)
{
	const struct hr_engine *engine = dispatcher->engine;

	for (uint32_t d = 0; !dispatcher->failed && d < engine->config.ssds; d++)
		if (!engine->left_out[d] && hr_health_failed(&engine->ssd[d].health))
			dispatcher->failed = hr_fail(&dispatcher->cause, HR_ERROR_DEVICE, -EIO,
						     "ssd '%s' has failed: it needs a new engine",
						     engine->config.ssd[d].name);
	for (uint32_t g = 0; !dispatcher->failed && g < engine->config.gpus; g++)
		if (engine->gpu_failed[g])
			dispatcher->failed = hr_fail(&dispatcher->cause, HR_ERROR_DEVICE, -EIO,
						     "gpu '%s' has failed: it needs a new engine",
						     engine->config.gpu[g].name);
}

static void poll_ssds(struct dispatcher *dispatcher)
{
	dispatcher->looked_ns = hr_now_ns();
	hr_mend_look(dispatcher->engine, dispatcher->runner.running);
}

/* ---- starts */

/* Messages that each start would repeat have the level debug. */
static void log_less(const struct hr_config *config, bool less)
{
	if (hr_config_boot_log(config) == HR_LOG_INFO)
		hr_log_set_level(less ? HR_LOG_WARN : HR_LOG_INFO);
}

static void report_phase(struct dispatcher *dispatcher)
{
	hr_attempt_tell(dispatcher->attempt,
			dispatcher->runner.running ? HR_PHASE_RUNNING : HR_PHASE_IDLE);
}

/* Publish the outcome of the run, as that of the start that was dispatched last. */
static void publish_end(struct dispatcher *dispatcher, uint32_t i)
{
	struct hr_record_run *run = &dispatcher->attempt->record.run[i];

	run->over = 0;
	hr_record_update(&dispatcher->attempt->record, dispatcher->engine);
	run->number = dispatcher->admit.request[i];
	run->over = 1;
}

/* The start of pipeline i has ended, with the outcome of its run. */
static void finish_start(struct dispatcher *dispatcher, uint32_t i)
{
	hr_lend_service_end(&dispatcher->attempt->lend, i);
	hr_unseal();
	hr_attempt_report(dispatcher->attempt, false);
	hr_attempt_remember(dispatcher->attempt, i, dispatcher->dispatch.starts.start[i].starts);
	hr_attempt_publish(dispatcher->attempt); /* with its counters, which the next call ends */
	hr_provision_end(&dispatcher->plan, i);
	publish_end(dispatcher, i);
	note_versions(dispatcher->attempt);
	if (dispatcher->runner.running)
		hr_seal();
}

/* The output of the failed pipeline does not exist. */
static void drop_readers(struct dispatcher *dispatcher, uint32_t failed)
{
	const hr_pipeline_set gone = hr_admission_readers(&dispatcher->admit, failed);

	for (uint32_t i = 0; i < dispatcher->engine->config.pipelines; i++) {
		if (!(gone >> i & 1))
			continue;
		hr_warn("pipeline '%s' does not run: it reads the sink of pipeline '%s'",
			dispatcher->engine->config.pipeline[i].name,
			dispatcher->engine->config.pipeline[failed].name);
		dispatcher->engine->run[i].outcome = HR_RUN_WAITING;
		publish_end(dispatcher, i);
	}
	dispatcher->admit.waiting &= ~gone;
}

/* Call this after a change of the objects or of the plan, and after a dispatch. A start that would
 * fail needs no plan. */
static void check_waiting(struct dispatcher *dispatcher)
{
	dispatcher->admit.planned = dispatcher->plan.planned;
	for (uint32_t i = 0; i < dispatcher->engine->config.pipelines; i++)
		if (dispatcher->admit.waiting >> i & 1 &&
		    hr_provision_check(&dispatcher->plan, i) != -EAGAIN)
			dispatcher->admit.planned |= 1u << i;
		else
			dispatcher->admit.planned &= ~(dispatcher->admit.waiting & 1u << i);
}

static void end_start(struct dispatcher *dispatcher, uint32_t i)
{
	dispatcher->admit.running &= ~(1u << i);
	finish_start(dispatcher, i);
	if (dispatcher->engine->run[i].outcome == HR_RUN_FAILED)
		drop_readers(dispatcher, i);
	find_failed(dispatcher);
	check_waiting(dispatcher);
	report_phase(dispatcher);
}

/* 0: it can be launched, or need not be. -EAGAIN: it needs a new plan, and others run. */
static int prepare_start(struct dispatcher *dispatcher, uint32_t i)
{
	int err = hr_provision_start(&dispatcher->plan, i);

	if (err != -EAGAIN || dispatcher->admit.running)
		return err;
	hr_attempt_tell(dispatcher->attempt, HR_PHASE_BRING_UP); /* memory can take long */
	err = hr_provision_make(&dispatcher->plan, 1u << i);
	report_phase(dispatcher);
	if (!err)
		err = hr_provision_check(&dispatcher->plan, i) == -EAGAIN ? -ENOSPC : 0;
	if (err) {
		hr_provision_refuse(&dispatcher->plan, i, err);
		return err;
	}
	return hr_provision_start(&dispatcher->plan, i);
}

static void launch(struct dispatcher *dispatcher, uint32_t i)
{
	const int err =
		hr_lend_service_begin(&dispatcher->attempt->lend, i, &dispatcher->engine->error);

	if (err) {
		hr_provision_refuse(&dispatcher->plan, i, err);
		return;
	}
	hr_runner_start(&dispatcher->runner, i);
	report_phase(dispatcher);
}

static void start_one(struct dispatcher *dispatcher, uint32_t i)
{
	int err;

	log_less(&dispatcher->engine->config, true);
	err = prepare_start(dispatcher, i);
	log_less(&dispatcher->engine->config, false);
	if (err == -EAGAIN) {
		check_waiting(dispatcher);
		return;
	}
	if (err && hr_mend_is_due(dispatcher->engine, i) && !(dispatcher->again >> i & 1)) {
		dispatcher->again |= 1u << i;
		return;
	}
	dispatcher->again &= ~(1u << i);
	dispatcher->attempt->record.run[i].number = dispatcher->admit.request[i];
	dispatcher->attempt->record.run[i].over = dispatcher->attempt->record.run[i].reported = 0;
	dispatcher->admit.waiting &= ~(1u << i);
	dispatcher->admit.running |= 1u << i;
	dispatcher->suspect_ns[i] = hr_now_ns();
	if (!err && dispatcher->engine->run[i].outcome == HR_RUN_WAITING)
		launch(dispatcher, i);
	if (!(dispatcher->runner.running >> i & 1))
		end_start(dispatcher, i);
}

static void start_waiting(struct dispatcher *dispatcher)
{
	uint32_t i;

	for (;;) {
		dispatcher->admit.held = hr_mend_ssds(
			dispatcher->engine, dispatcher->runner.running, dispatcher->admit.planned);
		find_failed(dispatcher);
		if (dispatcher->failed || dispatcher->closed || hr_signals_pending())
			return;
		i = hr_admission_next(&dispatcher->admit);
		if (i == HR_PIPELINES_MAX)
			return;
		start_one(dispatcher, i);
	}
}

static void poll_running(struct dispatcher *dispatcher)
{
	const hr_pipeline_set before = dispatcher->runner.running;

	hr_runner_poll(&dispatcher->runner);
	for (uint32_t i = 0; i < dispatcher->engine->config.pipelines; i++)
		if ((before & ~dispatcher->runner.running) >> i & 1)
			end_start(dispatcher, i);
}

/* ---- dispatches */

/* 0; -EAGAIN: none now; -EPIPE: no more dispatches come. */
static int receive(const struct hr_attempt *attempt, struct hr_dispatch *dispatch)
{
	const ssize_t n = recv(attempt->dispatch, dispatch, sizeof *dispatch, 0);

	if (n == (ssize_t)sizeof *dispatch)
		return 0;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? -EAGAIN : -EPIPE;
}

static void apply_dispatch(struct dispatcher *dispatcher)
{
	const struct hr_dispatch *dispatch = &dispatcher->dispatch;

	save(dispatcher->attempt, dispatch);
	if (dispatch->kind != HR_DISPATCH_RUN)
		return;
	for (uint32_t i = 0; i < dispatcher->engine->config.pipelines; i++)
		if (dispatch->pipelines >> i & 1)
			dispatcher->admit.request[i] = dispatch->number;
	dispatcher->admit.waiting |=
		(hr_pipeline_set)dispatch->pipelines & ~dispatcher->admit.running;
	dispatcher->admit.suspects &= ~(hr_pipeline_set)dispatch->pipelines;
	dispatcher->admit.suspects |= (hr_pipeline_set)(dispatch->pipelines & dispatch->suspects);
	for (uint32_t i = 0; i < dispatcher->engine->config.pipelines; i++)
		if (dispatch->pipelines >> i & 1)
			dispatcher->suspect_ns[i] = hr_now_ns();
	check_waiting(dispatcher);
}

/*
 * A suspect runs alone at first. One that has waited, or run, for boot.heal is treated as any other
 * pipeline, so that neither waits without an end for the other.
 */
static void trust_suspects(struct dispatcher *dispatcher)
{
	const uint64_t heal_ns = dispatcher->engine->config.boot.heal_ns, now_ns = hr_now_ns();

	for (uint32_t i = 0; heal_ns && i < dispatcher->engine->config.pipelines; i++)
		if (dispatcher->admit.suspects >> i & 1 &&
		    now_ns - dispatcher->suspect_ns[i] >= heal_ns)
			dispatcher->admit.suspects &= ~(1u << i);
}

static void receive_dispatches(struct dispatcher *dispatcher)
{
	int err;

	while ((err = receive(dispatcher->attempt, &dispatcher->dispatch)) == 0)
		apply_dispatch(dispatcher);
	dispatcher->closed = err == -EPIPE;
}

/*
 * True when a start has ended, and the newest dispatch still has it as running: the end is durable
 * only after the next dispatch, so an engine that ends now would lose it.
 */
static bool end_is_pending(const struct dispatcher *dispatcher)
{
	for (uint32_t i = 0; i < dispatcher->engine->config.pipelines; i++)
		if (dispatcher->dispatch.starts.start[i].outcome == HR_START_RUNNING &&
		    !((dispatcher->admit.waiting | dispatcher->admit.running) >> i & 1))
			return true;
	return false;
}

/* Nothing runs, and the engine ends. True: not yet, because the last dispatch has not come. */
static bool awaits_dispatch(struct dispatcher *dispatcher)
{
	const uint64_t now_ns = hr_now_ns();

	dispatcher->last_ns = dispatcher->last_ns ? dispatcher->last_ns : now_ns + LAST_DISPATCH_NS;
	if (dispatcher->closed || !end_is_pending(dispatcher) || now_ns >= dispatcher->last_ns)
		return false;
	hr_wait_readable(dispatcher->attempt->dispatch, LAST_LOOK_NS);
	hr_tick();
	return true;
}

/* A signal: drop the waiting starts. */
static void interrupt(struct dispatcher *dispatcher)
{
	if (!dispatcher->admit.waiting)
		return;
	for (uint32_t i = 0; i < dispatcher->engine->config.pipelines; i++) {
		if (!(dispatcher->admit.waiting >> i & 1))
			continue;
		dispatcher->engine->run[i].outcome = HR_RUN_INTERRUPTED;
		publish_end(dispatcher, i);
	}
	dispatcher->admit.waiting = 0;
	report_phase(dispatcher);
}

/* Controllers of software need no CPU time while nothing sends commands. */
static void rest_ssds(const struct hr_engine *engine, bool resting)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (!engine->left_out[d] && engine->ssd[d].ctrl)
			hr_transport_set_idle(engine->ssd[d].ctrl->transport, resting);
}

/* Nothing runs: sleep until a dispatch comes, the service has work, or the engine must publish
 * again. */
static void serve_clients(struct dispatcher *dispatcher)
{
	struct hr_store_service *service = &dispatcher->attempt->service;
	uint64_t pause_ns;

	hr_store_service_step(service);
	hr_lend_service_step(&dispatcher->attempt->lend);
	pause_ns = hr_store_service_pause_ns(service);
	if (!pause_ns)
		return;
	/* a shorter pause: commands are in flight, or follow soon */
	rest_ssds(dispatcher->engine, pause_ns >= IDLE_NS);
	hr_wait_readable(service->wake >= 0 ? service->wake : dispatcher->attempt->dispatch,
			 pause_ns < IDLE_NS ? pause_ns : IDLE_NS);
	rest_ssds(dispatcher->engine, false);
}

/* A put has made a version: the supervisor is woken, because a pipeline may be due. */
static void note_put(void *to)
{
	struct dispatcher *dispatcher = to;

	note_versions(dispatcher->attempt);
	check_waiting(dispatcher);
	report_phase(dispatcher);
}

static int serve_dispatches(struct dispatcher *dispatcher)
{
	for (;;) {
		receive_dispatches(dispatcher);
		trust_suspects(dispatcher);
		start_waiting(dispatcher);
		if (hr_signals_pending())
			interrupt(dispatcher);
		if (!dispatcher->runner.running &&
		    (dispatcher->failed || dispatcher->closed || hr_signals_pending())) {
			if (awaits_dispatch(dispatcher))
				continue;
			break;
		}
		if (dispatcher->runner.running)
			poll_running(dispatcher); /* which serves clients, too */
		else
			serve_clients(dispatcher);
		hr_tick();
		if (hr_now_ns() - dispatcher->looked_ns >= LOOK_NS)
			poll_ssds(dispatcher);
		find_failed(dispatcher);
	}
	if (dispatcher->failed)
		dispatcher->engine->error = dispatcher->cause;
	return dispatcher->failed;
}

static void note_usable(struct hr_attempt *attempt)
{
	const struct hr_engine *engine = attempt->engine;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		attempt->record.usable |= (uint64_t)engine->run[i].selected << i;
}

static void open_floor(struct dispatcher *dispatcher, struct hr_attempt *attempt)
{
	dispatcher->attempt = attempt;
	attempt->engine->resolves_late = true;
	dispatcher->engine = dispatcher->plan.engine = dispatcher->runner.engine = attempt->engine;
	dispatcher->admit.config = &attempt->engine->config;
	dispatcher->plan.usable = (hr_pipeline_set)attempt->record.usable;
	/* the pipelines that can be planned now start without a new plan */
	log_less(&dispatcher->engine->config, true);
	hr_provision_make(&dispatcher->plan, 0);
	log_less(&dispatcher->engine->config, false);
	dispatcher->admit.planned = dispatcher->plan.planned;
}

int hr_dispatch_serve(struct hr_attempt *attempt)
{
	struct hr_engine *engine = attempt->engine;
	uint64_t began;
	int err;

	hr_attempt_tell(attempt, HR_PHASE_BRING_UP);
	err = hr_engine_up(engine, HR_STAGE_STORES);
	if (err)
		return err;
	attempt->record.has_run = true;
	hr_mend_read_health(engine);
	load_starts(attempt);
	hr_attempt_load_history(attempt);
	note_usable(attempt);
	note_versions(attempt);
	open_floor(&the_dispatcher, attempt);
	hr_wait_precisely();
	attempt->record.ready = true;
	hr_attempt_tell(attempt, HR_PHASE_IDLE);
	began = hr_now_ns();
	err = hr_attempt_open_services(attempt, note_put, &the_dispatcher);
	if (!err)
		err = serve_dispatches(&the_dispatcher);
	hr_attempt_close_services(attempt);
	attempt->record.ran_ns = hr_now_ns() - began;
	hr_attempt_tell(attempt, HR_PHASE_GOING_DOWN);
	hr_mend_disable(engine);
	hr_engine_down(engine);
	return err;
}
