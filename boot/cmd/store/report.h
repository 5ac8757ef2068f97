/*
 * boot/cmd/store/report.h - `headrace store`: `ls`, `df` and `verify` (boot/cmd/store/store.h).
 */
#ifndef BOOT_CMD_STORE_REPORT_H
#define BOOT_CMD_STORE_REPORT_H

#include "boot/cmd/store/store.h"

int hr_store_cmd_ls(struct hr_store_access *access, const struct hr_store_request *request);
int hr_store_cmd_df(struct hr_store_access *access, const struct hr_store_request *request);
int hr_store_cmd_verify(struct hr_store_access *access, const struct hr_store_request *request);

#endif
