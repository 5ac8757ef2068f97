/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/gpus.h - which gpus are not there yet: the driver finds no such GPU, or is not ready
 * because a daemon that it needs (a fabric manager) starts late.
 *
 * A process of its own asks the driver. The supervisor loads no driver; and a driver whose first
 * initialisation has failed may return the same error to each later one of its process, so that each
 * look takes a new process. A driver that does not return delays no one: its process is killed.
 */
#ifndef BOOT_APPLIANCE_GPUS_H
#define BOOT_APPLIANCE_GPUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"

struct hr_gpus_page;

/* All zero: no look has been made. */
struct hr_gpus {
	uint32_t absent;		/* a bit for each gpu that the last look has not found */
	pid_t pid;			/* of the look that runs; 0: none */
	bool killed;			/* that process got SIGKILL */
	uint32_t asked;			/* gpus of that look */
	uint64_t began_ns, next_ns;	/* of that look; earliest time of the next one */
	uint64_t since_ns[HR_GPUS_MAX]; /* time since which a gpu is absent; 0: it is there */
	struct hr_gpus_page *page;
};

/*
 * Start a look at the gpus in `which` when the last one is old, or take the result of the one that
 * runs. Never waits. True: a look runs. The first time a gpu is absent, its reason is logged.
 */
bool hr_gpus_step(struct hr_gpus *gpus, const struct hr_config *config, uint32_t which);

/* The gpus that are absent for less than boot.wait_s. */
uint32_t hr_gpus_awaited(const struct hr_gpus *gpus, const struct hr_config *config);

/* End the look that runs. */
void hr_gpus_close(struct hr_gpus *gpus);

#endif
