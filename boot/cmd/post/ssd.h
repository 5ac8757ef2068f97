/*
 * boot/cmd/post/ssd.h - steps of the self-test of an ssd (boot/cmd/post/step.h).
 */
#ifndef BOOT_CMD_POST_SSD_H
#define BOOT_CMD_POST_SSD_H

#include "boot/engine/bringup/stages.h"

/* In this order; each needs the previous ones. */
int hr_post_controller(struct hr_appliance *app, uint32_t d, char *detail, struct hr_error *e);
int hr_post_queue(struct hr_appliance *app, uint32_t d, char *detail, struct hr_error *e);
int hr_post_smart(struct hr_appliance *app, uint32_t d, char *detail, struct hr_error *e);
int hr_post_store(struct hr_appliance *app, uint32_t d, char *detail, struct hr_error *e);
int hr_post_loopback(struct hr_appliance *app, uint32_t d, char *detail, struct hr_error *e);
int hr_post_verify(struct hr_appliance *app, uint32_t d, char *detail, struct hr_error *e);

#endif
