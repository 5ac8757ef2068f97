#include "boot/appliance/record.h"

#include "boot/engine/runner.h"
#include "boot/engine/watch.h"

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
	};

	return (unsigned)phase < HR_PHASES ? name[phase] : "?";
}

/* ---- from an appliance, and to one */

static bool is_wired(const struct hr_appliance *app, const struct hr_run *run)
{
	return app->up >= HR_STAGE_QUEUES && run->pipe;
}

static void take_role(struct hr_record_role *role, const struct hr_run *run, uint32_t r)
{
	const uint32_t first = hr_pipe_first_status(run->pipe, r);
	const uint32_t last = hr_pipe_first_status(run->pipe, r + 1);

	*role = (struct hr_record_role){ .blocks = run->pipe->blocks[r], .workers = last - first };
	for (uint32_t i = first; i < last; i++) {
		const struct hr_worker_status *status = &run->status[i];

		role->heartbeat += hr_acquire_sys_u64(&status->heartbeat);
		role->tiles += hr_acquire_sys_u64(&status->tiles);
		role->bytes += hr_acquire_sys_u64(&status->bytes);
		role->failed += hr_acquire_sys_u32(&status->failed);
		role->ended += hr_acquire_sys_u32(&status->done);
	}
}

static void take_run(struct hr_record_run *to, const struct hr_appliance *app,
		     const struct hr_run *run)
{
	*to = (struct hr_record_run){ .selected = run->selected,
				      .outcome = (uint64_t)run->outcome,
				      .reported = to->reported,
				      .error = run->error,
				      .tiles = run->tiles,
				      .first_tile = run->first_tile,
				      .durable_tiles = run->durable_tiles,
				      .started_ns = run->started_ns,
				      .ended_ns = run->ended_ns,
				      .read_bytes = hr_run_bytes_read(run) };
	if (run->ended_ns)
		to->tiles_done = run->through_tiles;
	else if (is_wired(app, run) && run->started_ns)
		to->tiles_done = hr_run_tiles_done(run);
	for (uint32_t r = 0; is_wired(app, run) && r < HR_ROLES; r++)
		if (run->pipe->blocks[r])
			take_role(&to->role[r], run, r);
}

void hr_record_take(struct hr_record *record, const struct hr_appliance *app)
{
	record->stage = (uint64_t)app->up;
	for (uint32_t d = 0; d < app->config.ssds; d++)
		record->ssd_failed[d] = app->ssd[d].failed;
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		take_run(&record->run[i], app, &app->run[i]);
}

void hr_record_apply(const struct hr_record *record, struct hr_appliance *app)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		app->ssd[d].failed = record->ssd_failed[d];
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_record_run *from = &record->run[i];
		struct hr_run *run = &app->run[i];

		run->selected = from->selected;
		run->outcome = (enum hr_outcome)from->outcome;
		run->error = (int)from->error;
		run->tiles = from->tiles;
		run->first_tile = from->first_tile;
		run->through_tiles = from->tiles_done;
		run->durable_tiles = from->durable_tiles;
		run->started_ns = from->started_ns;
		run->ended_ns = from->ended_ns;
		run->read_bytes = from->read_bytes;
	}
}

/* ---- ranges */

static bool is_error(int64_t error)
{
	return error >= -ERRNO_MAX && error <= STATUS_MAX;
}

static const char *check_role(const struct hr_record_role *role)
{
	if (role->blocks > HR_BLOCKS_MAX)
		return "blocks";
	if (role->workers > HR_STATUSES_MAX)
		return "workers";
	if (role->ended > role->workers)
		return "ended";
	return role->failed > role->workers ? "failed" : NULL;
}

static const char *check_run(const struct hr_record_run *run, uint64_t now_ns)
{
	const char *wrong = NULL;

	if (run->selected > 1)
		return "selected";
	if (run->outcome > HR_RUN_FAILED)
		return "outcome";
	if (run->reported > 1)
		return "reported";
	if (!is_error(run->error))
		return "error of a pipeline";
	if (run->first_tile > run->tiles)
		return "first_tile";
	if (run->tiles_done > run->tiles)
		return "tiles_done";
	if (run->durable_tiles > run->tiles)
		return "durable_tiles";
	if (run->started_ns > now_ns)
		return "started_ns";
	if (run->ended_ns > now_ns || (run->ended_ns && run->ended_ns < run->started_ns))
		return "ended_ns";
	for (uint32_t r = 0; !wrong && r < HR_ROLES; r++)
		wrong = check_role(&run->role[r]);
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
	if (record->stuck > 1)
		return "stuck";
	if (record->mute > 1)
		return "mute";
	if (record->ran_ns > now_ns)
		return "ran_ns";
	return is_error(record->error) ? NULL : "error";
}

const char *hr_record_check(const struct hr_record *record, const struct hr_config *config,
			    uint64_t now_ns)
{
	const char *wrong = record->stage < HR_STAGES ? NULL : "stage";

	for (uint32_t d = 0; !wrong && d < config->ssds; d++)
		wrong = record->ssd_failed[d] > 1 ? "ssd_failed" : NULL;
	for (uint32_t i = 0; !wrong && i < config->pipelines; i++)
		wrong = check_run(&record->run[i], now_ns);
	return wrong ? wrong : check_end(record, now_ns);
}

/* ---- the page: a sequence lock, word by word, for a writer may end between any two */

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
