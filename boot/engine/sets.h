/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/sets.h - sets of memory objects for the clients of a tap or a feed on a GPU: each client
 * gets entries and a page that no other process has had.
 *
 * A GPU maps host memory before a launch, and gives it back only after the launch (cuMemHostUnregister
 * waits for its end). So the sets of a run are made before it. A process that a client has given its
 * descriptors to keeps a set that no worker uses any more. Spent sets get new objects when no run goes
 * on.
 */
#ifndef BOOT_ENGINE_SETS_H
#define BOOT_ENGINE_SETS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/error.h"
#include "config/base/limits.h"

/* All zero: none, as on the host backend. */
struct hr_sets {
	uint32_t count;
	uint32_t
		spent; /* sets before this one have been given to clients; the others have objects */
	struct {
		int entries, page; /* descriptors */
	} set[HR_TAP_SETS_MAX];
};

/* Where the sets lie: addresses that are reserved, for `count` sets (up to HR_TAP_SETS_MAX). */
struct hr_sets_range {
	const char *entries_name, *page_name; /* of the objects */
	uint8_t *entries, *pages;
	uint64_t entries_bytes, page_bytes; /* of each */
	uint32_t count;
};

/* Make new objects, which are all zero, for all spent sets; or for all sets when there are none. No
 * worker has the range attached. -ENOMEM, -EMFILE, -ENOSYS, as *e says: fewer sets are spent, or as
 * many. */
int hr_sets_fill(struct hr_sets *sets, const struct hr_sets_range *range, struct hr_error *e);

/* The set of the next client: its number, and the descriptors of entries and page, which stay those of
 * the sets. -EBUSY: all are spent. */
int hr_sets_next(const struct hr_sets *sets, uint32_t *set, int fds[2], struct hr_error *e);

/* A client has got that set: no other one will. */
void hr_sets_spend(struct hr_sets *sets);

/* Close all descriptors: there are no sets. */
void hr_sets_give(struct hr_sets *sets);

#endif
