/*
 * boot/cmd/store/move.h - `headrace store`: `mv` and `cp`, from one name to another one on the same
 * ssd (boot/cmd/store/store.h).
 */
#ifndef BOOT_CMD_STORE_MOVE_H
#define BOOT_CMD_STORE_MOVE_H

#include "boot/cmd/store/store.h"

int hr_store_cmd_mv(struct hr_store_access *access, const struct hr_store_request *request);
int hr_store_cmd_cp(struct hr_store_access *access, const struct hr_store_request *request);

#endif
