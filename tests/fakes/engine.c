/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/engine.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/error.h"
#include "config/base/clock.h"

#define DESCRIPTORS 256

static const enum hr_phase phase_of[] = { HR_PHASE_POST, HR_PHASE_BRING_UP, HR_PHASE_RUNNING,
					  HR_PHASE_GOING_DOWN };
enum { POST, BRING_UP, RUNNING, GOING_DOWN };

static struct {
	struct hr_child *child; /* NULL: no script */
	const struct hr_engine *engine;
	const struct fake_engine *row;
	unsigned count, now; /* index of the next row */
	pid_t pid;	     /* 0: none, or collected */
	bool ended;
	int status, phases, part;
	uint64_t part_ns, started_ns, asked_ns, killed_ns;
	struct hr_record record;
	char log[512];
} fake;

void fake_engine_begin(struct hr_child *child, const struct hr_engine *engine,
		       const struct fake_engine *row, unsigned count)
{
	memset(&fake, 0, sizeof fake);
	fake.child = child;
	fake.engine = engine;
	fake.row = row;
	fake.count = count;
	fake.phases = -1;
}

const char *fake_engine_log(void)
{
	return fake.log;
}

uint64_t fake_engine_started_ns(void)
{
	return fake.started_ns;
}

uint64_t fake_engine_asked_ns(void)
{
	return fake.asked_ns;
}

uint64_t fake_engine_killed_ns(void)
{
	return fake.killed_ns;
}

static const struct fake_engine *row(void)
{
	return &fake.row[fake.now - 1];
}

static void note_start(void)
{
	const struct hr_engine *engine = fake.engine;
	char *at = fake.log + strlen(fake.log);
	char *end = fake.log + sizeof fake.log;

	at += snprintf(at, (size_t)(end - at), "[");
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].selected)
			at += snprintf(at, (size_t)(end - at), "%u%s", i,
				       engine->run[i].suspect ? "?" : "");
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (engine->left_out[d])
			at += snprintf(at, (size_t)(end - at), "-%u", d);
	snprintf(at, (size_t)(end - at), "] ");
}

/* The engine's end of the pipe of phases: the writing end that was opened last. */
static int find_phases(void)
{
	int found = -1;

	for (int fd = 3; fd < DESCRIPTORS; fd++) {
		const int flags = fcntl(fd, F_GETFL);
		struct stat st;

		if (flags >= 0 && (flags & O_ACCMODE) == O_WRONLY && flags & O_NONBLOCK &&
		    fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
			found = fd;
	}
	cr_assert_geq(found, 0);
	return fcntl(found, F_DUPFD_CLOEXEC, DESCRIPTORS);
}

static void publish(void)
{
	hr_record_publish(fake.child->process.page, &fake.record);
}

static void put_error(struct hr_record_error *to, int err)
{
	struct hr_error e = { 0 };

	if (err && err != -EINTR)
		hr_fail(&e, row()->kind ? row()->kind : HR_ERROR_DEVICE, err, "fake failure %d",
			err);
	hr_record_put_error(to, err, &e);
}

static void end_with(int status)
{
	if (row()->last)
		row()->last(&fake.record);
	if (!row()->hangs)
		publish();
	fake.child->process.page->crash = row()->crash;
	fake.ended = true;
	fake.status = status;
	if (!row()->orphans)
		close(fake.phases);
	fake.phases = -1;
}

static void tell(int part)
{
	const unsigned char byte = (unsigned char)phase_of[part];

	fake.part = part;
	fake.part_ns = hr_now_ns();
	publish();
	cr_assert_eq(write(fake.phases, &byte, 1), 1);
}

static void finish(int err)
{
	static const int code[] = { HR_EXIT_DEVICE, HR_EXIT_FAILED, HR_EXIT_USAGE, HR_EXIT_MISSING,
				    HR_EXIT_DEVICE };

	put_error(&fake.record.error, err);
	fake.record.finished = 1;
	fake.record.refused = row()->refused;
	fake.record.ssd[0].health = row()->stuck ? HR_HEALTH_STUCK : HR_HEALTH_DOWN;
	end_with(err ? code[row()->kind] << 8 : 0);
}

static void begin_runs(void)
{
	fake.record.has_run = 1;
	for (uint32_t i = 0; i < fake.engine->config.pipelines; i++)
		if (fake.record.run[i].selected && row()->run[i] != FAKE_ENGINE_WAITS)
			fake.record.run[i].started_ns = hr_now_ns();
}

/* Ends all that run. Returns the first error. */
static int end_runs(bool interrupted)
{
	int first = interrupted ? -EINTR : 0;

	for (uint32_t i = 0; i < fake.engine->config.pipelines; i++) {
		struct hr_record_run *run = &fake.record.run[i];
		const int err = interrupted ? -EINTR : row()->run[i];

		if (!run->started_ns)
			continue;
		run->ended_ns = hr_now_ns();
		run->reported = 1;
		run->outcome = interrupted ? HR_RUN_INTERRUPTED : err ? HR_RUN_FAILED : HR_RUN_DONE;
		put_error(&run->error, err);
		first = first ? first : err;
	}
	fake.record.ran_ns = hr_now_ns() - fake.part_ns;
	return first;
}

/* True: the engine has another part. */
static bool advance(void)
{
	const struct fake_engine *e = row();
	const uint64_t ns[] = { e->post_ns, e->up_ns, e->run_ns, 0 };
	static int err;

	if (hr_now_ns() - fake.part_ns < ns[fake.part])
		return false;
	if (e->in == phase_of[fake.part] && e->hangs)
		return false;
	if (e->in == phase_of[fake.part] && e->dies) {
		end_with(e->status);
		return false;
	}
	if (fake.part == BRING_UP && e->up) {
		finish(e->up);
		return false;
	}
	if (fake.part == RUNNING)
		err = end_runs(false);
	if (fake.part == GOING_DOWN) {
		finish(err);
		return false;
	}
	if (fake.part == BRING_UP)
		begin_runs();
	tell(fake.part + 1);
	return true;
}

void fake_engine_step(void)
{
	if (!fake.pid || fake.ended)
		return;
	while (advance())
		;
	if (!fake.ended && (!row()->hangs || row()->in != phase_of[fake.part]))
		publish();
}

/* ---- libc */

pid_t fork(void)
{
	if (!fake.child)
		return ((pid_t(*)(void))dlsym(RTLD_NEXT, "fork"))();
	note_start();
	cr_assert_lt(fake.now, fake.count, "one engine too many: %s", fake.log);
	fake.pid = FAKE_ENGINE_PID + (pid_t)fake.now++;
	if (row()->fork_error) {
		fake.pid = 0;
		errno = row()->fork_error;
		return -1;
	}
	fake.ended = false;
	fake.started_ns = hr_now_ns();
	fake.asked_ns = fake.killed_ns = 0;
	memset(&fake.record, 0, sizeof fake.record);
	hr_record_update(&fake.record, fake.engine);
	fake.phases = find_phases();
	tell(POST);
	fake_engine_step();
	return fake.pid;
}

pid_t waitpid(pid_t pid, int *status, int flags)
{
	if (!fake.child || pid != fake.pid)
		return ((pid_t(*)(pid_t, int *, int))dlsym(RTLD_NEXT, "waitpid"))(pid, status,
										  flags);
	if (!fake.ended)
		return 0;
	*status = fake.status;
	fake.pid = 0;
	return pid;
}

int kill(pid_t pid, int signal_number)
{
	if (!fake.child || pid != fake.pid)
		return ((int (*)(pid_t, int))dlsym(RTLD_NEXT, "kill"))(pid, signal_number);
	if (fake.ended)
		return 0;
	if (signal_number == SIGTERM) {
		cr_expect_eq(fake.asked_ns, 0u, "asked twice");
		fake.asked_ns = hr_now_ns();
		if (row()->deaf || (row()->hangs && row()->in == phase_of[fake.part]))
			return 0;
		finish(end_runs(true));
	} else if (signal_number == SIGKILL) {
		cr_expect_eq(fake.killed_ns, 0u, "killed twice");
		fake.killed_ns = hr_now_ns();
		if (!row()->unkillable)
			end_with(SIGKILL);
	}
	return 0;
}
