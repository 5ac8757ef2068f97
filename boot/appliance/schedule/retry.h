/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/schedule/retry.h - decides which failures another attempt can overcome, and limits the
 * attempts.
 */
#ifndef BOOT_APPLIANCE_SCHEDULE_RETRY_H
#define BOOT_APPLIANCE_SCHEDULE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

/*
 * True for a failure that another attempt would repeat: mistakes in the configuration, missing
 * objects or space, unreadable blocks, an operator that violates its contract. False for a failure
 * that a restart may overcome: a device that is gone or does not answer, a lost command, a
 * transient status. `err` is an NVMe status or a negative errno, as stages, self-test and pipelines
 * return it.
 */
bool hr_error_is_final(int err);

/*
 * Pause of a pipeline after the last one of `failures` failures in a row: boot->backoff_ns, at least
 * 10 ms, doubled with each further failure up to HR_PAUSE_MAX_NS.
 */
uint64_t hr_pause_ns(const struct hr_config_boot *boot, uint64_t failures);

#define HR_PAUSE_MAX_NS (3600ull * 1000000000)

/* Log that a pipeline is suspended for so long, because so many engines in a row have died in its
 * runs. */
void hr_suspension_log(const struct hr_config *config, uint32_t i, uint64_t deaths,
		       uint64_t pause_ns);

/* The remaining restarts, and the pause before the next one. */
struct hr_restarts {
	const struct hr_config_boot *boot; /* restarts, backoff_ns, heal_ns */
	uint32_t used;			   /* number of restarts used */
	uint64_t pause_ns;		   /* before the next restart */
};

void hr_restarts_begin(struct hr_restarts *b, const struct hr_config_boot *boot);

/*
 * Account for a failure after ran_ns of run time without one. When ran_ns is at least
 * boot->heal_ns, the budget is reset before this failure is counted. True: restart after *pause_ns.
 * False: no restart is left.
 */
bool hr_restarts_account(struct hr_restarts *b, uint64_t ran_ns, uint64_t *pause_ns);

#endif
