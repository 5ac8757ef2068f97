/*
 * boot/appliance/retry.h - which failures another attempt may get over, and how many attempts there
 * are.
 */
#ifndef BOOT_APPLIANCE_RETRY_H
#define BOOT_APPLIANCE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

/*
 * True when another attempt meets the same again: mistakes in the configuration, objects or room that
 * are not there, unreadable blocks, an operator that breaks its promise. False for what a restart may
 * cure: a device that is gone or does not answer, a lost command, a transient status. `err` is an NVMe
 * status or a negative errno, as the stages, the self-test and pipelines return it.
 */
bool hr_error_is_final(int err);

/* The restarts that are left, and the pause before the next one. */
struct hr_budget {
	const struct hr_config_boot *boot; /* restarts, backoff_ns, heal_ns */
	uint32_t used;			   /* of boot->restarts */
	uint64_t pause_ns;		   /* before the next restart */
};

void hr_budget_begin(struct hr_budget *b, const struct hr_config_boot *boot);

/*
 * A failure, after pipelines have run without one for ran_ns. With boot->heal_ns or more of that the
 * budget is whole again before this failure is counted. Returns the pause before the restart in
 * *pause_ns and true, or false: no restart is left.
 */
bool hr_budget_take(struct hr_budget *b, uint64_t ran_ns, uint64_t *pause_ns);

#endif
