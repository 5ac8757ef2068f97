/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/backend.h"

#include "config/base/clock.h"
#include "nvme/queue/worker.h"

int hr_launch_poll(struct hr_launch *launch, struct hr_error *e)
{
	return launch->backend->ops->poll(launch, e);
}

void hr_launch_stop(struct hr_launch *launch, uint32_t how)
{
	hr_release_sys_u32(launch->stop, how);
}

int hr_launch_wait(struct hr_launch *launch, uint64_t until_ns, uint64_t pause_ns,
		   struct hr_error *e)
{
	int ended;

	while ((ended = hr_launch_poll(launch, e)) == 0 && hr_now_ns() < until_ns)
		hr_wait_ns(pause_ns);
	return ended;
}

void hr_launch_free(struct hr_launch *launch)
{
	if (launch)
		launch->backend->ops->launch_free(launch);
}
