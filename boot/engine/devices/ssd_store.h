/*
 * boot/engine/devices/ssd_store.h - the object store of an ssd: format and open.
 */
#ifndef BOOT_ENGINE_DEVICES_SSD_STORE_H
#define BOOT_ENGINE_DEVICES_SSD_STORE_H

#include "boot/engine/devices/ssd.h"

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

#endif
