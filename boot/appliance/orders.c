#include "boot/appliance/orders.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "boot/engine/admit.h"
#include "boot/engine/plan.h"
#include "boot/engine/refuse.h"
#include "boot/engine/runner.h"
#include "boot/engine/seal.h"
#include "boot/engine/signals.h"
#include "boot/engine/starts.h"
#include "config/log.h"
#include "config/seam.h"
#include "config/tick.h"
#include "nvme/ctrl_check.h"
#include "nvme/events.h"

/* An idle engine publishes this often, to show that it lives. */
#define IDLE_NS HR_NS_PER_S
/* Before the engine ends: time for the orders that make the last ends durable. */
#define LAST_ORDER_NS (10 * HR_NS_PER_S)
#define LAST_LOOK_NS (10 * HR_NS_PER_MS)
/* Between two looks at ssds that no running pipeline uses. */
#define LOOK_NS HR_NS_PER_S

/* The starts of one engine. */
struct floor {
	struct hr_attempt *attempt;
	struct hr_appliance *app;
	struct hr_plan plan;
	struct hr_admit admit;
	struct hr_crew crew;
	struct hr_order order; /* the newest one */
	uint64_t looked_ns;
	uint64_t last_ns; /* until when the engine waits for its last order; 0: it does not end */
	int failed;	  /* error of a device: no other start begins in this engine */
	bool closed;	  /* no more orders come */
};

static struct floor the_floor; /* one a process, and too large for a stack */

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

static void save(struct hr_attempt *attempt, const struct hr_order *order)
{
	struct hr_starts starts = order->starts;
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

/* 0, or the error of a device that has failed. */
static int find_failed(struct hr_appliance *app)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (!app->left_out[d] && hr_health_failed(&app->ssd[d].health))
			return hr_fail(&app->error, HR_ERROR_DEVICE, -EIO,
				       "ssd '%s' has failed: it needs a new engine",
				       app->config.ssd[d].name);
	for (uint32_t g = 0; g < app->config.gpus; g++)
		if (app->gpu_failed[g])
			return hr_fail(&app->error, HR_ERROR_DEVICE, -EIO,
				       "gpu '%s' has failed: it needs a new engine",
				       app->config.gpu[g].name);
	return 0;
}

static bool is_used(const struct floor *f, uint32_t d)
{
	bool used = false;

	for (uint32_t i = 0; i < f->app->config.pipelines; i++)
		used |= f->crew.running >> i & 1 && hr_run_uses_ssd(&f->app->run[i], d);
	return used;
}

/* Health logs and events of the ssds; those in use are watched by the runs
 * (boot/engine/runner.c). */
static void look_at_ssds(struct floor *f)
{
	struct hr_appliance *app = f->app;

	f->looked_ns = hr_now_ns();
	for (uint32_t d = 0; d < app->config.ssds; d++) {
		struct hr_ssd *ssd = &app->ssd[d];
		struct hr_error e = { 0 };
		int err;

		if (app->left_out[d] || !ssd->ctrl || !hr_health_commands(&ssd->health) ||
		    is_used(f, d))
			continue;
		err = hr_ctrl_check(ssd->ctrl, &e);
		if (!err)
			err = hr_ctrl_events(ssd->ctrl, &ssd->ns, &e);
		if (!err)
			continue;
		hr_error_context(&e, "ssd '%s' is lost", app->config.ssd[d].name);
		hr_error_log(&e, HR_LOG_ERROR);
		if (err == -ENXIO)
			hr_health_fault(&ssd->health, HR_FAULT_NAMESPACE, NULL, err, NULL);
		hr_health_set(&ssd->health, HR_STEP_GIVE_UP);
	}
}

/* ---- starts */

/* Messages that each start would repeat have the level debug. */
static void log_less(const struct hr_config *config, bool less)
{
	if (config->log < HR_LOG_DEBUG)
		hr_log_set_level(less ? HR_LOG_WARN : HR_LOG_INFO);
}

static void tell(struct floor *f)
{
	hr_attempt_tell(f->attempt, f->crew.running ? HR_PHASE_RUNNING : HR_PHASE_IDLE);
}

/* Publish the outcome of the run, as that of the start that was ordered last. */
static void publish_end(struct floor *f, uint32_t i)
{
	struct hr_record_run *run = &f->attempt->record.run[i];

	run->over = 0;
	hr_record_take(&f->attempt->record, f->app);
	run->number = f->admit.request[i];
	run->over = 1;
}

/* The start of pipeline i has ended, with the outcome of its run. */
static void finish(struct floor *f, uint32_t i)
{
	hr_unseal();
	hr_attempt_report(f->attempt, false);
	hr_attempt_publish(f->attempt); /* with its counters, which the next call ends */
	hr_plan_end(&f->plan, i);
	publish_end(f, i);
	note_versions(f->attempt);
	if (f->crew.running)
		hr_seal();
}

/* The output of the failed pipeline does not exist. */
static void drop_readers(struct floor *f, uint32_t failed)
{
	const hr_pipelines gone = hr_admit_readers(&f->admit, failed);

	for (uint32_t i = 0; i < f->app->config.pipelines; i++) {
		if (!(gone >> i & 1))
			continue;
		hr_warn("pipeline '%s' does not run: it reads the sink of pipeline '%s'",
			f->app->config.pipeline[i].name, f->app->config.pipeline[failed].name);
		f->app->run[i].outcome = HR_RUN_WAITING;
		publish_end(f, i);
	}
	f->admit.waiting &= ~gone;
}

/* The objects and the plan have changed, or starts were ordered. A start that would fail needs no
 * plan. */
static void check_waiting(struct floor *f)
{
	f->admit.planned = f->plan.planned;
	for (uint32_t i = 0; i < f->app->config.pipelines; i++)
		if (f->admit.waiting >> i & 1 && hr_plan_check(&f->plan, i) != -EAGAIN)
			f->admit.planned |= 1u << i;
		else
			f->admit.planned &= ~(f->admit.waiting & 1u << i);
}

static void end_start(struct floor *f, uint32_t i)
{
	f->admit.running &= ~(1u << i);
	finish(f, i);
	if (f->app->run[i].outcome == HR_RUN_FAILED)
		drop_readers(f, i);
	if (!f->failed)
		f->failed = find_failed(f->app);
	check_waiting(f);
	tell(f);
}

/* 0: it can be launched, or need not be. -EAGAIN: it needs a new plan, and others run. */
static int prepare(struct floor *f, uint32_t i)
{
	int err = hr_plan_start(&f->plan, i);

	if (err != -EAGAIN || f->admit.running)
		return err;
	err = hr_plan_make(&f->plan, 1u << i);
	if (!err)
		err = hr_plan_check(&f->plan, i) == -EAGAIN ? -ENOSPC : 0;
	if (err) {
		hr_plan_refuse(&f->plan, i, err);
		return err;
	}
	return hr_plan_start(&f->plan, i);
}

static void start_one(struct floor *f, uint32_t i)
{
	int err;

	log_less(&f->app->config, true);
	err = prepare(f, i);
	log_less(&f->app->config, false);
	if (err == -EAGAIN) {
		check_waiting(f);
		return;
	}
	f->attempt->record.run[i].number = f->admit.request[i];
	f->attempt->record.run[i].over = f->attempt->record.run[i].reported = 0;
	f->admit.waiting &= ~(1u << i);
	f->admit.running |= 1u << i;
	if (!err && f->app->run[i].outcome == HR_RUN_WAITING) {
		hr_crew_start(&f->crew, i);
		tell(f);
	}
	if (!(f->crew.running >> i & 1))
		end_start(f, i);
}

static void start_waiting(struct floor *f)
{
	uint32_t i;

	while (!f->failed && !f->closed && !hr_signals_pending() &&
	       (i = hr_admit_next(&f->admit)) < HR_PIPELINES_MAX)
		start_one(f, i);
}

static void look_at_running(struct floor *f)
{
	const hr_pipelines before = f->crew.running;

	hr_crew_look(&f->crew);
	for (uint32_t i = 0; i < f->app->config.pipelines; i++)
		if ((before & ~f->crew.running) >> i & 1)
			end_start(f, i);
}

/* ---- orders */

/* 0; -EAGAIN: none now; -EPIPE: no more orders come. */
static int receive(const struct hr_attempt *attempt, struct hr_order *order)
{
	const ssize_t n = recv(attempt->order, order, sizeof *order, 0);

	if (n == (ssize_t)sizeof *order)
		return 0;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? -EAGAIN : -EPIPE;
}

static void take(struct floor *f)
{
	const struct hr_order *order = &f->order;

	save(f->attempt, order);
	if (order->kind != HR_ORDER_RUN)
		return;
	for (uint32_t i = 0; i < f->app->config.pipelines; i++)
		if (order->pipelines >> i & 1)
			f->admit.request[i] = order->number;
	f->admit.waiting |= (hr_pipelines)order->pipelines & ~f->admit.running;
	f->admit.suspects &= ~(hr_pipelines)order->pipelines;
	f->admit.suspects |= (hr_pipelines)(order->pipelines & order->suspects);
	check_waiting(f);
}

static void take_orders(struct floor *f)
{
	int err;

	while ((err = receive(f->attempt, &f->order)) == 0)
		take(f);
	f->closed = err == -EPIPE;
}

/*
 * True when a start has ended, and the newest order still has it as running: the end is durable only
 * after the next order, so it would be lost if the engine ended before.
 */
static bool end_is_pending(const struct floor *f)
{
	for (uint32_t i = 0; i < f->app->config.pipelines; i++)
		if (f->order.starts.start[i].outcome == HR_START_RUNNING &&
		    !((f->admit.waiting | f->admit.running) >> i & 1))
			return true;
	return false;
}

/* Nothing runs, and the engine ends. True: not yet, because an order is to come. */
static bool awaits_order(struct floor *f)
{
	const uint64_t now_ns = hr_now_ns();

	f->last_ns = f->last_ns ? f->last_ns : now_ns + LAST_ORDER_NS;
	if (f->closed || !end_is_pending(f) || now_ns >= f->last_ns)
		return false;
	hr_wait_readable(f->attempt->order, LAST_LOOK_NS);
	hr_tick();
	return true;
}

/* A signal: drop the waiting starts. */
static void interrupt(struct floor *f)
{
	if (!f->admit.waiting)
		return;
	for (uint32_t i = 0; i < f->app->config.pipelines; i++) {
		if (!(f->admit.waiting >> i & 1))
			continue;
		f->app->run[i].outcome = HR_RUN_INTERRUPTED;
		publish_end(f, i);
	}
	f->admit.waiting = 0;
	tell(f);
}

/* Controllers of software need no CPU time while nothing sends commands. */
static void rest_ssds(const struct hr_appliance *app, bool resting)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (!app->left_out[d] && app->ssd[d].ctrl)
			hr_transport_rest(app->ssd[d].ctrl->transport, resting);
}

/* Nothing runs: until an order comes, or the service has work; or to show that the engine lives. */
static void serve_clients(struct floor *f)
{
	struct hr_store_service *service = &f->attempt->service;
	uint64_t pause_ns;

	hr_store_service_step(service);
	pause_ns = hr_store_service_pause_ns(service);
	if (!pause_ns)
		return;
	/* a shorter pause: commands are in flight, or follow soon */
	rest_ssds(f->app, pause_ns >= IDLE_NS);
	hr_wait_readable(service->wake >= 0 ? service->wake : f->attempt->order,
			 pause_ns < IDLE_NS ? pause_ns : IDLE_NS);
	rest_ssds(f->app, false);
}

/* A put has made a version: the supervisor is woken, because a pipeline may be due. */
static void note_put(void *to)
{
	struct floor *f = to;

	note_versions(f->attempt);
	check_waiting(f);
	tell(f);
}

static int serve(struct floor *f)
{
	for (;;) {
		take_orders(f);
		start_waiting(f);
		if (hr_signals_pending())
			interrupt(f);
		if (!f->crew.running && (f->failed || f->closed || hr_signals_pending())) {
			if (awaits_order(f))
				continue;
			break;
		}
		if (f->crew.running)
			look_at_running(f); /* which serves clients, too */
		else
			serve_clients(f);
		hr_tick();
		if (hr_now_ns() - f->looked_ns >= LOOK_NS)
			look_at_ssds(f);
		if (!f->failed)
			f->failed = find_failed(f->app);
	}
	return f->failed;
}

/*
 * Read the health logs before the first start, because a warning may hold that start. The next look
 * at the ssds reports faults.
 */
static void read_health(struct hr_appliance *app)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (!app->left_out[d] && app->ssd[d].ctrl &&
		    hr_health_commands(&app->ssd[d].health))
			hr_ctrl_read_smart(app->ssd[d].ctrl, NULL);
}

static void note_usable(struct hr_attempt *attempt)
{
	const struct hr_appliance *app = attempt->app;

	for (uint32_t i = 0; i < app->config.pipelines; i++)
		attempt->record.usable |= (uint64_t)app->run[i].selected << i;
}

static void open_floor(struct floor *f, struct hr_attempt *attempt)
{
	f->attempt = attempt;
	attempt->app->resolves_late = true;
	f->app = f->plan.app = f->crew.app = attempt->app;
	f->admit.config = &attempt->app->config;
	f->plan.usable = (hr_pipelines)attempt->record.usable;
	/* the pipelines that can be planned now start without a new plan */
	log_less(&f->app->config, true);
	hr_plan_make(&f->plan, 0);
	log_less(&f->app->config, false);
	f->admit.planned = f->plan.planned;
}

int hr_orders_serve(struct hr_attempt *attempt)
{
	struct hr_appliance *app = attempt->app;
	uint64_t began;
	int err;

	hr_attempt_tell(attempt, HR_PHASE_BRING_UP);
	err = hr_appliance_up(app, HR_STAGE_STORES);
	if (err)
		return err;
	attempt->record.has_run = true;
	read_health(app);
	load(attempt);
	note_usable(attempt);
	note_versions(attempt);
	open_floor(&the_floor, attempt);
	hr_wait_precisely();
	attempt->record.ready = true;
	hr_attempt_tell(attempt, HR_PHASE_IDLE);
	began = hr_now_ns();
	hr_attempt_open_store(attempt, note_put, &the_floor);
	err = serve(&the_floor);
	hr_store_service_close(&attempt->service);
	attempt->record.ran_ns = hr_now_ns() - began;
	hr_attempt_tell(attempt, HR_PHASE_GOING_DOWN);
	hr_appliance_down(app);
	return err;
}
