/*
 * tests/harness/child_rig.h - the supervisor's view of an engine, with the process replaced. The clock
 * is the test's. A test includes it once: it contains boot/appliance/child.c.
 */
#ifndef TESTS_HARNESS_CHILD_RIG_H
#define TESTS_HARNESS_CHILD_RIG_H

#define hr_transport_masters_bus masters_bus /* of the test */
#include "boot/appliance/child.c"
#undef hr_transport_masters_bus

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/tick.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define S HR_NS_PER_S
#define MS HR_NS_PER_MS
#define START (100 * S)
#define EXITS(code) ((code) << 8)
#define CORE 0x80
#define NEVER UINT64_MAX

static struct hr_appliance *app;
static struct hr_child *child;
static struct hr_record record, published;
static struct hr_record_page page;

/* The engine: its end, and what is in its pipe. */
static struct {
	int open, start, status;
	uint64_t ends_ns, hangs_up_ns; /* after its start */
	bool dies_of_kill;
	const int *phases; /* -1 ends them */
	const char *vmstat;
	uint32_t masters;  /* a bit for each ssd that masters the bus */
	uint64_t quiet_ns; /* after its start, none does any more */
	void (*at_step)(void);
} will;
static uint64_t started_ns;

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	int fd;

	if (strcmp(path, "/proc/vmstat") == 0)
		return will.vmstat
			       ? fmemopen((void *)(uintptr_t)will.vmstat, strlen(will.vmstat), "r")
			       : NULL;
	fd = open(path, mode[0] == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0600);
	return fd < 0 ? NULL : fdopen(fd, mode);
}

/* ---- in place of boot/appliance/process.c */

int hr_process_open(struct hr_process *p)
{
	p->page = will.open ? NULL : &page;
	p->phases = p->dispatch = p->clients = -1;
	return will.open;
}
int hr_process_start(struct hr_process *p, struct hr_appliance *of, const int *fds, unsigned count)
{
	cr_expect(of == app && count == 2 && fds[0] == 8 && fds[1] == 9);
	if (will.start)
		return will.start;
	memset(&page, 0, sizeof page);
	p->pid = 500;
	p->phases = 7;
	started_ns = hr_now_ns();
	return 0;
}
bool hr_process_ended(struct hr_process *p, int *status)
{
	cr_assert_eq(p->pid, 500);
	if (hr_now_ns() - started_ns < will.ends_ns)
		return false;
	*status = will.status;
	p->pid = 0;
	return true;
}
int hr_process_receive(struct hr_process *p, enum hr_phase *phase)
{
	if (will.phases && *will.phases != -1) {
		*phase = (enum hr_phase) * will.phases++;
		return *phase < HR_PHASES_OF_ENGINE ? 0 : -EPROTO;
	}
	return hr_now_ns() - started_ns < will.hangs_up_ns ? -EAGAIN : -EPIPE;
}
void hr_process_signal(const struct hr_process *p, int signal_number)
{
	calls_note("%s@%llu ", signal_number == SIGKILL ? "KILL" : "TERM",
		   (unsigned long long)((hr_now_ns() - started_ns) / MS));
	if (signal_number == SIGKILL && will.dies_of_kill) {
		will.ends_ns = hr_now_ns() - started_ns;
		will.status = SIGKILL;
	}
}
void hr_process_hang_up(struct hr_process *p)
{
	calls_note("hang-up@%llu ", (unsigned long long)((hr_now_ns() - started_ns) / MS));
	p->phases = -1;
}
void hr_process_close(struct hr_process *p)
{
	calls_note("close ");
}

bool masters_bus(const char *device)
{
	return hr_now_ns() - started_ns < will.quiet_ns && will.masters >> (device[0] - 'a') & 1;
}

/* ---- set-up */

static char heard[512];

static inline void note_phase(void *to, enum hr_phase phase)
{
	const size_t length = strlen(heard);

	cr_expect_eq(to, &heard);
	snprintf(heard + length, sizeof heard - length, "%d ", (int)phase);
}

static inline void look(void *to, uint64_t now_ns)
{
	hr_child_look(child, &app->config, now_ns);
}

/* The engine makes progress with each step, unless it is silent. */
static bool silent;

static inline void step(void *to)
{
	if (will.at_step)
		will.at_step();
	if (!silent && child->process.pid)
		hr_record_publish(&page, &published);
}

static inline void set_up(void)
{
	app = calloc(1, sizeof *app);
	child = calloc(1, sizeof *child);
	cr_assert(app && child);
	app->config.ssds = 3;
	app->config.pipelines = 3;
	for (uint32_t d = 0; d < 3; d++) {
		snprintf(app->config.ssd[d].name, 4, "s%u", d);
		snprintf(app->config.ssd[d].device, 4, "%c", 'a' + (int)d);
	}
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(app->config.pipeline[i].name, 4, "p%u", i);
		app->run[i].config = &app->config.pipeline[i];
		app->run[i].selected = true;
		published.run[i].selected = 1;
	}
	will.quiet_ns = NEVER;
	will.vmstat = "";
	hr_signals_catch();
	fake_clock_start(START, step, NULL);
	cr_assert_eq(hr_child_open(child, &record, note_phase, heard), 0);
	hr_tick_set(look, NULL);
}

static inline void tear_down(void)
{
	hr_tick_set(NULL, NULL);
	fake_clock_stop();
	free(child);
	free(app);
}

static inline int attempt(void)
{
	static const int fds[] = { 8, 9 };

	return hr_child_attempt(child, app, fds, 2, test_error());
}

/* The record of pipeline i, which runs. */
static inline void running(uint32_t i, uint64_t tiles, uint64_t first, uint64_t through)
{
	struct hr_record_run *run = &published.run[i];

	run->selected = 1;
	run->started_ns = START;
	run->count.tiles = tiles;
	run->count.first_tile = first;
	run->count.tiles_done = through;
}

#endif
