/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/schedule/timetable.h"

#include <errno.h>
#include <string.h>

#include "boot/appliance/schedule/local_time.h"
#include "boot/appliance/schedule/retry.h"
#include "config/base/bytes.h"
#include "config/base/clock.h"
#include "config/base/seam.h"
#include "config/derived.h"

#define DAY_NS (86400 * HR_NS_PER_S)

/* One pipeline while the timetable works on it. */
struct entry {
	struct hr_timetable *t;
	uint32_t i;
	const struct hr_config_when *when;
	struct hr_start *start;
	struct hr_suspension *suspension;
	struct hr_timetable_entry *timed;
	const struct hr_moment *at;
};

static struct entry entry(struct hr_timetable *t, uint32_t i, const struct hr_moment *at)
{
	return (struct entry){ t,
			       i,
			       &t->config->pipeline[i].when,
			       &t->starts.start[i],
			       &t->starts.suspension[i],
			       &t->timed[i],
			       at };
}

struct hr_moment hr_moment_now(void)
{
	return (struct hr_moment){ hr_now_ns(), hr_wall_ns() };
}

bool hr_wall_is_set(const struct hr_moment *at)
{
	return at->wall_ns >= HR_WALL_SET_NS;
}

uint64_t hr_when_next_ns(const struct hr_config_when *when, uint64_t wall_ns)
{
	return hr_local_next_ns(wall_ns, when->at_minute, when->at_day);
}

static uint64_t wall(const struct hr_moment *at)
{
	return hr_wall_is_set(at) ? at->wall_ns : 0;
}

/* ---- due, and missed */

static uint64_t grace_ns(const struct hr_config_when *when)
{
	if (when->kind == HR_WHEN_EVERY && when->every_ns / 2 < HR_LATE_NS)
		return when->every_ns / 2;
	return HR_LATE_NS;
}

static bool is_due(const struct hr_start *start)
{
	return start->flags & HR_START_DUE;
}

/* Due for a reason that does not go away: an event, a request, or another attempt. */
static void make_due(const struct entry *e)
{
	if (!is_due(e->start)) {
		e->timed->due_ns = e->timed->came_ns = e->at->now_ns;
		e->timed->late_ns = 0;
	}
	e->timed->drop = false;
	e->start->flags |= HR_START_DUE;
}

/* A start became due late_ns ago. It replaces an earlier start that has not begun. */
static void come(const struct entry *e, uint64_t late_ns)
{
	if (is_due(e->start) && !e->timed->drop)
		return;
	e->start->skipped += is_due(e->start);
	e->start->flags |= HR_START_DUE;
	e->timed->drop = e->when->skip;
	e->timed->due_ns = e->at->now_ns;
	e->timed->came_ns = e->at->now_ns - (late_ns < e->at->now_ns ? late_ns : 0);
	e->timed->late_ns = late_ns;
}

/* Time in which only other pipelines delay the start does not make it late. */
static void age(const struct entry *e)
{
	struct hr_timetable_entry *timed = e->timed;

	if (timed->running || e->start->flags & HR_START_PAUSED ||
	    e->at->now_ns < timed->not_before_ns)
		timed->late_ns += e->at->now_ns - timed->due_ns;
	timed->due_ns = e->at->now_ns;
}

static void drop_missed(const struct entry *e)
{
	if (!is_due(e->start) || !e->timed->drop)
		return;
	age(e);
	if (e->timed->late_ns <= grace_ns(e->when))
		return;
	e->start->flags &= ~(uint64_t)HR_START_DUE;
	e->start->skipped++;
}

/* ---- times */

/* A start of `every` was planned `late` ago, and perhaps more starts after that one. */
static void come_every(const struct entry *e, uint64_t late_ns)
{
	const uint64_t every_ns = e->when->every_ns, missed = late_ns / every_ns;
	const uint64_t newest_ns = late_ns % every_ns; /* how late the newest one is */

	if (e->when->skip)
		e->start->skipped += missed;
	come(e, newest_ns);
	e->timed->next_ns = e->at->now_ns + every_ns - newest_ns;
	e->start->planned_ns = wall(e->at) > newest_ns ? wall(e->at) - newest_ns : 0;
}

static void plan_every(const struct entry *e)
{
	if (e->at->now_ns >= e->timed->next_ns)
		come_every(e, e->at->now_ns - e->timed->next_ns);
}

static uint64_t period_ns(const struct hr_config_when *when)
{
	return when->at_day < 0 ? DAY_NS : 7 * DAY_NS;
}

/* The start at next_wall_ns has come, and perhaps more starts after that one. */
static void come_at(const struct entry *e)
{
	const uint64_t now = e->at->wall_ns, reach = 8 * DAY_NS, first = e->timed->next_wall_ns;
	uint64_t newest = first, next;

	next = hr_when_next_ns(e->when, now - first > reach ? now - reach : first);
	for (; next <= now; next = hr_when_next_ns(e->when, next))
		newest = next;
	if (e->when->skip)
		e->start->skipped += (newest - first + period_ns(e->when) / 2) / period_ns(e->when);
	come(e, now - newest);
	e->start->planned_ns = newest;
	e->timed->next_wall_ns = next;
}

/* A clock that was put back by more than the hours of a day was wrong before: count anew. */
static void plan_at(const struct entry *e)
{
	const uint64_t now = e->at->wall_ns, planned = e->start->planned_ns;
	uint64_t *next = &e->timed->next_wall_ns;

	if (!hr_wall_is_set(e->at))
		return;
	if (!*next)
		*next = hr_when_next_ns(e->when, planned ? planned : now);
	if (*next > now && *next - now > period_ns(e->when) + DAY_NS)
		*next = hr_when_next_ns(e->when, now);
	if (*next <= now)
		come_at(e);
}

static void check_object_version(const struct entry *e)
{
	if (e->timed->version && e->timed->version != e->start->version && !e->timed->running)
		make_due(e);
}

void hr_timetable_advance(struct hr_timetable *t, const struct hr_moment *at)
{
	for (uint32_t i = 0; i < t->config->pipelines; i++) {
		const struct entry e = entry(t, i, at);

		if (e.when->kind == HR_WHEN_EVERY)
			plan_every(&e);
		else if (e.when->kind == HR_WHEN_AT)
			plan_at(&e);
		else if (e.when->kind == HR_WHEN_OBJECT)
			check_object_version(&e);
		drop_missed(&e);
	}
}

/* ---- begin */

/* A hash of the keys. */
static uint64_t rule_of(const struct hr_config_when *when)
{
	char text[HR_NAME_MAX + 16];
	const char *keys = hr_when_text(when, text, sizeof text);

	return hr_hash(HR_HASH_BEGIN, keys, strlen(keys));
}

/* Drop a start that the former keys have planned or made due, unless it was requested or is another
 * attempt. */
static void apply_rule(const struct entry *e)
{
	const uint64_t rule = rule_of(e->when);

	if (e->start->rule == rule)
		return;
	e->start->rule = rule;
	e->start->planned_ns = 0;
	if (!(e->start->flags & (HR_START_REQUESTED | HR_START_RETRY)))
		e->start->flags &= ~(uint64_t)HR_START_DUE;
}

/* Continue from the last start, when the clock shows how long ago the last start was. */
static void begin_every(const struct entry *e)
{
	const uint64_t planned = e->start->planned_ns, now = wall(e->at);

	e->timed->next_ns = e->at->now_ns + e->when->every_ns;
	if (planned && now >= planned) {
		if (now - planned >= e->when->every_ns)
			come_every(e, now - planned - e->when->every_ns);
		else
			e->timed->next_ns -= now - planned;
	} else if (!e->start->starts || !e->when->skip) {
		make_due(e);
		e->start->planned_ns = now;
	}
}

static uint64_t pause_ns(const struct entry *e)
{
	return hr_pause_ns(&e->t->config->boot, e->start->failures_in_row);
}

/* The rest of a suspension; without a clock, all of it again. */
static void begin_suspended(const struct entry *e)
{
	const uint64_t until = e->suspension->until_ns, now = wall(e->at), whole = pause_ns(e);
	uint64_t left = whole;

	if (!e->suspension->deaths)
		return;
	if (until && now)
		left = until <= now ? 0 : until - now < whole ? until - now : whole;
	if (left && e->timed->not_before_ns < e->at->now_ns + left)
		e->timed->not_before_ns = e->at->now_ns + left;
}

/* The pipeline ran when the power failed or the supervisor was killed. */
static void begin_interrupted(const struct entry *e)
{
	if (e->start->outcome == HR_START_RUNNING) {
		e->start->outcome = HR_START_INTERRUPTED;
		e->start->failures_in_row++;
		e->timed->not_before_ns = e->at->now_ns + pause_ns(e);
	}
	if (e->start->outcome == HR_START_INTERRUPTED) {
		make_due(e);
		e->start->flags |= HR_START_RETRY;
	}
}

static void begin_one(const struct entry *e)
{
	e->timed->due_ns = e->at->now_ns;
	apply_rule(e);
	begin_interrupted(e);
	begin_suspended(e);
	if (e->when->kind == HR_WHEN_EVERY)
		begin_every(e);
	else if (e->when->kind == HR_WHEN_ONCE || e->when->kind == HR_WHEN_FOREVER)
		make_due(e);
}

/* Index of the start; HR_PIPELINES_MAX: there is none. */
static uint32_t find_start(const struct hr_starts *starts, const char *name)
{
	for (uint32_t i = 0; starts && i < HR_PIPELINES_MAX; i++)
		if (strcmp(starts->start[i].name, name) == 0)
			return i;
	return HR_PIPELINES_MAX;
}

void hr_timetable_begin(struct hr_timetable *t, const struct hr_config *config,
			const struct hr_starts *starts, const struct hr_moment *at)
{
	memset(t, 0, sizeof *t);
	t->config = config;
	t->starts.sequence = starts ? starts->sequence : 0;
	for (uint32_t i = 0; i < config->pipelines; i++) {
		const uint32_t known = find_start(starts, config->pipeline[i].name);
		const struct entry e = entry(t, i, at);

		if (starts && known < HR_PIPELINES_MAX) {
			*e.start = starts->start[known];
			*e.suspension = starts->suspension[known];
		}
		memcpy(e.start->name, config->pipeline[i].name, HR_NAME_MAX);
		begin_one(&e);
	}
}

/* ---- reload */

static void reload_one(const struct entry *e)
{
	const uint64_t planned = e->start->planned_ns;

	apply_rule(e);
	e->start->planned_ns = planned; /* intervals go on from the last start */
	e->timed->next_wall_ns = 0;
	e->timed->version = 0;
	e->timed->over = e->when->kind == HR_WHEN_ONCE;
	if (e->when->kind == HR_WHEN_EVERY)
		begin_every(e);
	else if (e->when->kind == HR_WHEN_AT)
		e->start->planned_ns = wall(e->at);
	else if (e->when->kind == HR_WHEN_FOREVER && !e->timed->running)
		make_due(e);
}

/* Set start i to that of the same name. False: there is none, and it has the name only. */
static bool copy_known_start(struct hr_timetable *t, uint32_t i, const struct hr_timetable *before)
{
	const char *name = t->config->pipeline[i].name;

	for (uint32_t j = 0; j < HR_PIPELINES_MAX; j++) {
		if (strcmp(before->starts.start[j].name, name) != 0)
			continue;
		t->starts.start[i] = before->starts.start[j];
		t->starts.suspension[i] = before->starts.suspension[j];
		t->timed[i] = before->timed[j];
		return true;
	}
	memcpy(t->starts.start[i].name, name, HR_NAME_MAX);
	return false;
}

void hr_timetable_reload(struct hr_timetable *t, const struct hr_config *config,
			 const struct hr_moment *at)
{
	const struct hr_timetable before = *t;

	t->config = config;
	t->changed = true;
	memset(t->starts.start, 0, sizeof t->starts.start);
	memset(t->starts.suspension, 0, sizeof t->starts.suspension);
	memset(t->timed, 0, sizeof t->timed);
	for (uint32_t i = 0; i < config->pipelines; i++) {
		const bool known = copy_known_start(t, i, &before);
		const struct entry e = entry(t, i, at);

		if (!known)
			begin_one(&e);
		else if (e.start->rule != rule_of(e.when))
			reload_one(&e);
		else
			e.timed->drop = e.timed->drop && e.when->skip;
	}
}

/* ---- starts and ends */

static bool may_start(const struct entry *e)
{
	return is_due(e->start) && !e->timed->running && !e->timed->over &&
	       !(e->start->flags & HR_START_PAUSED) && e->at->now_ns >= e->timed->not_before_ns;
}

hr_pipeline_set hr_timetable_due(struct hr_timetable *t, const struct hr_moment *at)
{
	hr_pipeline_set due = 0;

	hr_timetable_advance(t, at);
	for (uint32_t i = 0; i < t->config->pipelines; i++) {
		const struct entry e = entry(t, i, at);

		due |= (uint32_t)may_start(&e) << i;
	}
	return due;
}

void hr_timetable_started(struct hr_timetable *t, hr_pipeline_set set, const struct hr_moment *at)
{
	for (uint32_t i = 0; i < t->config->pipelines; i++) {
		const struct entry e = entry(t, i, at);

		if (!(set >> i & 1))
			continue;
		e.start->flags &= ~(uint64_t)(HR_START_DUE | HR_START_RETRY);
		e.start->outcome = HR_START_RUNNING;
		e.start->error = 0;
		e.start->started_ns = wall(at);
		e.start->ended_ns = 0;
		e.start->starts++;
		e.start->version = e.timed->version;
		e.timed->running = true;
		e.timed->planned_ns = e.timed->came_ns > e.timed->not_before_ns
					      ? e.timed->came_ns
					      : e.timed->not_before_ns;
	}
	t->changed |= set != 0;
}

/* A pipeline that runs once is over, unless another start was requested while it ran. */
static bool is_over(const struct entry *e)
{
	return e->when->kind == HR_WHEN_ONCE && !is_due(e->start);
}

static void end_done(const struct entry *e)
{
	e->start->outcome = HR_START_DONE;
	e->start->done++;
	e->start->failures_in_row = 0;
	*e->suspension = (struct hr_suspension){ 0 };
	e->timed->not_before_ns = 0;
	e->timed->over = is_over(e);
	for (uint32_t j = 0; j < e->t->config->pipelines; j++) {
		const struct entry other = entry(e->t, j, e->at);

		if (other.when->kind == HR_WHEN_AFTER && other.when->after == e->i)
			come(&other, 0);
	}
}

static void try_again(const struct entry *e)
{
	make_due(e);
	e->start->flags |= HR_START_RETRY;
}

static void end_failed(const struct entry *e, int err)
{
	const bool final = hr_error_is_final(err);

	e->start->outcome = HR_START_FAILED;
	e->start->error = err;
	e->start->failures++;
	e->start->failures_in_row++;
	e->timed->not_before_ns = e->at->now_ns + pause_ns(e);
	if (final && is_over(e))
		e->timed->over = true;
	else if (!final && !(e->start->flags & HR_START_REQUESTED))
		try_again(e);
}

void hr_timetable_ended(struct hr_timetable *t, uint32_t i, int err, const struct hr_moment *at)
{
	const struct entry e = entry(t, i, at);

	drop_missed(&e);
	e.timed->running = false;
	e.start->ended_ns = wall(at);
	if (err == -EINTR) {
		e.start->outcome = HR_START_INTERRUPTED;
		try_again(&e);
	} else if (err) {
		end_failed(&e, err);
	} else {
		end_done(&e);
	}
	if (!is_due(e.start))
		e.start->flags &= ~(uint64_t)HR_START_REQUESTED;
	if (e.when->kind == HR_WHEN_FOREVER)
		make_due(&e);
	t->changed = true;
}

void hr_timetable_died(struct hr_timetable *t, uint32_t i, uint64_t ran_ns,
		       const struct hr_moment *at)
{
	const struct entry e = entry(t, i, at);
	const uint64_t heal_ns = t->config->boot.heal_ns;

	if (heal_ns && ran_ns >= heal_ns) {
		e.suspension->deaths = 0;
		e.start->failures_in_row = e.start->failures_in_row != 0;
	}
	e.suspension->deaths++;
	e.timed->not_before_ns = at->now_ns + pause_ns(&e);
	e.suspension->until_ns = wall(at) ? wall(at) + pause_ns(&e) : 0;
	t->changed = true;
}

uint64_t hr_timetable_suspended_ns(const struct hr_timetable *t, uint32_t i,
				   const struct hr_moment *at)
{
	const uint64_t until_ns = t->timed[i].not_before_ns;

	return t->starts.suspension[i].deaths && until_ns > at->now_ns ? until_ns - at->now_ns : 0;
}

void hr_timetable_object(struct hr_timetable *t, uint32_t i, uint64_t version,
			 const struct hr_moment *at)
{
	const struct entry e = entry(t, i, at);

	e.timed->version = version;
	if (e.when->kind == HR_WHEN_OBJECT)
		check_object_version(&e);
}

/* ---- requests */

uint64_t hr_timetable_request(struct hr_timetable *t, uint32_t i, const struct hr_moment *at)
{
	const struct entry e = entry(t, i, at);

	make_due(&e);
	e.start->flags |= HR_START_REQUESTED;
	e.timed->not_before_ns = 0;
	e.timed->over = false;
	t->changed = true;
	return e.start->starts + 1;
}

void hr_timetable_pause(struct hr_timetable *t, uint32_t i)
{
	t->changed |= !(t->starts.start[i].flags & HR_START_PAUSED);
	t->starts.start[i].flags |= HR_START_PAUSED;
}

void hr_timetable_resume(struct hr_timetable *t, uint32_t i, const struct hr_moment *at)
{
	t->changed |= (t->starts.start[i].flags & HR_START_PAUSED) != 0;
	hr_timetable_advance(t, at);
	t->starts.start[i].flags &= ~(uint64_t)HR_START_PAUSED;
	if (!t->starts.suspension[i].deaths)
		return;
	t->starts.suspension[i] = (struct hr_suspension){ 0 };
	t->starts.start[i].failures_in_row = 0;
	t->timed[i].not_before_ns = 0;
	t->changed = true;
}
