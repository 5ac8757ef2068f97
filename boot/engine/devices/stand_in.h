/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/devices/stand_in.h - an ssd that another process drives, as `headrace check`
 * sees it: facts and objects that the process reports, in place of a controller that is up.
 * Nothing is sent to the device.
 */
#ifndef BOOT_ENGINE_DEVICES_STAND_IN_H
#define BOOT_ENGINE_DEVICES_STAND_IN_H

#include "boot/engine/devices/ssd.h"

/* An ssd that is up. Passed between two processes of one version. */
struct hr_ssd_facts {
	char transport[48], disk[64]; /* names for messages; disk: "" for namespace 1 */
	char model[41], serial[21];
	uint8_t kind; /* enum hr_transport_kind */
	bool keeps_no_data, volatile_cache, read_only, has_store;
	struct hr_ns ns;
	uint32_t max_entries, chunk_bytes;
	uint32_t queues; /* granted to all ssds of the controller */
	uint32_t users;	 /* number of those ssds that are up */
	uint64_t queue_memory_bytes;
	/* With has_store, as in struct hr_store. */
	uint8_t store_uuid[16];
	uint64_t generation, next_id, disk_bytes, data_offset, data_bytes, scratch_offset;
	uint32_t store_capacity;
};

/* How a check reaches the processes that drive ssds. */
struct hr_elsewhere {
	void *to; /* first argument of each function */
	/*
	 * The facts of an ssd that a process of this machine drives, its objects (the callee's,
	 * valid until its next call), and a name of the process for messages. 0; -ENODEV: none does;
	 * or an error of that process, in *e.
	 */
	int (*describe)(void *to, const struct hr_config_ssd *config, struct hr_ssd_facts *facts,
			const struct hr_store_object **object, uint32_t *count, const char **by,
			struct hr_error *e);
	/* Read a part of an object. 0, or an error in *e. */
	int (*read)(void *to, const struct hr_config_ssd *config, const char *object, uint64_t at,
		    void *data, size_t bytes, struct hr_error *e);
};

void hr_ssd_describe(const struct hr_ssd *ssd, struct hr_ssd_facts *facts);

/* False: no ssd has such facts, or not so many objects. */
bool hr_ssd_facts_ok(const struct hr_ssd_facts *facts, uint32_t objects);

/*
 * Bring an ssd up as a stand-in; its store is open when it has one. config and elsewhere remain the
 * caller's, until hr_ssd_down(). peer: NULL, or a stand-in of the same controller. As describe();
 * -EPROTO; -ENOMEM.
 */
int hr_stand_in_up(struct hr_ssd *ssd, const struct hr_config_ssd *config,
		   const struct hr_elsewhere *elsewhere, struct hr_ssd *peer, struct hr_error *e);

/* Name of the process that drives the ssd; NULL: it is up in this process. */
const char *hr_stand_in_by(const struct hr_ssd *ssd);

/* For hr_ssd_down(). */
void hr_stand_in_down(struct hr_ssd *ssd);

#endif
