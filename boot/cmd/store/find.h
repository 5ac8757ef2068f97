/*
 * boot/cmd/store/find.h - the ssd that a `headrace store` command names: a device string, or the name
 * of an ssd in a configuration.
 */
#ifndef BOOT_CMD_STORE_FIND_H
#define BOOT_CMD_STORE_FIND_H

#include "boot/cmd/store/store.h"

/* Fill in *out, and the name of the appliance of the configuration (unchanged without one). 0, or an
 * exit code after the error is logged. */
int hr_store_find_ssd(const struct hr_store_request *request, struct hr_config_ssd *out,
		      char appliance[HR_NAME_MAX]);

#endif
