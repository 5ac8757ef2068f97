/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/protocol/record.h"

#include <string.h>

#include "boot/appliance/protocol/message.h"
#include "boot/engine/shape/gpu_sharing.h"
#include "boot/engine/run.h"
#include "config/base/text.h"
#include "config/derived.h"

#define ERRNO_MAX 4095
#define STATUS_MAX 0xffff /* NVMe: status code and type */
#define WORDS (sizeof(struct hr_record) / sizeof(uint64_t))

_Static_assert(sizeof(struct hr_record) % sizeof(uint64_t) == 0, "words only");

const char *hr_phase_name(enum hr_phase phase)
{
	static const char *const name[HR_PHASES] = {
		[HR_PHASE_POST] = "post",	  [HR_PHASE_BRING_UP] = "bring-up",
		[HR_PHASE_RUNNING] = "running",	  [HR_PHASE_GOING_DOWN] = "going down",
		[HR_PHASE_STARTING] = "starting", [HR_PHASE_WAITING] = "waiting",
		[HR_PHASE_BACKOFF] = "backoff",	  [HR_PHASE_STAYING] = "staying",
		[HR_PHASE_IDLE] = "idle",
	};

	return (unsigned)phase < HR_PHASES ? name[phase] : "?";
}

/* ---- copying from and to an appliance */

int hr_record_put_error(struct hr_record_error *to, int code, const struct hr_error *e)
{
	static const char cut[] = "...";
	const size_t line = strcspn(e->text, "\n");
	const size_t length = line < sizeof to->text ? line : sizeof to->text - 1;

	memset(to, 0, sizeof *to);
	to->code = code;
	if (!code || !e->kind)
		return code;
	to->kind = (uint64_t)e->kind;
	memcpy(to->text, e->text, length);
	if (length < line)
		memcpy(to->text + sizeof to->text - sizeof cut, cut, sizeof cut);
	return code;
}

int hr_record_get_error(const struct hr_record_error *from, struct hr_error *e)
{
	hr_error_clear(e);
	if (from->kind)
		hr_fail(e, (enum hr_error_kind)from->kind, (int)from->code, "%s", from->text);
	e->printed = true;
	return (int)from->code;
}

static void take_run(struct hr_record_run *to, const struct hr_engine *engine,
		     const struct hr_run *run)
{
	const char *why;

	*to = (struct hr_record_run){ .selected = run->selected,
				      .outcome = (uint64_t)run->outcome,
				      .reported = to->reported,
				      .blame = run->lost_gpu ? HR_BLAME_SUSPECT : HR_BLAME_NONE,
				      .number = to->number,
				      .started_ns = run->started_ns,
				      .ended_ns = run->ended_ns };
	if (engine->up >= HR_STAGE_BACKENDS && run->config && hr_config_has_tap(run->config))
		to->share = (uint64_t)hr_run_gpu_sharing(engine, run, &why);
	hr_record_put_error(&to->error, run->error, &run->cause);
	hr_counters_snapshot(&to->count, engine, run);
}

void hr_record_update(struct hr_record *record, const struct hr_engine *engine)
{
	record->stage = (uint64_t)engine->up;
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		const struct hr_health *health = &engine->ssd[d].health;

		record->ssd[d].health = (uint64_t)health->state;
		memcpy(record->ssd[d].faults, health->count, sizeof health->count);
		if (engine->ssd[d].ctrl)
			record->ssd[d].smart = engine->ssd[d].ctrl->smart;
	}
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		/* an ended run keeps its values until the reader has seen them */
		if (!record->run[i].over)
			take_run(&record->run[i], engine, &engine->run[i]);
}

void hr_record_apply(const struct hr_record *record, struct hr_engine *engine)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		struct hr_health *health = &engine->ssd[d].health;

		health->state = (enum hr_health_state)record->ssd[d].health;
		memcpy(health->count, record->ssd[d].faults, sizeof health->count);
	}
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_record_run *from = &record->run[i];
		struct hr_run *run = &engine->run[i];

		run->selected = from->selected;
		run->outcome = (enum hr_outcome)from->outcome;
		run->error = hr_record_get_error(&from->error, &run->cause);
		run->tiles = from->count.tiles;
		run->first_tile = from->count.first_tile;
		run->done_tiles = from->count.tiles_done;
		run->durable_tiles = from->count.durable_tiles;
		run->started_ns = from->started_ns;
		run->ended_ns = from->ended_ns;
		run->read_bytes = from->count.read_bytes;
	}
}

/* ---- ranges */

static bool is_error(const struct hr_record_error *e)
{
	return e->code >= -ERRNO_MAX && e->code <= STATUS_MAX && e->kind <= HR_ERROR_DEVICE &&
	       (e->code || !e->kind) && hr_is_line(e->text, sizeof e->text);
}

static const char *check_role(const struct hr_role_counters *role)
{
	if (role->blocks > HR_GPUS_MAX * HR_BLOCKS_MAX)
		return "blocks";
	if (role->workers > HR_STATUSES_MAX)
		return "workers";
	if (role->ended > role->workers)
		return "ended";
	return role->failed > role->workers ? "failed" : NULL;
}

static const char *check_run(const struct hr_record_run *run, uint64_t now_ns)
{
	const struct hr_counters *count = &run->count;
	const char *wrong = NULL;

	if (run->selected > 1)
		return "selected";
	if (run->outcome > HR_RUN_FAILED)
		return "outcome";
	if (run->reported > 1)
		return "reported";
	if (run->over > 1)
		return "over";
	if (!is_error(&run->error))
		return "error of a pipeline";
	if (run->blame >= HR_BLAMES)
		return "blame";
	if (run->share > HR_SHARE_SLICE)
		return "share";
	if (count->first_tile > count->tiles)
		return "first_tile";
	if (count->tiles_done > count->tiles)
		return "tiles_done";
	if (count->durable_tiles > count->tiles)
		return "durable_tiles";
	if (run->started_ns > now_ns)
		return "started_ns";
	if (run->ended_ns > now_ns || (run->ended_ns && run->ended_ns < run->started_ns))
		return "ended_ns";
	for (uint32_t r = 0; !wrong && r < HR_RUN_ROLES; r++)
		wrong = check_role(&count->role[r]);
	return wrong;
}

static const char *check_end(const struct hr_record *record, uint64_t now_ns)
{
	if (record->has_run > 1)
		return "has_run";
	if (record->finished > 1)
		return "finished";
	if (record->refused > 1)
		return "refused";
	if (record->mute > 1)
		return "mute";
	if (record->ran_ns > now_ns)
		return "ran_ns";
	return is_error(&record->error) ? NULL : "error";
}

static const char *check_turns(const struct hr_record *record, const struct hr_config *config)
{
	if (record->ready > 1)
		return "ready";
	if (record->usable >> config->pipelines)
		return "usable";
	return hr_starts_check(&record->starts);
}

static const char *check_store_job(const struct hr_record_store_job *job)
{
	if (job->kind && !(job->kind < HR_REQUEST_KINDS &&
			   hr_request_form((enum hr_request_kind)job->kind)->disk))
		return "kind of a store request";
	if (job->ssd > HR_SSDS_MAX)
		return "ssd of a store request";
	if (job->done_bytes > job->total_bytes)
		return "done_bytes of a store request";
	return hr_is_line(job->object, sizeof job->object) ? NULL : "object of a store request";
}

static const char *check_store(const struct hr_record_store *store)
{
	const char *wrong = NULL;

	for (uint32_t i = 0; !wrong && i < HR_RECORD_STORE_JOBS; i++)
		wrong = check_store_job(&store->job[i]);
	return wrong;
}

static const char *check_consumer(const struct hr_record_consumer *c, uint64_t pipelines)
{
	if (c->attached > 1)
		return "attached";
	if (c->attached && c->pipeline >= pipelines)
		return "pipeline of a consumer";
	return hr_is_line(c->name, sizeof c->name) ? NULL : "name of a consumer";
}

static const char *check_producer(const struct hr_record_producer *p)
{
	if (p->attached > 1)
		return "attached";
	return hr_is_line(p->name, sizeof p->name) ? NULL : "name of a producer";
}

const char *hr_record_check(const struct hr_record *record, const struct hr_config *config,
			    uint64_t now_ns)
{
	const char *wrong = record->stage < HR_STAGES ? NULL : "stage";

	for (uint32_t d = 0; !wrong && d < config->ssds; d++)
		wrong = record->ssd[d].health >= HR_HEALTHS ? "health"
			: record->ssd[d].smart.known > 1    ? "smart"
							    : NULL;
	for (uint32_t i = 0; !wrong && i < config->pipelines; i++)
		wrong = check_run(&record->run[i], now_ns);
	wrong = wrong ? wrong : check_turns(record, config);
	wrong = wrong ? wrong : check_store(&record->store);
	for (uint32_t i = 0; !wrong && i < HR_RECORD_CONSUMERS; i++)
		wrong = check_consumer(&record->consumer[i], config->pipelines);
	for (uint32_t i = 0; !wrong && i < HR_PIPELINES_MAX; i++)
		wrong = check_producer(&record->producer[i]);
	return wrong ? wrong : check_end(record, now_ns);
}

/* ---- the page: a sequence lock over words, because a writer may die between two words */

void hr_record_publish(struct hr_record_page *page, const struct hr_record *record)
{
	uint64_t *to = (uint64_t *)&page->record;
	const uint64_t *from = (const uint64_t *)record;
	const uint64_t sequence = __atomic_load_n(&page->sequence, __ATOMIC_RELAXED) | 1;

	__atomic_store_n(&page->sequence, sequence, __ATOMIC_RELAXED);
	for (size_t i = 0; i < WORDS; i++)
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
	__atomic_store_n(&page->sequence, sequence + 1, __ATOMIC_RELEASE);
}

uint64_t hr_record_sequence(const struct hr_record_page *page)
{
	return __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
}

bool hr_record_read(const struct hr_record_page *page, struct hr_record *record)
{
	uint64_t *to = (uint64_t *)record;
	const uint64_t *from = (const uint64_t *)&page->record;
	const uint64_t sequence = hr_record_sequence(page);

	for (size_t i = 0; i < WORDS; i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
	return sequence && !(sequence & 1) &&
	       __atomic_load_n(&page->sequence, __ATOMIC_RELAXED) == sequence;
}
