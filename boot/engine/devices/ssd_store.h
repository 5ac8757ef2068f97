/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/devices/ssd_store.h - the object store of an ssd: format, open, incomplete objects.
 */
#ifndef BOOT_ENGINE_DEVICES_SSD_STORE_H
#define BOOT_ENGINE_DEVICES_SSD_STORE_H

#include "boot/engine/devices/ssd.h"
#include "cache/store/store.h"

/* ---- the object store of an ssd: format and open. */

/* Open the object store. As hr_store_open(); -ENOTSUP: the ssd keeps no data; -ENOMEM. */
int hr_ssd_open_store(struct hr_ssd *ssd, struct hr_error *e);

/* Write an empty store for `capacity` objects; force as in hr_store_format(). The store is
 * closed afterwards. -ENOTSUP: the ssd keeps no data. */
int hr_ssd_format_store(struct hr_ssd *ssd, uint32_t capacity, bool force, struct hr_error *e);

/*
 * Fill an empty *e with the reason of a failed call on the store, or on an object of it (NULL:
 * none), and with its remedy. Returns err.
 */
int hr_ssd_store_explain(const struct hr_ssd *ssd, const char *object, int err, struct hr_error *e);

/* ---- incomplete objects, left by interrupted runs and `store put`.
 *
 * Only the run that resumes an incomplete sink can use it. Only one process at a time opens a
 * store, so no process is writing an object that is incomplete when the store is opened.
 */

/* After -ENOSPC or -ENFILE: add the size of incomplete objects to *e, and the command that removes
 * them. Does nothing when there are none, or for another error. device: of the ssd, as the
 * command expects it. */
void hr_incomplete_hint(const struct hr_store *store, const char *device, int err,
			struct hr_error *e);

/*
 * Remove incomplete objects that were created more than `age_ns` before now, in one commit; objects
 * with a future time remain. keep: NULL, or true for objects that must remain. *count, *bytes:
 * number and size of the removed objects. 0, or as hr_store_remove().
 */
int hr_incomplete_remove(struct hr_store *store, uint64_t age_ns,
			 bool (*keep)(void *arg, const struct hr_store_object *object), void *arg,
			 uint32_t *count, uint64_t *bytes, struct hr_error *e);

/* True when the object was created more than age_ns before now. */
bool hr_incomplete_is_old(const struct hr_store_object *object, uint64_t age_ns);

#endif
