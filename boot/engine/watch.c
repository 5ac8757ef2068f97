#include "boot/engine/watch.h"

#include <string.h>

#include "config/clock.h"

const char *hr_role_name(enum hr_role role)
{
	static const char *const name[HR_ROLES] = { "prefetch", "compute", "write-back" };

	return (unsigned)role < HR_ROLES ? name[role] : "?";
}

static uint64_t longest_timeout(const struct hr_appliance *app)
{
	uint64_t longest = 0;

	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (app->config.ssd[d].timeout_ns > longest)
			longest = app->config.ssd[d].timeout_ns;
	return longest;
}

void hr_watch_begin(struct hr_watch *watch, const struct hr_appliance *app,
		    const struct hr_run *run, uint64_t now_ns)
{
	/* A deadline is looked at each eighth of it, and a flush follows the last write. */
	const uint64_t deadlines = 2 * longest_timeout(app);

	watch->run = run;
	for (int role = 0; role < HR_ROLES; role++)
		watch->patience_ns[role] =
			deadlines + (app->patience_ns ? app->patience_ns : HR_PATIENCE_NS);
	watch->patience_ns[HR_ROLE_COMPUTE] =
		app->patience_ns ? app->patience_ns : HR_TILE_PATIENCE_NS;
	for (uint32_t i = 0; i < HR_STATUSES_MAX; i++) {
		watch->seen[i].heartbeat = 0;
		watch->seen[i].since_ns = now_ns;
	}
}

static bool moves(struct hr_watch *watch, uint32_t i, uint64_t patience_ns, uint64_t now_ns)
{
	const struct hr_worker_status *status = &watch->run->status[i];
	const uint64_t heartbeat = hr_acquire_sys_u64(&status->heartbeat);

	if (heartbeat != watch->seen[i].heartbeat || hr_acquire_sys_u32(&status->done)) {
		watch->seen[i].heartbeat = heartbeat;
		watch->seen[i].since_ns = now_ns;
	}
	return now_ns - watch->seen[i].since_ns < patience_ns;
}

enum hr_role hr_watch_look(struct hr_watch *watch, uint64_t now_ns, uint32_t *index)
{
	const struct hr_pipe *pipe = watch->run->pipe;

	for (uint32_t role = 0; role < HR_ROLES; role++) {
		const uint32_t first = hr_pipe_first_status(pipe, role);

		for (uint32_t i = 0; i < hr_pipe_role_statuses(pipe, role); i++) {
			*index = i;
			if (!moves(watch, first + i, watch->patience_ns[role], now_ns))
				return (enum hr_role)role;
		}
	}
	return HR_ROLES;
}
