/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/store/store.h - `headrace store`: common parts of its subcommands.
 *
 * Each subcommand runs on one ssd that is up, with its store open (except format), or on access
 * to one (struct hr_store_backend), and returns an exit code after logging any error.
 */
#ifndef BOOT_CMD_STORE_STORE_H
#define BOOT_CMD_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/devices/ssd.h"

/* The command line after the subcommand's name. */
struct hr_store_request {
	const char *config; /* file that names the ssd, or NULL: the ssd is a device string */
	const char *serial; /* required serial number of the disk, or NULL */
	uint32_t nsid;
	uint32_t objects;  /* format: capacity of the object map */
	uint64_t size;	   /* put: bytes to read from a stream; valid with has_size */
	uint64_t older_ns; /* rm --pending: minimum age; 0: any */
	/* put: store shard number `shard` of `shards` (0: the whole file), in rows of row_bytes; shards
	 * begin at multiples of tile_rows rows */
	uint32_t shard, shards, row_bytes, tile_rows;
	bool has_size, force, replace, pending, map_only, quiet, json;
	bool npy;	     /* put: the file is of NumPy; its header is left out */
	bool waits;	     /* for an ssd that another process uses */
	uint64_t wait_ns;    /* at most; 0: without a limit */
	uint64_t timeout_ns; /* deadline of a command of the disk; 0: the default */
	const char *ssd;
	char **arg; /* arguments after the ssd */
	int args;
};

/* Callbacks of the check of a store, and of a copy: a finding (of a check only); and the progress in
 * bytes (false ends it). */
struct hr_store_listener {
	void (*found)(void *arg, bool fault, const char *line);
	bool (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

/*
 * Access to a store: the ssd, up in this process (boot/cmd/store/local.h), or the appliance that
 * drives the ssd (boot/cmd/store_client.h). The functions log errors, and return 0 or an exit code. One
 * object is read or made at a time, from its first byte to its last one.
 */
struct hr_store_backend {
	void *to;	  /* first argument of each function */
	const char *disk; /* name for messages and reports */
	/* hr_transport_identity(), when another process has the image open; else "" */
	const char *identity;

	/* The objects, valid until the next call; and the space. Both may be NULL. */
	int (*map)(void *to, const struct hr_store_object **object, uint32_t *count,
		   struct hr_store_space *space);
	/* Begin to read a finished object; read its next bytes; end, and compare it where it is
	 * stored. */
	int (*get)(void *to, const char *name, struct hr_store_object *object);
	int (*read)(void *to, uint8_t *data, size_t bytes);
	int (*got)(void *to);
	/* Begin an object; write its next bytes (data has room up to a multiple of
	 * HR_STORE_ALIGN); make it a whole one with the checksum of all bytes; or remove it again.
	 * shard: NULL, or its rows without `set`, which finish gets. */
	int (*put)(void *to, const char *name, uint64_t bytes, bool replace,
		   const struct hr_store_shard *shard);
	int (*write)(void *to, uint8_t *data, size_t bytes);
	int (*finish)(void *to, uint32_t crc, uint64_t set);
	void (*undo)(void *to);
	/* Remove the incomplete object of that name, and without `pending` the finished one too; or all
	 * incomplete ones of at least that age, with their number and bytes. */
	int (*remove)(void *to, const char *name, bool pending);
	int (*remove_pending)(void *to, uint64_t older_ns, uint64_t *count, uint64_t *bytes);
	/* Give a finished object another name; make a copy of it with another name, whose record is
	 * *made; the listener's progress may be interrupted. */
	int (*rename)(void *to, const char *name, const char *target, bool replace);
	int (*copy)(void *to, const char *name, const char *target, bool replace,
		    const struct hr_store_listener *listener, struct hr_store_object *made);
	/* Check the store. *faults: number of faults found; *complete: it was checked to the end. */
	int (*verify)(void *to, bool map_only, const struct hr_store_listener *listener,
		      uint32_t *faults, bool *complete);
	/* The command waits for a file: tell the appliance, or find that it has disconnected.
	 * NULL: no appliance is involved. watched: descriptor that is readable after it has
	 * disconnected; -1: none. */
	int (*alive)(void *to);
	int (*watched)(void *to);
};

/*
 * Log the reason of a failed call on an ssd or object, with its remedy: *e, or when that is empty
 * the meaning of err. Returns an exit code.
 */
int hr_store_failed(const struct hr_ssd *ssd, const char *object, int err, struct hr_error *e);

/* ---- `headrace store`: `format` and `unlock` */

int hr_store_cmd_format(struct hr_ssd *ssd, const struct hr_store_request *request);
int hr_store_cmd_unlock(struct hr_ssd *ssd, const struct hr_store_request *request);

/* ---- `headrace store`: `put` and `get` */

int hr_store_cmd_put(struct hr_store_backend *access, const struct hr_store_request *request);
int hr_store_cmd_get(struct hr_store_backend *access, const struct hr_store_request *request);

/* ---- `headrace store`: `rm` */

int hr_store_cmd_rm(struct hr_store_backend *access, const struct hr_store_request *request);

/* ---- `headrace store`: `ls`, `df` and `verify` */

int hr_store_cmd_ls(struct hr_store_backend *access, const struct hr_store_request *request);
int hr_store_cmd_df(struct hr_store_backend *access, const struct hr_store_request *request);
int hr_store_cmd_verify(struct hr_store_backend *access, const struct hr_store_request *request);

/* ---- the ssd that a `headrace store` command names: a device string, or the name
 * of an ssd in a configuration.
 */

/* Fill in *out, and the name of the appliance of the configuration (unchanged without one). 0, or an
 * exit code after the error is logged. */
int hr_store_find_ssd(const struct hr_store_request *request, struct hr_config_ssd *out,
		      char appliance[HR_NAME_MAX]);

/* ---- `headrace store`: `mv` and `cp`, from one name to another one on the same ssd */

int hr_store_cmd_mv(struct hr_store_backend *access, const struct hr_store_request *request);
int hr_store_cmd_cp(struct hr_store_backend *access, const struct hr_store_request *request);

#endif
