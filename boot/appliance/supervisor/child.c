/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/supervisor/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "boot/engine/devices/devices.h"
#include "config/base/error.h"
#include "config/base/process.h"
#include "config/base/log.h"
#include "config/derived.h"

#define LOOK_NS (5 * HR_NS_PER_MS)
/* The caller itself may have been stopped together with the engine. */
#define STEP_MAX_NS HR_NS_PER_S
#define PHASES_A_LOOK 64
#define RECORD_TRIES 8

int hr_child_open(struct hr_child *c, struct hr_record *record,
		  void (*heard)(void *to, enum hr_phase phase), void *to)
{
	*c = (struct hr_child){ .record = record,
				.heard = heard,
				.to = to,
				.wake = -1,
				.timeout_ns = HR_CHILD_TIMEOUT_NS,
				.stop_ns = HR_CHILD_STOP_NS,
				.undo_ns = HR_CHILD_UNDO_NS };
	return hr_process_open(&c->process);
}

void hr_child_close(struct hr_child *c)
{
	hr_process_close(&c->process);
}

/* ---- observing the engine */

/* The phases that the engine has sent since the last look, in order. */
static unsigned receive(struct hr_child *c, enum hr_phase phase[PHASES_A_LOOK])
{
	unsigned count = 0;
	int err = 0;

	for (int i = 0; i < PHASES_A_LOOK && (err == 0 || err == -EPROTO); i++) {
		err = hr_process_receive(&c->process, &phase[count]);
		count += err == 0;
	}
	c->hung_up = err == -EPIPE;
	return count;
}

static void announce(struct hr_child *c, enum hr_phase phase, uint64_t now_ns)
{
	if (!c->running_ns && (phase == HR_PHASE_RUNNING || phase == HR_PHASE_IDLE))
		c->running_ns = now_ns;
	c->phase = phase;
	c->heard(c->to, phase);
}

static void copy_checked_record(struct hr_child *c, const struct hr_config *config)
{
	const char *wrong = hr_record_check(&c->fresh, config, hr_now_ns());

	if (!wrong)
		*c->record = c->fresh;
	else if (!c->wrong)
		hr_warn("engine %d: its record is ignored: '%s' is out of range", (int)c->pid,
			wrong);
	c->wrong = wrong;
}

/* The engine may be writing its record: a copy that is torn is taken again. */
static void read_record(struct hr_child *c, const struct hr_config *config)
{
	for (int i = 0; i < RECORD_TRIES; i++)
		if (hr_record_read(c->process.page, &c->fresh)) {
			copy_checked_record(c, config);
			return;
		}
}

/* The engine writes its record before it sends a phase, so a listener of the phase finds the record. */
void hr_child_poll(struct hr_child *c, const struct hr_config *config, uint64_t now_ns)
{
	const uint64_t step_ns = now_ns - c->looked_ns;
	const uint64_t before = c->sequence;
	enum hr_phase phase[PHASES_A_LOOK];
	unsigned count;

	c->looked_ns = now_ns;
	if (!c->process.page || c->process.phases < 0)
		return;
	count = receive(c, phase);
	c->sequence = hr_record_sequence(c->process.page);
	if (c->sequence == before) {
		c->still_ns += step_ns < STEP_MAX_NS ? step_ns : STEP_MAX_NS;
	} else {
		c->still_ns = 0;
		read_record(c, config);
	}
	for (unsigned i = 0; i < count; i++)
		announce(c, phase[i], now_ns);
}

static uint64_t limit_ns(const struct hr_child *c)
{
	const bool at_work = c->phase == HR_PHASE_RUNNING || c->phase == HR_PHASE_IDLE;

	return c->progress_ns && (at_work || c->progress_ns > c->timeout_ns) ? c->progress_ns
									     : c->timeout_ns;
}

bool hr_child_is_alive(const struct hr_child *c)
{
	return c->process.pid == 0 || c->still_ns < limit_ns(c);
}

uint64_t hr_child_ran_ns(const struct hr_child *c)
{
	if (c->record->finished)
		return c->record->ran_ns;
	return c->running_ns ? c->looked_ns - c->running_ns : 0;
}

/* ---- messages */

/* "16 of 64 tiles done"; of an access operator, which has no tiles, "80 pages read". */
static const char *progress_text(const struct hr_counters *count, char *text, size_t bytes)
{
	const uint64_t through = count->first_tile + count->tiles_done;

	if (count->role[HR_ROLE_IO].blocks)
		snprintf(text, bytes, "%llu pages read",
			 (unsigned long long)count->cache.pages_read);
	else
		snprintf(text, bytes, "%llu of %llu tiles done", (unsigned long long)through,
			 (unsigned long long)count->tiles);
	return text;
}

/* The pipelines that run and their progress, or the stage when no pipeline runs. */
static const char *doing(const struct hr_child *c, const struct hr_engine *engine, char *text,
			 size_t bytes)
{
	size_t at = 0;

	for (uint32_t i = 0; i < engine->config.pipelines && at < bytes; i++) {
		const struct hr_record_run *run = &c->record->run[i];
		char done[64];

		if (run->selected && run->started_ns && !run->ended_ns)
			at += (size_t)snprintf(text + at, bytes - at, "%spipeline '%s', %s",
					       at ? "; " : "", engine->config.pipeline[i].name,
					       progress_text(&run->count, done, sizeof done));
	}
	if (at == 0)
		snprintf(text, bytes, "no pipeline, stage '%s'",
			 hr_stage_name((enum hr_stage)c->record->stage));
	return text;
}

/* Number of processes that the kernel has killed since boot because memory was exhausted. */
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

/* The pipeline whose code has ended the engine; HR_PIPELINES_MAX: it is not known. */
static uint32_t culprit(const struct hr_child *c, const struct hr_config *config)
{
	const struct hr_crash crash = c->process.page->crash;

	return hr_crash_check(&crash, config->pipelines) ? (uint32_t)crash.pipeline
							 : HR_PIPELINES_MAX;
}

/* " in operator 'sort' of pipeline 'p', tile 3", or "" */
static const char *where(const struct hr_child *c, const struct hr_config *config, char *text,
			 size_t bytes)
{
	static const char *const call[HR_WORK_CALLS] = { "?",	"init",	  "tile",
							 "run", "finish", "report" };
	const uint32_t i = culprit(c, config);
	const struct hr_crash crash = c->process.page->crash;
	const struct hr_config_pipeline *p = &config->pipeline[i % HR_PIPELINES_MAX];

	text[0] = '\0';
	if (i == HR_PIPELINES_MAX)
		return text;
	if (crash.call == HR_WORK_TILE)
		snprintf(text, bytes, " in operator '%s' of pipeline '%s', tile %llu%s",
			 hr_config_operator_name(config, p), p->name,
			 (unsigned long long)crash.tile,
			 crash.hangs ? ", which it does not end" : "");
	else if (crash.call != HR_WORK_NO_CALL)
		snprintf(text, bytes, " in %s() of operator '%s' of pipeline '%s'%s",
			 call[crash.call % HR_WORK_CALLS], hr_config_operator_name(config, p),
			 p->name, crash.hangs ? ", which does not return" : "");
	else
		snprintf(text, bytes, " in a worker of pipeline '%s'%s", p->name,
			 crash.hangs ? ", which hangs" : "");
	return text;
}

static void log_engine_end(struct hr_child *c, const struct hr_engine *engine, pid_t pid,
			   int status)
{
	const bool device = WIFEXITED(status) && WEXITSTATUS(status) == HR_EXIT_DEVICE;
	char text[HR_LOG_LINE_MAX / 2], in[4 * HR_NAME_MAX];

	doing(c, engine, text, sizeof text);
	where(c, &engine->config, in, sizeof in);
	if (c->killed_ns)
		hr_info("engine %d: ended", (int)pid);
	else if (WIFSIGNALED(status))
		hr_fail(&c->death, HR_ERROR_FAILED, -EOWNERDEAD,
			"engine %d: ended by signal %d (%s)%s%s%s; it ran: %s", (int)pid,
			WTERMSIG(status), strsignal(WTERMSIG(status)), in,
			WCOREDUMP(status) ? ", core dumped" : "",
			WTERMSIG(status) == SIGKILL && count_kills() > c->kills
				? ", the kernel was out of memory"
				: "",
			text);
	else if (!c->record->finished)
		hr_fail(&c->death, device ? HR_ERROR_DEVICE : HR_ERROR_FAILED, -EOWNERDEAD,
			"engine %d: exited with code %d in the middle of its work%s; it ran: %s",
			(int)pid, WEXITSTATUS(status), in, text);
	hr_error_log(&c->death, HR_LOG_ERROR);
}

/* ---- waiting for the end of the engine */

void hr_child_stop(struct hr_child *c, uint64_t now_ns)
{
	if (c->asked_ns)
		return;
	c->asked_ns = now_ns;
	hr_process_signal(&c->process, SIGTERM);
}

static void end_it(struct hr_child *c, uint64_t now_ns)
{
	c->killed_ns = now_ns;
	hr_error_log(&c->death, HR_LOG_ERROR);
	hr_process_signal(&c->process, SIGKILL);
}

/* Only a kill ends an engine that hangs. Written tiles that are not durable are written again. */
static void end_if_over(struct hr_child *c, const struct hr_engine *engine, uint64_t now_ns)
{
	char text[HR_LOG_LINE_MAX / 2];

	if (!hr_child_is_alive(c)) {
		hr_fail(&c->death, HR_ERROR_DEVICE, -ETIMEDOUT,
			"engine %d: no progress for %llu ms; it is killed; it ran: %s",
			(int)c->process.pid, (unsigned long long)(c->still_ns / HR_NS_PER_MS),
			doing(c, engine, text, sizeof text));
		end_it(c, now_ns);
	} else if (c->asked_ns && now_ns - c->asked_ns >= c->stop_ns) {
		hr_fail(&c->death, HR_ERROR_DEVICE, -ETIMEDOUT,
			"engine %d: not stopped %llu ms after the signal; it is killed; it ran: %s",
			(int)c->process.pid, (unsigned long long)(c->stop_ns / HR_NS_PER_MS),
			doing(c, engine, text, sizeof text));
		end_it(c, now_ns);
	}
}

/* False: the engine still runs after SIGKILL. */
static bool wait_for_end(struct hr_child *c, const struct hr_engine *engine, int *status)
{
	while (!hr_process_ended(&c->process, status)) {
		const uint64_t now_ns = hr_now_ns();

		if (hr_signals_pending())
			hr_child_stop(c, now_ns);
		if (!c->killed_ns)
			end_if_over(c, engine, now_ns);
		else if (now_ns - c->killed_ns >= HR_CHILD_KILL_NS)
			return false;
		if (c->rest)
			c->rest(c->rest_to);
		else
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
 * A function that masters the bus now, but did not before the engine started, was left so by the
 * engine, and its undo helper did not stop it. It may write to memory that now belongs to another
 * process. The kernel's VFIO driver needs some time to stop a function that was given back.
 */
static void check_controllers(struct hr_child *c, const struct hr_config *config)
{
	const uint32_t asked = c->hung_up ? ~c->masters : ~0u;
	const uint64_t since_ns = hr_now_ns();
	uint32_t left;

	while ((left = masters(config) & asked) != 0 && hr_now_ns() - since_ns < c->undo_ns)
		hr_wait_ns(LOOK_NS);
	for (uint32_t d = 0; d < config->ssds; d++)
		if (left & 1u << d)
			hr_error("ssd '%s': %s still masters the bus after the end of the engine: "
				 "no other engine is started",
				 config->ssd[d].name, config->ssd[d].device);
	c->unsafe = left != 0;
}

/* Wait until the undo helper has made all its steps. */
static void wait_for_undo(struct hr_child *c, const struct hr_config *config, bool clean)
{
	const uint64_t since_ns = hr_now_ns();

	hr_child_poll(c, config, since_ns);
	while (!c->hung_up && hr_now_ns() - since_ns < c->undo_ns) {
		hr_wait_ns(LOOK_NS);
		hr_child_poll(c, config, hr_now_ns());
	}
	if (!c->hung_up)
		hr_warn("a process that the engine started still runs after %llu ms",
			(unsigned long long)(c->undo_ns / HR_NS_PER_MS));
	if (!clean || !c->hung_up)
		check_controllers(c, config);
	hr_process_hang_up(&c->process);
}

/* ---- an attempt */

static void begin_engine_record(struct hr_child *c, const struct hr_engine *engine)
{
	memset(c->record, 0, sizeof *c->record);
	hr_record_update(c->record, engine);
	c->sequence = c->still_ns = c->running_ns = c->asked_ns = c->killed_ns = 0;
	c->looked_ns = hr_now_ns();
	c->kills = count_kills();
	c->masters = masters(&engine->config);
	c->phase = HR_PHASE_STARTING;
	c->wrong = NULL;
	c->hung_up = false;
	hr_error_clear(&c->death);
}

static int error_of(const struct hr_child *c, int status)
{
	if (c->killed_ns)
		return -ETIMEDOUT;
	return WIFEXITED(status) && WEXITSTATUS(status) == HR_EXIT_DEVICE ? -EIO : -EOWNERDEAD;
}

static bool runs(const struct hr_record_run *run)
{
	return run->selected && run->outcome == HR_RUN_WAITING && run->started_ns && !run->ended_ns;
}

/*
 * The engine died before its end. The run that is to blame has failed; one that ran beside it is
 * interrupted. A pipeline that was done, but whose result was not printed, counts as not done: it
 * runs again, or its sink is found complete.
 */
static void break_off(struct hr_record_run *run, enum hr_blame blame, int err,
		      const struct hr_error *death)
{
	const bool is_done = run->outcome == HR_RUN_DONE || run->outcome == HR_RUN_COMPLETE;

	if (!run->selected)
		return;
	run->blame = blame;
	if (blame || runs(run)) {
		run->outcome = blame ? HR_RUN_FAILED : HR_RUN_INTERRUPTED;
		run->error = (struct hr_record_error){ .code = -EINTR };
		if (blame)
			hr_record_put_error(&run->error, err, death);
		run->ended_ns = hr_now_ns();
	} else if (is_done && !run->reported) {
		run->outcome = HR_RUN_WAITING;
		run->started_ns = run->ended_ns = 0;
	}
}

/* The runs of an engine that died. */
static void break_off_all(struct hr_child *c, const struct hr_config *config, int err)
{
	const uint32_t by = culprit(c, config);

	for (uint32_t i = 0; i < config->pipelines; i++) {
		struct hr_record_run *run = &c->record->run[i];
		enum hr_blame blame = HR_BLAME_NONE;

		if (by == i)
			blame = HR_BLAME_CERTAIN;
		else if (by == HR_PIPELINES_MAX && runs(run))
			blame = HR_BLAME_SUSPECT;
		break_off(run, blame, err, &c->death);
	}
}

/* Complete the record as the engine would have, and return the error of the attempt. */
static int complete_record(struct hr_child *c, struct hr_engine *engine, int status,
			   struct hr_error *e)
{
	struct hr_record *record = c->record;
	int err = hr_record_get_error(&record->error, e);

	if (!record->finished) {
		err = error_of(c, status);
		*e = c->death;
		break_off_all(c, &engine->config, err);
		record->stage = HR_STAGE_NONE;
		memset(record->ssd, 0, sizeof record->ssd);
	}
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		struct hr_counters *count = &record->run[i].count;

		memset(count->role, 0, sizeof count->role);
		memset(&count->cache, 0, sizeof count->cache);
		count->tap.waiting = count->tap.present = 0;
		count->feed.present = 0;
	}
	memset(record->consumer, 0, sizeof record->consumer);
	memset(record->producer, 0, sizeof record->producer);
	memset(record->store.job, 0, sizeof record->store.job);
	hr_record_apply(record, engine);
	engine->refused = record->refused;
	return err;
}

int hr_child_run(struct hr_child *c, struct hr_engine *engine, const int *fds, unsigned count,
		 struct hr_error *e)
{
	int status, err;
	pid_t pid;

	begin_engine_record(c, engine);
	hr_error_clear(e);
	err = hr_process_start(&c->process, engine, fds, count);
	if (err) {
		hr_fail(e, HR_ERROR_FAILED, err, "the engine cannot be started: %s",
			strerror(-err));
		hr_error_log(e, HR_LOG_ERROR);
		return err;
	}
	pid = c->pid = c->process.pid;
	if (c->wake >= 0)
		epoll_ctl(c->wake, EPOLL_CTL_ADD, c->process.phases,
			  &(struct epoll_event){ .events = EPOLLIN });
	hr_info("engine %d: started", (int)pid);
	if (!wait_for_end(c, engine, &status)) {
		c->unsafe = true;
		hr_fail(e, HR_ERROR_DEVICE, -ETIMEDOUT,
			"engine %d: SIGKILL has not ended it within %llu ms: it hangs in the "
			"kernel",
			(int)pid, (unsigned long long)(HR_CHILD_KILL_NS / HR_NS_PER_MS));
		hr_error_log(e, HR_LOG_ERROR);
		return -ETIMEDOUT;
	}
	hr_child_poll(c, &engine->config, hr_now_ns());
	log_engine_end(c, engine, pid, status);
	wait_for_undo(c, &engine->config, WIFEXITED(status) && c->record->finished);
	return complete_record(c, engine, status, e);
}
