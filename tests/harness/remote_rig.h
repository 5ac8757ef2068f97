/*
 * tests/harness/remote_rig.h - an appliance whose memory is up, for tests of the two sides of a stream
 * (boot/engine/remote_sender.h, remote_receiver.h), over the links of tests/fakes/link.h.
 */
#ifndef TESTS_HARNESS_REMOTE_RIG_H
#define TESTS_HARNESS_REMOTE_RIG_H

#include "boot/engine/remote_stream.h"

extern struct hr_appliance rig_app;

/* Bring up a configuration as far as its memory. */
void remote_rig_up(const char *text);

/* A stream of run i, as hr_remote_open() begins it. */
void remote_rig_stream(struct hr_remote *r, uint32_t i);

/* Open its link with this memory. */
void remote_rig_link(struct hr_remote *r, const struct hr_link_memory *memory);

void remote_rig_down(void);

#endif
