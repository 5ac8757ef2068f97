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

#endif
