/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/crash.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/derived.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int caught[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };

/* One process has one appliance; handlers get no argument. */
static struct {
	struct hr_crash *to; /* NULL: crashes are not noted */
	const struct hr_engine *engine;
	struct sigaction before[COUNT(caught)];
	bool taken; /* the first crash counts */
} noted;

/* The pipeline that the work belongs to; HR_PIPELINES_MAX: none. */
static uint32_t pipeline_of(const void *of)
{
	const struct hr_engine *engine = noted.engine;

	for (uint32_t i = 0; of && i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];

		if (of == run->config)
			return i;
		for (uint32_t p = 0; run->config && p < hr_run_gpus(run); p++) {
			const struct hr_partition *memory =
				&engine->partition[hr_config_gpu(run->config, p)];

			if (run->started_ns && !run->ended_ns && hr_partition_bound(memory) &&
			    of == hr_partition_worker(memory, hr_run_descriptor(run, p)))
				return i;
		}
	}
	return HR_PIPELINES_MAX;
}

/* Called by handlers of signals: it only reads memory and writes words. */
static void note_crash(uint32_t pipeline, enum hr_work_call call, uint64_t tile, bool hangs)
{
	struct hr_crash *to = noted.to;

	if (pipeline >= HR_PIPELINES_MAX ||
	    __atomic_exchange_n(&noted.taken, true, __ATOMIC_RELAXED))
		return;
	to->pipeline = pipeline;
	to->call = (uint64_t)call;
	to->tile = call == HR_WORK_TILE ? tile : 0;
	to->hangs = hangs;
	__atomic_store_n(&to->known, 1, __ATOMIC_RELEASE);
}

static void note_thread(void)
{
	note_crash(pipeline_of(hr_work_now.of), hr_work_now.call, hr_work_now.tile, false);
}

/* The kernel, or this thread itself with abort(), has caused the signal. */
static bool is_own(const siginfo_t *info)
{
	return info->si_code > 0 || (info->si_code == SI_TKILL && info->si_pid == getpid());
}

/* The former action follows: the faulting instruction runs again, or the signal comes again. */
static void handle(int signal_number, siginfo_t *info, void *context)
{
	if (is_own(info))
		note_thread();
	for (size_t i = 0; i < COUNT(caught); i++)
		if (caught[i] == signal_number)
			sigaction(signal_number, &noted.before[i], NULL);
	if (info->si_code <= 0)
		raise(signal_number);
}

void hr_crash_catch(struct hr_crash *crash, const struct hr_engine *engine)
{
	struct sigaction action = { .sa_sigaction = handle,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	noted.to = crash;
	noted.engine = engine;
	noted.taken = false;
	hr_signal_stack();
	for (size_t i = 0; i < COUNT(caught); i++)
		sigaction(caught[i], &action, &noted.before[i]);
	atexit(note_thread);
}

void hr_crash_hangs(const struct hr_run *run, enum hr_work_call call, uint64_t tile)
{
	if (noted.to)
		note_crash((uint32_t)(run - noted.engine->run), call, tile, true);
}

bool hr_crash_check(const struct hr_crash *crash, uint32_t pipelines)
{
	return crash->known == 1 && crash->pipeline < pipelines && crash->call < HR_WORK_CALLS &&
	       crash->hangs <= 1;
}
