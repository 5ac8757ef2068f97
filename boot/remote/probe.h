/*
 * boot/remote/probe.h - the RDMA device that a link would use: which one it is, and the proof that it
 * reaches memory. For `check` and `post`.
 */
#ifndef BOOT_REMOTE_PROBE_H
#define BOOT_REMOTE_PROBE_H

#include <stddef.h>

#include "boot/remote/link.h"

/* What to probe; all strings are the caller's. */
struct hr_link_probe {
	enum hr_link_side side;
	const char *address;	    /* as hr_link_setup.address */
	const char *device;	    /* the same */
	uint32_t slots, slot_bytes; /* of memory that the probe takes for its time */
	/* NULL, or the memory that is proved in place of that */
	const struct hr_link_memory *memory;
};

/*
 * Find the device, and prove with a loopback that it reaches the memory. text: device,
 * port, GID, MTU and address. 0; -ENOENT, -ENODEV, -EIO, -ENOMEM, -EINVAL as hr_link_open(), in *e.
 */
int hr_link_probe(const struct hr_link_probe *probe, char *text, size_t bytes, struct hr_error *e);

#endif
