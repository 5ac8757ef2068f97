#include "boot/engine/runner/stuck.h"

#include <stdio.h>

#include "boot/engine/crash.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/derived.h"

/* A gpu as messages name it: its backend; of several gpus also the name in the configuration. */
static const char *name_gpu(const struct hr_appliance *app, const struct hr_run *run,
			    uint32_t member, char *text, size_t bytes)
{
	const uint32_t g = hr_config_gpu(run->config, member);

	if (hr_run_gpus(run) > 1)
		snprintf(text, bytes, "gpu '%s' (%.128s)", app->config.gpu[g].name,
			 app->backend[g].name);
	else
		snprintf(text, bytes, "%s", app->backend[g].name);
	return text;
}

/* A block that has never run waits until the gpu has room for it, so the others wait for ever. */
static void log_absent(const struct hr_appliance *app, const struct hr_watch *watch, uint32_t role,
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
		run->config->name, hr_watch_absent(watch), hr_run_statuses(run),
		(unsigned long long)(watch->timeout_ns[role] / HR_NS_PER_MS),
		name_gpu(app, run, member, gpu, sizeof gpu));
}

static void log_stuck(const struct hr_appliance *app, const struct hr_watch *watch, uint32_t role,
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
		 name_gpu(app, run, member, gpu, sizeof gpu), tile,
		 (unsigned long long)(watch->timeout_ns[role] / HR_NS_PER_MS));
}

/* For the supervisor. */
static void note_hang(const struct hr_watch *watch, uint32_t role, uint32_t index)
{
	const struct hr_run *run = watch->run;
	const uint32_t i = hr_run_first_status(run, role) + index;

	if (hr_watch_absent(watch))
		hr_crash_hangs(run, HR_WORK_INIT, 0);
	else if (role == HR_ROLE_COMPUTE)
		hr_crash_hangs(run, HR_WORK_TILE, hr_acquire_sys_u64(&hr_run_status(run, i)->tile));
	else
		hr_crash_hangs(run, role == HR_ROLE_ACCESS ? HR_WORK_RUN : HR_WORK_NO_CALL, 0);
}

void hr_stuck_log(const struct hr_appliance *app, const struct hr_watch *watch, uint32_t role,
		  uint32_t index)
{
	if (hr_watch_absent(watch))
		log_absent(app, watch, role, index);
	else
		log_stuck(app, watch, role, index);
	note_hang(watch, role, index);
}
