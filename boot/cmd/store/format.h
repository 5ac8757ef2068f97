/*
 * boot/cmd/store/format.h - `headrace store`: `format` and `unlock` (boot/cmd/store/store.h).
 */
#ifndef BOOT_CMD_STORE_FORMAT_H
#define BOOT_CMD_STORE_FORMAT_H

#include "boot/cmd/store/store.h"

int hr_store_cmd_format(struct hr_ssd *ssd, const struct hr_store_request *request);
int hr_store_cmd_unlock(struct hr_ssd *ssd, const struct hr_store_request *request);

#endif
