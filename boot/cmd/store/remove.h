/*
 * boot/cmd/store/remove.h - `headrace store`: `rm` (boot/cmd/store/store.h).
 */
#ifndef BOOT_CMD_STORE_REMOVE_H
#define BOOT_CMD_STORE_REMOVE_H

#include "boot/cmd/store/store.h"

int hr_store_cmd_rm(struct hr_store_access *access, const struct hr_store_request *request);

#endif
