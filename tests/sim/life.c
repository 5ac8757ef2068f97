#include "tests/sim/life.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/seam.h"
#include "tests/sim/command.h"
#include "tests/sim/objects.h"
#include "tests/sim/plan.h"
#include "tests/sim/schedule.h"
#include "tests/sim/visits.h"

#define LOOK_NS (20 * HR_NS_PER_MS)
/* Producers and consumers that die in a run. */
#define DEATHS 3u
#define DEATH_NS (4 * (uint32_t)HR_NS_PER_MS)
/* Longest time in which an appliance that is left alone has done its work, or has stopped. */
#define PEACE_NS (3600 * HR_NS_PER_S)
#define KILLED (128 + SIGKILL)
#define TWICE_S 0.05 /* equal messages within that time are one message, printed twice */

struct life {
	struct sim_plan *plan;
	struct sim_objects *objects;
	pid_t boot;	/* 0: the appliance is off */
	bool killed;	/* by an event */
	bool asked;	/* to stop */
	bool disturbed; /* an engine was killed, or rules of the fault scripts are not mild */
	bool calm;	/* it was never disturbed before peace */
	bool done;	/* boot has ended with 0 by itself */
	unsigned lives;
	struct sim_visits visits;
};

/* ---- the appliance */

static void switch_on(struct life *l)
{
	l->boot = sim_start(NULL, "boot world.conf --log text");
	l->killed = l->asked = l->done = false;
	l->lives++;
}

/* The appliance has ended with that status. */
static void note_end(struct life *l, int status)
{
	const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

	l->boot = 0;
	if ((l->killed && code == KILLED) || (l->asked && code == 128 + SIGTERM))
		return; /* a second SIGTERM, and one at the very begin, ends at once */
	if (code >= 128)
		sim_fault("boot: ended by signal %d", code - 128);
	if (code != 0 && !l->disturbed)
		sim_fault("boot: exit code %d without any fault", code);
	if (code == 0 && l->plan->repeats && !l->asked)
		sim_fault("boot: exit code 0, but pipelines repeat");
	l->done = code == 0 && !l->asked && !l->killed;
}

static void look_at_boot(struct life *l)
{
	int status = 0;

	if (l->boot && hr_wait_child(l->boot, &status, WNOHANG) == l->boot)
		note_end(l, status);
}

static void await_end(struct life *l)
{
	const uint64_t since_ns = sim_world->now_ns;

	for (look_at_boot(l); l->boot; look_at_boot(l)) {
		if (sim_world->now_ns - since_ns > PEACE_NS)
			sim_fault("boot: no end within an hour%s",
				  l->asked ? " after the request to stop" : "");
		hr_wait_ns(LOOK_NS);
	}
}

static void switch_off(struct life *l)
{
	if (l->boot && !l->asked)
		hr_kill(l->boot, SIGTERM);
	l->asked = true;
	await_end(l);
}

/* ---- what the disks hold */

/* Get an object into the file `got`: the exit code. */
static int get(struct life *l, unsigned object)
{
	const struct sim_object *o = &l->plan->object[object];
	char device[160];

	sim_plan_device(l->plan, o->ssd, device, sizeof device);
	unlink("got");
	return sim_command(NULL, "store get %s %s got", device, o->name);
}

/* The version that an object has. */
static unsigned fetch(struct life *l, unsigned object)
{
	const struct sim_object *o = &l->plan->object[object];
	int code = 0;

	if (o->content == SIM_FED)
		return 0;
	for (unsigned tries = 0; tries < 100; tries++) {
		code = get(l, object);
		if (code == 0 || o->content != SIM_ROWS)
			break;
		hr_wait_ns(LOOK_NS); /* busy: a run changes it now */
	}
	if (code != 0)
		sim_fault("peace: get of %s: exit code %d", o->name, code);
	return sim_objects_check(l->objects, object, "got");
}

/* An appliance that has ended by itself, without a failure, has made all sinks. */
static void check_sinks(struct life *l)
{
	for (unsigned i = 0; l->done && i < l->plan->objects; i++) {
		const struct sim_object *o = &l->plan->object[i];

		fetch(l, i);
		if (o->content == SIM_ROWS)
			sim_objects_check_rows(l->objects, o->gather, "got");
	}
	l->done = false;
}

/* ---- events */

static void kill_engine(struct life *l)
{
	const unsigned boot = (unsigned)(l->boot - SIM_PID);

	for (unsigned p = 1; p < sim_world->processes; p++)
		if (sim_world->process[p].alive && sim_world->process[p].parent == boot)
			sim_kill(p, SIGKILL);
	l->disturbed = true;
}

static void cut_power(struct life *l)
{
	for (unsigned p = 1; p < sim_world->processes; p++)
		if (sim_world->process[p].alive)
			sim_kill(p, SIGKILL);
	sim_visits_are_killed(&l->visits);
	l->killed = true;
}

static void happen(struct life *l, const struct sim_event *event)
{
	switch (event->kind) {
	case SIM_KILL_ENGINE:
		kill_engine(l);
		break;
	case SIM_KILL_BOOT:
		l->killed = true;
		hr_kill(l->boot, SIGKILL);
		break;
	case SIM_STOP:
		if (!l->asked)
			hr_kill(l->boot, SIGTERM);
		l->asked = true;
		break;
	case SIM_CUT:
		cut_power(l);
		break;
	case SIM_JUMP:
		sim_world->wall_jump_ns += (int64_t)(event->number % (100 * 3600 * HR_NS_PER_S)) -
					   (int64_t)(50 * 3600 * HR_NS_PER_S);
		break;
	case SIM_GARBAGE:
		sim_visits_lie(&l->visits, event->number);
		break;
	case SIM_LEAVE:
		sim_visits_leave(&l->visits, event->number);
		break;
	default:
		sim_visits_begin(&l->visits, event);
		break;
	}
}

static void live_through(struct life *l)
{
	for (unsigned i = 0; i < l->plan->events; i++) {
		const struct sim_event *event = &l->plan->event[i];

		sim_result->events = i + 1;
		hr_wait_ns(event->after_ns);
		look_at_boot(l);
		sim_visits_look(&l->visits, false);
		if (!l->boot) {
			check_sinks(l);
			switch_on(l);
		}
		sim_visits_keep_partners(&l->visits);
		dprintf(STDERR_FILENO, "%llu.%06llu event %u: %s\n",
			(unsigned long long)(sim_world->now_ns / HR_NS_PER_S),
			(unsigned long long)(sim_world->now_ns % HR_NS_PER_S / 1000), i,
			sim_event_name(event->kind));
		happen(l, event);
	}
}

/* ---- peace: no events and no faults */

static void resume(const struct sim_pipeline *p)
{
	const uint64_t since_ns = sim_world->now_ns;
	uint64_t pause_ns = LOOK_NS;

	/* not before an engine has read the earlier starts */
	for (; sim_command(NULL, "resume %s", p->name) != 0; pause_ns += pause_ns / 8) {
		if (sim_world->now_ns - since_ns > PEACE_NS)
			sim_fault("peace: resume %s fails for an hour", p->name);
		hr_wait_ns(pause_ns);
	}
}

/* Start a pipeline, and wait for its end: the exit code. Producers and consumers die meanwhile. */
static int run(struct life *l, unsigned i)
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
static void run_each(struct life *l)
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
			fetch(l, p->to);
			sim_objects_check_rows(l->objects, i, "got");
			continue;
		}
		if (p->tap && l->objects->delivered[i].had != l->objects->delivered[i].tiles)
			sim_fault("peace: consumers of %s have had %llu of %llu tiles", p->name,
				  (unsigned long long)l->objects->delivered[i].had,
				  (unsigned long long)l->objects->delivered[i].tiles);
		if (p->to != SIM_OBJECTS && l->plan->object[source].content == SIM_FED)
			fetch(l, p->to);
		else if (p->to != SIM_OBJECTS && fetch(l, p->to) != fetch(l, source))
			sim_fault("peace: %s has not made its sink from the newest source",
				  p->name);
	}
}

/* The socket answers. */
static void await_answer(struct life *l)
{
	const uint64_t since_ns = sim_world->now_ns;

	while (sim_command("status.json", "status --json") != 0) {
		look_at_boot(l);
		if (!l->boot || sim_world->now_ns - since_ns > PEACE_NS)
			sim_fault("peace: boot does not answer");
		hr_wait_ns(LOOK_NS);
	}
}

/* One pipeline succeeds. Each engine reads the fault scripts anew, so they must be mild. */
static void go_on_with(struct life *l, unsigned i)
{
	const struct sim_pipeline *p = &l->plan->pipeline[i];
	const uint64_t since_ns = sim_world->now_ns;
	uint64_t pause_ns = LOOK_NS;

	for (;;) {
		look_at_boot(l);
		if (!l->boot)
			switch_on(l);
		sim_visits_keep_partners(&l->visits);
		sim_command(NULL, "resume %s", p->name);
		if (sim_command(NULL, "trigger %s --wait", p->name) == 0)
			return;
		if (sim_world->now_ns - since_ns > PEACE_NS)
			sim_fault("no start of %s succeeds any more", p->name);
		hr_wait_ns(pause_ns);
		pause_ns = pause_ns < 10 * HR_NS_PER_S ? 2 * pause_ns : pause_ns;
	}
}

/* The same appliance goes on after all that has happened. */
static void go_on(struct life *l)
{
	for (unsigned i = 0; i < l->plan->pipelines; i++)
		go_on_with(l, i);
}

/* A pipeline whose starts follow from its source alone: no start was requested, and none has failed. */
static bool only_follows(const struct life *l, unsigned i)
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
static void follow(struct life *l)
{
	for (unsigned i = 0; i < l->plan->pipelines; i++) {
		const struct sim_pipeline *p = &l->plan->pipeline[i];
		const uint64_t since_ns = sim_world->now_ns;
		uint64_t pause_ns = LOOK_NS;
		unsigned newest;

		if (!only_follows(l, i))
			continue;
		resume(p);
		newest = fetch(l, p->from);
		while (get(l, p->to) != 0 ||
		       sim_objects_check(l->objects, p->to, "got") != newest) {
			if (sim_world->now_ns - since_ns > 2 * PEACE_NS)
				sim_fault("peace: the sink of %s does not follow its source",
					  p->name);
			hr_wait_ns(pause_ns);
			pause_ns = 2 * pause_ns;
		}
	}
}

/* Number of descriptors that the supervisor has. */
static unsigned count_descriptors(const struct life *l)
{
	char path[64];
	unsigned count = 0;
	DIR *folder;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)sim_world->process[l->boot - SIM_PID].pid);
	folder = opendir(path);
	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count;
}

/* A client that goes while it waits leaves nothing behind. */
static void leave_waiting(struct life *l)
{
	const unsigned before = count_descriptors(l);
	const pid_t pid = sim_start(NULL, "trigger %s --wait", l->plan->pipeline[0].name);

	hr_wait_ns(l->plan->seed % 16 * HR_NS_PER_MS / 4);
	hr_kill(pid, SIGKILL);
	sim_end(pid);
	if (sim_command(NULL, "trigger %s --wait", l->plan->pipeline[0].name) != 0)
		sim_fault("peace: trigger %s --wait fails", l->plan->pipeline[0].name);
	hr_wait_ns(HR_NS_PER_S);
	if (count_descriptors(l) > before)
		sim_fault("peace: the supervisor had %u descriptors, and has %u", before,
			  count_descriptors(l));
}

static uint64_t start_of(struct json_object *runs, size_t i)
{
	struct json_object *start = NULL;

	json_object_object_get_ex(json_object_array_get_idx(runs, i), "start", &start);
	return (uint64_t)json_object_get_int64(start);
}

/* The newest run comes first, and no start has two. Without faults of ssds each start is durable.
 * Returns the newest start. */
static uint64_t check_history(struct life *l, const struct sim_pipeline *p)
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
	for (size_t n = 1; n < json_object_array_length(runs) && l->plan->rules == 0; n++)
		if (start_of(runs, n) >= start_of(runs, n - 1))
			sim_fault("peace: history of %s: start %llu before start %llu", p->name,
				  (unsigned long long)start_of(runs, n - 1),
				  (unsigned long long)start_of(runs, n));
	newest = start_of(runs, 0);
	json_object_put(document);
	return newest;
}

static void repeat_in_peace(struct life *l)
{
	uint64_t newest = 0;

	await_answer(l);
	if (l->plan->seed % 2)
		follow(l);
	run_each(l);
	for (unsigned i = l->plan->pipelines; i-- > 0;)
		newest = check_history(l, &l->plan->pipeline[i]);
	leave_waiting(l);
	if (check_history(l, &l->plan->pipeline[0]) <= newest)
		sim_fault("peace: history of %s: start %llu is not the newest",
			  l->plan->pipeline[0].name, (unsigned long long)newest);
}

static void live_in_peace(struct life *l)
{
	if (l->plan->repeats && sim_plan_is_mild(l->plan) && l->plan->seed % 2 == 0)
		go_on(l);
	switch_off(l);
	sim_visits_look(&l->visits, true);
	sim_visits_hang_up(&l->visits);
	l->calm = !l->disturbed;
	l->disturbed = false;
	sim_plan_write(l->plan, false);
	switch_on(l);
	sim_visits_keep_partners(&l->visits);
	if (l->plan->repeats) {
		repeat_in_peace(l);
		switch_off(l);
	} else {
		await_end(l);
		check_sinks(l);
	}
}

/* The seconds in "[ 1000.042946 +0.041945] headrace: ", before the text. */
static double second_of(const char *line, const char *text)
{
	while (text > line && text[-1] != '[')
		text--;
	return strtod(text, NULL);
}

/* No warning or error follows an equal one at once, and no engine is started again without a reason. */
static void check_messages(const struct life *l)
{
	static char line[8192], last[8192];
	double second = 0;
	bool used = false; /* a command of a client had an ssd, so an engine could not have it */
	FILE *file = fopen("err", "re");

	while (file && fgets(line, sizeof line, file)) {
		const char *text = strstr(line, "] headrace: ");
		const double before = second;

		if (strstr(line, "Sanitizer") || strstr(line, "runtime error:"))
			sim_fault("err: %.400s", line);
		second = text ? second_of(line, text) : 0;
		if (text && (strstr(text, "error: ") || strstr(text, "warning: ")) &&
		    strcmp(text, last) == 0 && second - before < TWICE_S)
			sim_fault("a message is printed twice: %.400s", text + 12);
		used |= strstr(line, "in use by another controller") != NULL;
		if (text && l->calm && !used && strstr(text, "warning: restart "))
			sim_fault("without a fault: %.400s", text + 12);
		snprintf(last, sizeof last, "%s", text ? text : "");
	}
	if (file)
		fclose(file);
}

static void check_all(struct life *l)
{
	check_messages(l);
	for (unsigned i = 0; i < l->plan->ssds; i++) {
		char device[160];

		sim_plan_device(l->plan, i, device, sizeof device);
		if (sim_command(NULL, "store verify %s", device) != 0)
			sim_fault("store verify of ssd %u finds faults", i);
	}
	for (unsigned i = 0; i < l->plan->objects; i++)
		fetch(l, i);
}

/* ---- the begin */

static void make_disks(struct life *l)
{
	char device[160];

	for (unsigned i = 0; i < l->plan->ssds; i++) {
		sim_plan_device(l->plan, i, device, sizeof device);
		if (sim_command(NULL, "store format %s", device) != 0)
			sim_fault("format of ssd %u", i);
	}
	for (unsigned i = 0; i < l->plan->objects; i++) {
		const struct sim_object *o = &l->plan->object[i];

		if (o->content == SIM_FED)
			sim_objects_feed(l->objects, i, sim_plan_number(l->plan, i));
		if (!o->is_source || o->content == SIM_FED)
			continue;
		sim_plan_device(l->plan, o->ssd, device, sizeof device);
		sim_objects_begin(l->objects, i, sim_plan_number(l->plan, i), "data");
		if (sim_command(NULL, "store put --quiet %s %s data", device, o->name) != 0)
			sim_fault("put of %s", o->name);
		sim_objects_acknowledge(l->objects, i);
	}
}

int sim_live(void *argument)
{
	static struct life life;
	struct life *l = &life;
	const int err = open("err", O_WRONLY | O_CREAT | O_APPEND, 0600);

	dup2(err, STDERR_FILENO);
	l->plan = argument;
	setenv("RUNTIME_DIRECTORY", "run", 1);
	mkdir("run", 0700);
	l->objects = mmap(NULL, sizeof *l->objects, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l->objects == MAP_FAILED)
		sim_fault("no memory");
	sim_objects_open(l->objects, l->plan);
	sim_visits_open(&l->visits, l->plan, l->objects);
	snprintf(sim_result->told, sizeof sim_result->told,
		 "%u ssds, %u pipelines%s, %u rules, %u events", l->plan->ssds, l->plan->pipelines,
		 l->plan->repeats ? " that repeat" : "", l->plan->rules, l->plan->events);
	make_disks(l);
	l->disturbed = !sim_plan_is_mild(l->plan);
	sim_plan_write(l->plan, true);
	switch_on(l);
	live_through(l);
	live_in_peace(l);
	sim_visits_end_partners(&l->visits);
	check_all(l);
	return 0;
}
