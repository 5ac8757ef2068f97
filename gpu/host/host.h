/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/host/host.h - the host backend: one thread per worker block, started at open; it waits
 * between launches.
 */
#ifndef GPU_HOST_HOST_H
#define GPU_HOST_HOST_H

#include "config/base/error.h"
#include "gpu/backend.h"

/*
 * Start max_blocks threads, which may run on `cpus` of the CPUs of this process. 0; -ENOMEM,
 * -EAGAIN: no threads. *e is unchanged on success.
 */
int hr_host_open(struct hr_backend *b, unsigned cpus, uint32_t max_blocks, struct hr_error *e);

/*
 * From now on alloc_peer allocates in a BAR: bar is "BDF" or "BDF/N". On error the backend is
 * closed. Errors as hr_barmem_open().
 */
int hr_host_use_bar(struct hr_backend *b, const char *bar, struct hr_error *e);

/* True when bar is well formed. */
bool hr_host_bar_check(const char *bar);

#endif
