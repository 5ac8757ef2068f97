/*
 * gpu/host/host.h - the host backend: one thread per worker block, started at open and parked.
 */
#ifndef GPU_HOST_HOST_H
#define GPU_HOST_HOST_H

#include "gpu/backend.h"

/*
 * Start max_blocks parked threads that may use `cpus` of the CPUs this process may use.
 * 0; -ENOMEM, -EAGAIN: no threads; with message (HR_LOG_LINE_MAX bytes), which is not touched on
 * success.
 */
int hr_host_open(struct hr_backend *b, unsigned cpus, uint32_t max_blocks, char *message);

/*
 * From now on alloc_peer gives memory of a BAR: bar is "BDF" or "BDF/N". On error the backend is
 * closed. As hr_barmem_open().
 */
int hr_host_use_bar(struct hr_backend *b, const char *bar, char *message);

/* True when bar is well formed. */
bool hr_host_bar_check(const char *bar);

#endif
