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
struct engine {
	struct hr_attempt *attempt;
	struct hr_appliance *app;
	struct hr_plan plan;
	struct hr_admit admit;
	struct hr_runner runner;
	struct hr_dispatch dispatch;	       /* the newest one */
	uint64_t suspect_ns[HR_PIPELINES_MAX]; /* of a suspect: since it waits, or runs */
	hr_pipelines again; /* starts that a lost admin command has stopped are made once more */
	uint64_t looked_ns;
	uint64_t last_ns; /* end of the wait for the last dispatch; 0: the engine does not end */
	int failed;	  /* error of a device: no other start begins in this engine */
	struct hr_error cause; /* of `failed`; ends of other runs clear that of the appliance */
	bool closed;	       /* no more dispatches come */
};

static struct engine the_engine; /* one a process, and too large for a stack */

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
	err = hr_starts_write(attempt->app, &starts, &e);
	note_save(&e, err);
	if (!err)
		attempt->record.starts = starts;
}

static void load(struct hr_attempt *attempt)
{
	struct hr_error e = { 0 };
	const int err = hr_starts_read(attempt->app, &attempt->record.starts, &e);

	if (err && err != -ENOENT)
		hr_error_log(&e, HR_LOG_WARN);
}

/* ---- versions of objects */

static uint64_t version_of(const struct hr_appliance *app, const struct hr_config_when *when)
{
	const struct hr_ssd *ssd = &app->ssd[when->object_ssd];
	const struct hr_store_object *object = when->kind == HR_WHEN_OBJECT && ssd->has_store
						       ? hr_store_find(&ssd->store, when->text)
						       : NULL;

	return object ? object->id : 0;
}

static void note_versions(struct hr_attempt *attempt)
{
	const struct hr_appliance *app = attempt->app;

	for (uint32_t i = 0; i < app->config.pipelines; i++)
		attempt->record.version[i] = version_of(app, &app->config.pipeline[i].when);
}

/* ---- devices */

/* Note the first device that has failed. */
static void find_failed(struct engine *engine)
{
	const struct hr_appliance *app = engine->app;

	for (uint32_t d = 0; !engine->failed && d < app->config.ssds; d++)
		if (!app->left_out[d] && hr_health_failed(&app->ssd[d].health))
			engine->failed = hr_fail(&engine->cause, HR_ERROR_DEVICE, -EIO,
						 "ssd '%s' has failed: it needs a new engine",
						 app->config.ssd[d].name);
	for (uint32_t g = 0; !engine->failed && g < app->config.gpus; g++)
		if (app->gpu_failed[g])
			engine->failed = hr_fail(&engine->cause, HR_ERROR_DEVICE, -EIO,
						 "gpu '%s' has failed: it needs a new engine",
						 app->config.gpu[g].name);
}

static void look_at_ssds(struct engine *engine)
{
	engine->looked_ns = hr_now_ns();
	hr_mend_look(engine->app, engine->runner.running);
}

/* ---- starts */

/* Messages that each start would repeat have the level debug. */
static void log_less(const struct hr_config *config, bool less)
{
	if (hr_config_boot_log(config) == HR_LOG_INFO)
		hr_log_set_level(less ? HR_LOG_WARN : HR_LOG_INFO);
}

static void tell(struct engine *engine)
{
	hr_attempt_tell(engine->attempt, engine->runner.running ? HR_PHASE_RUNNING : HR_PHASE_IDLE);
}

/* Publish the outcome of the run, as that of the start that was dispatched last. */
static void publish_end(struct engine *engine, uint32_t i)
{
	struct hr_record_run *run = &engine->attempt->record.run[i];

	run->over = 0;
	hr_record_take(&engine->attempt->record, engine->app);
	run->number = engine->admit.request[i];
	run->over = 1;
}

/* The start of pipeline i has ended, with the outcome of its run. */
static void finish(struct engine *engine, uint32_t i)
{
	hr_tap_service_end(&engine->attempt->taps, i);
	hr_feed_service_end(&engine->attempt->feeds, i);
	hr_unseal();
	hr_attempt_report(engine->attempt, false);
	hr_attempt_remember(engine->attempt, i, engine->dispatch.starts.start[i].starts);
	hr_attempt_publish(engine->attempt); /* with its counters, which the next call ends */
	hr_plan_end(&engine->plan, i);
	publish_end(engine, i);
	note_versions(engine->attempt);
	if (engine->runner.running)
		hr_seal();
}

/* The output of the failed pipeline does not exist. */
static void drop_readers(struct engine *engine, uint32_t failed)
{
	const hr_pipelines gone = hr_admit_readers(&engine->admit, failed);

	for (uint32_t i = 0; i < engine->app->config.pipelines; i++) {
		if (!(gone >> i & 1))
			continue;
		hr_warn("pipeline '%s' does not run: it reads the sink of pipeline '%s'",
			engine->app->config.pipeline[i].name,
			engine->app->config.pipeline[failed].name);
		engine->app->run[i].outcome = HR_RUN_WAITING;
		publish_end(engine, i);
	}
	engine->admit.waiting &= ~gone;
}

/* Call this after a change of the objects or of the plan, and after a dispatch. A start that would
 * fail needs no plan. */
static void check_waiting(struct engine *engine)
{
	engine->admit.planned = engine->plan.planned;
	for (uint32_t i = 0; i < engine->app->config.pipelines; i++)
		if (engine->admit.waiting >> i & 1 && hr_plan_check(&engine->plan, i) != -EAGAIN)
			engine->admit.planned |= 1u << i;
		else
			engine->admit.planned &= ~(engine->admit.waiting & 1u << i);
}

static void end_start(struct engine *engine, uint32_t i)
{
	engine->admit.running &= ~(1u << i);
	finish(engine, i);
	if (engine->app->run[i].outcome == HR_RUN_FAILED)
		drop_readers(engine, i);
	find_failed(engine);
	check_waiting(engine);
	tell(engine);
}

/* 0: it can be launched, or need not be. -EAGAIN: it needs a new plan, and others run. */
static int prepare(struct engine *engine, uint32_t i)
{
	int err = hr_plan_start(&engine->plan, i);

	if (err != -EAGAIN || engine->admit.running)
		return err;
	hr_attempt_tell(engine->attempt, HR_PHASE_BRING_UP); /* memory can take long */
	err = hr_plan_make(&engine->plan, 1u << i);
	tell(engine);
	if (!err)
		err = hr_plan_check(&engine->plan, i) == -EAGAIN ? -ENOSPC : 0;
	if (err) {
		hr_plan_refuse(&engine->plan, i, err);
		return err;
	}
	return hr_plan_start(&engine->plan, i);
}

static void launch(struct engine *engine, uint32_t i)
{
	int err = hr_tap_service_begin(&engine->attempt->taps, i, &engine->app->error);

	if (!err)
		err = hr_feed_service_begin(&engine->attempt->feeds, i, &engine->app->error);
	if (err) {
		hr_plan_refuse(&engine->plan, i, err);
		return;
	}
	hr_runner_start(&engine->runner, i);
	tell(engine);
}

static void start_one(struct engine *engine, uint32_t i)
{
	int err;

	log_less(&engine->app->config, true);
	err = prepare(engine, i);
	log_less(&engine->app->config, false);
	if (err == -EAGAIN) {
		check_waiting(engine);
		return;
	}
	if (err && hr_mend_is_due(engine->app, i) && !(engine->again >> i & 1)) {
		engine->again |= 1u << i;
		return;
	}
	engine->again &= ~(1u << i);
	engine->attempt->record.run[i].number = engine->admit.request[i];
	engine->attempt->record.run[i].over = engine->attempt->record.run[i].reported = 0;
	engine->admit.waiting &= ~(1u << i);
	engine->admit.running |= 1u << i;
	engine->suspect_ns[i] = hr_now_ns();
	if (!err && engine->app->run[i].outcome == HR_RUN_WAITING)
		launch(engine, i);
	if (!(engine->runner.running >> i & 1))
		end_start(engine, i);
}

static void start_waiting(struct engine *engine)
{
	uint32_t i;

	for (;;) {
		engine->admit.held =
			hr_mend_ssds(engine->app, engine->runner.running, engine->admit.planned);
		find_failed(engine);
		if (engine->failed || engine->closed || hr_signals_pending())
			return;
		i = hr_admit_next(&engine->admit);
		if (i == HR_PIPELINES_MAX)
			return;
		start_one(engine, i);
	}
}

static void look_at_running(struct engine *engine)
{
	const hr_pipelines before = engine->runner.running;

	hr_runner_look(&engine->runner);
	for (uint32_t i = 0; i < engine->app->config.pipelines; i++)
		if ((before & ~engine->runner.running) >> i & 1)
			end_start(engine, i);
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

static void take(struct engine *engine)
{
	const struct hr_dispatch *dispatch = &engine->dispatch;

	save(engine->attempt, dispatch);
	if (dispatch->kind != HR_DISPATCH_RUN)
		return;
	for (uint32_t i = 0; i < engine->app->config.pipelines; i++)
		if (dispatch->pipelines >> i & 1)
			engine->admit.request[i] = dispatch->number;
	engine->admit.waiting |= (hr_pipelines)dispatch->pipelines & ~engine->admit.running;
	engine->admit.suspects &= ~(hr_pipelines)dispatch->pipelines;
	engine->admit.suspects |= (hr_pipelines)(dispatch->pipelines & dispatch->suspects);
	for (uint32_t i = 0; i < engine->app->config.pipelines; i++)
		if (dispatch->pipelines >> i & 1)
			engine->suspect_ns[i] = hr_now_ns();
	check_waiting(engine);
}

/*
 * A suspect runs alone at first. One that has waited, or run, for boot.heal is treated as any other
 * pipeline, so that neither waits without an end for the other.
 */
static void trust_suspects(struct engine *engine)
{
	const uint64_t heal_ns = engine->app->config.boot.heal_ns, now_ns = hr_now_ns();

	for (uint32_t i = 0; heal_ns && i < engine->app->config.pipelines; i++)
		if (engine->admit.suspects >> i & 1 && now_ns - engine->suspect_ns[i] >= heal_ns)
			engine->admit.suspects &= ~(1u << i);
}

static void take_dispatches(struct engine *engine)
{
	int err;

	while ((err = receive(engine->attempt, &engine->dispatch)) == 0)
		take(engine);
	engine->closed = err == -EPIPE;
}

/*
 * True when a start has ended, and the newest dispatch still has it as running: the end is durable
 * only after the next dispatch, so an engine that ends now would lose it.
 */
static bool end_is_pending(const struct engine *engine)
{
	for (uint32_t i = 0; i < engine->app->config.pipelines; i++)
		if (engine->dispatch.starts.start[i].outcome == HR_START_RUNNING &&
		    !((engine->admit.waiting | engine->admit.running) >> i & 1))
			return true;
	return false;
}

/* Nothing runs, and the engine ends. True: not yet, because the last dispatch has not come. */
static bool awaits_dispatch(struct engine *engine)
{
	const uint64_t now_ns = hr_now_ns();

	engine->last_ns = engine->last_ns ? engine->last_ns : now_ns + LAST_DISPATCH_NS;
	if (engine->closed || !end_is_pending(engine) || now_ns >= engine->last_ns)
		return false;
	hr_wait_readable(engine->attempt->dispatch, LAST_LOOK_NS);
	hr_tick();
	return true;
}

/* A signal: drop the waiting starts. */
static void interrupt(struct engine *engine)
{
	if (!engine->admit.waiting)
		return;
	for (uint32_t i = 0; i < engine->app->config.pipelines; i++) {
		if (!(engine->admit.waiting >> i & 1))
			continue;
		engine->app->run[i].outcome = HR_RUN_INTERRUPTED;
		publish_end(engine, i);
	}
	engine->admit.waiting = 0;
	tell(engine);
}

/* Controllers of software need no CPU time while nothing sends commands. */
static void rest_ssds(const struct hr_appliance *app, bool resting)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (!app->left_out[d] && app->ssd[d].ctrl)
			hr_transport_rest(app->ssd[d].ctrl->transport, resting);
}

/* Nothing runs: sleep until a dispatch comes, the service has work, or the engine must publish
 * again. */
static void serve_clients(struct engine *engine)
{
	struct hr_store_service *service = &engine->attempt->service;
	uint64_t pause_ns;

	hr_store_service_step(service);
	hr_tap_service_step(&engine->attempt->taps);
	pause_ns = hr_store_service_pause_ns(service);
	if (!pause_ns)
		return;
	/* a shorter pause: commands are in flight, or follow soon */
	rest_ssds(engine->app, pause_ns >= IDLE_NS);
	hr_wait_readable(service->wake >= 0 ? service->wake : engine->attempt->dispatch,
			 pause_ns < IDLE_NS ? pause_ns : IDLE_NS);
	rest_ssds(engine->app, false);
}

/* A put has made a version: the supervisor is woken, because a pipeline may be due. */
static void note_put(void *to)
{
	struct engine *engine = to;

	note_versions(engine->attempt);
	check_waiting(engine);
	tell(engine);
}

static int serve(struct engine *engine)
{
	for (;;) {
		take_dispatches(engine);
		trust_suspects(engine);
		start_waiting(engine);
		if (hr_signals_pending())
			interrupt(engine);
		if (!engine->runner.running &&
		    (engine->failed || engine->closed || hr_signals_pending())) {
			if (awaits_dispatch(engine))
				continue;
			break;
		}
		if (engine->runner.running)
			look_at_running(engine); /* which serves clients, too */
		else
			serve_clients(engine);
		hr_tick();
		if (hr_now_ns() - engine->looked_ns >= LOOK_NS)
			look_at_ssds(engine);
		find_failed(engine);
	}
	if (engine->failed)
		engine->app->error = engine->cause;
	return engine->failed;
}

static void note_usable(struct hr_attempt *attempt)
{
	const struct hr_appliance *app = attempt->app;

	for (uint32_t i = 0; i < app->config.pipelines; i++)
		attempt->record.usable |= (uint64_t)app->run[i].selected << i;
}

static void open_floor(struct engine *engine, struct hr_attempt *attempt)
{
	engine->attempt = attempt;
	attempt->app->resolves_late = true;
	engine->app = engine->plan.app = engine->runner.app = attempt->app;
	engine->admit.config = &attempt->app->config;
	engine->plan.usable = (hr_pipelines)attempt->record.usable;
	/* the pipelines that can be planned now start without a new plan */
	log_less(&engine->app->config, true);
	hr_plan_make(&engine->plan, 0);
	log_less(&engine->app->config, false);
	engine->admit.planned = engine->plan.planned;
}

int hr_dispatch_serve(struct hr_attempt *attempt)
{
	struct hr_appliance *app = attempt->app;
	uint64_t began;
	int err;

	hr_attempt_tell(attempt, HR_PHASE_BRING_UP);
	err = hr_appliance_up(app, HR_STAGE_STORES);
	if (err)
		return err;
	attempt->record.has_run = true;
	hr_mend_read_health(app);
	load(attempt);
	hr_attempt_load_history(attempt);
	note_usable(attempt);
	note_versions(attempt);
	open_floor(&the_engine, attempt);
	hr_wait_precisely();
	attempt->record.ready = true;
	hr_attempt_tell(attempt, HR_PHASE_IDLE);
	began = hr_now_ns();
	err = hr_attempt_open_services(attempt, note_put, &the_engine);
	if (!err)
		err = serve(&the_engine);
	hr_attempt_close_services(attempt);
	attempt->record.ran_ns = hr_now_ns() - began;
	hr_attempt_tell(attempt, HR_PHASE_GOING_DOWN);
	hr_mend_disable(app);
	hr_appliance_down(app);
	return err;
}
