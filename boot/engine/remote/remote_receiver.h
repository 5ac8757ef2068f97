/*
 * boot/engine/remote/remote_receiver.h - the receiver of a stream: the only producer of the
 * feed of its run. It commits the tiles that come over the link. For boot/engine/remote/remote.c.
 */
#ifndef BOOT_ENGINE_REMOTE_REMOTE_RECEIVER_H
#define BOOT_ENGINE_REMOTE_REMOTE_RECEIVER_H

#include "boot/engine/remote/stream.h"

/* Make the memory of the producer, before the link is open, and describe the tiles. On a GPU all
 * memory is there. -ENOMEM, -EMFILE, -ENOSYS; errors of hr_remote_gpu_open(); in *e. */
int hr_remote_receiver_memory(struct hr_appliance *app, struct hr_remote *r,
			      struct hr_link_memory *memory, struct hr_error *e);

/* Give it back; the link is closed. */
void hr_remote_receiver_forget(struct hr_remote *r);

/* The run is about to be launched: give the worker its order. */
void hr_remote_receiver_begin(struct hr_remote *r);

/* In the thread, while the run runs: move what can be moved. True: something was done. */
bool hr_remote_receiver_step(struct hr_remote *r);

/* In the thread: an event of the link. */
void hr_remote_receiver_event(struct hr_remote *r, const struct hr_link_event *event);

#endif
