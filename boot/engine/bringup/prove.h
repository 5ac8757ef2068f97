/*
 * boot/engine/bringup/prove.h - test a place of memory by a loopback through the ssd.
 */
#ifndef BOOT_ENGINE_BRINGUP_PROVE_H
#define BOOT_ENGINE_BRINGUP_PROVE_H

#include "boot/engine/shape/paths.h"

/*
 * Test a place that is mapped into ssd d, in a sample of its pages. 0, also when the place needs no
 * test. -EIO: the data differed; > 0: the status of a failed transfer; both set *refuted. Other
 * errors are those of the disk or the backend. When a command was lost, the controller is disabled,
 * or its health is HR_HEALTH_STUCK.
 */
int hr_prove(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place, bool *refuted,
	     struct hr_error *e);

#endif
