#include "tests/fakes/attempts.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "boot/engine/refuse.h"
#include "config/clock.h"
#include "config/tick.h"
#include "boot/appliance/dispatch.h"
#include "boot/cmd/post/post.h"
#include "boot/cmd/report/runs.h"
#include "boot/engine/done.h"
#include "boot/engine/runner.h"
#include "boot/engine/signals.h"

#define ATTEMPTS_MAX 64u
#define STEP_NS (10 * HR_NS_PER_MS)

struct script {
	const struct fake_attempt *attempt;
	unsigned count, now; /* index of the current attempt */
	bool begun;
	char log[512];
	uint64_t up_ns[ATTEMPTS_MAX];
};

static struct script *fake; /* shared with child processes */

void fake_attempts_begin(const struct fake_attempt *attempt, unsigned count)
{
	if (!fake)
		fake = mmap(NULL, sizeof *fake, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	cr_assert_neq((void *)fake, MAP_FAILED);
	memset(fake, 0, sizeof *fake);
	fake->attempt = attempt;
	fake->count = count;
}

const char *fake_attempts_log(void)
{
	return fake->log;
}

uint64_t fake_attempts_up_ns(unsigned attempt)
{
	return fake->up_ns[attempt];
}

static void note(const char *text)
{
	strncat(fake->log, text, sizeof fake->log - strlen(fake->log) - 1);
}

/* The first call of an attempt begins it. */
static const struct fake_attempt *current(void)
{
	if (!fake->begun) {
		note(fake->log[0] ? " " : "");
		cr_assert_lt(fake->now, fake->count, "one attempt too many: %s", fake->log);
	}
	fake->begun = true;
	return &fake->attempt[fake->now];
}

/* The kind in the script, or the kind that the engine gives to such an error. */
static enum hr_error_kind fake_kind(int error)
{
	if (current()->kind)
		return current()->kind;
	switch (error) {
	case -EINVAL:
		return HR_ERROR_USAGE;
	case -EBUSY:
	case -ENOENT:
	case -ENOMEM:
	case -ENOTSUP:
		return HR_ERROR_MISSING;
	case -EEXIST:
	case -EUCLEAN:
		return HR_ERROR_FAILED;
	default:
		return HR_ERROR_DEVICE;
	}
}

static void end_attempt(void)
{
	fake->begun = false;
	fake->now++;
}

void __attribute__((weak, noreturn)) fake_attempt_dies(int dies)
{
	if (dies == FAKE_HANGS)
		hr_tick_set(NULL, NULL);
	while (dies == FAKE_HANGS || (dies == FAKE_WAITS && !hr_signals_pending()))
		hr_wait_ns(STEP_NS);
	if (dies < 0 || dies == FAKE_WAITS)
		_exit(dies < 0 ? -dies : 0);
	signal(dies, SIG_DFL); /* a sanitizer may have installed a handler */
	raise(dies);
	_exit(0);
}

/* The attempt ends here. */
static void die_in(char where)
{
	const struct fake_attempt *a = &fake->attempt[fake->now];

	if (a->dies_in != where)
		return;
	note("!");
	end_attempt();
	if (a->last)
		a->last();
	fake_attempt_dies(a->dies);
}

/* Take time like the real functions: in steps, each of which ticks. */
static void take(uint64_t ns)
{
	for (uint64_t at = 0; at < ns; at += STEP_NS)
		hr_wait_ns(STEP_NS);
}

/* ---- boot/engine/stages.c */

int hr_appliance_init(struct hr_appliance *app, const char *pipeline)
{
	cr_assert_null(pipeline);
	cr_assert_eq(app->up, HR_STAGE_NONE, "not down: %s", fake->log);
	memset((char *)app + sizeof app->config, 0, sizeof *app - sizeof app->config);
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		app->run[i].config = &app->config.pipeline[i];
		app->run[i].selected = true;
	}
	return 0;
}

int hr_appliance_up(struct hr_appliance *app, enum hr_stage last)
{
	const struct fake_attempt *a = current();

	cr_assert_eq(last, HR_STAGE_QUEUES);
	cr_assert(app->keep_going);
	note("U");
	if (fake->now < ATTEMPTS_MAX)
		fake->up_ns[fake->now] = hr_now_ns();
	take(a->up_ns);
	die_in('U');
	if (a->up) {
		hr_fail(&app->error, fake_kind(a->up), a->up, "fake failure %d", a->up);
		end_attempt();
	} else {
		app->up = last;
	}
	return a->up;
}

void hr_appliance_down(struct hr_appliance *app)
{
	app->ssd[0].health.state = current()->stuck ? HR_HEALTH_STUCK : HR_HEALTH_DOWN;
	app->up = HR_STAGE_NONE;
	note("D");
	end_attempt();
}

/* No configuration of these tests has pipelines that repeat. */
int hr_dispatch_serve(struct hr_attempt *attempt)
{
	cr_assert_fail("the configuration has no schedule");
	return -ENOSYS;
}

const char *hr_stage_name(enum hr_stage stage)
{
	return "fake";
}

/* ---- boot/engine/runner.c */

static void note_runs(const struct hr_appliance *app, bool suspects)
{
	char text[16];

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		if (!app->run[i].selected || app->run[i].suspect != suspects)
			continue;
		snprintf(text, sizeof text, "%s%u", suspects ? "/" : "", i);
		note(text);
	}
}

static int end_run(struct hr_run *run, int result)
{
	if (result == FAKE_BLOCKED)
		return 0;
	run->outcome = result ? HR_RUN_FAILED : HR_RUN_DONE;
	run->error = result;
	hr_error_clear(&run->cause);
	if (result)
		hr_fail(&run->cause, fake_kind(result), result, "pipeline '%s': fake failure %d",
			run->config->name, result);
	return result;
}

int hr_run_all(struct hr_appliance *app, bool progress, struct hr_error *e)
{
	const struct fake_attempt *a = current();
	int first = 0;

	cr_assert(!progress);
	note("R");
	note_runs(app, false);
	note_runs(app, true);
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected && a->dies_in)
			app->run[i].started_ns = hr_now_ns();
	hr_tick_at_once();
	take(a->run_ns);
	die_in('R');
	if (a->stop) {
		raise(SIGTERM);
		return -EINTR;
	}
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		int err = app->run[i].selected ? end_run(&app->run[i], a->run[i]) : 0;

		first = first ? first : err;
		if (err && !e->kind)
			*e = app->run[i].cause;
	}
	return first;
}

/* The script gives the results, and hr_run_all() that the pipelines ran. */
int hr_run_trusted(struct hr_appliance *app, bool progress, struct hr_error *e)
{
	cr_assert(!progress);
	return 0;
}

uint64_t hr_run_tiles_done(const struct hr_run *run)
{
	return 0;
}

uint64_t hr_run_bytes_read(const struct hr_run *run)
{
	return 0;
}

/* ---- boot/cmd/report/runs.c */

void hr_report_runs(const struct hr_appliance *app, uint32_t which, FILE *out)
{
}

int hr_report_result(const struct hr_run *run, char *text, size_t bytes)
{
	text[0] = '\0';
	return 0;
}

/* ---- boot/cmd/post/post.c */

void hr_post_machine(struct hr_post *post)
{
	const struct fake_attempt *a = current();

	note("P");
	take(a->post_ns);
	die_in('P');
	post->machine_failed = a->machine != 0;
	post->failed += a->machine != 0;
	post->error = a->machine;
	if (!a->machine)
		return;
	hr_fail(&post->cause, fake_kind(a->machine), a->machine, "fake failure %d", a->machine);
	post->cause.printed = true;
	end_attempt();
}

void hr_post_ssds(struct hr_post *post)
{
	const struct fake_attempt *a = current();
	bool any = false;

	note("p");
	for (uint32_t d = 0; d < post->app->config.ssds; d++) {
		post->ssd_error[d] = a->ssd[d];
		if (!a->ssd[d])
			continue;
		hr_fail(&post->ssd_cause[d], fake_kind(a->ssd[d]), a->ssd[d], "fake failure %d",
			a->ssd[d]);
		post->ssd_cause[d].printed = true;
		if (post->failed++ == 0) {
			post->error = a->ssd[d];
			post->cause = post->ssd_cause[d];
		}
	}
	for (uint32_t i = 0; i < post->app->config.pipelines; i++) {
		const struct hr_run *run = &post->app->run[i];
		bool works = run->selected;

		for (uint32_t d = 0; d < post->app->config.ssds; d++)
			works &= !a->ssd[d] || !hr_run_uses_ssd(run, d);
		any |= works;
	}
	if (!any)
		end_attempt();
}
