/*
 * gpu/launch.h - a running launch as a handle: poll it, request its end, wait for it, free it.
 */
#ifndef GPU_LAUNCH_H
#define GPU_LAUNCH_H

#include "gpu/backend.h"

/* 0: still running; 1: all blocks have ended; -errno: as poll of struct hr_backend_ops. */
int hr_launch_poll(struct hr_launch *launch, struct hr_error *e);

/* Write `how` (enum hr_pipe_stop, or 1 for a bench) to the stop word of the launch, which its
 * blocks poll. They end later. The launch must have a stop word. */
void hr_launch_stop(struct hr_launch *launch, uint32_t how);

/* Poll until the launch has ended, at most until `until_ns` on the clock of hr_now_ns(), with
 * pauses of pause_ns. As hr_launch_poll(); 0: it still runs at that time. */
int hr_launch_wait(struct hr_launch *launch, uint64_t until_ns, uint64_t pause_ns,
		   struct hr_error *e);

/* Free the handle of a launch that has ended according to poll; does nothing for NULL. */
void hr_launch_free(struct hr_launch *launch);

#endif
