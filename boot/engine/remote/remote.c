/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/remote/key.h"
#include "boot/engine/remote/stream.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/objects/checksums.h"
#include "boot/engine/devices/devices.h"
#include "boot/engine/exclude.h"
#include "boot/engine/layout/sizes.h"
#include "config/base/process.h"
#include "boot/engine/objects/new_objects.h"
#include "config/base/clock.h"
#include "config/base/tick.h"
#include "config/derived.h"
#include "boot/remote/link.h"
#include "nvme/queue/wait.h"

#define PAUSE_MIN_NS 10000u
#define PAUSE_MAX_NS HR_WAIT_MAX_NS /* a link wants a step each HR_LINK_STEP_NS */
/* After the end of a run, for the other side to learn it: its connection may be down now, and a
 * receiver that has all tiles may wait for a sender that does not know it. A link that has failed
 * makes no connection; of a run that fails or is stopped without one the other side knows nothing. */
#define LAST_WORDS_NS (3 * HR_NS_PER_S)

#define TEST_BYTES 65536u	    /* of a slot, for post */
#define SAY_SO_NS (2 * HR_NS_PER_S) /* without a receiver */

/* By index of the pipeline. One appliance is up at a time. */
static struct hr_remote remotes[HR_PIPELINES_MAX];
static uint32_t streams; /* open ones */

static struct hr_remote *remote_of(const struct hr_engine *engine, const struct hr_run *run)
{
	return &remotes[run - engine->run];
}

/* ---- the thread */

static void peer_done(struct hr_remote *r, const struct hr_link_event *event)
{
	const char *side = r->sends ? "receiver" : "sender";
	const enum hr_error_kind kind = event->code > 0 && event->code <= HR_ERROR_DEVICE
						? (enum hr_error_kind)event->code
						: HR_ERROR_FAILED;

	r->remote_ended = true;
	if (event->code)
		hr_remote_fail(r, kind, -ECONNABORTED, "the run of the %s has ended: %s", side,
			       event->text ? event->text : "no reason given");
}

/* A mistake of the configuration stays; under `boot` any other error is tried again. */
static void fail_stream(struct hr_remote *r, struct hr_error *e)
{
	if (!r->remote_ended)
		hr_remote_fail(r, e->kind ? e->kind : HR_ERROR_FAILED,
			       e->kind == HR_ERROR_USAGE ? -EINVAL : -ECONNRESET, "%s", e->text);
	hr_error_clear(e);
}

static void met(struct hr_remote *r, const struct hr_link_event *event)
{
	r->up = true;
	hr_remote_lock(r);
	if (!r->was_connected)
		r->receiver_has = event->tile;
	r->was_connected = true;
	hr_remote_unlock(r);
}

static void handle_link_event(struct hr_remote *r, const struct hr_link_event *event,
			      struct hr_error *e)
{
	if (event->kind == HR_LINK_UP)
		met(r, event);
	else if (event->kind == HR_LINK_DOWN)
		r->up = false;
	else if (event->kind == HR_LINK_REMOTE_ENDED)
		peer_done(r, event);
	else if (event->kind == HR_LINK_FAILED)
		fail_stream(r, e);
	r->dead |= event->kind == HR_LINK_FAILED;
	if (event->kind == HR_LINK_DOWN && !r->end_told && !r->remote_ended)
		hr_warn("pipeline '%s': remote '%s' (%s): the connection is down: %s",
			r->run->config->name, hr_remote_name(r->run),
			hr_remote_config(r->run)->address,
			event->text ? event->text : "no reason given");
	else if (event->kind == HR_LINK_CLIENT_REFUSED)
		hr_warn("pipeline '%s': remote '%s' (%s): %s", r->run->config->name,
			hr_remote_name(r->run), hr_remote_config(r->run)->address, event->text);
	if (r->sends)
		hr_remote_sender_event(r, event);
	else
		hr_remote_receiver_event(r, event);
}

/* What the owner of the appliance has said. */
static bool apply_orders(struct hr_remote *r)
{
	char why[sizeof r->why];
	uint64_t durable;
	bool begun, ended;
	int code;

	hr_remote_lock(r);
	begun = r->begun;
	ended = r->ended;
	durable = r->durable;
	code = r->code;
	memcpy(why, r->why, sizeof why);
	hr_remote_unlock(r);
	r->runs = begun && !ended;
	if (!r->sends && durable != r->durable_told)
		hr_link_set_durable(r->link, durable);
	r->durable_told = durable;
	if (!ended || r->end_told)
		return false;
	hr_link_report_result(r->link, code, why);
	r->end_told = true;
	r->quiet_ns = hr_now_ns() + (code && !r->was_connected ? 0 : LAST_WORDS_NS);
	return true;
}

static void publish_remote_report(struct hr_remote *r)
{
	const struct hr_link_counters count = hr_link_read_counters(r->link);
	const char *described = hr_link_describe(r->link);

	hr_remote_lock(r);
	r->report.up = r->up;
	r->report.link = count;
	snprintf(r->report.described, sizeof r->report.described, "%s", described ? described : "");
	hr_remote_unlock(r);
}

static bool round_of(struct hr_remote *r)
{
	struct hr_link_event event = { 0 };
	struct hr_error e = { 0 };
	bool any = apply_orders(r);

	if (r->runs && !r->failed)
		any |= r->sends ? hr_remote_sender_step(r) : hr_remote_receiver_step(r);
	while (hr_link_step(r->link, hr_now_ns(), &event, &e)) {
		handle_link_event(r, &event, &e);
		any = true;
	}
	return any;
}

static void *serve_remote(void *argument)
{
	struct hr_remote *r = argument;
	uint64_t pause_ns = PAUSE_MIN_NS;

	hr_wait_precisely();
	do {
		const bool any = round_of(r);

		publish_remote_report(r);
		/* about a fifth of the time without work */
		pause_ns = any ? PAUSE_MIN_NS : pause_ns + pause_ns / 4;
		if (pause_ns > PAUSE_MAX_NS)
			pause_ns = PAUSE_MAX_NS;
		if (!any)
			hr_wait_readable(hr_link_fd(r->link), pause_ns);
	} while (!r->end_told ||
		 (!hr_link_both_ended(r->link) && !r->dead && hr_now_ns() < r->quiet_ns));
	hr_remote_lock(r);
	r->thread_ended = true;
	hr_remote_unlock(r);
	return NULL;
}

/* ---- opening */

static int describe_link_setup(const struct hr_engine *engine, const struct hr_run *run,
			       struct hr_link_setup *setup, struct hr_error *e)
{
	const struct hr_config_remotes *remotes_of = &engine->config.remotes;
	const bool sends = hr_config_sends(run->config);

	*setup = (struct hr_link_setup){
		.side = sends ? HR_LINK_SENDER : HR_LINK_RECEIVER,
		.name = hr_remote_name(run),
		.address = hr_remote_config(run)->address,
		.device = remotes_of->device[0] ? remotes_of->device : NULL,
		.tile_bytes = sends ? run->sink_tile_bytes : run->source[0].tile_bytes,
		.tiles = run->tiles,
		.depth = hr_remote_config(run)->depth,
		.call_ns = remotes_of->call_ns,
		.allowed = remotes_of->allowed,
		.allowed_count = remotes_of->allowed_count,
	};
	return hr_remote_key_read(remotes_of->key, setup->key, e);
}

static void name_error(const struct hr_engine *engine, const struct hr_run *run, struct hr_error *e)
{
	hr_error_context(e, "%s:%u: pipeline '%s': remote '%s' (%s)", engine->config.file,
			 hr_remote_config(run)->line, run->config->name, hr_remote_name(run),
			 hr_remote_config(run)->address);
}

static void close_remote(struct hr_remote *r)
{
	hr_link_close(r->link);
	r->link = NULL;
	if (r->sends)
		hr_remote_sender_free(r);
	else
		hr_remote_receiver_free(r);
	streams--;
}

static int open_link(struct hr_engine *engine, struct hr_run *run, struct hr_error *e)
{
	struct hr_remote *r = remote_of(engine, run);
	struct hr_link_setup setup;
	int err;

	memset(r, 0, sizeof *r);
	r->run = run;
	r->sends = hr_config_sends(run->config);
	r->tiles = HR_NO_TILE;
	err = describe_link_setup(engine, run, &setup, e);
	if (!err)
		err = r->sends ? hr_remote_sender_memory(engine, r, &setup.memory, e)
			       : hr_remote_receiver_memory(engine, r, &setup.memory, e);
	if (err) {
		explicit_bzero(setup.key, sizeof setup.key);
		return err;
	}
	pthread_mutex_init(&r->lock, NULL);
	streams++;
	err = hr_link_open(&r->link, &setup, e);
	explicit_bzero(setup.key, sizeof setup.key);
	r->report.open = !err;
	if (err)
		close_remote(r);
	return err;
}

/* Leave the pipeline out, or end bring-up. */
static int refuse_remote(struct hr_engine *engine, uint32_t i, int err, struct hr_error *e)
{
	hr_error_add(&engine->error, e->kind ? e->kind : HR_ERROR_FAILED, err, "%s", e->text);
	if (!engine->keep_going)
		return err;
	hr_exclude_run(engine, i, err);
	return hr_any_selected(engine) ? 0 : err;
}

static bool has_stream(const struct hr_run *run)
{
	return run->selected && hr_config_is_remote(run->config);
}

int hr_remote_open(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++) {
		struct hr_error e = { 0 };

		if (!has_stream(&engine->run[i]))
			continue;
		err = open_link(engine, &engine->run[i], &e);
		name_error(engine, &engine->run[i], &e);
		if (err)
			err = refuse_remote(engine, i, err, &e);
	}
	return err;
}

static int probe(const struct hr_config *config, const struct hr_config_pipeline *p,
		 const struct hr_rdma_memory *memory, char *text, size_t bytes, struct hr_error *e)
{
	const struct hr_config_remotes *remotes_of = &config->remotes;
	const struct hr_link_probe what = {
		.side = hr_config_sends(p) ? HR_LINK_SENDER : HR_LINK_RECEIVER,
		.address = hr_config_sends(p) ? p->to.address : p->from.address,
		.device = remotes_of->device[0] ? remotes_of->device : NULL,
		.slots = memory->slots,
		.slot_bytes = memory->stride,
		.memory = memory->base ? memory : NULL,
	};
	uint8_t key[HR_LINK_KEY_BYTES];
	const int err = hr_remote_key_read(remotes_of->key, key, e);

	explicit_bzero(key, sizeof key);
	return err ? err : hr_link_probe(&what, text, bytes, e);
}

/* The same with memory of the kind that the tiles have. */
static int probe_on(const struct hr_config *config, const struct hr_config_pipeline *p,
		    struct hr_backend *backend, struct hr_rdma_memory memory, char *text,
		    size_t bytes, struct hr_error *e)
{
	struct hr_remote_gpu_tiles gpu = { 0 };
	int err = 0;

	if (hr_remote_is_gpu(backend))
		err = hr_remote_gpu_take(&gpu, backend, memory.slots, memory.stride, &memory, e);
	if (!err)
		err = probe(config, p, &memory, text, bytes, e);
	hr_remote_gpu_close(&gpu);
	return err;
}

int hr_remote_probe_all(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];
		struct hr_remote_report *report = &remotes[i].report;
		struct hr_error e = { 0 };

		if (!has_stream(run))
			continue;
		err = probe_on(
			&engine->config, run->config, &engine->backend[run->config->gpu],
			(struct hr_rdma_memory){ .slots = run->slots,
						 .stride = hr_layout_tile_bytes(
							 hr_config_sends(run->config)
								 ? run->sink_tile_bytes
								 : run->source[0].tile_bytes) },
			report->described, sizeof report->described, &e);
		report->open = !err;
		name_error(engine, run, &e);
		if (err)
			hr_error_add(&engine->error, e.kind, err, "%s", e.text);
	}
	return err;
}

int hr_remote_probe_one(const struct hr_config *config, const struct hr_config_pipeline *pipeline,
			char *text, size_t bytes, struct hr_error *e)
{
	const struct hr_rdma_memory memory = { .slots = 2, .stride = TEST_BYTES };
	struct hr_backend backend;
	int err = hr_backend_open(&backend, config->gpu[pipeline->gpu].device, 1, e);

	if (err)
		return err;
	err = probe_on(config, pipeline, &backend, memory, text, bytes, e);
	backend.ops->close(&backend);
	return err;
}

/* ---- start */

static void end_remote(struct hr_remote *r, int code, const char *why)
{
	hr_remote_lock(r);
	if (!r->ended)
		snprintf(r->why, sizeof r->why, "%s", why);
	r->code = r->ended ? r->code : code;
	r->ended = true;
	hr_remote_unlock(r);
}

static int start_remote(struct hr_remote *r, struct hr_error *e)
{
	int err;

	r->durable = r->durable_told = r->run->durable_tiles;
	if (!r->sends)
		hr_link_set_durable(r->link, r->durable);
	if (r->run->outcome == HR_RUN_COMPLETE)
		end_remote(r, 0, "");
	err = hr_thread_start(&r->thread, NULL, serve_remote, r);
	r->started = !err;
	return err ? hr_fail(e, HR_ERROR_FAILED, err, "thread: %s", strerror(-err)) : 0;
}

static bool has_met(struct hr_remote *r, int *err)
{
	bool met;

	hr_remote_lock(r);
	met = r->was_connected;
	*err = r->err;
	hr_remote_unlock(r);
	return met;
}

/* A run without a tile to give back could not wait for the end of the receiver's. A pipeline with a
 * result processes all tiles, and the receiver gets those that it lacks. */
static int wait_for_receiver(struct hr_engine *engine, struct hr_run *run, struct hr_error *e)
{
	struct hr_store *store[HR_SSDS_MAX];
	struct hr_remote *r = remote_of(engine, run);
	uint64_t began_ns = hr_now_ns();
	int err = 0;

	while (!has_met(r, &err) && !err) {
		if (hr_signals_pending())
			return -EINTR;
		if (began_ns && hr_now_ns() - began_ns >= SAY_SO_NS) {
			hr_warn("pipeline '%s': no receiver of remote '%s' at %s yet: waiting",
				run->config->name, hr_remote_name(run),
				hr_remote_config(run)->address);
			began_ns = 0;
		}
		hr_tick();
		hr_wait_ns(HR_NS_PER_MS);
	}
	if (err) {
		*e = r->error;
		return err;
	}
	if (!hr_run_resumes(run) || hr_config_has_feed(run->config) || !run->tiles)
		return 0;
	run->first_tile = r->receiver_has < run->tiles ? r->receiver_has : run->tiles - 1;
	for (uint32_t d = 0; d < HR_SSDS_MAX; d++)
		store[d] = &engine->ssd[d].store;
	return hr_checksums_decide(engine, run, store);
}

static int start_all(struct hr_engine *engine, bool waits)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++) {
		struct hr_error e = { 0 };

		if (!has_stream(&engine->run[i]) || !remotes[i].link ||
		    (waits && !remotes[i].sends))
			continue;
		err = waits ? wait_for_receiver(engine, &engine->run[i], &e)
			    : start_remote(&remotes[i], &e);
		if (err == -EINTR)
			return err;
		hr_error_context(&e, "%s:%u: pipeline '%s'", engine->config.file,
				 hr_remote_config(&engine->run[i])->line,
				 engine->run[i].config->name);
		if (err)
			err = refuse_remote(engine, i, err, &e);
	}
	return err;
}

int hr_remote_start(struct hr_engine *engine)
{
	/* all receivers listen before a sender waits, which may be for another one that waits */
	const int err = start_all(engine, false);

	return err ? err : start_all(engine, true);
}

/* ---- the run */

static struct hr_remote *open_one(const struct hr_engine *engine, const struct hr_run *run)
{
	struct hr_remote *r = remote_of(engine, run);

	return streams && hr_config_is_remote(run->config) && r->link ? r : NULL;
}

void hr_remote_begin(struct hr_engine *engine, struct hr_run *run)
{
	struct hr_remote *r = open_one(engine, run);

	if (!r)
		return;
	if (r->sends)
		hr_remote_sender_begin(r);
	else
		hr_remote_receiver_begin(r);
	hr_remote_lock(r);
	r->begun = true;
	hr_remote_unlock(r);
}

int hr_remote_check(struct hr_engine *engine, struct hr_run *run, struct hr_error *e)
{
	struct hr_remote *r = open_one(engine, run);
	int err;

	if (!r)
		return 0;
	hr_remote_lock(r);
	r->durable = run->durable_tiles;
	err = r->err;
	if (err)
		hr_fail(e, r->error.kind, err, "pipeline '%s': %s", run->config->name,
			r->error.text);
	hr_remote_unlock(r);
	return err;
}

void hr_remote_end(struct hr_engine *engine, const struct hr_run *run)
{
	struct hr_remote *r = open_one(engine, run);
	const bool whole = run->outcome == HR_RUN_DONE;
	char why[sizeof r->why];
	int code = 0;

	if (!r)
		return;
	snprintf(why, sizeof why, "%.*s", (int)strcspn(run->cause.text, "\n"), run->cause.text);
	if (!*why)
		snprintf(why, sizeof why, "pipeline '%s' was interrupted", run->config->name);
	hr_remote_lock(r);
	r->durable = run->durable_tiles;
	hr_remote_unlock(r);
	if (!whole)
		code = run->cause.kind ? (int)run->cause.kind : HR_ERROR_FAILED;
	end_remote(r, code, whole ? "" : why);
}

static bool is_over(struct hr_remote *r)
{
	bool over;

	hr_remote_lock(r);
	over = r->thread_ended;
	hr_remote_unlock(r);
	return over;
}

void hr_remote_down(struct hr_engine *engine)
{
	char why[160];

	for (uint32_t i = 0; streams && i < engine->config.pipelines; i++) {
		struct hr_remote *r = &remotes[i];

		if (!r->link || !r->started)
			continue;
		snprintf(why, sizeof why, "pipeline '%s' has not run", r->run->config->name);
		end_remote(r, HR_ERROR_FAILED, why);
	}
	for (uint32_t i = 0; streams && i < engine->config.pipelines; i++) {
		struct hr_remote *r = &remotes[i];

		while (r->link && r->started && !is_over(r)) {
			hr_tick();
			hr_wait_ns(HR_NS_PER_MS);
		}
		if (r->link && r->started)
			hr_thread_join(&r->thread);
		if (r->link)
			close_remote(r);
	}
}

void hr_remote_snapshot(const struct hr_engine *engine, const struct hr_run *run,
			struct hr_remote_report *report)
{
	struct hr_remote *r = remote_of(engine, run);

	memset(report, 0, sizeof *report);
	if (!hr_config_is_remote(run->config) || !r->report.open)
		return;
	if (r->run)
		hr_remote_lock(r);
	*report = r->report;
	if (r->run)
		hr_remote_unlock(r);
	report->copies = run->copies && engine->backend[run->config->gpu].lanes == 1
				 ? report->link.tiles
				 : 0;
}
