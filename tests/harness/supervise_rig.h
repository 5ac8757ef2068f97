/*
 * tests/harness/supervise_rig.h - the supervisor with the parts that it drives replaced: they note
 * each call, and an attempt is a row of a script. The clock is the test's. A test includes it once: it
 * defines functions of these parts.
 */
#ifndef TESTS_HARNESS_SUPERVISE_RIG_H
#define TESTS_HARNESS_SUPERVISE_RIG_H

#include "boot/appliance/supervise.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/appliance/act.h"
#include "boot/appliance/init.h"
#include "boot/engine/exit.h"
#include "boot/engine/signals.h"
#include "config/tick.h"
#include "gpu/ops/operators.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

#define S HR_NS_PER_S
#define START (100 * S)
#define MEDIA 0x281 /* final */

/* One attempt, for each pipeline its outcome and its error. */
struct script {
	enum hr_outcome outcome[3];
	int error[3];
	int result;
	uint64_t ran_ns;
	bool up, mute, refused, unsafe, stop;
	void (*during)(void);
};

static char folder[32];
static struct hr_appliance *app;
static struct hr_supervisor *s;
static const struct script *script;
static unsigned scripts, attempts;
static struct {
	int sockets, child, repeat; /* errors of opening */
	bool repeats, moves;
} will;
static void (*heard)(void *to, enum hr_phase phase);
static void *heard_to;

/* ---- what the supervisor drives */

int hr_tap_sockets_open(struct hr_tap_sockets *sockets, const struct hr_config *config,
			const bool *selected, struct hr_error *e)
{
	calls_note("sockets ");
	cr_expect(sockets == &s->sockets && config == &app->config && !selected);
	return will.sockets ? hr_fail(e, HR_ERROR_MISSING, will.sockets, "no socket") : 0;
}
int hr_tap_sockets_change(struct hr_tap_sockets *sockets, const struct hr_config *config,
			  struct hr_error *e)
{
	calls_note("sockets-change ");
	return 0;
}
void hr_tap_sockets_close(struct hr_tap_sockets *sockets)
{
	cr_expect_eq(sockets, &s->sockets);
	calls_note("sockets-close ");
}

void hr_tap_socket_close(struct hr_tap_sockets *sockets, uint32_t pipeline)
{
	calls_note("socket-close(%u) ", pipeline);
}
void hr_tap_users(const struct hr_config_tap *tap, struct hr_config_control *users)
{
	calls_note("users ");
}

int hr_child_open(struct hr_child *c, struct hr_record *record,
		  void (*hear)(void *to, enum hr_phase phase), void *to)
{
	calls_note("child ");
	cr_expect(c == &s->child && record == &s->status.record);
	heard = hear;
	heard_to = to;
	return will.child;
}
void hr_child_close(struct hr_child *c)
{
	calls_note("child-close ");
}
void hr_child_look(struct hr_child *c, const struct hr_config *config, uint64_t now_ns)
{
	calls_note("look ");
	cr_expect(c == &s->child && config == &app->config && now_ns == hr_now_ns());
}
bool hr_child_moves(const struct hr_child *c)
{
	return will.moves;
}
uint64_t hr_child_ran_ns(const struct hr_child *c)
{
	return script[attempts - 1].ran_ns;
}
void hr_child_stop(struct hr_child *c, uint64_t now_ns)
{
	calls_note("stop ");
}

int hr_child_attempt(struct hr_child *c, struct hr_appliance *of, const int *fds, unsigned count,
		     struct hr_error *e)
{
	const struct script *now;

	cr_assert_lt(attempts, scripts, "another attempt");
	now = &script[attempts++];
	cr_expect(c == &s->child && of == app);
	cr_expect(count == 4 && fds[0] == 41 && fds[1] == 42 && fds[2] == 43 && fds[3] == 44);
	cr_expect(of->keep_going && of->collect_ns == of->config.boot.collect_ns);
	cr_expect_eq(s->status.record.run[0].selected, (uint64_t)of->run[0].selected);
	calls_note("[");
	for (uint32_t i = 0; i < of->config.pipelines; i++)
		if (of->run[i].selected)
			calls_note("%u%s", i, of->run[i].suspect ? "?" : "");
	for (uint32_t d = 0; d < of->config.ssds; d++)
		calls_note("%s", of->left_out[d] ? " left-out" : "");
	calls_note("] ");
	for (uint32_t i = 0; i < of->config.pipelines; i++) {
		struct hr_run *run = &of->run[i];

		if (!run->selected)
			continue;
		run->outcome = now->outcome[i];
		run->error = now->error[i];
		hr_error_clear(&run->cause);
		if (run->error)
			hr_fail(&run->cause, HR_ERROR_DEVICE, run->error, "cause %u", i);
		run->cause.printed = true; /* by the engine */
	}
	hr_error_clear(e);
	if (now->result)
		hr_fail(e, HR_ERROR_DEVICE, now->result, "the attempt failed");
	e->printed = true;
	s->status.record.has_run = now->up;
	s->status.record.mute = now->mute;
	of->refused = now->refused;
	c->unsafe = now->unsafe;
	if (now->stop)
		raise(SIGTERM);
	if (now->during)
		now->during();
	return now->result;
}

void hr_notify_open(struct hr_notify *notify)
{
	cr_expect_eq(notify, &s->notify);
	calls_note("notify ");
	notify->fd = 41;
}
void hr_notify_send(struct hr_notify *notify, const char *format, ...)
{
	char text[128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	for (char *c = text; *c; c++)
		*c = *c == '\n' ? '+' : *c;
	calls_note("'%s' ", text);
}
void hr_notify_alive(struct hr_notify *notify, uint64_t now_ns)
{
	cr_expect_eq(now_ns, hr_now_ns());
	calls_note("alive ");
}
void hr_notify_close(struct hr_notify *notify)
{
	calls_note("notify-close ");
}

void hr_watchdog_open(struct hr_watchdog *w, const char *path, uint64_t timeout_ns)
{
	cr_expect_eq(timeout_ns, app->config.boot.watchdog_ns);
	calls_note("dog(%s) ", path);
	w->fd = 42;
}
void hr_watchdog_feed(struct hr_watchdog *w, uint64_t now_ns)
{
	cr_expect_eq(now_ns, hr_now_ns());
	calls_note("feed ");
}
void hr_watchdog_close(struct hr_watchdog *w)
{
	calls_note("dog-close ");
}

int hr_control_open(struct hr_control *control, struct hr_status *status,
		    const struct hr_actions *actions)
{
	cr_expect(control == &s->control && status == &s->status && actions == &s->actions);
	calls_note("control ");
	control->wake = 45;
	return -ENOKEY; /* the appliance runs on without one */
}
void hr_control_tick(void *control, uint64_t now_ns)
{
	cr_expect(control == &s->control && now_ns == hr_now_ns());
	calls_note("ask ");
}
unsigned hr_control_descriptors(const struct hr_control *control, int fds[HR_CONTROL_FDS])
{
	fds[0] = 44;
	return 1;
}
void hr_control_close(struct hr_control *control)
{
	calls_note("control-close ");
}

int hr_repeat_open(struct hr_repeat *r, struct hr_child *child, struct hr_appliance *of)
{
	cr_expect(r == &s->repeat && child == &s->child && of == app);
	calls_note("repeat ");
	r->on = will.repeats;
	r->wake = 43;
	return will.repeat;
}
void hr_repeat_watch(const struct hr_repeat *r, int fd)
{
	calls_note("watch(%d) ", fd);
}
void hr_repeat_look(struct hr_repeat *r)
{
	calls_note("due ");
}
void hr_repeat_end(struct hr_repeat *r)
{
	calls_note("repeat-end ");
}
bool hr_repeat_can_run(const struct hr_repeat *r)
{
	return true;
}
void hr_repeat_close(struct hr_repeat *r)
{
	calls_note("repeat-close ");
}

void hr_act_open(struct hr_actions *actions, struct hr_supervisor *of)
{
	cr_expect(actions == &s->actions && of == s);
	calls_note("act ");
}
void hr_act_signals(struct hr_supervisor *of)
{
	calls_note("signals ");
}

void hr_init_reap(void)
{
	calls_note("reap ");
}

/* ---- set-up */

static inline void begin(void)
{
	struct hr_config *c;

	strcpy(folder, "/tmp/hr-calls-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	app = calloc(1, sizeof *app);
	s = calloc(1, sizeof *s);
	cr_assert(app && s);
	c = &app->config;
	strcpy(c->name, "box");
	c->file = "f";
	c->ssds = 2;
	c->gpus = 1;
	c->pipelines = 3;
	for (uint32_t d = 0; d < c->ssds; d++) {
		snprintf(c->ssd[d].name, sizeof c->ssd[d].name, "s%u", d);
		snprintf(c->ssd[d].device, sizeof c->ssd[d].device, "soft:%s/%u", folder, d);
	}
	for (uint32_t i = 0; i < c->pipelines; i++) {
		struct hr_config_pipeline *p = &c->pipeline[i];

		snprintf(p->name, sizeof p->name, "p%u", i);
		p->op = hr_op_get(HR_OP_copy);
		p->sources = 1;
		strcpy(p->source[0].object, "in");
		p->source[0].ssd = i == 2;
		p->has_sink = true;
		snprintf(p->sink.object, sizeof p->sink.object, "out%u", i);
		p->sink.ssd = i == 2;
	}
	c->boot = (struct hr_config_boot){ .restarts = 2,
					   .backoff_ns = S,
					   .heal_ns = 600 * S,
					   .wait_s = 60,
					   .watchdog_ns = 7 * S,
					   .collect_ns = 9 };
	hr_signals_catch();
	fake_clock_start(START, NULL, NULL);
}

static inline void end(void)
{
	char command[64];

	hr_tick_set(NULL, NULL);
	fake_clock_stop();
	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
	free(app);
	free(s);
}

/* Makes the image of an ssd, so that the ssd is present. */
static inline void add_ssd(uint32_t d)
{
	char path[64];

	snprintf(path, sizeof path, "%s/%u", folder, d);
	close(open(path, O_CREAT | O_WRONLY, 0600));
}

static inline void expect_calls(const char *want)
{
	const char *got = calls_take();

	cr_expect_str_eq(got, want, "%s", got);
}

#endif
