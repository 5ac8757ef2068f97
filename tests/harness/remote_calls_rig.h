/*
 * tests/harness/remote_calls_rig.h - the service of streams over a link and both sides that a test
 * plays: each call is noted, its thread runs inside a call of the test, and the clock stands still.
 */
#ifndef TESTS_HARNESS_REMOTE_CALLS_RIG_H
#define TESTS_HARNESS_REMOTE_CALLS_RIG_H

#include "boot/engine/remote.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/checksums.h"
#include "boot/engine/devices.h"
#include "boot/engine/refuse.h"
#include "boot/engine/remote_key.h"
#include "boot/engine/remote_receiver.h"
#include "boot/engine/remote_sender.h"
#include "boot/engine/signals.h"
#include "boot/engine/stage_sinks.h"
#include "config/clock.h"
#include "gpu/remote/probe.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

enum { SEND, TAKE, OTHER, RUNS };

#define BEGAN (100 * HR_NS_PER_S)

static struct hr_appliance *app;
static struct hr_link *const link_ = (struct hr_link *)(void *)&app;
static unsigned calls, fails_at;
static struct hr_link_setup setup;
static struct hr_link_probe probed;
static struct hr_remote *stream[2]; /* of the threads that were started */
static void *(*thread_main)(void *argument);
static void (*script)(unsigned wait); /* called in each wait of the thread */
static unsigned waits;
static bool ended, steps, resumes, interrupted, any_selected;
static const char *described;

/* What the next steps of the link return. */
static struct {
	struct hr_link_event event;
	enum hr_error_kind kind;
	const char *text;
} next[8];
static unsigned first, last;

static int call(struct hr_error *e, const char *what)
{
	if (++calls != fails_at)
		return 0;
	return hr_fail(e, HR_ERROR_MISSING, -EIO, "no %s", what);
}

static const char *side_of(const struct hr_remote *r)
{
	cr_expect_eq(r->sends, r->run == &app->run[SEND]);
	return r->sends ? "s" : "t";
}

int hr_remote_key_read(const char *file, uint8_t key[HR_LINK_KEY_BYTES], struct hr_error *e)
{
	calls_note("key(%s) ", file);
	memset(key, 7, HR_LINK_KEY_BYTES);
	return call(e, "key");
}

int hr_remote_sender_memory(struct hr_appliance *of, struct hr_remote *r,
			    struct hr_link_memory *memory, struct hr_error *e)
{
	calls_note("%s.memory ", side_of(r));
	memory->slots = 4;
	return call(e, "memory");
}

int hr_remote_receiver_memory(struct hr_appliance *of, struct hr_remote *r,
			      struct hr_link_memory *memory, struct hr_error *e)
{
	return hr_remote_sender_memory(of, r, memory, e);
}

void hr_remote_sender_forget(struct hr_remote *r)
{
	calls_note("%s.forget ", side_of(r));
	cr_expect(r->sends && !r->link);
}

void hr_remote_receiver_forget(struct hr_remote *r)
{
	calls_note("%s.forget ", side_of(r));
	cr_expect(!r->sends && !r->link);
}

void hr_remote_sender_begin(struct hr_remote *r)
{
	calls_note("%s.begin ", side_of(r));
	cr_expect(r->sends && !r->begun);
}

void hr_remote_receiver_begin(struct hr_remote *r)
{
	calls_note("%s.begin ", side_of(r));
	cr_expect(!r->sends && !r->begun);
}

static bool step(struct hr_remote *r)
{
	const bool did = steps;

	calls_note("%s.step ", side_of(r));
	steps = false;
	return did;
}

bool hr_remote_sender_step(struct hr_remote *r)
{
	cr_expect(r->sends);
	return step(r);
}

bool hr_remote_receiver_step(struct hr_remote *r)
{
	cr_expect_not(r->sends);
	return step(r);
}

void hr_remote_sender_event(struct hr_remote *r, const struct hr_link_event *event)
{
	cr_expect(r->sends);
	calls_note("s.event%d ", event->kind);
}

void hr_remote_receiver_event(struct hr_remote *r, const struct hr_link_event *event)
{
	cr_expect_not(r->sends);
	calls_note("t.event%d ", event->kind);
}

int hr_remote_gpu_take(struct hr_remote_gpu *gpu, struct hr_backend *backend, uint32_t slots,
		       uint32_t slot_bytes, struct hr_link_memory *memory, struct hr_error *e)
{
	calls_note("gpu(%u %u) ", slots, slot_bytes);
	memory->base = app;
	return call(e, "gpu memory");
}

void hr_remote_gpu_close(struct hr_remote_gpu *gpu)
{
	calls_note("-gpu ");
}

int hr_link_open(struct hr_link **to, const struct hr_link_setup *from, struct hr_error *e)
{
	calls_note("open ");
	setup = *from;
	if (call(e, "link"))
		return -EIO;
	*to = link_;
	return 0;
}

int hr_link_probe(const struct hr_link_probe *probe, char *text, size_t bytes, struct hr_error *e)
{
	calls_note("probe ");
	probed = *probe;
	snprintf(text, bytes, "device");
	return call(e, "device");
}

void hr_link_close(struct hr_link *of)
{
	calls_note("close ");
}

bool hr_link_step(struct hr_link *of, uint64_t now_ns, struct hr_link_event *event,
		  struct hr_error *e)
{
	cr_expect_eq(now_ns, hr_now_ns());
	if (first == last)
		return false;
	*event = next[first].event;
	if (next[first].text)
		hr_fail(e, next[first].kind, -EIO, "%s", next[first].text);
	first++;
	return true;
}

int hr_link_fd(const struct hr_link *of)
{
	return 55;
}

void hr_link_durable(struct hr_link *of, uint64_t tile)
{
	calls_note("durable%llu ", (unsigned long long)tile);
}

void hr_link_finish(struct hr_link *of, int code, const char *text)
{
	calls_note("finish%d(%s) ", code, text);
}

bool hr_link_ended(const struct hr_link *of)
{
	return ended;
}

struct hr_link_counters hr_link_count(const struct hr_link *of)
{
	return (struct hr_link_counters){ .tiles = 17, .flushes = 18 };
}

const char *hr_link_describe(struct hr_link *of)
{
	return described;
}

int hr_thread_start(struct hr_thread *thread, const cpu_set_t *cpus, void *(*main)(void *argument),
		    void *argument)
{
	struct hr_remote *r = argument;

	calls_note("%s.thread ", side_of(r));
	cr_expect_eq(thread, &r->thread);
	cr_expect_null(cpus);
	stream[r->sends ? SEND : TAKE] = r;
	thread_main = main;
	return ++calls == fails_at ? -EAGAIN : 0;
}

void hr_thread_join(struct hr_thread *thread)
{
	calls_note("join ");
}

/* A lock that was not given back is found at once. */
void hr_mutex_lock(pthread_mutex_t *mutex)
{
	cr_assert_eq(pthread_mutex_trylock(mutex), 0);
}

bool hr_wait_readable(int fd, uint64_t ns)
{
	cr_expect_eq(fd, 55);
	calls_note("%llu ", (unsigned long long)ns);
	cr_assert_lt(waits, 100u, "the thread does not end");
	if (script)
		script(++waits);
	return false;
}

bool hr_signals_pending(void)
{
	return interrupted;
}

bool hr_run_resumes(const struct hr_run *run)
{
	return resumes;
}

int hr_checksums_decide(struct hr_appliance *of, struct hr_run *run,
			struct hr_store *const store[HR_SSDS_MAX])
{
	calls_note("decide ");
	for (uint32_t d = 0; d < HR_SSDS_MAX; d++)
		cr_expect_eq(store[d], &app->ssd[d].store);
	return call(&app->error, "checksum");
}

void hr_refuse_run(struct hr_appliance *of, uint32_t i, int err)
{
	calls_note("refuse%u ", i);
	app->run[i].selected = false;
	hr_error_clear(&app->error);
}

bool hr_any_selected(const struct hr_appliance *of)
{
	return any_selected;
}

static int close_count;

static void close_backend(struct hr_backend *b)
{
	close_count++;
}

static int export_shared(struct hr_backend *b, const struct hr_region *region, size_t offset,
			 int *fd, struct hr_error *e)
{
	return 0;
}

static const struct hr_backend_ops host_ops = { .close = close_backend };
static const struct hr_backend_ops gpu_ops = { .close = close_backend,
					       .export_shared = export_shared };

int hr_backend_open(struct hr_backend *b, const char *device, uint32_t max_blocks,
		    struct hr_error *e)
{
	calls_note("backend(%s %u) ", device, max_blocks);
	b->ops = &gpu_ops;
	return call(e, "backend");
}

/* ---- an appliance with a sender, a receiver, and a pipeline without a stream */

static void up(void)
{
	struct hr_config_pipeline *c;

	free(app);
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	app->config.file = "f";
	app->config.pipelines = RUNS;
	strcpy(app->config.remotes.key, "k");
	app->config.remotes.call_ns = 7;
	app->config.remotes.peers = 1;
	strcpy(app->config.gpu[1].device, "cuda:1");
	for (uint32_t i = 0; i <= RUNS; i++) { /* the last one is not configured */
		c = &app->config.pipeline[i];
		snprintf(c->name, sizeof c->name, "p%u", i);
		app->run[i].config = c;
		app->run[i].selected = true;
		app->run[i].tiles = 10;
		app->run[i].slots = 4;
		app->run[i].sink_tile_bytes = 4097;
		app->run[i].source[0].tile_bytes = 8193;
		c->gpu = 1;
	}
	c = &app->config.pipeline[SEND];
	strcpy(c->tap.name, "s");
	c->to = (struct hr_config_remote){ .address = "A", .depth = 3, .line = 11 };
	c = &app->config.pipeline[TAKE];
	strcpy(c->feed.name, "t");
	c->from = (struct hr_config_remote){ .address = "B", .depth = 5, .line = 12 };
	app->config.pipeline[RUNS] = *c;
	app->backend[1].ops = &host_ops;
	app->backend[1].lanes = 1;
	calls = fails_at = waits = first = last = 0;
	close_count = 0;
	script = NULL;
	ended = steps = resumes = interrupted = false;
	any_selected = true;
	described = "device, port";
	fake_clock_start(BEGAN, NULL, NULL);
	calls_take();
}

static void end(void)
{
	free(app);
	app = NULL;
}

static unsigned meets_after, errs_after;
static uint64_t have;

static void meet(void *context)
{
	if (meets_after && !--meets_after) {
		stream[SEND]->met = true;
		stream[SEND]->have = have;
	}
	if (errs_after && !--errs_after) {
		stream[SEND]->err = -ECONNRESET;
		hr_fail(&stream[SEND]->error, HR_ERROR_DEVICE, -ECONNRESET, "broken");
	}
}

/* Stop what was started: its thread does not run here. */
static void down(void)
{
	for (uint32_t i = 0; i < 2; i++)
		if (stream[i])
			stream[i]->over = true;
	fails_at = 0;
	hr_remote_down(app);
	calls_take();
}

static void open_all(void)
{
	up();
	stream[SEND] = stream[TAKE] = NULL;
	cr_assert_eq(hr_remote_open(app), 0);
	calls_take();
	calls = 0;
	fake_clock_start(BEGAN, meet, NULL);
	meets_after = 3;
	errs_after = 0;
}

#endif
