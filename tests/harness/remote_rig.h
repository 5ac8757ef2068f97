/*
 * tests/harness/remote_rig.h - an appliance whose memory is up, for tests of the two sides of a stream
 * (boot/engine/remote_sender.h, remote_receiver.h), over the links of tests/fakes/link.h.
 */
#ifndef TESTS_HARNESS_REMOTE_RIG_H
#define TESTS_HARNESS_REMOTE_RIG_H

#include "boot/engine/remote_stream.h"
#include "tests/fakes/shared_gpu.h"

extern struct hr_appliance rig_app;

/* Bring up a configuration as far as its memory. */
void remote_rig_up(const char *text);

/* A stream of run i, as hr_remote_open() begins it. */
void remote_rig_stream(struct hr_remote *r, uint32_t i);

/* Open its link with this memory. */
void remote_rig_link(struct hr_remote *r, const struct hr_link_memory *memory);

/* Memory of a GPU in place of that of the host, and what it replaces. */
struct remote_rig_gpu {
	struct hr_backend gpu, *host;
	struct hr_region tap;
};

/* Put the tiles in the memory of a fake GPU (tests/fakes/shared_gpu.h). ordered: it orders the writes
 * of devices. remote_rig_from_gpu() takes them back. */
void remote_rig_to_gpu(struct remote_rig_gpu *to, const struct hr_part *tiles, bool ordered);
void remote_rig_from_gpu(struct remote_rig_gpu *to);

void remote_rig_down(void);

#endif
