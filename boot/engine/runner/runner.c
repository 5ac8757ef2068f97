/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/runner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/runner/conclude.h"
#include "boot/engine/run.h"
#include "boot/engine/exclude.h"
#include "boot/engine/remote/remote.h"
#include "boot/engine/concurrency.h"
#include "boot/engine/bringup/sinks.h"
#include "config/base/clock.h"
#include "config/base/error.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "boot/engine/runner/park.h"
#include "boot/engine/runner/progress.h"
#include "boot/engine/objects/reading.h"
#include "config/base/process.h"
#include "boot/engine/runner/stall.h"
#include "boot/engine/runner/health_action.h"
#include "boot/engine/objects/new_objects.h"
#include "config/base/tick.h"
#include "gpu/backend.h"
#include "nvme/events.h"
#include "nvme/ctrl.h"
#include "nvme/queue/status.h"

#define LOOK_NS (20 * HR_NS_PER_MS) /* between two checks of the controllers */
#define WAIT_MIN_NS 20000ull
#define WAIT_MAX_NS (HR_NS_PER_MS / 2) /* clients of store and taps are served after each pause */

/* Host state while a pipeline runs. */
struct watch {
	struct hr_engine *engine;
	struct hr_run *run;
	struct hr_launch *launch[HR_GPUS_MAX]; /* of each gpu; NULL: it has ended, or not begun */
	struct hr_progress progress;
	uint64_t now_ns, next_checkpoint_ns, next_look_ns, pause_ns;
	struct hr_stall heartbeats;
	struct hr_run_ending end;
	struct hr_error failure; /* of the first backend that has failed, and its error; 0: none */
	int failed;
	bool launched;
	struct hr_park park;
	struct hr_reading reading; /* before the launch, or after its end */
};

/* By index of the pipeline. One appliance runs at a time, and a stack has no room for this. */
static struct watch watches[HR_PIPELINES_MAX];

static void stop_launches(struct watch *w, enum hr_pipe_stop how)
{
	hr_stall_stopping(&w->heartbeats, w->now_ns);
	for (uint32_t p = 0; p < hr_run_gpus(w->run); p++)
		if (w->launch[p])
			hr_launch_stop(w->launch[p], how);
	/* workers that have left the gpu see it in their next launch */
	if (w->park.parked)
		hr_release_sys_u32(&hr_run_control(w->run, 0)->stop, how);
}

static void request_stop(struct watch *w)
{
	w->end.stopping = true;
	if (w->end.aborted || w->failed)
		hr_stall_stopping(&w->heartbeats, w->now_ns);
	else
		stop_launches(w, HR_STOP_NEW);
}

static void poll_checkpoint(struct watch *w)
{
	if (!w->run->config->has_sink || !w->engine->config.checkpoint_ns || w->end.stopping ||
	    w->end.aborted || w->now_ns < w->next_checkpoint_ns)
		return;
	w->next_checkpoint_ns = w->now_ns + w->engine->config.checkpoint_ns;
	w->end.error = hr_run_checkpoint(w->engine, w->run, &w->run->cause);
	if (w->end.error)
		request_stop(w);
}

/* Make written tiles of all running pipelines durable. */
static void keep_progress(struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		struct hr_run *run = &engine->run[i];

		if (!run->started_ns || run->ended_ns || !hr_run_wired(run))
			continue;
		if (run->config->has_sink)
			hr_run_checkpoint(engine, run, NULL);
		hr_run_log_durable(run, "failed");
	}
}

/*
 * A hanging worker cannot be ended, so the process ends. First make written tiles durable, and
 * disable the controllers, because they write to memory of this process.
 */
static void abandon_run(struct watch *w, uint32_t role, uint32_t index)
{
	hr_stall_log(w->engine, &w->heartbeats, role, index);
	/* stop the ticks: the supervisor ends this process when it hangs here as well */
	hr_tick_set(NULL, NULL);
	keep_progress(w->engine);
	for (uint32_t d = 0; d < w->engine->config.ssds; d++)
		hr_ssd_disable(&w->engine->ssd[d]);
	_exit(HR_EXIT_DEVICE);
}

static void poll_heartbeats(struct watch *w)
{
	uint32_t index;
	const uint32_t role = hr_stall_check(&w->heartbeats, w->now_ns, &index);

	if (role != HR_RUN_ROLES)
		abandon_run(w, role, index);
}

static void poll_warnings(struct watch *w, uint32_t d)
{
	if (!w->end.stopping && !w->end.error)
		w->end.error = hr_warning_stop(w->engine, w->run->config, d, &w->run->cause);
	if (!w->end.stopping && !w->end.aborted && w->end.error)
		request_stop(w);
}

/*
 * A controller that has failed, is gone, or was reset completes no command. Log that now, and end
 * the workers before the deadlines of their commands. Do the same after an event that ends the use
 * of the controller or its namespace.
 */
static void poll_controllers(struct watch *w)
{
	if (w->end.aborted || w->now_ns < w->next_look_ns)
		return;
	w->next_look_ns = w->now_ns + LOOK_NS;
	for (uint32_t d = 0; d < w->engine->config.ssds; d++) {
		struct hr_ssd *ssd = &w->engine->ssd[d];
		struct hr_error e = { 0 };
		int err;

		if (!hr_run_uses_ssd(w->run, d))
			continue;
		err = hr_ctrl_check(ssd->ctrl, &e);
		if (!err)
			err = hr_ctrl_aer_poll(ssd->ctrl, &ssd->ns, &e);
		if (!err) {
			poll_warnings(w, d);
			continue;
		}
		hr_failure_add_loss(w->engine, w->run, d, err, &e);
		if (err == -ENXIO)
			hr_health_fault(&ssd->health, HR_FAULT_NAMESPACE, NULL, err, NULL);
		hr_health_set(&ssd->health, HR_STEP_GIVE_UP); /* workers leave commands in flight */
		w->end.error = err;
		w->end.aborted = true;
		stop_launches(w, HR_STOP_ABANDON);
	}
	hr_error_log(&w->run->cause, HR_LOG_ERROR);
}

/* Workers and host share a clock only when workers are CPU threads. */
static void note_start(const struct watch *w)
{
	for (uint32_t p = 0; p < hr_run_gpus(w->run); p++) {
		const uint32_t g = hr_config_gpu(w->run->config, p);
		const uint64_t first =
			hr_acquire_sys_u64(&hr_run_control(w->run, p)->first_submit_ns);

		if (first && !w->run->first_submit_ns)
			w->run->first_submit_ns =
				w->engine->backend[g].lanes == 1 ? first : w->now_ns;
	}
}

/*
 * Double the pause, but at most to half of the estimated remaining time of the pipeline. At least a
 * 1024th of the time until now: after its last tile a run may wait long, for a consumer or the other
 * side.
 */
static uint64_t next_pause(const struct watch *w)
{
	uint64_t pause = w->pause_ns * 2;
	const uint64_t ran_ns = w->now_ns - w->run->started_ns;
	const uint64_t done = hr_run_tiles_done(w->run);
	const uint64_t left = hr_run_end_tile(w->run) - w->run->first_tile - done;
	const uint64_t rest = done ? ran_ns / done * left / 2 : WAIT_MAX_NS;

	pause = pause < rest ? pause : rest;
	pause = pause > ran_ns / 1024 ? pause : ran_ns / 1024;
	pause = pause < WAIT_MAX_NS ? pause : WAIT_MAX_NS;
	return pause > WAIT_MIN_NS ? pause : WAIT_MIN_NS;
}

/* Bytes of whole tiles; of an access operator, which has no tiles, bytes of the pages read. */
static uint64_t bytes_done(const struct hr_run *run)
{
	return run->config->objects ? hr_run_bytes_read(run)
				    : hr_run_bytes(run, run->first_tile + hr_run_tiles_done(run));
}

/* The stream from or to another appliance has failed, or the run of the other one. */
static void poll_remote(struct watch *w)
{
	if (!w->end.stopping && !w->end.aborted && !w->end.error &&
	    (w->end.error = hr_remote_check(w->engine, w->run, &w->run->cause)) != 0)
		request_stop(w);
}

/* Look at a running pipeline once. Only the first of several draws its progress. */
static void poll_run(struct watch *w, bool first)
{
	w->now_ns = hr_now_ns();
	if (hr_signals_pending() && !w->end.stopping)
		request_stop(w);
	note_start(w);
	poll_controllers(w);
	poll_checkpoint(w);
	poll_remote(w);
	poll_heartbeats(w);
	if (first)
		hr_progress_update(&w->progress, bytes_done(w->run), w->now_ns);
}

/* The backend of a gpu of the run has failed: no block of it runs. Workers of the other gpus wait
 * for it, so they end. */
static void fail_gpu(struct watch *w, uint32_t member, int err, const struct hr_error *e)
{
	if (!w->failed) {
		w->failed = err;
		w->failure = *e;
		w->end.failed_gpu = member;
	}
	w->heartbeats.failed_gpus |= 1u << member;
	stop_launches(w, HR_STOP_ABANDON);
}

static int launch_gpu(struct watch *w, uint32_t member, struct hr_error *e)
{
	const uint32_t g = hr_config_gpu(w->run->config, member);
	const struct hr_launch_args args = {
		.entry = w->run->gpu[member].entry,
		.argument = hr_partition_worker(&w->engine->partition[g],
						hr_run_descriptor(w->run, member)),
		.blocks = hr_run_blocks(w->run),
		.threads = w->run->threads,
		.shared_bytes = w->run->shared_bytes,
		.stop = &hr_run_control(w->run, member)->stop,
	};
	struct hr_backend *b = &w->engine->backend[g];
	const int err = b->ops->launch(b, &args, &w->launch[member], e);

	w->launched |= !err;
	return err;
}

/* Upload the host's data, and launch. Workers use the memory of the other gpus, so all of it is
 * there before the first launch. */
static void launch(struct watch *w)
{
	struct hr_error e = { 0 };
	int err = 0;

	for (uint32_t p = 0; !w->failed && p < hr_run_gpus(w->run); p++) {
		const uint32_t g = hr_config_gpu(w->run->config, p);

		err = hr_layout_upload(hr_run_layout(w->run, p), &w->engine->memory[g], &e);
		if (err)
			fail_gpu(w, p, err, &e);
	}
	if (!w->failed)
		hr_park_launch(&w->park, w->run);
	for (uint32_t p = 0; !w->failed && p < hr_run_gpus(w->run); p++) {
		err = launch_gpu(w, p, &e);
		if (err)
			fail_gpu(w, p, err, &e);
	}
}

/* Launch again with the data that the workers have left. */
static void launch_again(struct watch *w)
{
	struct hr_error e = { 0 };
	int err;

	hr_park_launch(&w->park, w->run);
	hr_stall_begin(&w->heartbeats, w->engine, w->run, w->now_ns);
	err = launch_gpu(w, 0, &e);
	if (err)
		fail_gpu(w, 0, err, &e);
}

/* True when the blocks of all gpus of the run have ended, or their backends have failed. */
static bool has_ended(struct watch *w)
{
	bool runs = false;

	for (uint32_t p = 0; p < hr_run_gpus(w->run); p++) {
		struct hr_error e = { 0 };
		const int ended = w->launch[p] ? hr_launch_poll(w->launch[p], &e) : 1;

		runs |= ended == 0;
		if (!w->launch[p] || ended == 0)
			continue;
		hr_launch_free(w->launch[p]);
		w->launch[p] = NULL;
		if (ended < 0)
			fail_gpu(w, p, ended, &e);
	}
	return !runs;
}

static void download(struct watch *w)
{
	for (uint32_t p = 0; !w->failed && p < hr_run_gpus(w->run); p++) {
		const uint32_t g = hr_config_gpu(w->run->config, p);
		struct hr_error e = { 0 };
		const int err =
			hr_layout_download(hr_run_layout(w->run, p), &w->engine->memory[g], &e);

		if (err)
			fail_gpu(w, p, err, &e);
	}
}

/* No worker runs. True: they have left the gpu, and go on when a consumer gives a tile back. */
static bool stays_parked(struct watch *w)
{
	struct hr_error e = { 0 };
	int err;

	if (w->failed || (!w->park.parked && !hr_park_has_left(w->run)))
		return false;
	w->now_ns = hr_now_ns();
	err = w->park.parked ? 0 : hr_park_begin(&w->park, w->engine, w->run, &e);
	if (err) {
		fail_gpu(w, 0, err, &e);
		return false;
	}
	if (hr_signals_pending() && !w->end.stopping)
		request_stop(w);
	poll_controllers(w);
	if (w->end.stopping || w->end.aborted || hr_park_must_launch(&w->park, w->run, w->now_ns))
		launch_again(w);
	return !w->failed;
}

/* The workers have ended: their results come to the CPU. */
static void download_results(struct watch *w)
{
	w->now_ns = hr_now_ns();
	if (w->launched)
		note_start(w);
	if (w->launched || w->failed)
		download(w);
	w->run->workers_ended = w->launched && !w->failed;
	w->end.ended_ns = w->now_ns;
}

/* The results are there, or the run was not launched. */
static void end_one(struct hr_runner *runner, uint32_t i)
{
	struct watch *w = &watches[i];
	struct hr_run *run = w->run;
	int err;

	w->end.unstarted = !w->launched && !w->failed;
	hr_progress_end(&w->progress);
	err = hr_run_conclude(w->engine, run, &w->end, w->failed, &w->failure);
	hr_remote_end(w->engine, run);
	hr_tick_at_once();
	runner->running &= ~(1u << i);
	runner->ending |= err && (!w->engine->keep_going || run->outcome == HR_RUN_INTERRUPTED);
}

/* The objects are verified: launch the workers. */
static void start_workers(struct hr_runner *runner, uint32_t i)
{
	struct watch *w = &watches[i];
	const int err = hr_written_begin(w->engine, w->run, &w->run->cause);

	if (err) {
		w->end.error = err;
		end_one(runner, i);
		return;
	}
	w->now_ns = w->run->started_ns = hr_now_ns();
	hr_stall_begin(&w->heartbeats, w->engine, w->run, w->now_ns);
	w->next_checkpoint_ns = w->now_ns + w->engine->config.checkpoint_ns;
	launch(w);
	if (w->failed && has_ended(w)) {
		download_results(w);
		end_one(runner, i);
	}
}

/* Read the next piece of an object. The run ends when the controller is lost; a signal leaves the
 * reading after the end unfinished, because the work is done. */
static void read_on(struct hr_runner *runner, uint32_t i)
{
	struct watch *w = &watches[i];
	const bool before = !w->launched;
	int err = 0;

	w->now_ns = hr_now_ns();
	poll_controllers(w);
	w->end.stopping |= hr_signals_pending();
	if (w->end.stopping || w->end.aborted)
		w->reading.phase = HR_READING_NONE;
	else
		err = hr_reading_step(&w->reading, w->engine, w->run, &w->run->cause);
	if (err)
		w->end.error = err;
	if (w->reading.phase != HR_READING_NONE)
		return;
	if (before && !w->end.stopping && !w->end.error)
		start_workers(runner, i);
	else
		end_one(runner, i);
}

/* The workers have ended. An access operator that has succeeded has its objects read. */
static void workers_ended(struct hr_runner *runner, uint32_t i)
{
	struct watch *w = &watches[i];

	download_results(w);
	if (!w->failed && hr_run_is_whole(w->run, &w->end))
		hr_reading_begin(&w->reading, HR_READING_AFTER, w->run);
	if (w->reading.phase == HR_READING_NONE)
		end_one(runner, i);
}

void hr_runner_start(struct hr_runner *runner, uint32_t i)
{
	struct hr_engine *engine = runner->engine;
	struct hr_run *run = &engine->run[i];
	struct watch *w = &watches[i];

	memset(w, 0, sizeof *w);
	w->engine = engine;
	w->run = run;
	w->pause_ns = WAIT_MIN_NS;
	if (run->first_tile > hr_run_first_tile(run))
		hr_warn("pipeline '%s' resumes at tile %llu of %llu", run->config->name,
			(unsigned long long)run->first_tile, (unsigned long long)run->tiles);
	w->now_ns = run->started_ns = hr_now_ns();
	run->ended_ns = run->done_tiles = run->read_bytes = 0;
	hr_error_clear(&run->cause);
	/* publish which pipeline runs, in case it crashes this process */
	hr_tick_at_once();
	w->progress.page_bytes = run->config->objects ? run->config->cache.page_bytes : 0;
	hr_progress_begin(&w->progress, runner->progress, run->config->name,
			  hr_run_bytes(run, run->first_tile),
			  hr_run_bytes(run, hr_run_end_tile(run)), w->now_ns);
	runner->running |= 1u << i;
	runner->started |= 1u << i;
	hr_remote_begin(engine, run);
	hr_reading_begin(&w->reading, HR_READING_BEFORE, run);
	if (w->reading.phase == HR_READING_NONE)
		start_workers(runner, i);
}

static bool is_waiting(const struct hr_run *run)
{
	return run->selected && run->outcome == HR_RUN_WAITING;
}

/* True when pipeline i waits, is not blocked, and belongs to this call of run_waiting(). */
static bool is_wanted(const struct hr_runner *runner, uint32_t i, hr_pipeline_set unended)
{
	const struct hr_run *run = &runner->engine->run[i];

	return is_waiting(run) && !(runner->started >> i & 1) &&
	       (runner->suspects || !run->suspect) &&
	       !hr_schedule_blocked(runner->engine, run, unended);
}

/* True when pipeline i has to wait because a suspect runs alone: it may crash this process. */
static bool is_alone(const struct hr_runner *runner, uint32_t i)
{
	hr_pipeline_set suspects = 0;

	for (uint32_t j = 0; j < runner->engine->config.pipelines; j++)
		suspects |= (uint32_t)runner->engine->run[j].suspect << j;
	return runner->running && ((suspects >> i & 1) || (suspects & runner->running));
}

/* The first pipeline that may start beside the running ones; HR_PIPELINES_MAX: none. */
static uint32_t next_ready(const struct hr_runner *runner)
{
	hr_pipeline_set unended = runner->running;

	for (uint32_t i = 0; i < runner->engine->config.pipelines; i++) {
		if (!is_wanted(runner, i, unended))
			continue;
		if (!(hr_concurrency_before(runner->engine, i) & unended) && !is_alone(runner, i))
			return i;
		unended |= 1u << i;
	}
	return HR_PIPELINES_MAX;
}

static void start_ready(struct hr_runner *runner)
{
	uint32_t i;

	while (!runner->ending &&
	       (uint32_t)__builtin_popcount(runner->running) < runner->engine->config.parallel &&
	       (i = next_ready(runner)) < HR_PIPELINES_MAX) {
		runner->interrupted = runner->ending = hr_signals_pending() != 0;
		if (!runner->ending)
			hr_runner_start(runner, i);
	}
}

void hr_runner_poll(struct hr_runner *runner)
{
	uint64_t pause = WAIT_MAX_NS;
	bool first = true;

	for (uint32_t i = 0; i < runner->engine->config.pipelines; i++) {
		struct watch *w = &watches[i];

		if (!(runner->running >> i & 1))
			continue;
		if (w->reading.phase != HR_READING_NONE) {
			read_on(runner, i);
			pause = 0;
			continue;
		}
		if (has_ended(w)) {
			pause = HR_PARK_POLL_NS < pause ? HR_PARK_POLL_NS : pause;
			if (stays_parked(w))
				continue;
			workers_ended(runner, i);
			pause = 0;
			continue;
		}
		poll_run(w, first);
		first = false;
		pause = w->pause_ns < pause ? w->pause_ns : pause;
		w->pause_ns = w->run->tap.role.park ? HR_PARK_POLL_NS : next_pause(w);
	}
	hr_tick();
	if (runner->engine->serve)
		runner->engine->serve(runner->engine->serve_to);
	if (pause)
		hr_wait_ns(pause);
}

/* Run all waiting pipelines; without `suspects` only those that did not fail in an earlier
 * attempt. */
static int run_waiting(struct hr_engine *engine, bool suspects, bool progress, struct hr_error *e)
{
	struct hr_runner runner = { .engine = engine, .suspects = suspects, .progress = progress };

	hr_wait_precisely();
	for (start_ready(&runner); runner.running; start_ready(&runner))
		hr_runner_poll(&runner);
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		if (!(runner.started >> i & 1) || !engine->run[i].error)
			continue;
		if (e && !e->kind)
			*e = engine->run[i].cause;
		return engine->run[i].error;
	}
	return runner.interrupted ? -EINTR : 0;
}

int hr_run_trusted(struct hr_engine *engine, bool progress, struct hr_error *e)
{
	return run_waiting(engine, false, progress, e);
}

int hr_run_all(struct hr_engine *engine, bool progress, struct hr_error *e)
{
	int err = run_waiting(engine, !engine->keep_going, progress, e), next, blocked;

	if (!engine->keep_going || hr_signals_pending())
		return err;
	next = run_waiting(engine, true, progress, e);
	if (hr_signals_pending())
		return err ? err : next;
	blocked = hr_refuse_blocked(engine, e);
	return err ? err : next ? next : blocked;
}
