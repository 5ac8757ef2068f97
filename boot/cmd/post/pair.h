/*
 * boot/cmd/post/pair.h - the step of the self-test of a gpu and an ssd together
 * (boot/cmd/post/step.h).
 */
#ifndef BOOT_CMD_POST_PAIR_H
#define BOOT_CMD_POST_PAIR_H

#include "boot/engine/bringup/stages.h"

/*
 * Compare the data that ssd d and the memory of gpu g exchange, both ways
 * (boot/engine/exchange/exchange.h), in sizes from 4 KiB on, up to 64 MiB within the budget.
 * Both are up. Only the scratch area of the store is written. HR_POST_SKIP: no direct path, or
 * a direction cannot be proven.
 */
int hr_post_pair(struct hr_appliance *app, uint32_t g, uint32_t d, uint64_t budget_ns, char *detail,
		 struct hr_error *e);

#endif
