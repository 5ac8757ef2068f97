/*
 * boot/cmd/post/machine.h - steps of the self-test: CPU, memory and clock (boot/cmd/post/step.h).
 */
#ifndef BOOT_CMD_POST_MACHINE_H
#define BOOT_CMD_POST_MACHINE_H

#include "boot/engine/bringup/stages.h"

int hr_post_cpu(struct hr_appliance *app, char *detail, struct hr_error *e);
int hr_post_memory(struct hr_appliance *app, char *detail, struct hr_error *e);
int hr_post_clock(struct hr_appliance *app, char *detail, struct hr_error *e);

#endif
