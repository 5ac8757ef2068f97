/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/memory.h - memory objects of a tap on the host backend: sealed memfds.
 *
 * HR_PLACE_TAP is a range of reserved addresses (gpu/places.h). Each part that other processes map is
 * a memory object of its own in that range, so a consumer of one tap has no descriptor of another
 * tap's memory.
 */
#ifndef GPU_TAP_MEMORY_H
#define GPU_TAP_MEMORY_H

#include <stddef.h>

#include "config/base/error.h"

enum hr_tap_memory_use {
	HR_TAP_READ_ONLY, /* others can map it for reading only, also when they have its descriptor */
	HR_TAP_WRITABLE, /* others can also write */
};

/*
 * Create a memory object of `bytes` (whole pages) zeros, and map it at `at`, which is part of a
 * reservation; its size cannot change any more. All of it is allocated now. Allocates no memory of
 * this process's heap. Returns a descriptor (closed on exec), which the caller owns; or -ENOMEM,
 * -EMFILE, -ENOSYS: the kernel has no seals (before Linux 5.1).
 */
int hr_tap_memory_create(const char *name, void *at, size_t bytes, enum hr_tap_memory_use use,
			 struct hr_error *e);

/* Give the memory at `at` back; its addresses stay reserved. Processes that have mapped the object keep
 * it. No worker accesses it. */
void hr_tap_memory_drop(void *at, size_t bytes);

#endif
