/*
 * gpu/remote/loopback.h - the proof that an RDMA device reaches memory, before the memory is used: two
 * queue pairs of the device write a random pattern to its first and its last slot. GPU memory, which
 * the CPU does not read, is read back by RDMA.
 */
#ifndef GPU_REMOTE_LOOPBACK_H
#define GPU_REMOTE_LOOPBACK_H

#include "gpu/remote/device.h"
#include "gpu/remote/link.h"

/* 0; -EIO: a pattern does not arrive, or an immediate is lost. Waits at most 2 s. The memory is
 * changed. */
int hr_rdma_loopback(const struct hr_verbs *verbs, const char *name, struct in_addr address,
		     const struct hr_link_memory *memory, struct hr_error *e);

#endif
