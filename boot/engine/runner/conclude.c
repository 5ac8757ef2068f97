/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/conclude.h"

#include <errno.h>

#include "boot/engine/objects/checksums.h"
#include "boot/engine/exclude.h"
#include "boot/engine/run.h"
#include "boot/engine/objects/shards.h"
#include "boot/engine/bringup/sinks.h"
#include "boot/engine/objects/new_objects.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/queue/status.h"

/* Number of tiles that are written, from the first on. Exact after the workers have ended,
 * because their slots can be read then. */
static uint64_t written_tiles(const struct hr_run *run)
{
	const bool all = hr_run_tiles_done(run) == hr_run_end_tile(run) - run->first_tile;
	/* Read the watermark even when the count of tiles is complete: the watermark orders the
	 * reads of checksums and slots, the count does not. */
	const uint64_t tiles = run->workers_ended
				       ? hr_pipe_final_prefix(run->pipe, run->cpu.slot)
				       : hr_pipe_written_prefix(run->pipe, run->cpu.written);

	return all ? hr_run_end_tile(run) : tiles;
}

/* The store of the sink has failed with err. */
static int explain_store(const struct hr_engine *engine, const struct hr_run *run, int err,
			 const char *what, struct hr_error *e)
{
	const struct hr_config_object *sink = &run->config->sink;
	char name[96];

	hr_fail(e, HR_ERROR_DEVICE, err, "%s", hr_error_name(err, name, sizeof name));
	hr_error_context(e, "pipeline '%s': object '%s' on ssd '%s': %s", run->config->name,
			 sink->object, engine->config.ssd[sink->ssd].name, what);
	return err;
}

/*
 * Make written tiles durable. The watermark is read before the commit of the object map, whose
 * flush covers all tiles below it. So the map never claims more than the flush has covered. The
 * commit also stores the checksum of the durable prefix, so that a resumed run can compute the
 * checksum of the whole object.
 */
int hr_run_checkpoint(struct hr_engine *engine, struct hr_run *run, struct hr_error *e)
{
	struct hr_ssd *ssd = &engine->ssd[run->config->sink.ssd];
	uint64_t tiles = written_tiles(run), bytes;
	int err;

	/* after the watermark, which covers a short last tile only when its length is known */
	hr_run_set_feed_end(run);
	if (tiles > hr_run_end_tile(run))
		tiles = hr_run_end_tile(run);
	if (tiles <= run->durable_tiles)
		return 0;
	bytes = hr_run_sink_prefix(run, tiles);
	err = hr_store_progress(&ssd->store, run->sink_id, bytes,
				hr_sink_tag(run->fingerprint, run->config->sink.checksum),
				hr_checksums_sink(engine, run, tiles), e);
	if (err)
		return explain_store(engine, run, err, "its progress cannot be recorded", e);
	run->durable_tiles = tiles;
	return 0;
}

void hr_run_log_durable(const struct hr_run *run, const char *what)
{
	if (run->config->has_sink)
		hr_warn("pipeline '%s' %s: %llu of %llu tiles of object '%s' are durable; run it "
			"again%s",
			run->config->name, what,
			(unsigned long long)(run->durable_tiles - hr_run_first_tile(run)),
			(unsigned long long)(hr_run_end_tile(run) - hr_run_first_tile(run)),
			run->config->sink.object,
			hr_run_resumes(run) ? " to continue from there" : "");
	else
		hr_warn("pipeline '%s' %s", run->config->name, what);
}

/* The workers are gone, commands may be in flight, and the queue pairs cannot be read from the
 * GPU. */
static void fault_unread_queues(struct hr_engine *engine, const struct hr_run *run)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (hr_run_uses_ssd(run, d))
			hr_health_fault(&engine->ssd[d].health, HR_FAULT_UNKNOWN_QUEUES, NULL, -EIO,
					NULL);
}

static void check_ended_queues(struct hr_engine *engine, const struct hr_run *run)
{
	const uint32_t pairs = hr_run_workers(run, HR_ROLE_IO) * run->ssds;

	for (uint32_t p = 0; run->gpu[0].access && p < hr_run_gpus(run); p++)
		for (uint32_t i = 0; i < pairs; i++)
			hr_health_take_qp(&engine->ssd[run->ssd[i % run->ssds]].health,
					  &run->gpu[p].cpu.qp[i]);
	for (uint32_t w = 0; w < hr_run_workers(run, HR_ROLE_PREFETCH); w++)
		for (uint32_t q = 0; q < run->ssds; q++)
			hr_health_take_qp(&engine->ssd[run->ssd[q]].health,
					  &run->cpu.read_qp[w * run->ssds + q]);
	for (uint32_t w = 0; run->config->has_sink && w < hr_run_workers(run, HR_ROLE_WRITEBACK);
	     w++)
		hr_health_take_qp(&engine->ssd[run->config->sink.ssd].health,
				  &run->cpu.write_qp[w]);
}

static int finish_sink(struct hr_engine *engine, struct hr_run *run)
{
	struct hr_ssd *ssd = &engine->ssd[run->config->sink.ssd];
	const struct hr_config_object *sink = &run->config->sink;
	int err =
		hr_store_finish_at(&ssd->store, run->sink_id, hr_run_sink_held(run), sink->checksum,
				   hr_checksums_sink(engine, run, hr_run_end_tile(run)),
				   sink->keep ? sink->keep : 1, &run->cause);

	if (err)
		return explain_store(engine, run, err, "it cannot be completed", &run->cause);
	run->durable_tiles = hr_run_end_tile(run);
	return 0;
}

/* End a run that failed for run->cause. The sink may be on an ssd that still works, so make
 * it durable. Returns err. */
static int end_failed(struct hr_engine *engine, struct hr_run *run, int err)
{
	struct hr_error e = { 0 };

	run->outcome = HR_RUN_FAILED;
	run->error = err;
	hr_error_log(&run->cause, HR_LOG_ERROR);
	if (run->config->has_sink &&
	    !hr_health_failed(&engine->ssd[run->config->sink.ssd].health) &&
	    hr_run_checkpoint(engine, run, &e) != 0)
		hr_error_log(&e, HR_LOG_ERROR);
	hr_new_objects_remove(engine, run);
	hr_run_log_durable(run, "failed");
	return err;
}

/* A worker has reported a failure, or the host has found one. The worker's comes first. */
static int conclude_failed(struct hr_engine *engine, struct hr_run *run, int err)
{
	struct hr_error later = run->cause;

	if (hr_failure_keep(run)) {
		hr_error_clear(&run->cause);
		err = hr_failure_explain(engine, run, &run->cause);
		hr_error_log(&run->cause, HR_LOG_ERROR);
		hr_error_log(&later, HR_LOG_ERROR);
	}
	return end_failed(engine, run, err);
}

/* The backend has failed. Results that workers reported before remain valid; the state of queues is
 * unknown. */
static int conclude_without_gpu(struct hr_engine *engine, struct hr_run *run, uint32_t member,
				int err, struct hr_error *e)
{
	const uint32_t g = hr_config_gpu(run->config, member);
	char name[96];

	hr_fail(e, HR_ERROR_DEVICE, err, "%s", hr_error_name(err, name, sizeof name));
	if (run->config->objects)
		hr_error_context(e, "pipeline '%s': gpu '%s' failed after %llu pages were read",
				 run->config->name, engine->config.gpu[g].name,
				 (unsigned long long)hr_run_pages_read(run));
	else
		hr_error_context(e, "pipeline '%s': gpu '%s' failed after %llu of %llu tiles",
				 run->config->name, engine->config.gpu[g].name,
				 (unsigned long long)run->first_tile + hr_run_tiles_done(run),
				 (unsigned long long)run->tiles);
	if (hr_failure_keep(run)) {
		hr_failure_explain(engine, run, e);
	} else if (!hr_op_built_in(run->config->op)) {
		hr_error_add(
			e, HR_ERROR_FAILED, err,
			"pipeline '%s': the failure may be in the code of its user operator, %s",
			run->config->name, run->config->op->name);
	}
	hr_error_log(&run->cause, HR_LOG_ERROR);
	run->cause = *e;
	end_failed(engine, run, err);
	fault_unread_queues(engine, run);
	engine->gpu_failed[g] = run->lost_gpu = true;
	return err;
}

/*
 * Also remove the sinks of pipelines that read this sink: its next version is another object, so
 * they cannot be resumed.
 */
static void remove_dependent(struct hr_engine *engine, const struct hr_run *run)
{
	struct hr_error e = { 0 };
	uint32_t gone = 1u << (run - engine->run);

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		struct hr_run *later = &engine->run[i];
		bool depends = false;

		for (uint32_t s = 0; later->selected && s < later->config->sources; s++)
			depends |= later->source[s].writer >= 0 &&
				   (gone & 1u << later->source[s].writer) != 0;
		if (!depends || later->outcome != HR_RUN_WAITING)
			continue;
		gone |= 1u << i;
		if (later->config->has_sink &&
		    hr_store_remove(&engine->ssd[later->config->sink.ssd].store, later->sink_id,
				    &e) == 0)
			later->sink_id = 0;
	}
	hr_error_log(&e, HR_LOG_WARN);
}

/*
 * A source differs from the stored data, so the sink is wrong. Remove it, because a later run would
 * resume it. begun: workers have made a part of it.
 */
static int conclude_wrong(struct hr_engine *engine, struct hr_run *run, int err, bool begun)
{
	const struct hr_config_object *sink = &run->config->sink;
	const char *what = begun || run->durable_tiles > hr_run_first_tile(run)
				   ? "was made from damaged data"
				   : "has no data yet";
	struct hr_error e = { 0 };
	int failed;

	run->outcome = HR_RUN_FAILED;
	run->error = err;
	failed = run->config->has_sink
			 ? hr_store_remove(&engine->ssd[sink->ssd].store, run->sink_id, &e)
			 : 0;
	if (failed == -ENOENT) /* it is gone already */
		failed = 0;
	if (failed)
		hr_error_add(&run->cause, HR_ERROR_DEVICE, failed,
			     "pipeline '%s': the incomplete object '%s' on ssd '%s' %s and cannot "
			     "be removed: %s; remove it with 'headrace store rm --pending'",
			     run->config->name, sink->object, engine->config.ssd[sink->ssd].name,
			     what, e.text);
	hr_error_log(&run->cause, HR_LOG_ERROR);
	if (failed || !run->config->has_sink)
		return err;
	hr_warn("pipeline '%s': object '%s' on ssd '%s' %s; it is removed", run->config->name,
		sink->object, engine->config.ssd[sink->ssd].name, what);
	run->sink_id = 0;
	run->durable_tiles = 0;
	remove_dependent(engine, run);
	return err;
}

/* All work of this part is done. Its sink or new objects stay incomplete until those of all parts are
 * done. */
static int conclude_part(struct hr_engine *engine, struct hr_run *run)
{
	const int err = run->config->has_sink ? hr_run_checkpoint(engine, run, &run->cause) : 0;

	run->outcome = err ? HR_RUN_FAILED : HR_RUN_DONE;
	run->error = err;
	hr_error_log(&run->cause, HR_LOG_ERROR);
	return err;
}

int hr_run_finish_part(struct hr_engine *engine, struct hr_run *run)
{
	int err = 0;

	if (run->outcome == HR_RUN_DONE && run->config->has_sink)
		err = finish_sink(engine, run);
	else if (run->outcome == HR_RUN_DONE)
		err = hr_new_objects_commit(engine, run, &run->cause);
	if (!err)
		return 0;
	run->outcome = HR_RUN_FAILED;
	run->error = err;
	hr_error_log(&run->cause, HR_LOG_ERROR);
	return err;
}

int hr_run_drop_part(struct hr_engine *engine, struct hr_run *run, int err)
{
	if (run->outcome == HR_RUN_DONE && run->config->has_sink)
		conclude_wrong(engine, run, err, true);
	return err;
}

/* All tiles are done, also when a signal has requested a stop meanwhile. */
static int conclude_whole(struct hr_engine *engine, struct hr_run *run)
{
	/* without shards the checksum of a source needs the tiles of all parts */
	int err = run->parts && !run->of_shards ? 0 : hr_checksums_verify(engine, run, &run->cause);

	if (err)
		return conclude_wrong(engine, run, err, true);
	if (run->parts)
		return conclude_part(engine, run);
	err = run->config->has_sink ? finish_sink(engine, run)
				    : hr_new_objects_commit(engine, run, &run->cause);
	hr_new_objects_remove(engine, run);
	run->outcome = err ? HR_RUN_FAILED : HR_RUN_DONE;
	run->error = err;
	hr_error_log(&run->cause, HR_LOG_ERROR);
	return err;
}

/* The word is downloaded with the descriptor: workers set it when they heed a stop. */
static bool heeded_stop(const struct hr_run *run)
{
	bool stopped = false;

	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		stopped |= run->gpu[p].cpu.cache.words->stop != 0;
	return stopped;
}

bool hr_run_is_whole(const struct hr_run *run, const struct hr_run_ending *end)
{
	if (end->unstarted || end->aborted || end->error || hr_failure_first(run))
		return false;
	if (run->gpu[0].access)
		return !heeded_stop(run);
	return !end->stopping || hr_run_tiles_done(run) == hr_run_end_tile(run) - run->first_tile;
}

int hr_run_conclude(struct hr_engine *engine, struct hr_run *run, const struct hr_run_ending *end,
		    int err, struct hr_error *failed)
{
	if (run->workers_ended)
		hr_run_set_feed_end(run);
	run->done_tiles = hr_run_tiles_done(run);
	run->read_bytes = hr_run_bytes_read(run);
	run->ended_ns = end->ended_ns ? end->ended_ns : hr_now_ns();
	if (err)
		return conclude_without_gpu(engine, run, end->failed_gpu, err, failed);
	/* every tile is written, so a later error of a queue pair does not matter */
	if (hr_run_is_whole(run, end)) {
		err = conclude_whole(engine, run);
		check_ended_queues(engine, run);
		return err;
	}
	check_ended_queues(engine, run);
	err = end->error;
	if (err == -EBADMSG && end->unstarted) { /* hr_reading_step() */
		hr_new_objects_remove(engine, run);
		return conclude_wrong(engine, run, err, false);
	}
	if (end->aborted)
		return end_failed(engine, run, err);
	if (err || hr_failure_first(run))
		return conclude_failed(engine, run, err);
	err = run->config->has_sink ? hr_run_checkpoint(engine, run, &run->cause) : 0;
	hr_new_objects_remove(engine, run);
	run->outcome = HR_RUN_INTERRUPTED;
	run->error = err ? err : -EINTR;
	hr_error_log(&run->cause, HR_LOG_ERROR);
	hr_run_log_durable(run, "interrupted");
	return run->error;
}
