/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/lend/memory.h - the descriptors of WELCOME (gpu/tap/protocol.h): memory objects that
 * are made for one consumer or producer, on the host backend, or sets of the bring-up, on a GPU
 * (boot/engine/sets.h).
 */
#ifndef BOOT_APPLIANCE_LEND_MEMORY_H
#define BOOT_APPLIANCE_LEND_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/sets.h"
#include "config/base/error.h"
#include "gpu/tap/memory.h"

struct hr_lend_object {
	const char *name; /* for the kernel's lists of mappings */
	void *at;	  /* reserved addresses */
	uint64_t bytes;	  /* whole pages */
	enum hr_tap_memory_use use;
};

/* Make and map all of them: an earlier client may still have its own mapped. 0, and the caller owns
 * fds[count]; or an error of hr_tap_memory_create(): none is there. */
int hr_lend_memory_make(const struct hr_lend_object *object, unsigned count, int *fds,
			struct hr_error *e);

/* Unmap them; their addresses stay reserved. No worker accesses them. */
void hr_lend_memory_drop(const struct hr_lend_object *object, unsigned count);

/* The client has got the descriptors (sent), or not. sets: these are of the next set, which is spent
 * then; NULL: of hr_lend_memory_make(), and they are closed. */
void hr_lend_memory_sent(struct hr_sets *sets, const int *fds, unsigned count, bool sent);

#endif
