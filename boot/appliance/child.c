#include "boot/appliance/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "boot/engine/devices.h"
#include "boot/engine/exit.h"
#include "boot/engine/signals.h"
#include "config/log.h"

#define LOOK_NS (5 * HR_NS_PER_MS)
#define STEP_MAX_NS HR_NS_PER_S /* the caller may have been stopped, together with the engine */
#define PHASES_A_LOOK 64

int hr_child_open(struct hr_child *c, struct hr_record *record,
		  void (*heard)(void *to, enum hr_phase phase), void *to)
{
	*c = (struct hr_child){ .record = record,
				.heard = heard,
				.to = to,
				.patience_ns = HR_CHILD_PATIENCE_NS,
				.stop_ns = HR_CHILD_STOP_NS,
				.custody_ns = HR_CHILD_CUSTODY_NS };
	return hr_process_open(&c->process);
}

void hr_child_close(struct hr_child *c)
{
	hr_process_close(&c->process);
}

/* ---- looking */

static void hear(struct hr_child *c, uint64_t now_ns)
{
	enum hr_phase phase;
	int err = 0;

	for (int i = 0; i < PHASES_A_LOOK && (err == 0 || err == -EPROTO); i++) {
		err = hr_process_hear(&c->process, &phase);
		if (err)
			continue;
		if (phase == HR_PHASE_RUNNING)
			c->running_ns = now_ns;
		c->heard(c->to, phase);
	}
	c->hung_up = err == -EPIPE;
}

static void take_record(struct hr_child *c, const struct hr_config *config)
{
	const char *wrong = hr_record_check(&c->fresh, config, hr_now_ns());

	if (!wrong)
		*c->record = c->fresh;
	else if (!c->wrong)
		hr_warn("engine %d: its record is not used: '%s' is out of range",
			(int)c->process.pid, wrong);
	c->wrong = wrong;
}

void hr_child_look(struct hr_child *c, const struct hr_config *config, uint64_t now_ns)
{
	const uint64_t step_ns = now_ns - c->looked_ns;
	const uint64_t before = c->sequence;

	c->looked_ns = now_ns;
	if (!c->process.page || c->process.line < 0)
		return;
	hear(c, now_ns);
	c->sequence = hr_record_sequence(c->process.page);
	if (c->sequence == before) {
		c->still_ns += step_ns < STEP_MAX_NS ? step_ns : STEP_MAX_NS;
		return;
	}
	c->still_ns = 0;
	if (hr_record_read(c->process.page, &c->fresh))
		take_record(c, config);
}

bool hr_child_moves(const struct hr_child *c)
{
	return c->process.pid == 0 || c->still_ns < c->patience_ns;
}

uint64_t hr_child_ran_ns(const struct hr_child *c)
{
	if (c->record->finished)
		return c->record->ran_ns;
	return c->running_ns ? c->looked_ns - c->running_ns : 0;
}

/* ---- words */

/* "pipeline 'a'", or the phase and stage when none runs. */
static const char *doing(const struct hr_child *c, const struct hr_appliance *app, char *text,
			 size_t bytes)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_record_run *run = &c->record->run[i];
		const uint64_t through = run->first_tile + run->tiles_done;

		if (run->selected && run->started_ns && !run->ended_ns) {
			snprintf(text, bytes, "pipeline '%s', %llu of %llu tiles through",
				 app->config.pipeline[i].name, (unsigned long long)through,
				 (unsigned long long)run->tiles);
			return text;
		}
	}
	snprintf(text, bytes, "no pipeline, stage '%s'",
		 hr_stage_name((enum hr_stage)c->record->stage));
	return text;
}

/* Processes that the kernel has killed since it started because there was no memory. */
static uint64_t count_kills(void)
{
	unsigned long long kills = 0;
	char line[128];
	FILE *file = fopen("/proc/vmstat", "re");

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "oom_kill %llu", &kills) == 1)
			break;
	if (file)
		fclose(file);
	return kills;
}

static void say_end(const struct hr_child *c, const struct hr_appliance *app, pid_t pid, int status)
{
	char text[160];

	doing(c, app, text, sizeof text);
	if (c->killed_ns)
		hr_info("engine %d: ended", (int)pid);
	else if (WIFSIGNALED(status))
		hr_error("engine %d: ended by signal %d (%s)%s%s; it ran: %s", (int)pid,
			 WTERMSIG(status), strsignal(WTERMSIG(status)),
			 WCOREDUMP(status) ? ", core dumped" : "",
			 WTERMSIG(status) == SIGKILL && count_kills() > c->kills
				 ? ", the kernel was out of memory"
				 : "",
			 text);
	else if (!c->record->finished)
		hr_error("engine %d: exited with code %d in the middle of its work; it ran: %s",
			 (int)pid, WEXITSTATUS(status), text);
}

/* ---- waiting for its end */

static void ask(struct hr_child *c, uint64_t now_ns)
{
	c->asked_ns = now_ns;
	hr_process_signal(&c->process, SIGTERM);
}

static void end_it(struct hr_child *c, uint64_t now_ns)
{
	c->killed_ns = now_ns;
	hr_process_signal(&c->process, SIGKILL);
}

/* Nothing else ends what hangs; written tiles that are not durable are written again. */
static void end_if_over(struct hr_child *c, const struct hr_appliance *app, uint64_t now_ns)
{
	char text[160];

	if (!hr_child_moves(c)) {
		hr_error("engine %d: no progress for %llu ms; it is killed; it ran: %s",
			 (int)c->process.pid, (unsigned long long)(c->still_ns / HR_NS_PER_MS),
			 doing(c, app, text, sizeof text));
		end_it(c, now_ns);
	} else if (c->asked_ns && now_ns - c->asked_ns >= c->stop_ns) {
		hr_error("engine %d: not stopped %llu ms after the signal; it is killed; it ran: "
			 "%s",
			 (int)c->process.pid, (unsigned long long)(c->stop_ns / HR_NS_PER_MS),
			 doing(c, app, text, sizeof text));
		end_it(c, now_ns);
	}
}

/* False: SIGKILL has not ended it. */
static bool wait_for_end(struct hr_child *c, const struct hr_appliance *app, int *status)
{
	while (!hr_process_ended(&c->process, status)) {
		const uint64_t now_ns = hr_now_ns();

		if (hr_signals_pending() && !c->asked_ns)
			ask(c, now_ns);
		if (!c->killed_ns)
			end_if_over(c, app, now_ns);
		else if (now_ns - c->killed_ns >= HR_CHILD_KILL_NS)
			return false;
		hr_wait_ns(LOOK_NS);
	}
	return true;
}

/* ---- controllers */

static uint32_t masters(const struct hr_config *config)
{
	uint32_t bits = 0;

	for (uint32_t d = 0; d < config->ssds; d++)
		if (hr_transport_masters_bus(config->ssd[d].device))
			bits |= 1u << d;
	return bits;
}

/*
 * A function that did not master the bus before the engine started, and does now, is one that the
 * engine has left so, and that no custodian has stopped: it may write to memory which is another's.
 * The kernel's VFIO driver takes its time to stop what is given back to it.
 */
static void check_controllers(struct hr_child *c, const struct hr_config *config)
{
	const uint32_t asked = c->hung_up ? ~c->masters : ~0u;
	const uint64_t since_ns = hr_now_ns();
	uint32_t left;

	while ((left = masters(config) & asked) != 0 && hr_now_ns() - since_ns < c->custody_ns)
		hr_wait_ns(LOOK_NS);
	for (uint32_t d = 0; d < config->ssds; d++)
		if (left & 1u << d)
			hr_error("ssd '%s': %s still masters the bus after the end of the engine: "
				 "no other engine is started",
				 config->ssd[d].name, config->ssd[d].device);
	c->unsafe = left != 0;
}

/* Until the custodian has written all that the engine left to it. */
static void settle(struct hr_child *c, const struct hr_config *config, bool clean)
{
	const uint64_t since_ns = hr_now_ns();

	hr_child_look(c, config, since_ns);
	while (!c->hung_up && hr_now_ns() - since_ns < c->custody_ns) {
		hr_wait_ns(LOOK_NS);
		hr_child_look(c, config, hr_now_ns());
	}
	if (!c->hung_up)
		hr_warn("a process that the engine has started has not ended after %llu ms",
			(unsigned long long)(c->custody_ns / HR_NS_PER_MS));
	if (!clean || !c->hung_up)
		check_controllers(c, config);
	hr_process_hang_up(&c->process);
}

/* ---- an attempt */

static void begin(struct hr_child *c, const struct hr_appliance *app)
{
	memset(c->record, 0, sizeof *c->record);
	hr_record_take(c->record, app);
	c->sequence = c->still_ns = c->running_ns = c->asked_ns = c->killed_ns = 0;
	c->looked_ns = hr_now_ns();
	c->kills = count_kills();
	c->masters = masters(&app->config);
	c->wrong = NULL;
	c->hung_up = false;
}

static int error_of(const struct hr_child *c, int status)
{
	if (c->killed_ns)
		return -ETIMEDOUT;
	return WIFEXITED(status) && WEXITSTATUS(status) == HR_EXIT_DEVICE ? -EIO : -EOWNERDEAD;
}

/*
 * The engine died before its end. The pipeline that ran has failed. A pipeline that was done, but whose
 * result was not printed, counts as not done: it runs once more, or its sink is found complete.
 */
static void break_off(struct hr_record_run *run, int err)
{
	const bool is_done = run->outcome == HR_RUN_DONE || run->outcome == HR_RUN_COMPLETE;

	if (!run->selected)
		return;
	if (run->outcome == HR_RUN_WAITING && run->started_ns) {
		run->outcome = HR_RUN_FAILED;
		run->error = err;
		run->ended_ns = hr_now_ns();
	} else if (is_done && !run->reported) {
		run->outcome = HR_RUN_WAITING;
		run->started_ns = run->ended_ns = 0;
	}
}

/* Its error, with the record as the engine would have left it. */
static int judge(struct hr_child *c, struct hr_appliance *app, int status)
{
	struct hr_record *record = c->record;
	int err = (int)record->error;

	if (!record->finished) {
		err = error_of(c, status);
		for (uint32_t i = 0; i < app->config.pipelines; i++)
			break_off(&record->run[i], err);
		record->stage = HR_STAGE_NONE;
		memset(record->ssd_failed, 0, sizeof record->ssd_failed);
	}
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		memset(record->run[i].role, 0, sizeof record->run[i].role);
	hr_record_apply(record, app);
	app->refused = record->refused;
	app->stuck = record->stuck;
	return err;
}

int hr_child_attempt(struct hr_child *c, struct hr_appliance *app, const int *fds, unsigned count)
{
	int status, err;
	pid_t pid;

	begin(c, app);
	err = hr_process_start(&c->process, app, fds, count);
	if (err) {
		hr_error("the engine cannot be started: %s", strerror(-err));
		return err;
	}
	pid = c->process.pid;
	hr_info("engine %d: started", (int)pid);
	if (!wait_for_end(c, app, &status)) {
		hr_error("engine %d: SIGKILL has not ended it within %llu ms: it hangs in the "
			 "kernel",
			 (int)pid, (unsigned long long)(HR_CHILD_KILL_NS / HR_NS_PER_MS));
		c->unsafe = true;
		return -ETIMEDOUT;
	}
	hr_child_look(c, &app->config, hr_now_ns());
	say_end(c, app, pid, status);
	settle(c, &app->config, WIFEXITED(status) && c->record->finished);
	return judge(c, app, status);
}
