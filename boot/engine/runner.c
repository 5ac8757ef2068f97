#include "boot/engine/runner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/checksums.h"
#include "boot/engine/refuse.h"
#include "boot/engine/stage_sinks.h"
#include "config/clock.h"
#include "boot/engine/exit.h"
#include "boot/engine/failure.h"
#include "config/log.h"
#include "boot/engine/progress.h"
#include "boot/engine/signals.h"
#include "boot/engine/watch.h"
#include "config/tick.h"
#include "nvme/events.h"
#include "nvme/health.h"
#include "nvme/status.h"

#define LOOK_NS (20 * HR_NS_PER_MS) /* between two looks at the controllers */
#define WAIT_MIN_NS 20000ull
#define WAIT_MAX_NS (HR_NS_PER_MS / 2)

/* What the host keeps while a pipeline runs. */
struct watch {
	struct hr_appliance *app;
	struct hr_run *run;
	struct hr_backend *backend;
	struct hr_progress progress;
	uint64_t now_ns, next_checkpoint_ns, next_look_ns;
	struct hr_watch heartbeats;
	int error;    /* of a checkpoint, or of a controller */
	bool aborted; /* workers wait for no command any more: some may be in flight */
	bool stopping;
};

uint64_t hr_run_bytes(const struct hr_run *run, uint64_t tiles)
{
	uint64_t sum = 0;

	for (uint32_t s = 0; s < run->config->sources; s++) {
		const struct hr_run_source *source = &run->source[s];
		const uint64_t bytes = tiles * source->tile_bytes;

		sum += bytes < source->bytes ? bytes : source->bytes;
	}
	return sum;
}

uint64_t hr_run_bytes_read(const struct hr_run *run)
{
	uint64_t sum = 0;

	if (run->ended_ns || !run->pipe || !run->started_ns)
		return run->read_bytes;
	for (uint32_t i = 0; i < hr_pipe_first_status(run->pipe, HR_ROLE_COMPUTE); i++)
		sum += hr_acquire_sys_u64(&run->status[i].bytes);
	return sum;
}

uint64_t hr_run_tiles_done(const struct hr_run *run)
{
	const struct hr_pipe *pipe = run->pipe;
	const uint32_t role = pipe->has_sink ? HR_ROLE_WRITEBACK : HR_ROLE_COMPUTE;
	const uint32_t first = hr_pipe_first_status(pipe, role);
	const uint32_t last = hr_pipe_first_status(pipe, role + 1);
	uint64_t sum = 0;

	for (uint32_t i = first; i < last; i++)
		sum += hr_acquire_sys_u64(&run->status[i].tiles);
	return sum;
}

static void request_stop(struct watch *w)
{
	w->stopping = true;
	if (!w->aborted)
		hr_release_sys_u32(&w->run->control->stop, HR_STOP_NEW);
}

/* To the tile once workers have ended, and what they have left is here. */
static uint64_t written_tiles(const struct hr_appliance *app, const struct hr_run *run)
{
	const struct hr_partition *p = &app->partition[run->config->gpu];
	const bool all = hr_run_tiles_done(run) == run->tiles - run->first_tile;
	/* Looked at also when all tiles are counted: counts come without what was written before
	 * them, the checksums of tiles, and the words of slots with it. */
	const uint64_t tiles =
		run->settled ? hr_pipe_settled(run->pipe, hr_partition_cpu(p, run->part.slots))
			     : hr_pipe_written(run->pipe, run->written);

	return all ? run->tiles : tiles;
}

/*
 * Make durable what is written. The watermark is read first: the commit of the object map flushes
 * what was written before it, so the map never promises more than the flush has covered. The checksum
 * of what is durable goes with it, so that a run that goes on from there ends with that of the whole.
 */
static int checkpoint(struct hr_appliance *app, struct hr_run *run)
{
	struct hr_ssd *ssd = &app->ssd[run->config->sink.ssd];
	uint64_t tiles = written_tiles(app, run), bytes;
	int err;

	if (tiles <= run->durable_tiles)
		return 0;
	bytes = tiles * run->sink_tile_bytes;
	if (bytes > run->sink_bytes)
		bytes = run->sink_bytes;
	err = hr_store_progress(&ssd->store, run->sink_id, bytes,
				hr_sink_tag(run->fingerprint, run->config->sink.checksum),
				hr_checksums_sink(app, run, tiles));
	if (!err)
		run->durable_tiles = tiles;
	return err;
}

static void log_durable(const struct hr_run *run, const char *what)
{
	if (run->config->has_sink)
		hr_warn("pipeline '%s' %s: %llu of %llu tiles of object '%s' are durable; run it "
			"again%s",
			run->config->name, what, (unsigned long long)run->durable_tiles,
			(unsigned long long)run->tiles, run->config->sink.object,
			hr_run_resumes(run) ? " to go on from there" : "");
	else
		hr_warn("pipeline '%s' %s", run->config->name, what);
}

static void watch_checkpoint(struct watch *w)
{
	if (!w->run->config->has_sink || !w->app->config.checkpoint_ns || w->stopping ||
	    w->aborted || w->now_ns < w->next_checkpoint_ns)
		return;
	w->next_checkpoint_ns = w->now_ns + w->app->config.checkpoint_ns;
	w->error = checkpoint(w->app, w->run);
	if (w->error)
		request_stop(w);
}

/*
 * Nothing ends a worker that hangs, so the process ends: with what is written made durable, and the
 * controllers disabled, because they write to memory that is about to go.
 */
static void give_up(struct watch *w, enum hr_role role, uint32_t index)
{
	const struct hr_run *run = w->run;
	const uint32_t i = hr_pipe_first_status(run->pipe, role) + index;
	char tile[48] = "";

	if (role == HR_ROLE_COMPUTE)
		snprintf(tile, sizeof tile, ", which began tile %llu,",
			 (unsigned long long)hr_acquire_sys_u64(&run->status[i].tile));
	hr_error("pipeline '%s': %s %s %u of %s%s has not moved for %llu ms; controllers are "
		 "disabled",
		 run->config->name, hr_role_name(role),
		 role == HR_ROLE_COMPUTE ? "block" : "worker", index, w->backend->name, tile,
		 (unsigned long long)(w->heartbeats.patience_ns[role] / HR_NS_PER_MS));
	hr_tick_set(NULL, NULL); /* no sign of life: a supervisor ends this if it hangs as well */
	if (run->config->has_sink)
		checkpoint(w->app, w->run);
	log_durable(w->run, "failed");
	for (uint32_t d = 0; d < w->app->config.ssds; d++)
		hr_ssd_disable(&w->app->ssd[d]);
	_exit(HR_EXIT_DEVICE);
}

static void watch_heartbeats(struct watch *w)
{
	uint32_t index;
	const enum hr_role role = hr_watch_look(&w->heartbeats, w->now_ns, &index);

	if (role != HR_ROLES)
		give_up(w, role, index);
}

/* The pipeline reads from that ssd, or writes to it. */
static bool uses(const struct hr_run *run, uint32_t d)
{
	for (uint32_t q = 0; q < run->ssds; q++)
		if (run->ssd[q] == d)
			return true;
	return run->config->has_sink && run->config->sink.ssd == d;
}

/*
 * A controller that has failed, left, or was reset completes nothing: that is said now, and workers
 * end without waiting for the deadlines of their commands. Likewise one that tells of an event after
 * which it, or its namespace, is not to be used.
 */
static void watch_controllers(struct watch *w)
{
	const struct hr_config *config = &w->app->config;

	if (w->aborted || w->now_ns < w->next_look_ns)
		return;
	w->next_look_ns = w->now_ns + LOOK_NS;
	for (uint32_t d = 0; d < config->ssds; d++) {
		struct hr_ssd *ssd = &w->app->ssd[d];
		char text[96];
		int err;

		if (!uses(w->run, d))
			continue;
		err = hr_ctrl_check(ssd->ctrl);
		if (!err)
			err = hr_ctrl_events(ssd->ctrl, &ssd->ns);
		if (!err)
			continue;
		hr_error("pipeline '%s': ssd '%s' (%s) is lost: %s%s", w->run->config->name,
			 config->ssd[d].name, ssd->transport.name,
			 hr_error_name(err, text, sizeof text),
			 err == -ENOLINK
				 ? "; check slot, power and 'dmesg', and start the run again "
				   "when 'headrace check' finds it"
				 : "");
		hr_ssd_fail(ssd);
		w->error = err;
		w->aborted = true;
		hr_release_sys_u32(&w->run->control->stop, HR_STOP_WAITING);
	}
}

/* Clocks of workers and host are the same only where workers are threads of the CPU. */
static void note_start(const struct watch *w)
{
	const uint64_t first = hr_acquire_sys_u64(&w->run->control->first_submit_ns);

	if (first && !w->run->first_submit_ns)
		w->run->first_submit_ns = w->backend->lanes == 1 ? first : w->now_ns;
}

/* Longer and longer, but at most half of what the pipeline will still take, as far as one can tell. */
static uint64_t next_pause(const struct watch *w, uint64_t pause)
{
	const uint64_t ran_ns = w->now_ns - w->run->started_ns;
	const uint64_t done = hr_run_tiles_done(w->run);
	const uint64_t left = w->run->tiles - w->run->first_tile - done;
	const uint64_t rest = done ? ran_ns / done * left / 2 : WAIT_MAX_NS;

	pause *= 2;
	pause = pause < rest ? pause : rest;
	pause = pause < WAIT_MAX_NS ? pause : WAIT_MAX_NS;
	return pause > WAIT_MIN_NS ? pause : WAIT_MIN_NS;
}

static int watch_until_ended(struct watch *w)
{
	uint64_t pause = WAIT_MIN_NS;
	int ended;

	hr_wait_precisely();
	while ((ended = w->backend->ops->poll(w->backend)) == 0) {
		w->now_ns = hr_now_ns();
		if (hr_signals_pending() && !w->stopping)
			request_stop(w);
		note_start(w);
		watch_controllers(w);
		watch_checkpoint(w);
		watch_heartbeats(w);
		hr_tick();
		hr_progress_update(
			&w->progress,
			hr_run_bytes(w->run, w->run->first_tile + hr_run_tiles_done(w->run)),
			w->now_ns);
		hr_wait_ns(pause);
		pause = next_pause(w, pause);
	}
	w->now_ns = hr_now_ns();
	note_start(w);
	return ended < 0 ? ended : 0;
}

/* A queue that lost a command or broke: its controller may still write to the command's buffer. */
static bool is_bad(const struct hr_nvme_qp *qp)
{
	return qp->broken || qp->stats.lost;
}

/* Queues whose state nobody knows: the workers are gone, and commands may be in flight. */
static void mark_all_ssds(struct hr_appliance *app, const struct hr_run *run)
{
	for (uint32_t q = 0; q < run->ssds; q++)
		hr_ssd_fail(&app->ssd[run->ssd[q]]);
	if (run->config->has_sink)
		hr_ssd_fail(&app->ssd[run->config->sink.ssd]);
}

static void mark_failed_ssds(struct hr_appliance *app, const struct hr_run *run)
{
	for (uint32_t w = 0; w < hr_run_workers(run, HR_ROLE_PREFETCH); w++)
		for (uint32_t q = 0; q < run->ssds; q++)
			if (is_bad(&run->read_qp[w * run->ssds + q]))
				hr_ssd_fail(&app->ssd[run->ssd[q]]);
	for (uint32_t w = 0; w < hr_run_workers(run, HR_ROLE_WRITEBACK); w++)
		if (is_bad(&run->write_qp[w]))
			hr_ssd_fail(&app->ssd[run->config->sink.ssd]);
}

static int finish_sink(struct hr_appliance *app, struct hr_run *run)
{
	struct hr_ssd *ssd = &app->ssd[run->config->sink.ssd];
	int err = hr_store_finish(&ssd->store, run->sink_id, run->config->sink.checksum,
				  hr_checksums_sink(app, run, run->tiles));

	if (!err)
		run->durable_tiles = run->tiles;
	return err;
}

static int conclude_failed(struct hr_appliance *app, struct hr_run *run, int err)
{
	const struct hr_failure *failure = hr_failure_first(run);

	run->outcome = HR_RUN_FAILED;
	if (failure) {
		run->failure = *failure;
		err = failure->error;
		hr_failure_log(app, run);
	} else if (!hr_op_built_in(run->config->op)) {
		hr_error("pipeline '%s': it runs a user operator, %s: what failed may be its code",
			 run->config->name, run->config->op->name);
	}
	run->error = err;
	if (run->config->has_sink && !app->ssd[run->config->sink.ssd].failed)
		checkpoint(app, run);
	log_durable(run, "failed");
	return err;
}

/* A controller is lost, which was said. Another one may have the sink, and keeps what is written. */
static int conclude_lost(struct hr_appliance *app, struct hr_run *run, int err)
{
	run->outcome = HR_RUN_FAILED;
	run->error = err;
	if (run->config->has_sink && !app->ssd[run->config->sink.ssd].failed)
		checkpoint(app, run);
	log_durable(run, "failed");
	return err;
}

/* The backend has failed, and said why. What workers have told before counts; queues are gone. */
static int conclude_without_gpu(struct watch *w, int err)
{
	const struct hr_run *run = w->run;

	hr_error("pipeline '%s': gpu '%s' (%s) failed, %llu of %llu tiles were through",
		 run->config->name, w->app->config.gpu[run->config->gpu].name, w->backend->name,
		 (unsigned long long)(run->first_tile + hr_run_tiles_done(run)),
		 (unsigned long long)run->tiles);
	conclude_failed(w->app, w->run, err);
	w->run->error = err;
	mark_all_ssds(w->app, run);
	w->app->gpu_failed[run->config->gpu] = true;
	return err;
}

/*
 * What other pipelines were to make of this one's sink goes with it: its next sink is another object,
 * so they could not go on with theirs.
 */
static void remove_dependent(struct hr_appliance *app, const struct hr_run *run)
{
	uint32_t gone = 1u << (run - app->run);

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		struct hr_run *later = &app->run[i];
		bool depends = false;

		for (uint32_t s = 0; later->selected && s < later->config->sources; s++)
			depends |= later->source[s].from >= 0 &&
				   (gone & 1u << later->source[s].from) != 0;
		if (!depends || later->outcome != HR_RUN_WAITING)
			continue;
		gone |= 1u << i;
		if (later->config->has_sink &&
		    hr_store_remove(&app->ssd[later->config->sink.ssd].store, later->sink_id) == 0)
			later->sink_id = 0;
	}
}

/*
 * A source is not what was stored, so the sink is not what was asked for: it goes, because what is
 * durable of it would be gone on with.
 */
static int conclude_wrong(struct hr_appliance *app, struct hr_run *run, int err)
{
	const struct hr_config_object *sink = &run->config->sink;
	char name[96];
	int failed;

	run->outcome = HR_RUN_FAILED;
	run->error = err;
	if (!run->config->has_sink)
		return err;
	failed = hr_store_remove(&app->ssd[sink->ssd].store, run->sink_id);
	if (failed) {
		hr_error("pipeline '%s': the incomplete object '%s' on ssd '%s' was made from "
			 "damaged data and "
			 "cannot be removed: %s; remove it with 'headrace store rm --pending'",
			 run->config->name, sink->object, app->config.ssd[sink->ssd].name,
			 hr_error_name(failed, name, sizeof name));
		return err;
	}
	hr_warn("pipeline '%s': object '%s' on ssd '%s' was made from damaged data; it is removed",
		run->config->name, sink->object, app->config.ssd[sink->ssd].name);
	run->sink_id = 0;
	run->durable_tiles = 0;
	remove_dependent(app, run);
	return err;
}

/* Every tile is through, also when a signal has asked to stop since. */
static int conclude_whole(struct hr_appliance *app, struct hr_run *run)
{
	int err = hr_checksums_verify(app, run);

	if (err)
		return conclude_wrong(app, run, err);
	err = run->config->has_sink ? finish_sink(app, run) : 0;
	run->outcome = err ? HR_RUN_FAILED : HR_RUN_DONE;
	run->error = err;
	return err;
}

static int conclude(struct watch *w, int err)
{
	struct hr_appliance *app = w->app;
	struct hr_run *run = w->run;

	run->through_tiles = hr_run_tiles_done(run);
	run->read_bytes = hr_run_bytes_read(run);
	run->ended_ns = hr_now_ns();
	if (err)
		return conclude_without_gpu(w, err);
	mark_failed_ssds(app, run);
	err = w->error;
	if (w->aborted)
		return conclude_lost(app, run, err);
	if (err || hr_failure_first(run))
		return conclude_failed(app, run, err);
	if (w->stopping && hr_run_tiles_done(run) < run->tiles - run->first_tile) {
		err = run->config->has_sink ? checkpoint(app, run) : 0;
		run->outcome = HR_RUN_INTERRUPTED;
		run->error = err ? err : -EINTR;
		log_durable(run, "interrupted");
		return run->error;
	}
	return conclude_whole(app, run);
}

/* From the upload of what the host has prepared to the download of what workers leave. */
static int launch_and_watch(struct watch *w)
{
	const uint32_t g = w->run->config->gpu;
	const struct hr_pipe *pipe = w->run->pipe;
	struct hr_backend *b = w->backend;
	int err = hr_places_upload(&w->app->memory[g]);

	if (!err)
		err = b->ops->launch(b, w->run->kernel,
				     hr_partition_worker(&w->app->partition[g], w->run->part.pipe),
				     hr_pipe_blocks(pipe), w->run->threads, w->run->shared_bytes);
	if (!err)
		err = watch_until_ended(w);
	if (!err)
		err = hr_places_download(&w->app->memory[g]);
	w->run->settled = !err;
	return err;
}

static int run_one(struct hr_appliance *app, struct hr_run *run, bool progress)
{
	struct watch w = { .app = app, .run = run, .backend = &app->backend[run->config->gpu] };
	int err;

	if (run->first_tile)
		hr_warn("pipeline '%s' resumes at tile %llu of %llu", run->config->name,
			(unsigned long long)run->first_tile, (unsigned long long)run->tiles);
	w.now_ns = run->started_ns = hr_now_ns();
	run->ended_ns = run->through_tiles = run->read_bytes = 0;
	hr_tick_at_once(); /* it is known what ran, should this process die of it */
	hr_watch_begin(&w.heartbeats, app, run, w.now_ns);
	w.next_checkpoint_ns = w.now_ns + app->config.checkpoint_ns;
	hr_progress_begin(&w.progress, progress, run->config->name,
			  hr_run_bytes(run, run->first_tile), hr_run_bytes(run, run->tiles),
			  w.now_ns);
	err = launch_and_watch(&w);
	hr_progress_end(&w.progress);
	err = conclude(&w, err);
	hr_tick_at_once();
	return err;
}

/* What it needs has failed since bring-up: an ssd, its gpu, or the pipeline whose sink it reads. */
static bool is_blocked(const struct hr_appliance *app, const struct hr_run *run)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (app->ssd[d].failed && hr_run_uses_ssd(run, d))
			return true;
	for (uint32_t s = 0; s < run->config->sources; s++) {
		const int from = run->source[s].from;

		if (from >= 0 && app->run[from].outcome != HR_RUN_DONE &&
		    app->run[from].outcome != HR_RUN_COMPLETE)
			return true;
	}
	return app->gpu_failed[run->config->gpu];
}

static bool is_waiting(const struct hr_run *run)
{
	return run->selected && run->outcome == HR_RUN_WAITING;
}

/* All that wait, or of these only the ones that did not fail in an earlier attempt. */
static int run_waiting(struct hr_appliance *app, bool suspects, bool progress)
{
	int first = 0;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		struct hr_run *run = &app->run[i];
		int err;

		if (!is_waiting(run) || (run->suspect && !suspects) || is_blocked(app, run))
			continue;
		if (hr_signals_pending())
			return first ? first : -EINTR;
		err = run_one(app, run, progress);
		first = first ? first : err;
		if (err && (!app->keep_going || run->outcome == HR_RUN_INTERRUPTED))
			return first;
	}
	return first;
}

static void warn_blocked(const struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (is_waiting(&app->run[i]))
			hr_warn("pipeline '%s' does not run: what it needs has failed",
				app->run[i].config->name);
}

int hr_run_trusted(struct hr_appliance *app, bool progress)
{
	return run_waiting(app, false, progress);
}

int hr_run_all(struct hr_appliance *app, bool progress)
{
	int first = run_waiting(app, !app->keep_going, progress), err;

	if (!app->keep_going || hr_signals_pending())
		return first;
	err = run_waiting(app, true, progress);
	if (!hr_signals_pending())
		warn_blocked(app);
	return first ? first : err;
}
