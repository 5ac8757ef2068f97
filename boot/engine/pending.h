/*
 * boot/engine/pending.h - incomplete objects: what runs and puts that were cut short have left.
 *
 * An incomplete sink is worth something to the run that goes on with it, and to no other. Only one
 * process at a time has a store, so what is incomplete when a store is opened is at rest.
 */
#ifndef BOOT_ENGINE_PENDING_H
#define BOOT_ENGINE_PENDING_H

#include "boot/engine/stages.h"

/* After -ENOSPC or -ENFILE: log how much incomplete objects hold, and the command that removes them;
 * nothing when there are none, or with another error. device: of the ssd, as the command takes it. */
void hr_pending_hint(const struct hr_store *store, const char *device, int err);

/*
 * Remove incomplete objects that were begun more than `age_ns` before now, in one commit; objects of
 * the future stay. keep: NULL, or says which stay in any case. *count, *bytes: what was removed.
 * 0, or as hr_store_remove().
 */
int hr_pending_remove(struct hr_store *store, uint64_t age_ns,
		      bool (*keep)(void *arg, const struct hr_object *object), void *arg,
		      uint32_t *count, uint64_t *bytes);

/* The object was begun more than age_ns before now. */
bool hr_pending_is_old(const struct hr_object *object, uint64_t age_ns);

/*
 * With app->collect_ns: remove what is older on all ssds, except the objects that a pipeline of the
 * configuration writes and would go on with. Logs what went. After `objects`.
 */
int hr_pending_collect(struct hr_appliance *app);

#endif
