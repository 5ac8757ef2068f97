/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/gpus.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "config/base/tick.h"

#define PAUSE_NS (2 * HR_NS_PER_S)   /* between two looks */
#define ANSWER_NS (60 * HR_NS_PER_S) /* the driver of many GPUs takes seconds */
#define REASON_MAX 512

/* Written by the process that looks. */
struct hr_gpus_page {
	uint32_t answered, absent; /* a bit for each gpu */
	char reason[HR_GPUS_MAX][REASON_MAX];
};

/* Ends with _exit(): the driver's exit handlers may wait for the GPU. */
static _Noreturn void probe_gpus(struct hr_gpus_page *page, const struct hr_config *config,
				 uint32_t which, pid_t supervisor)
{
	hr_tick_set(NULL, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor) /* the supervisor died before prctl() */
		_exit(1);
	for (uint32_t g = 0; g < config->gpus; g++) {
		struct hr_error e = { 0 };

		if (!(which >> g & 1))
			continue;
		if (hr_backend_await(config->gpu[g].device, &e) == -EAGAIN) {
			snprintf(page->reason[g], REASON_MAX, "%.*s", REASON_MAX - 1, e.text);
			page->absent |= 1u << g;
		}
		page->answered |= 1u << g;
	}
	_exit(0);
}

static void fork_probe(struct hr_gpus *gpus, const struct hr_config *config, uint32_t which,
		       uint64_t now_ns)
{
	const pid_t self = getpid();
	pid_t pid;

	if (!gpus->page)
		gpus->page = mmap(NULL, sizeof *gpus->page, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (gpus->page == MAP_FAILED) {
		gpus->page = NULL;
		return;
	}
	gpus->page->answered = gpus->page->absent = 0;
	fflush(NULL); /* else both processes would write the buffered text */
	pid = hr_fork();
	if (pid == 0)
		probe_gpus(gpus->page, config, which, self);
	if (pid < 0)
		return;
	gpus->pid = pid;
	gpus->killed = false;
	gpus->asked = which;
	gpus->began_ns = now_ns;
}

static void note_absent_gpu(struct hr_gpus *gpus, const struct hr_config *config, uint32_t g,
			    bool answered, uint64_t now_ns)
{
	const struct hr_config_gpu *gpu = &config->gpu[g];

	if (gpus->since_ns[g])
		return;
	gpus->since_ns[g] = now_ns;
	hr_warn("gpu '%s': %s: %.*s; waiting for it for %u s", gpu->name, gpu->device,
		REASON_MAX - 1,
		answered ? gpus->page->reason[g] : "the NVIDIA driver has given no answer",
		config->boot.wait_s);
}

/* A gpu without an answer is absent, too. */
static void collect_answers(struct hr_gpus *gpus, const struct hr_config *config, uint64_t now_ns)
{
	gpus->absent &= ~gpus->asked;
	gpus->absent |= gpus->asked & (gpus->page->absent | ~gpus->page->answered);
	for (uint32_t g = 0; g < config->gpus; g++) {
		if (!(gpus->asked >> g & 1))
			continue;
		if (gpus->absent >> g & 1)
			note_absent_gpu(gpus, config, g, gpus->page->answered >> g & 1, now_ns);
		else
			gpus->since_ns[g] = 0;
	}
	gpus->next_ns = now_ns + PAUSE_NS;
}

bool hr_gpus_step(struct hr_gpus *gpus, const struct hr_config *config, uint32_t which)
{
	const uint64_t now_ns = hr_now_ns();
	int status;

	if (!gpus->pid && which && now_ns >= gpus->next_ns)
		fork_probe(gpus, config, which, now_ns);
	if (!gpus->pid)
		return false;
	if (hr_wait_child(gpus->pid, &status, WNOHANG) != 0) {
		gpus->pid = 0;
		if (!gpus->killed)
			collect_answers(gpus, config, now_ns);
		return false;
	}
	if (!gpus->killed && now_ns - gpus->began_ns >= ANSWER_NS) {
		gpus->killed = true;
		hr_kill(gpus->pid, SIGKILL);
		collect_answers(gpus, config, now_ns);
	}
	return !gpus->killed;
}

uint32_t hr_gpus_awaited(const struct hr_gpus *gpus, const struct hr_config *config)
{
	const uint64_t now_ns = hr_now_ns();
	uint32_t awaited = 0;

	for (uint32_t g = 0; g < config->gpus; g++)
		if (gpus->absent >> g & 1 &&
		    now_ns - gpus->since_ns[g] < config->boot.wait_s * HR_NS_PER_S)
			awaited |= 1u << g;
	return awaited;
}

void hr_gpus_close(struct hr_gpus *gpus)
{
	if (gpus->pid)
		hr_kill(gpus->pid, SIGKILL);
	if (gpus->page)
		munmap(gpus->page, sizeof *gpus->page);
	*gpus = (struct hr_gpus){ 0 };
}
