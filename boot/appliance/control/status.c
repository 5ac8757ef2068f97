/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/control/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/appliance/lend/service.h"
#include "boot/appliance/attempt/remember.h"
#include "boot/appliance/store/service.h"
#include "boot/appliance/supervisor/repeat.h"
#include "boot/appliance/schedule/timetable.h"
#include "config/base/clock.h"
#include "config/base/json.h"
#include "boot/engine/shape/gpu_sharing.h"
#include "config/derived.h"
#include "config/base/process.h"
#include "nvme/queue/status.h"

/* The short document: a name of which each byte is escaped, two numbers, and a sentence. */
_Static_assert(6 * HR_NAME_MAX + 256 <= HR_STATUS_MIN, "a failure fits");

static const char *outcome(const struct hr_record_run *run)
{
	static const char *const name[] = { "waiting", "done", "complete", "interrupted",
					    "failed" };

	return run->outcome == HR_RUN_WAITING && run->started_ns ? "running" : name[run->outcome];
}

/* From the moment at which the newest start was due to its launch. */
static void put_delay(struct hr_json *j, const struct hr_repeat *repeat, uint32_t i,
		      const struct hr_record_run *run)
{
	const uint64_t planned_ns = repeat->timetable.timed[i].planned_ns;

	if (run->number && run->number == repeat->number[i] && run->started_ns >= planned_ns)
		hr_json_u64(j, "start_delay_us", (run->started_ns - planned_ns) / 1000);
}

static void put_consumer(struct hr_json *j, const struct hr_record_consumer *c)
{
	hr_json_object(j, NULL);
	hr_json_string(j, "name", c->name);
	hr_json_u64(j, "pid", c->process);
	hr_json_u64(j, "uid", c->user);
	hr_counters_json(j, hr_consumer_counters, &c->count, HR_IN_STATUS);
	hr_json_close(j);
}

static void put_tap(struct hr_json *j, const struct hr_status *status, uint32_t i,
		    const struct hr_tap_counters *count)
{
	const uint64_t share = status->record.run[i].share;
	const struct hr_config_tap *tap = &status->engine->config.pipeline[i].tap;

	hr_json_object(j, "tap");
	hr_json_string(j, "name", tap->name);
	hr_json_string(j, "deliver", tap->deliver == HR_TAP_EACH ? "each" : "one");
	hr_json_string(j, "lag", tap->lag == HR_TAP_DROP ? "drop" : "block");
	if (share)
		hr_json_string(j, "share", hr_gpu_sharing_name((enum hr_tap_sharing)share));
	hr_counters_json(j, hr_tap_counters, count, HR_IN_STATUS);
	hr_json_array(j, "attached");
	for (uint32_t k = 0; k < HR_RECORD_CONSUMERS; k++) {
		const struct hr_record_consumer *c = &status->record.consumer[k];

		if (c->attached && c->pipeline == i)
			put_consumer(j, c);
	}
	hr_json_close(j);
	hr_json_close(j);
}

static void put_remote(struct hr_json *j, const struct hr_config_pipeline *p,
		       const struct hr_remote_counters *count)
{
	hr_json_object(j, "remote");
	hr_json_string(j, "name", hr_config_sends(p) ? p->tap.name : p->feed.name);
	hr_json_string(j, "side", hr_config_sends(p) ? "sender" : "receiver");
	hr_json_string(j, "address", hr_config_sends(p) ? p->to.address : p->from.address);
	hr_counters_json(j, hr_remote_counters, count, HR_IN_STATUS);
	hr_json_close(j);
}

static void put_feed(struct hr_json *j, const struct hr_status *status, uint32_t i,
		     const struct hr_feed_counters *count)
{
	const struct hr_record_producer *p = &status->record.producer[i];

	hr_json_object(j, "feed");
	hr_json_string(j, "name", status->engine->config.pipeline[i].feed.name);
	hr_counters_json(j, hr_feed_counters, count, HR_IN_STATUS);
	hr_json_array(j, "attached");
	if (p->attached) {
		hr_json_object(j, NULL);
		hr_json_string(j, "name", p->name);
		hr_json_u64(j, "pid", p->process);
		hr_json_u64(j, "uid", p->user);
		hr_counters_json(j, hr_producer_counters, &p->count, HR_IN_STATUS);
		hr_json_close(j);
	}
	hr_json_close(j);
	hr_json_close(j);
}

static void put_last(struct hr_json *j, const struct hr_status *status,
		     const struct hr_config_pipeline *p)
{
	struct hr_past_run last;

	if (status->history && hr_history_newest(status->history, p->name, UINT64_MAX, &last))
		hr_past_run_json(j, "last", &last);
}

static void put_suspension(struct hr_json *j, const struct hr_status *status, uint32_t i,
			   uint64_t now_ns)
{
	const uint64_t until_ns = status->suspended_until_ns[i];
	const bool suspended = status->deaths[i] && until_ns > now_ns;

	if (!status->deaths[i] && !(status->repeat && status->repeat->begun))
		return;
	hr_json_bool(j, "suspended", suspended);
	if (suspended)
		hr_json_u64(j, "suspended_for_ms", (until_ns - now_ns) / HR_NS_PER_MS);
	if (status->deaths[i])
		hr_json_u64(j, "engine_deaths_in_row", status->deaths[i]);
}

static void put_run(struct hr_json *j, const struct hr_status *status, uint32_t i,
		    const struct hr_record_run *run, uint64_t now_ns)
{
	const struct hr_config *config = &status->engine->config;
	const struct hr_moment at = { now_ns, hr_wall_ns() };
	const struct hr_config_pipeline *p = &config->pipeline[i];
	struct hr_counters count = run->count;
	char error[96];

	hr_json_object(j, NULL);
	hr_json_string(j, "name", p->name);
	hr_json_string(j, "operator", hr_config_operator_name(config, p));
	hr_config_gpus_json(config, p, j);
	hr_json_string(j, "outcome", outcome(run));
	if (run->error.code)
		hr_json_string(j, "error",
			       hr_error_name((int)run->error.code, error, sizeof error));
	if (run->error.kind)
		hr_json_string(j, "message", run->error.text);
	put_suspension(j, status, i, now_ns);
	if (status->repeat && status->repeat->begun) {
		hr_timetable_json(j, &status->repeat->timetable, i, &at);
		put_delay(j, status->repeat, i, run);
	}
	put_last(j, status, p);
	hr_counters_time(&count, run->started_ns, run->ended_ns, now_ns);
	hr_counters_json(j, hr_pipeline_counters, &count, HR_IN_STATUS);
	hr_role_counters_json(j, &count, HR_IN_STATUS);
	if (hr_config_has_tap(p) && !hr_config_sends(p))
		put_tap(j, status, i, &count.tap);
	if (hr_config_is_remote(p))
		put_remote(j, p, &count.remote);
	if (hr_config_has_feed(p) && !hr_config_receives(p))
		put_feed(j, status, i, &count.feed);
	hr_json_close(j);
}

static void put_health(struct hr_json *j, const struct hr_record_ssd *ssd)
{
	const struct hr_health_rule *rule = hr_health_rule((enum hr_health_state)ssd->health);

	hr_json_bool(j, "failed", rule->failed);
	hr_json_string(j, "health", rule->name);
	hr_counters_json(j, hr_ssd_counters, ssd->faults, HR_IN_STATUS);
}

static void put_smart(struct hr_json *j, const struct hr_smart *smart)
{
	if (!smart->known)
		return;
	hr_json_object(j, "smart");
	hr_json_array(j, "warnings");
	for (uint32_t i = 0; i < HR_SMART_WARNINGS; i++)
		if (smart->critical_warning >> i & 1)
			hr_json_string(j, NULL, hr_smart_warning(i));
	hr_json_close(j);
	hr_json_u64(j, "temperature_k", smart->temperature_k);
	hr_json_u64(j, "spare_percent", smart->spare_percent);
	hr_json_u64(j, "spare_threshold_percent", smart->spare_threshold_percent);
	hr_json_u64(j, "used_percent", smart->used_percent);
	hr_json_u64(j, "media_errors", smart->media_errors);
	hr_json_u64(j, "unsafe_shutdowns", smart->unsafe_shutdowns);
	hr_json_u64(j, "power_on_hours", smart->power_on_hours);
	hr_json_close(j);
}

static void put_ssds(struct hr_json *j, const struct hr_config *config,
		     const struct hr_record *record)
{
	hr_json_array(j, "ssds");
	for (uint32_t d = 0; d < config->ssds; d++) {
		hr_json_object(j, NULL);
		hr_json_string(j, "name", config->ssd[d].name);
		hr_json_string(j, "device", config->ssd[d].device);
		put_health(j, &record->ssd[d]);
		put_smart(j, &record->ssd[d].smart);
		hr_json_close(j);
	}
	hr_json_close(j);
}

static void put_store_job(struct hr_json *j, const struct hr_config *config,
			  const struct hr_record_store_job *job)
{
	hr_json_object(j, NULL);
	hr_json_string(j, "request", hr_request_form((enum hr_request_kind)job->kind)->name);
	if (job->ssd < config->ssds)
		hr_json_string(j, "ssd", config->ssd[job->ssd].name);
	if (job->object[0])
		hr_json_string(j, "object", job->object);
	hr_json_u64(j, "done_bytes", job->done_bytes);
	hr_json_u64(j, "total_bytes", job->total_bytes);
	hr_json_u64(j, "client_uid", job->user);
	hr_json_u64(j, "client_pid", job->process);
	hr_json_close(j);
}

static void put_store(struct hr_json *j, const struct hr_config *config,
		      const struct hr_record_store *store)
{
	hr_json_object(j, "store");
	hr_json_u64(j, "requests_count", store->requests);
	hr_json_u64(j, "refused_count", store->refused);
	hr_json_u64(j, "dropped_count", store->dropped);
	hr_json_array(j, "requests");
	for (uint32_t i = 0; i < HR_RECORD_STORE_JOBS; i++)
		if (store->job[i].kind)
			put_store_job(j, config, &store->job[i]);
	hr_json_close(j);
	hr_json_close(j);
}

/* The members that a document of any length has. */
static void begin(struct hr_json *j, const struct hr_status *status, char *text, size_t bytes)
{
	hr_json_to_text(j, HR_JSON_LINE, text, bytes);
	hr_json_schema(j, "headrace.status", HR_STATUS_SCHEMA);
	hr_json_string(j, "appliance", status->engine->config.name);
	hr_json_u64(j, "pid", (uint64_t)getpid());
}

static size_t format_failure(const struct hr_status *status, char *text, size_t bytes)
{
	struct hr_json j;
	char why[96];

	snprintf(why, sizeof why, "the status needs more than the %zu bytes of a document", bytes);
	begin(&j, status, text, bytes);
	hr_json_string(&j, "failure", why);
	return hr_json_done(&j) == 0 ? j.length : 0;
}

void hr_status_open(struct hr_status *status, const struct hr_engine *engine)
{
	memset(status, 0, sizeof *status);
	status->engine = engine;
	status->phase = HR_PHASE_STARTING;
}

static void take(struct hr_status *status)
{
	hr_record_update(&status->record, status->engine);
	if (status->service)
		hr_store_service_snapshot(status->service, &status->record.store);
	if (status->lend)
		hr_lend_service_snapshot(status->lend, status->record.consumer,
					 status->record.producer);
}

size_t hr_status_format(struct hr_status *status, uint64_t now_ns, char *text, size_t bytes)
{
	const struct hr_config *config = &status->engine->config;
	const struct hr_record *record = &status->record;
	struct hr_json j;

	if (!status->told)
		take(status);
	begin(&j, status, text, bytes);
	hr_json_string(&j, "configuration", config->file);
	hr_json_u64(&j, "engine_pid", (uint64_t)status->engine_pid);
	if (status->engine_pid)
		hr_json_u64(&j, "progress_age_ms", status->still_ns / HR_NS_PER_MS);
	hr_json_u64(&j, "uptime_ms", (now_ns - hr_exec_ns()) / HR_NS_PER_MS);
	hr_json_string(&j, "phase", hr_phase_name(status->phase));
	hr_json_string(&j, "stage", hr_stage_name((enum hr_stage)record->stage));
	hr_json_u64(&j, "restarts", status->restarts);
	hr_json_u64(&j, "restarts_left", status->restarts_left);
	put_ssds(&j, config, record);
	hr_json_array(&j, "pipelines");
	for (uint32_t i = 0; i < config->pipelines; i++)
		if (status->repeat || record->run[i].selected || status->deaths[i] ||
		    record->run[i].outcome != HR_RUN_WAITING)
			put_run(&j, status, i, &record->run[i], now_ns);
	hr_json_close(&j);
	put_store(&j, config, &record->store);
	return hr_json_done(&j) == 0 ? j.length : format_failure(status, text, bytes);
}
