/*
 * tests/harness/dispatch_rig.h - the loop of an engine whose pipelines repeat; plan, runner, stores and
 * services are the rig's, which notes their calls. A test includes it once: it contains
 * boot/appliance/dispatch.c and mend.c.
 */
#ifndef TESTS_HARNESS_DISPATCH_RIG_H
#define TESTS_HARNESS_DISPATCH_RIG_H

#define hr_appliance_up test_up
#define hr_appliance_down test_down
#define hr_attempt_tell test_tell
#define hr_attempt_publish test_publish
#define hr_attempt_report test_report
#define hr_attempt_remember test_remember
#define hr_attempt_load_history test_load_history
#define hr_attempt_open_services test_open_services
#define hr_attempt_close_services test_close_services
#define hr_ctrl_check test_check
#define hr_ctrl_events test_events
#define hr_ctrl_read_smart test_read_smart
#define hr_feed_service_begin test_feed_begin
#define hr_feed_service_end test_feed_end
#define hr_tap_service_begin test_tap_begin
#define hr_tap_service_end test_tap_end
#define hr_tap_service_step test_tap_step
#define hr_store_service_step test_store_step
#define hr_store_service_pause_ns test_store_pause
#define hr_plan_make test_plan_make
#define hr_plan_check test_plan_check
#define hr_plan_start test_plan_start
#define hr_plan_refuse test_plan_refuse
#define hr_plan_end test_plan_end
#define hr_runner_start test_runner_start
#define hr_runner_look test_runner_look
#define hr_seal test_seal
#define hr_unseal test_unseal
#define hr_starts_read test_starts_read
#define hr_starts_write test_starts_write
#define hr_wait_readable test_wait
#define hr_tick test_tick
#define hr_log_set_level test_level
#define hr_record_take test_record_take
#include "boot/appliance/dispatch.c"
#include "boot/appliance/mend.c"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

#define S HR_NS_PER_S
#define MS HR_NS_PER_MS
#define START (100 * S)
#define BIT(i) (1u << (i))

static struct hr_attempt *at;
static struct hr_appliance *app;
static struct engine *engine;
static struct hr_dispatch sent;
static int pair[2]; /* of dispatches: the supervisor's end, the engine's */
static struct hr_ctrl ctrl[3];
static struct hr_transport transport[3];
static enum hr_log_level level;

static struct {
	int up, services, tap, feed, make, start[4], check[4], events[3], look[3], read, write;
	uint64_t pause_ns;
	hr_pipelines ends; /* at the next look of the runner */
	enum hr_outcome outcome[4];
	void (*at_wait)(void);
} will;

/* ---- what the loop calls */

int test_up(struct hr_appliance *of, enum hr_stage last)
{
	cr_expect(of == app && last == HR_STAGE_STORES);
	calls_note("up ");
	return will.up;
}
void test_down(struct hr_appliance *of)
{
	calls_note("down ");
}
void test_tell(struct hr_attempt *of, enum hr_phase phase)
{
	cr_expect_eq(of, at);
	calls_note("tell(%s) ", hr_phase_name(phase));
}
void test_publish(struct hr_attempt *of)
{
	cr_expect_eq(of, at);
	calls_note("publish ");
}
void test_report(struct hr_attempt *of, bool all)
{
	cr_expect(of == at && !all);
	calls_note("report ");
}
void test_remember(struct hr_attempt *of, uint32_t i, uint64_t start)
{
	cr_expect(of == at && start == engine->dispatch.starts.start[i].starts);
}
void test_load_history(struct hr_attempt *of)
{
	cr_expect_eq(of, at);
}
static void (*changed)(void *to);
static void *changed_to;
int test_open_services(struct hr_attempt *of, void (*call)(void *to), void *to)
{
	cr_expect_eq(of, at);
	changed = call;
	changed_to = to;
	calls_note("open ");
	return will.services;
}
void test_close_services(struct hr_attempt *of)
{
	calls_note("close ");
}
int test_check(struct hr_ctrl *c, struct hr_error *e)
{
	calls_note("check%d ", (int)(c - ctrl));
	return will.look[c - ctrl] ? hr_fail(e, HR_ERROR_DEVICE, will.look[c - ctrl], "it is gone")
				   : 0;
}
int test_events(struct hr_ctrl *c, const struct hr_ns *ns, struct hr_error *e)
{
	cr_expect_eq(ns, &app->ssd[c - ctrl].ns);
	calls_note("events%d ", (int)(c - ctrl));
	return will.events[c - ctrl] ? hr_fail(e, HR_ERROR_DEVICE, will.events[c - ctrl], "event")
				     : 0;
}
int test_read_smart(struct hr_ctrl *c, struct hr_error *e)
{
	cr_expect_null(e);
	calls_note("smart%d ", (int)(c - ctrl));
	return 0;
}
int test_feed_begin(struct hr_feed_service *s, uint32_t i, struct hr_error *e)
{
	cr_expect(s == &at->feeds && e == &app->error);
	calls_note("feed(%u) ", i);
	return will.feed;
}
void test_feed_end(struct hr_feed_service *s, uint32_t i)
{
	calls_note("feed-end(%u) ", i);
}
int test_tap_begin(struct hr_tap_service *s, uint32_t i, struct hr_error *e)
{
	cr_expect(s == &at->taps && e == &app->error);
	calls_note("tap(%u) ", i);
	return will.tap;
}
void test_tap_end(struct hr_tap_service *s, uint32_t i)
{
	calls_note("tap-end(%u) ", i);
}
void test_tap_step(struct hr_tap_service *s)
{
	cr_expect_eq(s, &at->taps);
	calls_note("taps ");
}
void test_store_step(struct hr_store_service *s)
{
	cr_expect_eq(s, &at->service);
	calls_note("store ");
}
uint64_t test_store_pause(const struct hr_store_service *s)
{
	return will.pause_ns;
}
int test_plan_make(struct hr_plan *plan, hr_pipelines wanted)
{
	cr_expect_eq(plan, &engine->plan);
	calls_note("make(%x)%s ", wanted, level == HR_LOG_WARN ? "" : "!");
	return will.make;
}
int test_plan_check(struct hr_plan *plan, uint32_t i)
{
	return will.check[i];
}
int test_plan_start(struct hr_plan *plan, uint32_t i)
{
	calls_note("plan(%u) ", i);
	return will.start[i];
}
void test_plan_refuse(struct hr_plan *plan, uint32_t i, int err)
{
	app->run[i].outcome = HR_RUN_FAILED;
	calls_note("refuse(%u,%d) ", i, err);
}
void test_plan_end(struct hr_plan *plan, uint32_t i)
{
	calls_note("end(%u) ", i);
}
void test_runner_start(struct hr_runner *runner, uint32_t i)
{
	cr_expect_eq(runner, &engine->runner);
	calls_note("run(%u) ", i);
	if (will.outcome[i] == HR_RUN_WAITING)
		runner->running |= BIT(i);
	else
		app->run[i].outcome = will.outcome[i];
}
void test_runner_look(struct hr_runner *runner)
{
	calls_note("look ");
	for (uint32_t i = 0; i < 4; i++)
		if (will.ends >> i & 1)
			app->run[i].outcome = will.outcome[i];
	runner->running &= ~will.ends;
}
void test_seal(void)
{
	calls_note("seal ");
}
void test_unseal(void)
{
	calls_note("unseal ");
}
int test_starts_read(struct hr_appliance *of, struct hr_starts *starts, struct hr_error *e)
{
	cr_expect(of == app && starts == &at->record.starts);
	calls_note("read ");
	return will.read ? hr_fail(e, HR_ERROR_DEVICE, will.read, "no page") : 0;
}
int test_starts_write(struct hr_appliance *of, struct hr_starts *starts, struct hr_error *e)
{
	cr_expect_eq(of, app);
	calls_note("write(%llu) ", (unsigned long long)starts->sequence);
	if (will.write)
		return hr_fail(e, HR_ERROR_DEVICE, will.write, "no room");
	starts->sequence++;
	return 0;
}
static inline void rest(struct hr_transport *of, bool resting)
{
	calls_note("%s%d ", resting ? "rest" : "wake", (int)(of - transport));
}
void test_level(enum hr_log_level to)
{
	level = to;
}
bool test_wait(int fd, uint64_t ns)
{
	calls_note("wait(%s,%llu) ", fd == pair[1] ? "dispatch" : "service",
		   (unsigned long long)ns);
	fake_clock_advance(ns);
	if (will.at_wait)
		will.at_wait();
	return false;
}
void test_tick(void)
{
	calls_note("tick ");
}
void test_record_take(struct hr_record *record, const struct hr_appliance *of)
{
	cr_expect(record == &at->record && of == app);
	for (uint32_t i = 0; i < 4; i++)
		if (!record->run[i].over)
			record->run[i].outcome = (uint64_t)of->run[i].outcome;
}

/* ---- set-up */

static inline void set_up(void)
{
	static const struct hr_transport_ops ops = { .rest = rest };
	static const char *const sink[] = { "x", "y", "", "" }, *const in[] = { "in", "x", "y",
										"in" };

	engine = &the_engine;
	at = calloc(1, sizeof *at);
	app = calloc(1, sizeof *app);
	cr_assert(at && app);
	at->app = app;
	app->config.ssds = 3;
	app->config.gpus = 2;
	app->config.pipelines = 4;
	app->config.parallel = 8;
	app->config.log = HR_LOG_INFO;
	level = HR_LOG_INFO;
	for (uint32_t d = 0; d < 3; d++) {
		snprintf(app->config.ssd[d].name, 4, "s%u", d);
		transport[d].ops = &ops;
		ctrl[d].transport = &transport[d];
		app->ssd[d].ctrl = &ctrl[d];
		app->ssd[d].health.state = HR_HEALTH_UP;
		app->ssd[d].health.name = app->config.ssd[d].name;
	}
	for (uint32_t i = 0; i < 4; i++) {
		struct hr_config_pipeline *p = &app->config.pipeline[i];

		snprintf(p->name, 4, "p%u", i);
		p->sources = 1;
		strcpy(p->source[0].object, in[i]);
		p->source[0].ssd = i == 3;
		p->has_sink = *sink[i];
		strcpy(p->sink.object, sink[i]);
		app->run[i].config = p;
		app->run[i].selected = true;
	}
	strcpy(app->config.gpu[0].name, "g0");
	strcpy(app->config.gpu[1].name, "g1");
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	at->dispatch = pair[1];
	at->service.wake = 77;
	engine->attempt = at;
	engine->app = engine->plan.app = engine->runner.app = app;
	engine->admit.config = &app->config;
	hr_signals_catch();
	fake_clock_start(START, NULL, NULL);
}

static inline void tear_down(void)
{
	fake_clock_stop();
	close(pair[0]);
	close(pair[1]);
	free(at);
	free(app);
}

static inline void expect_calls(const char *want)
{
	const char *got = calls_take();

	cr_expect_str_eq(got, want, "%s", got);
}

static inline void give(enum hr_dispatch_kind kind, uint64_t number, uint64_t pipelines)
{
	sent.kind = kind;
	sent.number = number;
	sent.pipelines = pipelines;
	cr_assert_eq(send(pair[0], &sent, sizeof sent, 0), (ssize_t)sizeof sent);
}

#endif
