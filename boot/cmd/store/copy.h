/*
 * boot/cmd/store/copy.h - `headrace store`: `put` and `get` (boot/cmd/store/store.h).
 */
#ifndef BOOT_CMD_STORE_COPY_H
#define BOOT_CMD_STORE_COPY_H

#include "boot/cmd/store/store.h"

int hr_store_cmd_put(struct hr_store_access *access, const struct hr_store_request *request);
int hr_store_cmd_get(struct hr_store_access *access, const struct hr_store_request *request);

#endif
