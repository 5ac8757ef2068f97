/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/stall.h"

#include <stdio.h>
#include <string.h>

#include "boot/engine/run.h"
#include "config/base/clock.h"
#include "boot/engine/crash.h"
#include "config/base/log.h"
#include "config/derived.h"

const char *hr_role_name(uint32_t role)
{
	static const char *const name[HR_RUN_ROLES] = { "prefetch", "compute", "write-back", "I/O",
							"compute" };

	return role < HR_RUN_ROLES ? name[role] : "?";
}

static uint64_t longest_timeout(const struct hr_engine *engine)
{
	uint64_t longest = 0;

	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (engine->config.ssd[d].timeout_ns > longest)
			longest = engine->config.ssd[d].timeout_ns;
	return longest;
}

static uint64_t operator_ns(const struct hr_config_pipeline *p)
{
	return (p->operator_s ? p->operator_s : HR_OPERATOR_S) * HR_NS_PER_S;
}

void hr_stall_begin(struct hr_stall *watch, const struct hr_engine *engine,
		    const struct hr_run *run, uint64_t now_ns)
{
	/* A deadline is checked every eighth of its length, and a flush follows the last write. */
	const uint64_t deadlines = 2 * longest_timeout(engine);

	watch->run = run;
	watch->stopping = false;
	watch->failed_gpus = 0;
	for (int role = 0; role < HR_RUN_ROLES; role++)
		watch->timeout_ns[role] =
			deadlines + (engine->timeout_ns ? engine->timeout_ns : HR_STALL_TIMEOUT_NS);
	watch->timeout_ns[HR_ROLE_COMPUTE] = watch->timeout_ns[HR_ROLE_ACCESS] =
		engine->timeout_ns ? engine->timeout_ns : operator_ns(run->config);
	for (uint32_t i = 0; i < HR_STATUSES_MAX; i++) {
		watch->seen[i].heartbeat = 0;
		watch->seen[i].since_ns = now_ns;
	}
	for (uint32_t p = 0; p < HR_GPUS_MAX; p++) {
		watch->epochs[p].epochs = 0;
		watch->epochs[p].since_ns = now_ns;
	}
}

static bool is_watched(const struct hr_stall *watch, uint32_t i)
{
	uint32_t number;

	return !watch->failed_gpus ||
	       !(watch->failed_gpus >> hr_run_status_gpu(watch->run, i, &number) & 1);
}

static bool moves(struct hr_stall *watch, uint32_t i, uint64_t timeout_ns, uint64_t now_ns)
{
	const struct hr_worker_status *status = hr_run_status(watch->run, i);
	const uint64_t heartbeat = hr_acquire_sys_u64(&status->heartbeat);

	if (heartbeat != watch->seen[i].heartbeat || hr_acquire_sys_u32(&status->ended)) {
		watch->seen[i].heartbeat = heartbeat;
		watch->seen[i].since_ns = now_ns;
	}
	return now_ns - watch->seen[i].since_ns < timeout_ns;
}

/* The compute block of gpu p of the run with a worker that keeps the epoch from moving on, or
 * HR_NO_BLOCK. An I/O worker that does so has a heartbeat of its own. */
#define HR_NO_BLOCK UINT32_MAX

static uint32_t block_behind(struct hr_stall *watch, uint32_t p, uint64_t now_ns)
{
	const struct hr_access *access = &watch->run->gpu[p].cpu;
	const struct hr_io_counters *io = access->counters;
	const uint64_t epochs = hr_acquire_sys_u64(&io->epochs);
	const uint64_t computers = hr_access_computers(access);
	uint64_t behind = hr_acquire_sys_u64(&io->behind);

	if (epochs != watch->epochs[p].epochs || hr_acquire_sys_u32(&access->status[0].ended)) {
		watch->epochs[p].epochs = epochs;
		watch->epochs[p].since_ns = now_ns;
	}
	/* an I/O worker waits for the compute workers of its share */
	if (behind >= computers && behind - computers < hr_access_io_workers(access))
		behind = hr_acquire_sys_u64(&io[behind - computers].behind);
	if (now_ns - watch->epochs[p].since_ns < watch->timeout_ns[HR_ROLE_ACCESS] ||
	    behind >= computers)
		return HR_NO_BLOCK;
	return (uint32_t)behind / access->warps;
}

/* A compute block of an access operator whose worker makes no calls: true, with its number among those
 * of all gpus. */
static bool hangs_in_run(struct hr_stall *watch, uint64_t now_ns, uint32_t *index)
{
	for (uint32_t p = 0; watch->run->gpu[0].access && p < hr_run_gpus(watch->run); p++) {
		const uint32_t block =
			watch->failed_gpus >> p & 1 ? HR_NO_BLOCK : block_behind(watch, p, now_ns);

		*index = p * watch->run->gpu[0].cpu.compute_blocks + block;
		if (block != HR_NO_BLOCK)
			return true;
	}
	return false;
}

void hr_stall_stopping(struct hr_stall *watch, uint64_t now_ns)
{
	const uint32_t first = hr_run_first_status(watch->run, HR_ROLE_ACCESS);

	for (uint32_t i = 0; i < hr_run_role_statuses(watch->run, HR_ROLE_ACCESS); i++)
		watch->seen[first + i].since_ns = now_ns;
	watch->stopping = true;
}

uint32_t hr_stall_check(struct hr_stall *watch, uint64_t now_ns, uint32_t *index)
{
	for (uint32_t role = 0; role < HR_RUN_ROLES; role++) {
		const uint32_t first = hr_run_first_status(watch->run, role);

		if (role == HR_ROLE_ACCESS && !watch->stopping) {
			if (hangs_in_run(watch, now_ns, index))
				return role;
			continue;
		}
		for (uint32_t i = 0; i < hr_run_role_statuses(watch->run, role); i++) {
			*index = i;
			if (is_watched(watch, first + i) &&
			    !moves(watch, first + i, watch->timeout_ns[role], now_ns))
				return role;
		}
	}
	return HR_RUN_ROLES;
}

uint32_t hr_stall_not_started(const struct hr_stall *watch)
{
	uint32_t absent = 0;

	for (uint32_t i = 0; i < hr_run_first_status(watch->run, HR_ROLE_ACCESS); i++)
		absent += hr_acquire_sys_u64(&hr_run_status(watch->run, i)->heartbeat) == 0;
	return absent;
}

/* ---- the message */

/* A gpu as messages name it: its backend; of several gpus also the name in the configuration. */
static const char *name_gpu(const struct hr_engine *engine, const struct hr_run *run,
			    uint32_t member, char *text, size_t bytes)
{
	const uint32_t g = hr_config_gpu(run->config, member);

	if (hr_run_gpus(run) > 1)
		snprintf(text, bytes, "gpu '%s' (%.128s)", engine->config.gpu[g].name,
			 engine->backend[g].name);
	else
		snprintf(text, bytes, "%s", engine->backend[g].name);
	return text;
}

/* A block that has never run waits until the gpu has room for it, so the others wait for ever. */
static void log_absent(const struct hr_engine *engine, const struct hr_stall *watch, uint32_t role,
		       uint32_t index)
{
	const struct hr_run *run = watch->run;
	char gpu[4 * HR_NAME_MAX];
	uint32_t number;
	const uint32_t member =
		hr_run_status_gpu(run, hr_run_first_status(run, role) + index, &number);

	hr_error(
		"pipeline '%s': %u of %u workers have not started after %llu ms: %s does not hold "
		"all blocks at once, or the operator's init does not end; controllers are disabled",
		run->config->name, hr_stall_not_started(watch), hr_run_statuses(run),
		(unsigned long long)(watch->timeout_ns[role] / HR_NS_PER_MS),
		name_gpu(engine, run, member, gpu, sizeof gpu));
}

static void log_stuck(const struct hr_engine *engine, const struct hr_stall *watch, uint32_t role,
		      uint32_t index)
{
	const struct hr_run *run = watch->run;
	const uint32_t i = hr_run_first_status(run, role) + index;
	char tile[48] = "", gpu[4 * HR_NAME_MAX];
	uint32_t number;
	const uint32_t member = hr_run_status_gpu(run, i, &number);

	if (role == HR_ROLE_COMPUTE)
		snprintf(tile, sizeof tile, ", which began tile %llu,",
			 (unsigned long long)hr_acquire_sys_u64(&hr_run_status(run, i)->tile));
	hr_error("pipeline '%s': %s %s %u of %s%s has not moved for %llu ms; controllers are "
		 "disabled",
		 run->config->name, hr_role_name(role),
		 role == HR_ROLE_COMPUTE || role == HR_ROLE_ACCESS ? "block" : "worker", number,
		 name_gpu(engine, run, member, gpu, sizeof gpu), tile,
		 (unsigned long long)(watch->timeout_ns[role] / HR_NS_PER_MS));
}

/* For the supervisor. */
static void note_hang(const struct hr_stall *watch, uint32_t role, uint32_t index)
{
	const struct hr_run *run = watch->run;
	const uint32_t i = hr_run_first_status(run, role) + index;

	if (hr_stall_not_started(watch))
		hr_crash_hangs(run, HR_WORK_INIT, 0);
	else if (role == HR_ROLE_COMPUTE)
		hr_crash_hangs(run, HR_WORK_TILE, hr_acquire_sys_u64(&hr_run_status(run, i)->tile));
	else
		hr_crash_hangs(run, role == HR_ROLE_ACCESS ? HR_WORK_RUN : HR_WORK_NO_CALL, 0);
}

void hr_stall_log(const struct hr_engine *engine, const struct hr_stall *watch, uint32_t role,
		  uint32_t index)
{
	if (hr_stall_not_started(watch))
		log_absent(engine, watch, role, index);
	else
		log_stuck(engine, watch, role, index);
	note_hang(watch, role, index);
}
