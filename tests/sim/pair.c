/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/pair.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "tests/sim/command.h"
#include "tests/sim/schedule.h"

/* The objects of the plan, and the ssds that have them. */
enum side { SENDER, RECEIVER, SIDES };

#define FAULTS "FAKE_IBVERBS_FAULTS"
#define PORT 4791u
/* In peace both sides begin at the same time, so often at most until both are done. A side that has
 * all may end before the other one knows it, which then needs another run of that side. */
#define ROUNDS 3u
#define KILLED (128 + SIGKILL)
#define STOPPED (128 + SIGTERM)

struct pair {
	struct sim_life *l;
	struct fake_random random;
	pid_t pid[SIDES]; /* 0: it does not run */
	bool boot[SIDES]; /* headrace boot, else run */
	bool left[SIDES]; /* ended by an event */
	int code[SIDES];  /* of its last end */
	bool whole;	  /* a sender has ended with code 0 */
	unsigned tile_kb, slots[SIDES], depth, checkpoint_ms;
};

static const char *const name[] = { "send", "take" };

static uint32_t below(struct pair *p, uint32_t n)
{
	return fake_random_below(&p->random, n);
}

/* ---- configurations */

static FILE *open_configuration(const struct pair *p, enum side side)
{
	const struct sim_plan *plan = p->l->plan;
	char file[16], device[160];
	FILE *to;

	snprintf(file, sizeof file, "%s.conf", name[side]);
	to = fopen(file, "w");
	if (!to)
		abort();
	sim_plan_device(plan, side, device, sizeof device);
	fprintf(to,
		"appliance = { name = \"%s\"; checkpoint = \"%ums\"; };\nboot = { post = \"off\"; "
		"backoff = \"20ms\"; };\nssds = ( { name = \"s\"; device = \"%s\"; timeout_ms = "
		"60000; queue_entries = %u; } );\ngpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
		"remote = { key = \"key\"; };\n",
		name[side], p->checkpoint_ms, device, plan->ssd[side].entries);
	return to;
}

static void configure(const struct pair *p)
{
	const struct sim_plan *plan = p->l->plan;
	FILE *to = open_configuration(p, SENDER);

	fprintf(to,
		"pipelines = ( { name = \"p0\"; source = { object = \"%s\"; }; operator = \"copy\"; "
		"tile = \"%uK\"; slots = %u;\n sink = { remote = \"%s:%u\"; name = \"s\"; depth = %u; "
		"}; } );\n",
		plan->object[SENDER].name, p->tile_kb, p->slots[SENDER], getenv("SIM_ADDRESS"),
		PORT, p->depth);
	fclose(to);
	to = open_configuration(p, RECEIVER);
	fprintf(to,
		"pipelines = ( { name = \"p0\"; source = { remote = \"%s:%u\"; name = \"s\"; bytes = "
		"\"%u\"; };\n operator = \"copy\"; tile = \"%uK\"; slots = %u; sink = { object = "
		"\"%s\"; }; } );\n",
		getenv("SIM_ADDRESS"), PORT, 2 * SIM_BYTES_MAX, p->tile_kb, p->slots[RECEIVER],
		plan->object[RECEIVER].name);
	fclose(to);
}

static void prepare(struct pair *p)
{
	struct sim_plan *plan = p->l->plan;
	char devices[64];
	uint8_t key[32];
	int fd;

	fake_random_fill(&p->random, key, sizeof key);
	fd = open("key", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, key, sizeof key) != sizeof key || mkdir("verbs", 0700) != 0)
		sim_fault("cannot make the key");
	close(fd);
	snprintf(devices, sizeof devices, "fake0=127.0.0.1,fake1=%s", getenv("SIM_ADDRESS"));
	setenv("FAKE_IBVERBS_DIR", "verbs", 1);
	setenv("FAKE_IBVERBS_DEVICES", devices, 1);
	p->tile_kb = 4u << below(p, 5);
	p->depth = 1 + below(p, 8);
	p->checkpoint_ms = 1 + below(p, 40);
	for (enum side side = SENDER; side < SIDES; side++) {
		p->slots[side] = 1 + below(p, 8);
		p->boot[side] = below(p, 2);
		plan->ssd[side].quirk = NULL;
	}
	configure(p);
}

/* ---- starts and ends */

/* What the network does to this life of a side. */
static void draw_faults(struct pair *p)
{
	static const char *const kind[] = { "cut=%u", "lose=%u", "fail=%u", "cut=%u" };
	char text[32];

	unsetenv(FAULTS);
	if (below(p, 2))
		return;
	snprintf(text, sizeof text, kind[below(p, 4)], 1 + below(p, below(p, 2) ? 12 : 300));
	setenv(FAULTS, text, 1);
	dprintf(STDERR_FILENO, "# " FAULTS "=%s\n", text);
}

static void begin(struct pair *p, enum side side)
{
	p->pid[side] = sim_start(NULL, "%s %s.conf%s", p->boot[side] ? "boot" : "run", name[side],
				 p->boot[side] ? " --log text" : "");
	p->left[side] = false;
}

static void look(struct pair *p)
{
	for (enum side side = SENDER; side < SIDES; side++) {
		int status = 0;

		if (!p->pid[side] || hr_wait_child(p->pid[side], &status, WNOHANG) != p->pid[side])
			continue;
		p->pid[side] = 0;
		p->code[side] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (p->code[side] >= 128 &&
		    !(p->left[side] && (p->code[side] == KILLED || p->code[side] == STOPPED)))
			sim_fault("%s: ended by signal %d", name[side], p->code[side] - 128);
		if (p->code[side] == 0 && side == SENDER && !p->left[side])
			p->whole = true; /* it knows that the receiver has all */
	}
	if (p->whole && !p->pid[RECEIVER])
		sim_fetch(p->l, RECEIVER);
	sim_check_disks(p->l);
}

static void end(struct pair *p, enum side side, int signal_number)
{
	if (!p->pid[side])
		return;
	p->left[side] = true;
	hr_kill(p->pid[side], signal_number);
}

/* ---- events */

static void kill_engine(const struct pair *p, enum side side)
{
	for (unsigned i = 1; i < sim_world->processes && p->pid[side]; i++)
		if (sim_world->process[i].alive &&
		    sim_world->process[i].parent == (unsigned)(p->pid[side] - SIM_PID))
			sim_kill(i, SIGKILL);
}

static void stall(const struct pair *p, enum side side, uint64_t ns)
{
	const unsigned top = (unsigned)(p->pid[side] - SIM_PID);

	for (unsigned i = 1; i < sim_world->processes && p->pid[side]; i++)
		if (i == top || sim_world->process[i].parent == top)
			sim_world->process[i].stalled_ns = sim_world->now_ns + ns;
}

static void happen(struct pair *p)
{
	const enum side side = (enum side)below(p, SIDES);
	const uint32_t kind = below(p, 10);

	dprintf(STDERR_FILENO, "%llu.%06llu event: %u of %s\n",
		(unsigned long long)(sim_world->now_ns / HR_NS_PER_S),
		(unsigned long long)(sim_world->now_ns % HR_NS_PER_S / 1000), kind, name[side]);
	if (kind < 3)
		end(p, side, SIGKILL);
	else if (kind < 5)
		kill_engine(p, side);
	else if (kind < 6)
		end(p, side, SIGTERM);
	else if (kind < 8)
		stall(p, side, below(p, 3000) * HR_NS_PER_MS);
	else if (kind < 9)
		end(p, SENDER, SIGKILL), end(p, RECEIVER, SIGKILL);
	else if (p->pid[side] && p->boot[side])
		sim_command(NULL, "status %s", name[side]);
}

static void live_through(struct pair *p)
{
	for (unsigned i = 0; i < p->l->plan->events; i++) {
		sim_result->events = i + 1;
		for (enum side side = SENDER; side < SIDES; side++)
			if (!p->pid[side]) {
				draw_faults(p);
				begin(p, side);
			}
		hr_wait_ns((uint64_t)below(p, below(p, 3) ? 8000 : 3000000) * 1000);
		look(p);
		happen(p);
		look(p);
	}
	unsetenv(FAULTS);
}

/* ---- peace */

static void await(struct pair *p, const char *when)
{
	const uint64_t since_ns = sim_world->now_ns;

	for (look(p); p->pid[SENDER] || p->pid[RECEIVER]; look(p)) {
		if (sim_world->now_ns - since_ns > SIM_PEACE_NS)
			sim_fault("%s: %s has no end within an hour", when,
				  name[p->pid[SENDER] ? SENDER : RECEIVER]);
		hr_wait_ns(SIM_LOOK_NS);
	}
}

static void live_in_peace(struct pair *p)
{
	end(p, SENDER, SIGTERM);
	end(p, RECEIVER, SIGTERM);
	await(p, "after SIGTERM");
	for (unsigned n = 0; n < ROUNDS; n++) {
		begin(p, RECEIVER);
		begin(p, SENDER);
		await(p, "peace");
		if (p->code[SENDER] == 0 && p->code[RECEIVER] == 0)
			return;
	}
	sim_fault("peace: the sender ends with code %d, the receiver with %d", p->code[SENDER],
		  p->code[RECEIVER]);
}

void sim_live_as_pair(struct sim_life *l)
{
	static struct pair p;

	p = (struct pair){ .l = l, .random.state = l->plan->seed * 2 + 1 };
	for (int i = 0; i < 16; i++)
		fake_random_u64(&p.random);
	prepare(&p);
	live_through(&p);
	live_in_peace(&p);
	sim_check_all(l);
}
