/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/attempt/remember.h"

#include <errno.h>
#include <string.h>

#include "boot/appliance/schedule/local_time.h"
#include "boot/appliance/schedule/timetable.h"
#include "boot/cmd/report/reports.h"
#include "boot/engine/run.h"
#include "config/base/clock.h"
#include "config/derived.h"
#include "nvme/queue/status.h"

static uint64_t next_start(const struct hr_history *history, const char *pipeline)
{
	struct hr_past_run last;

	return hr_history_newest(history, pipeline, UINT64_MAX, &last) ? last.start + 1 : 1;
}

/* Names, number and times of a run: hr_now_ns(); 0: not yet. */
static void begin_past_run(struct hr_past_run *past, const struct hr_history *history,
			   const struct hr_config *config, uint32_t i, uint64_t start)
{
	const struct hr_config_pipeline *p = &config->pipeline[i];

	memset(past, 0, sizeof *past);
	memcpy(past->pipeline, p->name, sizeof past->pipeline);
	memcpy(past->op, hr_config_operator_name(config, p),
	       strnlen(hr_config_operator_name(config, p), sizeof past->op - 1));
	past->start = start ? start : next_start(history, p->name);
}

static void put_times(struct hr_past_run *past, uint64_t started_ns, uint64_t ended_ns)
{
	const struct hr_moment at = hr_moment_now();
	const uint64_t end_ns = ended_ns && ended_ns <= at.now_ns ? ended_ns : at.now_ns;

	if (hr_wall_is_set(&at))
		past->ended_ns = at.wall_ns - (at.now_ns - end_ns);
	if (!started_ns || started_ns > end_ns)
		return;
	past->duration_ns = end_ns - started_ns;
	if (past->ended_ns)
		past->started_ns = past->ended_ns - past->duration_ns;
}

/* The first line; characters that change a terminal are replaced. */
static void put_message(struct hr_past_run *past, const char *text)
{
	const size_t line = strcspn(text, "\n"), room = sizeof past->message - 1;
	const size_t length = line < room ? line : room;

	for (size_t k = 0; k < length; k++)
		past->message[k] = (unsigned char)text[k] < ' ' || text[k] == 0x7f ? '?' : text[k];
	if (length < line)
		memcpy(past->message + room - 3, "...", 3);
}

static void put_result(struct hr_past_run *past, const struct hr_run *run)
{
	const int err = hr_report_result(run, past->result, sizeof past->result);

	past->too_long = err == -ENOBUFS;
	if (err && err != -ENOBUFS)
		past->result[0] = '\0';
}

void hr_remember_run(struct hr_history *history, const struct hr_engine *engine, uint32_t i,
		     uint64_t start)
{
	static struct hr_past_run past; /* a page, too large for a stack */
	const struct hr_run *run = &engine->run[i];
	const bool ran = run->outcome != HR_RUN_COMPLETE && run->started_ns;

	begin_past_run(&past, history, &engine->config, i, start);
	past.outcome = (uint64_t)run->outcome;
	past.error = run->error;
	put_times(&past, ran ? run->started_ns : 0, ran ? run->ended_ns : 0);
	if (run->error && run->cause.kind)
		put_message(&past, run->cause.text);
	past.ended_it = run->lost_gpu;
	if (ran) {
		past.tiles = run->tiles;
		past.tiles_done = run->first_tile + run->done_tiles;
		past.read_bytes = run->read_bytes;
	}
	if (run->outcome == HR_RUN_DONE)
		put_result(&past, run);
	hr_history_add(history, &engine->config, &past);
}

void hr_remember_death(struct hr_history *history, const struct hr_config *config, uint32_t i,
		       uint64_t start, const struct hr_record_run *run)
{
	static struct hr_past_run past; /* a page, too large for a stack */

	begin_past_run(&past, history, config, i, start);
	past.outcome = run->outcome == HR_RUN_INTERRUPTED ? HR_RUN_INTERRUPTED : HR_RUN_FAILED;
	past.error = run->error.code;
	put_times(&past, run->started_ns, run->ended_ns);
	if (run->error.kind)
		put_message(&past, run->error.text);
	past.ended_it = run->blame != HR_BLAME_NONE;
	past.tiles = run->count.tiles;
	past.tiles_done = run->count.first_tile + run->count.tiles_done;
	past.read_bytes = run->count.read_bytes;
	hr_history_add(history, config, &past);
}

static void put_time(struct hr_json *j, const char *key, uint64_t wall_ns)
{
	char text[32];

	if (wall_ns)
		hr_json_string(j, key, hr_utc_text(wall_ns, text, sizeof text));
}

void hr_past_run_json(struct hr_json *j, const char *key, const struct hr_past_run *run)
{
	static const char *const outcome[] = { "waiting", "done", "complete", "interrupted",
					       "failed" };
	char error[96];

	hr_json_object(j, key);
	hr_json_u64(j, "start", run->start);
	hr_json_string(j, "outcome", outcome[run->outcome]);
	put_time(j, "started_utc", run->started_ns);
	put_time(j, "ended_utc", run->ended_ns);
	hr_json_fixed(j, "duration_ms", (double)run->duration_ns / 1e6, 3);
	hr_json_string(j, "operator", run->op);
	hr_json_u64(j, "tiles", run->tiles);
	hr_json_u64(j, "tiles_done", run->tiles_done);
	hr_json_u64(j, "read_bytes", run->read_bytes);
	if (run->error)
		hr_json_string(j, "error", hr_error_name((int)run->error, error, sizeof error));
	if (run->message[0])
		hr_json_string(j, "message", run->message);
	if (run->ended_it)
		hr_json_bool(j, "engine_ended", true);
	if (run->result[0])
		hr_json_raw(j, "result", run->result);
	if (run->too_long)
		hr_json_bool(j, "result_shortened", true);
	hr_json_close(j);
}
