/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/store/local.h - access to the store of an ssd that is up in this process.
 */
#ifndef BOOT_CMD_STORE_LOCAL_H
#define BOOT_CMD_STORE_LOCAL_H

#include "boot/cmd/store/store.h"

struct hr_store_local {
	struct hr_ssd *ssd;
	struct hr_store_object object; /* that is read or made */
	uint64_t at;		       /* bytes of it that are done */
};

/* Fill in *access. The ssd is up, with its store open, until the last call. */
void hr_store_local_open(struct hr_store_backend *access, struct hr_store_local *local,
			 struct hr_ssd *ssd);

#endif
