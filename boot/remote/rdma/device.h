/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/remote/rdma/device.h - the port of an RDMA device that has an IPv4 address: RoCE
 * version 2, with the address mapped to IPv6 in the table of its GIDs. Which port that is may
 * change while a link is down, so each connection looks again.
 */
#ifndef BOOT_REMOTE_RDMA_DEVICE_H
#define BOOT_REMOTE_RDMA_DEVICE_H

#include <netinet/in.h>

#include "config/base/limits.h"
#include "boot/remote/rdma/verbs.h"

/*
 * The memory of the slots: slot s begins at base + s * stride. GPU memory has a dma-buf, and functions
 * that access it as workers do; they return 0 or -errno, and have `to` as their first argument.
 */
struct hr_rdma_memory {
	void *base; /* as workers address it; with a dma-buf work requests have this address, too */
	uint64_t bytes; /* whole pages */
	int dmabuf; /* a descriptor of GPU memory (the caller's), or -1: memory of this process */
	uint64_t dmabuf_off; /* of slot 0 in it */
	uint32_t slots, stride;
	/* With a dma-buf, for the loopback: copy bytes of the memory, from byte `at` on, to `data`, or
	 * from it. */
	int (*load)(void *to, uint64_t at, void *data, size_t bytes);
	int (*store)(void *to, uint64_t at, const void *data, size_t bytes);
	/* NULL, or what makes writes of the network device to GPU memory visible to running workers:
	 * called after tiles have arrived, before they are events. */
	int (*flush)(void *to);
	void *to;
};

struct hr_rdma_device {
	struct ibv_context *context;
	char name[HR_NAME_MAX];
	uint8_t port;
	uint32_t gid_index;
	union ibv_gid gid;
	enum ibv_mtu mtu; /* active_mtu */
};

/*
 * Open the device that has the address; name: this one only, or NULL: any. 0: the caller closes it;
 * -ENODEV: none has it, or its port is not active: *e names the devices that are there. -errno.
 */
int hr_rdma_device_open(const struct hr_verbs *verbs, const char *name, struct in_addr address,
			struct hr_rdma_device *device, struct hr_error *e);

void hr_rdma_device_close(const struct hr_verbs *verbs, struct hr_rdma_device *device);

/* ---- the proof that an RDMA device reaches memory, before the
 * memory is used: two queue pairs of the device write a random pattern to its first and its
 * last slot, where it is read as workers read it. For GPU memory also the other direction: the
 * GPU writes, the device reads.
 */

/* 0; -EIO: a pattern does not arrive, or an immediate is lost; errors of the functions of *memory.
 * Waits at most 2 s for each completion. The memory is changed. */
int hr_rdma_loopback(const struct hr_verbs *verbs, const char *name, struct in_addr address,
		     const struct hr_rdma_memory *memory, struct hr_error *e);

#endif
