/*
 * boot/cmd/store/store.h - `headrace store`: what its subcommands share.
 *
 * Each runs on one ssd that is up, with its store open (format excepted), and returns an exit code;
 * what went wrong is logged by then.
 */
#ifndef BOOT_CMD_STORE_STORE_H
#define BOOT_CMD_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/ssd.h"

/* The command line after the subcommand's name. */
struct hr_store_wishes {
	const char
		*config; /* file in which the ssd is named, or NULL: the ssd is a device string */
	const char *serial; /* of the disk that is meant, or NULL */
	uint32_t nsid;
	uint32_t objects;  /* format: room in the object map */
	uint64_t size;	   /* put: bytes to read from a stream; valid with has_size */
	uint64_t older_ns; /* rm --pending: least age; 0: any */
	bool has_size, force, replace, pending, map_only, quiet, json;
	const char *ssd;
	char **arg; /* after the ssd */
	int args;
};

/* Say why a call on an ssd or object failed, unless that was logged. Returns an exit code. */
int hr_store_failed(const struct hr_ssd *ssd, const char *object, int err);

/* The finished object of that name; NULL, with the reason logged: there is none, or not yet. */
const struct hr_object *hr_store_wanted(const struct hr_ssd *ssd, const char *name);

int hr_store_cmd_rm(struct hr_ssd *ssd, const struct hr_store_wishes *wishes);
int hr_store_cmd_put(struct hr_ssd *ssd, const struct hr_store_wishes *wishes);
int hr_store_cmd_get(struct hr_ssd *ssd, const struct hr_store_wishes *wishes);
int hr_store_cmd_ls(struct hr_ssd *ssd, const struct hr_store_wishes *wishes);
int hr_store_cmd_df(struct hr_ssd *ssd, const struct hr_store_wishes *wishes);
int hr_store_cmd_verify(struct hr_ssd *ssd, const struct hr_store_wishes *wishes);

#endif
