/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/runner/stall.h - detect workers of a running pipeline that make no progress. Allocates
 * nothing.
 *
 * Workers bound all their waits. So a worker without progress hangs in an operator, or the gpu
 * hangs.
 */
#ifndef BOOT_ENGINE_RUNNER_STALL_H
#define BOOT_ENGINE_RUNNER_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/bringup/stages.h"
#include "boot/engine/engine.h"

struct hr_stall {
	const struct hr_run *run;
	bool stopping;	      /* the host has asked the workers to end */
	uint32_t failed_gpus; /* mask: no block runs there, so they are not checked */
	uint64_t timeout_ns[HR_RUN_ROLES];
	struct {
		uint64_t heartbeat, since_ns;
	} seen[HR_STATUSES_MAX];
	struct {
		uint64_t epochs, since_ns;
	} epochs[HR_GPUS_MAX]; /* of the page cache of each gpu */
};

/* Start with the launch. The appliance's timeout_ns, when not 0, replaces HR_STALL_TIMEOUT_NS. */
void hr_stall_begin(struct hr_stall *watch, const struct hr_engine *engine,
		    const struct hr_run *run, uint64_t now_ns);

/*
 * The host has asked the workers to end. Compute blocks have no heartbeat while they run an access
 * operator: a worker makes progress when it publishes the epochs of the page cache, as the calls of
 * cache/objects/objects.h do. After hr_stall_stopping() such a block has to end within the limit.
 */
void hr_stall_stopping(struct hr_stall *watch, uint64_t now_ns);

/*
 * Check all workers. Returns the role of a worker that has exceeded its limit, with its number in
 * *index (the block for compute), or HR_RUN_ROLES: all make progress or have ended.
 */
uint32_t hr_stall_check(struct hr_stall *watch, uint64_t now_ns, uint32_t *index);

/*
 * Workers that have not written a heartbeat yet. Each writes one as soon as its block runs; a compute
 * block, after the operator's init.
 */
uint32_t hr_stall_not_started(const struct hr_stall *watch);

/* "prefetch", "compute", "write-back", "I/O". */
const char *hr_role_name(uint32_t role);

/* ---- the message about workers that make no progress */

/*
 * Log which worker of the watched run has exceeded its limit: role and index of hr_stall_check(). Also
 * note it for the supervisor (boot/engine/crash.h).
 */
void hr_stall_log(const struct hr_engine *engine, const struct hr_stall *watch, uint32_t role,
		  uint32_t index);

#endif
