/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/life.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "tests/sim/command.h"
#include "tests/sim/objects.h"
#include "tests/sim/pair.h"
#include "tests/sim/plan.h"
#include "tests/sim/schedule.h"
#include "tests/sim/visits.h"

#define KILLED (128 + SIGKILL)
#define FILLED "filled" /* the object that fills an ssd */

/* ---- the appliance */

void sim_switch_on(struct sim_life *l)
{
	l->boot = sim_start(NULL, "boot world.conf --log text");
	l->killed = l->asked = l->done = false;
	l->lives++;
}

/* The appliance has ended with that status. */
static void note_end(struct sim_life *l, int status)
{
	const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	bool partial;

	l->boot = 0;
	if ((l->killed && code == KILLED) || (l->asked && code == 128 + SIGTERM))
		return; /* a second SIGTERM, and one at the very begin, ends at once */
	if (code >= 128)
		sim_fault("boot: ended by signal %d", code - 128);
	/* a new start takes the configuration as it is then */
	partial = l->plan->hidden || l->plan->mistaken;
	if (code != 0 && !l->disturbed && !partial)
		sim_fault("boot: exit code %d without any fault", code);
	if (code == 0 && l->plan->repeats && !l->asked && !partial)
		sim_fault("boot: exit code 0, but pipelines repeat");
	l->done = code == 0 && !l->asked && !l->killed && !partial;
}

void sim_look_at_boot(struct sim_life *l)
{
	int status = 0;

	if (l->boot && hr_wait_child(l->boot, &status, WNOHANG) == l->boot)
		note_end(l, status);
}

void sim_await_end(struct sim_life *l)
{
	const uint64_t since_ns = sim_world->now_ns;

	for (sim_look_at_boot(l); l->boot; sim_look_at_boot(l)) {
		if (sim_world->now_ns - since_ns > SIM_PEACE_NS)
			sim_fault("boot: no end within an hour%s",
				  l->asked ? " after the request to stop" : "");
		hr_wait_ns(SIM_LOOK_NS);
	}
}

void sim_switch_off(struct sim_life *l)
{
	if (l->boot && !l->asked)
		hr_kill(l->boot, SIGTERM);
	l->asked = true;
	sim_await_end(l);
}

/* ---- events */

static void kill_engine(struct sim_life *l)
{
	const unsigned boot = (unsigned)(l->boot - SIM_PID);

	for (unsigned p = 1; p < sim_world->processes; p++)
		if (sim_world->process[p].alive && sim_world->process[p].parent == boot)
			sim_kill(p, SIGKILL);
	l->disturbed = true;
}

static void cut_power(struct sim_life *l)
{
	for (unsigned p = 1; p < sim_world->processes; p++)
		if (sim_world->process[p].alive)
			sim_kill(p, SIGKILL);
	sim_visits_are_killed(&l->visits);
	l->killed = true;
}

/* A process has no turn for a while: the host is slow. */
static void stall(struct sim_life *l, uint64_t number)
{
	const unsigned boot = (unsigned)(l->boot - SIM_PID);
	const uint64_t ns = (number >> 8) % (number & 1 ? 40 : 5000) * HR_NS_PER_MS;
	const unsigned parent = number & 2 ? boot : 0;

	for (unsigned p = 1; p < sim_world->processes; p++) {
		struct sim_process *process = &sim_world->process[p];

		if (!process->alive || process->parent != parent)
			continue;
		process->stalled_ns = sim_world->now_ns + ns;
		l->disturbed = true; /* deadlines of commands pass */
	}
}

/* Another configuration, which the appliance takes when it is asked to. */
static void change(struct sim_life *l, uint64_t number)
{
	struct sim_event reload = { .kind = SIM_RELOAD };

	if (!l->plan->repeats)
		return;
	l->plan->variant = (unsigned)(number >> 8) % 64;
	l->plan->hidden = number & 3 ? 0 : (unsigned)(number >> 16) % (1u << l->plan->pipelines);
	if (l->plan->hidden == (1u << l->plan->pipelines) - 1)
		l->plan->hidden = 0;
	l->plan->mistaken = (number >> 24) % 8 == 0;
	l->changed = true;
	sim_plan_write(l->plan, true);
	sim_visits_begin(&l->visits, &reload);
}

static void fill(struct sim_life *l, uint64_t number)
{
	const unsigned ssd = (unsigned)(number >> 8) % l->plan->ssds;
	const int fd = open(FILLED, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	char device[160];

	if (fd < 0 || ftruncate(fd, (off_t)((24 + number % 20) << 20)) != 0)
		sim_fault("cannot make " FILLED);
	close(fd);
	l->filled = l->disturbed = true;
	sim_plan_device(l->plan, ssd, device, sizeof device);
	sim_command(NULL, "store put --replace --quiet %s " FILLED " " FILLED, device);
}

static void make_room(struct sim_life *l)
{
	char device[160];

	for (unsigned i = 0; l->filled && i < l->plan->ssds; i++) {
		sim_plan_device(l->plan, i, device, sizeof device);
		sim_command(NULL, "store rm %s " FILLED, device);
	}
}

/* Whether a warning asks for the removal of an incomplete object. */
static bool is_left(const char *name)
{
	char text[64];

	snprintf(text, sizeof text, "object '%s' stays on ssd '", name);
	return sim_is_told(text);
}

/* A sink whose source is made again is refused while a part of it, which a failing ssd kept, is
 * there: the user removes it, as the warning asks. */
static void remove_left(const struct sim_life *l)
{
	char device[160];

	for (unsigned i = 0; i < l->plan->pipelines; i++) {
		const struct sim_pipeline *p = &l->plan->pipeline[i];
		const struct sim_object *o = &l->plan->object[p->to % SIM_OBJECTS];

		if (p->to == SIM_OBJECTS || l->plan->object[p->from].is_source || !is_left(o->name))
			continue;
		sim_plan_device(l->plan, o->ssd, device, sizeof device);
		sim_command(NULL, "store rm --pending %s %s", device, o->name);
	}
}

static void happen(struct sim_life *l, const struct sim_event *event)
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
	case SIM_STALL:
		stall(l, event->number);
		break;
	case SIM_CHANGE:
		change(l, event->number);
		break;
	case SIM_FILL:
		fill(l, event->number);
		break;
	case SIM_EMPTY:
		make_room(l);
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

static void live_through(struct sim_life *l)
{
	for (unsigned i = 0; i < l->plan->events; i++) {
		const struct sim_event *event = &l->plan->event[i];

		sim_result->events = i + 1;
		hr_wait_ns(event->after_ns);
		sim_look_at_boot(l);
		sim_visits_look(&l->visits, false);
		if (!l->boot) {
			sim_check_disks(l);
			sim_check_sinks(l);
			sim_switch_on(l);
		}
		sim_visits_keep_partners(&l->visits);
		dprintf(STDERR_FILENO, "%llu.%06llu event %u: %s\n",
			(unsigned long long)(sim_world->now_ns / HR_NS_PER_S),
			(unsigned long long)(sim_world->now_ns % HR_NS_PER_S / 1000), i,
			sim_event_name(event->kind));
		happen(l, event);
	}
}

/* The whole configuration. */
static void restore(struct sim_life *l, bool faults)
{
	l->plan->hidden = l->plan->variant = 0;
	l->plan->mistaken = false;
	sim_plan_write(l->plan, faults);
}

/* ---- the begin */

static void make_disks(struct sim_life *l)
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

static void live_in_peace(struct sim_life *l)
{
	if (l->plan->repeats && sim_plan_is_mild(l->plan) && l->plan->seed % 2 == 0) {
		make_room(l);
		restore(l, true);
		sim_go_on(l);
	}
	sim_switch_off(l);
	sim_visits_look(&l->visits, true);
	sim_visits_hang_up(&l->visits);
	l->calm = !l->disturbed;
	l->disturbed = false;
	sim_world->rot = sim_world->bad_writes = 0;
	sim_check_disks(l);
	make_room(l);
	remove_left(l);
	restore(l, false);
	sim_live_in_peace(l);
	sim_visits_end_partners(&l->visits);
	sim_check_all(l);
}

int sim_live(void *argument)
{
	static struct sim_life life;
	struct sim_life *l = &life;
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
		 l->plan->pair	    ? " of a pair"
		 : l->plan->repeats ? " that repeat"
				    : "",
		 l->plan->rules, l->plan->events);
	make_disks(l);
	l->disturbed = !sim_plan_is_mild(l->plan);
	sim_world->rot = l->plan->rot;
	sim_world->bad_writes = l->plan->bad_writes;
	sim_world->fragments = l->plan->fragments;
	sim_world->loose =
		l->plan->pair; /* a library for RDMA allocates when a connection is made */
	if (l->plan->pair) {
		sim_live_as_pair(l);
		return 0;
	}
	sim_plan_write(l->plan, true);
	sim_switch_on(l);
	live_through(l);
	live_in_peace(l);
	return 0;
}
