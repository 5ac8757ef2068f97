/*
 * boot/cmd/store/local_change.h - removes, renames and copies objects of an ssd that is up in this
 * process (boot/cmd/store/local.h).
 */
#ifndef BOOT_CMD_STORE_LOCAL_CHANGE_H
#define BOOT_CMD_STORE_LOCAL_CHANGE_H

#include "boot/cmd/store/local.h"

/* Add these functions to *access, of hr_store_local_open(). */
void hr_store_local_change_open(struct hr_store_access *access);

#endif
