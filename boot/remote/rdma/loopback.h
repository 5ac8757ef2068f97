/*
 * boot/remote/rdma/loopback.h - the proof that an RDMA device reaches memory, before the
 * memory is used: two queue pairs of the device write a random pattern to its first and its
 * last slot, where it is read as workers read it. For GPU memory also the other direction: the
 * GPU writes, the device reads.
 */
#ifndef BOOT_REMOTE_RDMA_LOOPBACK_H
#define BOOT_REMOTE_RDMA_LOOPBACK_H

#include "boot/remote/rdma/device.h"

/* 0; -EIO: a pattern does not arrive, or an immediate is lost; errors of the functions of *memory.
 * Waits at most 2 s for each completion. The memory is changed. */
int hr_rdma_loopback(const struct hr_verbs *verbs, const char *name, struct in_addr address,
		     const struct hr_link_memory *memory, struct hr_error *e);

#endif
