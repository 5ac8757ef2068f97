/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/life.h"

#include <dirent.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "tests/sim/command.h"
#include "tests/sim/schedule.h"

/* Producers and consumers that die in a run. */
#define DEATHS 3u
#define REPEATS 3u
#define DEATH_NS (4 * (uint32_t)HR_NS_PER_MS)

static void resume(const struct sim_pipeline *p)
{
	const uint64_t since_ns = sim_world->now_ns;
	uint64_t pause_ns = SIM_LOOK_NS;

	/* not before an engine has read the earlier starts */
	for (; sim_command(NULL, "resume %s", p->name) != 0; pause_ns += pause_ns / 8) {
		if (sim_world->now_ns - since_ns > SIM_PEACE_NS)
			sim_fault("peace: resume %s fails for an hour", p->name);
		hr_wait_ns(pause_ns);
	}
}

/* Start a pipeline, and wait for its end: the exit code. Producers and consumers die meanwhile. */
static int run(struct sim_life *l, unsigned i)
{
	const struct sim_pipeline *p = &l->plan->pipeline[i];
	struct fake_random random = { .state = l->plan->seed * 2 + i * 1000003 + 1 };
	const pid_t pid = sim_start(NULL, "trigger %s --wait", p->name);

	fake_random_u64(&random);
	for (unsigned n = 0; n < DEATHS && (p->tap || p->feed); n++) {
		hr_wait_ns(fake_random_below(&random, DEATH_NS));
		sim_visits_kill_partner(&l->visits, i, fake_random_below(&random, 2));
		hr_wait_ns(fake_random_below(&random, DEATH_NS));
		sim_visits_keep_partners(&l->visits);
	}
	return sim_end(pid);
}

/* Each pipeline, asked in the order of the configuration, makes its sink from the newest source. */
static void run_each(struct sim_life *l)
{
	for (unsigned i = 0; i < l->plan->pipelines; i++) {
		const struct sim_pipeline *p = &l->plan->pipeline[i];
		const unsigned source = sim_objects_source(l->plan, p->from);
		int code;

		resume(p);
		code = run(l, i);
		if (code != 0)
			sim_fault("peace: trigger %s --wait: exit code %d", p->name, code);
		if (p->gather) {
			sim_fetch(l, p->to);
			sim_objects_check_rows(l->objects, i, "got");
			continue;
		}
		if (p->tap && l->objects->delivered[i].had != l->objects->delivered[i].tiles)
			sim_fault("peace: consumers of %s have had %llu of %llu tiles", p->name,
				  (unsigned long long)l->objects->delivered[i].had,
				  (unsigned long long)l->objects->delivered[i].tiles);
		if (p->to != SIM_OBJECTS && l->plan->object[source].content == SIM_FED)
			sim_fetch(l, p->to);
		else if (p->to != SIM_OBJECTS && sim_fetch(l, p->to) != sim_fetch(l, source))
			sim_fault("peace: %s has not made its sink from the newest source",
				  p->name);
	}
}

/* The socket answers. */
static void await_answer(struct sim_life *l)
{
	const uint64_t since_ns = sim_world->now_ns;

	while (sim_command("status.json", "status --json") != 0) {
		sim_look_at_boot(l);
		if (!l->boot || sim_world->now_ns - since_ns > SIM_PEACE_NS)
			sim_fault("peace: boot does not answer");
		hr_wait_ns(SIM_LOOK_NS);
	}
}

/* One pipeline succeeds. Each engine reads the fault scripts anew, so they must be mild. */
static void go_on_with(struct sim_life *l, unsigned i)
{
	const struct sim_pipeline *p = &l->plan->pipeline[i];
	const uint64_t since_ns = sim_world->now_ns;
	uint64_t pause_ns = SIM_LOOK_NS;

	for (;;) {
		sim_look_at_boot(l);
		if (!l->boot)
			sim_switch_on(l);
		sim_visits_keep_partners(&l->visits);
		if (l->changed)
			sim_command(NULL, "reload");
		sim_command(NULL, "resume %s", p->name);
		if (sim_command(NULL, "trigger %s --wait", p->name) == 0)
			return;
		if (sim_world->now_ns - since_ns > SIM_PEACE_NS)
			sim_fault("no start of %s succeeds any more", p->name);
		hr_wait_ns(pause_ns);
		pause_ns = pause_ns < 10 * HR_NS_PER_S ? 2 * pause_ns : pause_ns;
	}
}

void sim_go_on(struct sim_life *l)
{
	for (unsigned i = 0; i < l->plan->pipelines; i++)
		go_on_with(l, i);
}

/* A pipeline whose starts follow from its source alone: no start was requested, and none has failed. */
static bool only_follows(const struct sim_life *l, unsigned i)
{
	const struct sim_pipeline *p = &l->plan->pipeline[i];
	bool asked = !sim_plan_is_mild(l->plan);

	for (unsigned n = 0; n < l->plan->events; n++)
		asked |= l->plan->event[n].kind == SIM_TRIGGER &&
			 l->plan->event[n].number % l->plan->pipelines == i;
	return !asked && p->schedule == SIM_ON_OBJECT && !p->gather && p->to != SIM_OBJECTS &&
	       l->plan->object[p->from].is_source;
}

/* Sinks follow their sources, also when a run was broken off. */
static void follow(struct sim_life *l)
{
	for (unsigned i = 0; i < l->plan->pipelines; i++) {
		const struct sim_pipeline *p = &l->plan->pipeline[i];
		const uint64_t since_ns = sim_world->now_ns;
		uint64_t pause_ns = SIM_LOOK_NS;
		unsigned newest;

		if (!only_follows(l, i))
			continue;
		resume(p);
		newest = sim_fetch(l, p->from);
		while (sim_get(l, p->to) != 0 ||
		       sim_objects_check(l->objects, p->to, "got", SIM_VERSIONS) != newest) {
			if (sim_world->now_ns - since_ns > 2 * SIM_PEACE_NS)
				sim_fault("peace: the sink of %s does not follow its source",
					  p->name);
			hr_wait_ns(pause_ns);
			pause_ns = 2 * pause_ns;
		}
	}
}

/* What a process holds. */
struct holds {
	unsigned process; /* SIM_NONE: it does not live */
	unsigned descriptors, blocks;
};

static struct holds look_at(unsigned process)
{
	struct holds h = { .process = process };
	char path[64];
	DIR *folder;

	if (process == SIM_NONE)
		return h;
	snprintf(path, sizeof path, "/proc/%d/fd", (int)sim_world->process[process].pid);
	folder = opendir(path);
	while (folder && readdir(folder))
		h.descriptors++;
	if (folder)
		closedir(folder);
	h.blocks = sim_world->process[process].blocks;
	return h;
}

static unsigned supervisor(const struct sim_life *l)
{
	return (unsigned)(l->boot - SIM_PID);
}

static unsigned engine(const struct sim_life *l)
{
	for (unsigned p = 1; p < sim_world->processes; p++)
		if (sim_world->process[p].alive && sim_world->process[p].parent == supervisor(l))
			return p;
	return SIM_NONE;
}

/* A pipeline runs again and again, a client asks: nothing is left over. */
static void repeat_some(struct sim_life *l)
{
	const struct sim_pipeline *p = &l->plan->pipeline[l->plan->seed % l->plan->pipelines];

	for (unsigned n = 0; n < REPEATS; n++) {
		if (sim_command(NULL, "trigger %s --wait", p->name) != 0)
			sim_fault("peace: trigger %s --wait fails when it is repeated", p->name);
		sim_command("status.json", "status --json");
	}
	hr_wait_ns(HR_NS_PER_S);
}

static void check_grown(const char *what, const struct holds *before, const struct holds *after)
{
	if (before->process != after->process || before->process == SIM_NONE)
		return;
	if (after->descriptors >= before->descriptors + REPEATS)
		sim_fault("peace: after %u repeats the %s has %u descriptors, before %u", REPEATS,
			  what, after->descriptors, before->descriptors);
	if (after->blocks >= before->blocks + REPEATS)
		sim_fault("peace: after %u repeats the %s has %u blocks of memory, before %u",
			  REPEATS, what, after->blocks, before->blocks);
}

static void return_all(struct sim_life *l)
{
	struct holds boot, run, boot_after, run_after;

	repeat_some(l);
	boot = look_at(supervisor(l));
	run = look_at(engine(l));
	repeat_some(l);
	boot_after = look_at(supervisor(l));
	run_after = look_at(engine(l));
	check_grown("supervisor", &boot, &boot_after);
	check_grown("engine", &run, &run_after);
}

/* A client that goes while it waits leaves nothing behind. */
static void leave_waiting(struct sim_life *l)
{
	const unsigned before = look_at(supervisor(l)).descriptors;
	const pid_t pid = sim_start(NULL, "trigger %s --wait", l->plan->pipeline[0].name);

	hr_wait_ns(l->plan->seed % 16 * HR_NS_PER_MS / 4);
	hr_kill(pid, SIGKILL);
	sim_end(pid);
	if (sim_command(NULL, "trigger %s --wait", l->plan->pipeline[0].name) != 0)
		sim_fault("peace: trigger %s --wait fails", l->plan->pipeline[0].name);
	hr_wait_ns(HR_NS_PER_S);
	if (look_at(supervisor(l)).descriptors > before)
		sim_fault("peace: the supervisor had %u descriptors, and has %u", before,
			  look_at(supervisor(l)).descriptors);
}

static uint64_t start_of(struct json_object *runs, size_t i)
{
	struct json_object *start = NULL;

	json_object_object_get_ex(json_object_array_get_idx(runs, i), "start", &start);
	return (uint64_t)json_object_get_int64(start);
}

/* The newest run comes first, and no start has two. Without faults of ssds each start is durable.
 * Returns the newest start. */
static uint64_t check_history(struct sim_life *l, const struct sim_pipeline *p)
{
	struct json_object *document, *runs = NULL;
	uint64_t newest;

	unlink("history.json");
	if (sim_command("history.json", "status --json --history %s", p->name) != 0)
		sim_fault("peace: no history of %s", p->name);
	document = json_object_from_file("history.json");
	json_object_object_get_ex(document, "runs", &runs);
	if (!runs || json_object_array_length(runs) == 0)
		sim_fault("peace: %s has run, and has no history", p->name);
	for (size_t n = 1;
	     n < json_object_array_length(runs) && sim_plan_is_clean(l->plan) && !l->changed; n++)
		if (start_of(runs, n) >= start_of(runs, n - 1))
			sim_fault("peace: history of %s: start %llu before start %llu", p->name,
				  (unsigned long long)start_of(runs, n - 1),
				  (unsigned long long)start_of(runs, n));
	newest = start_of(runs, 0);
	json_object_put(document);
	return newest;
}

static void repeat_in_peace(struct sim_life *l)
{
	uint64_t newest = 0;

	await_answer(l);
	if (l->plan->seed % 2)
		follow(l);
	run_each(l);
	for (unsigned i = l->plan->pipelines; i-- > 0;)
		newest = check_history(l, &l->plan->pipeline[i]);
	leave_waiting(l);
	if (l->plan->seed % 3 == 0)
		return_all(l);
	if (check_history(l, &l->plan->pipeline[0]) <= newest)
		sim_fault("peace: history of %s: start %llu is not the newest",
			  l->plan->pipeline[0].name, (unsigned long long)newest);
}

/* ---- headrace run */

static uint64_t number_of(struct json_object *of, const char *a, const char *b, const char *c)
{
	const char *const name[] = { a, b, c };

	for (unsigned i = 0; i < 3 && name[i]; i++)
		if (!json_object_object_get_ex(of, name[i], &of))
			return UINT64_MAX;
	return (uint64_t)json_object_get_int64(of);
}

/* Commands for the tiles of an object of so many bytes: none is longer than the ssd permits. */
static uint64_t commands_for(const struct sim_ssd *ssd, uint64_t bytes, uint64_t tile_bytes)
{
	const uint64_t most = 4096u << ssd->mdts;
	const uint64_t last = bytes % tile_bytes;

	return bytes / tile_bytes * ((tile_bytes + most - 1) / most) + (last + most - 1) / most;
}

/* Each command of a run is one of its tiles, or a flush at the end of a worker. */
static void check_commands(const struct sim_life *l, unsigned i, struct json_object *run)
{
	const struct sim_pipeline *p = &l->plan->pipeline[i];
	const struct sim_object *from = &l->plan->object[p->from];
	const struct sim_object *to = &l->plan->object[p->to % SIM_OBJECTS];
	const uint64_t bytes = number_of(run, "read_bytes", NULL, NULL);
	const uint64_t tile = p->tile_kb * 1024u;
	const uint64_t reads = number_of(run, "cost", "prefetch", "commands");
	const uint64_t writes = number_of(run, "cost", "writeback", "commands");
	uint64_t want = commands_for(&l->plan->ssd[from->ssd], bytes, tile), flushes = 0;

	if (!p->feed && reads != want)
		sim_fault("%s has read %llu bytes by %llu commands, in place of %llu", p->name,
			  (unsigned long long)bytes, (unsigned long long)reads,
			  (unsigned long long)want);
	if (p->to == SIM_OBJECTS)
		return;
	want = commands_for(&l->plan->ssd[to->ssd], bytes, tile);
	flushes = l->plan->ssd[to->ssd].cache_mb ? p->writeback : 0;
	if (writes < want || writes > want + flushes)
		sim_fault("%s has written %llu bytes by %llu commands, in place of %llu", p->name,
			  (unsigned long long)bytes, (unsigned long long)writes,
			  (unsigned long long)want);
}

/* All in the foreground, with a report. */
static void run_all(struct sim_life *l)
{
	struct json_object *document, *runs = NULL;
	int code;

	unlink("run.json");
	code = sim_command("run.json", "run world.conf --json");
	document = json_object_from_file("run.json");
	if (code != 0 || !document || !json_object_object_get_ex(document, "pipelines", &runs) ||
	    json_object_array_length(runs) != l->plan->pipelines)
		sim_fault("peace: run --json: exit code %d, or no report", code);
	for (unsigned i = 0; i < l->plan->pipelines; i++) {
		struct json_object *run = json_object_array_get_idx(runs, i), *outcome = NULL;

		json_object_object_get_ex(run, "outcome", &outcome);
		if (!l->plan->pipeline[i].gather && number_of(run, "first_tile", NULL, NULL) == 0 &&
		    strcmp(json_object_get_string(outcome), "done") == 0)
			check_commands(l, i, run);
	}
	json_object_put(document);
	l->done = true;
}

void sim_live_in_peace(struct sim_life *l)
{
	if (!l->plan->repeats && l->plan->seed % 2) {
		sim_visits_keep_partners(&l->visits);
		run_all(l);
		sim_check_disks(l);
		sim_check_sinks(l);
		return;
	}
	sim_switch_on(l);
	sim_visits_keep_partners(&l->visits);
	if (l->plan->repeats) {
		repeat_in_peace(l);
		sim_switch_off(l);
	} else {
		sim_await_end(l);
		sim_check_disks(l);
		sim_check_sinks(l);
	}
}
