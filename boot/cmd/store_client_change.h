/*
 * boot/cmd/store_client_change.h - removes, renames and copies objects through the appliance that
 * drives their ssd (boot/cmd/store_client.h).
 */
#ifndef BOOT_CMD_STORE_CLIENT_CHANGE_H
#define BOOT_CMD_STORE_CLIENT_CHANGE_H

#include "boot/cmd/store_client.h"

/* Add these functions to *access, of hr_store_client_open(). */
void hr_store_client_change_open(struct hr_store_access *access);

#endif
