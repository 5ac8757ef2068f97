/*
 * gpu/remote/device.h - the port of an RDMA device that has an IPv4 address: RoCE version 2, with the
 * address mapped to IPv6 in the table of its GIDs. Which port that is may change while a link is
 * down, so each connection looks again.
 */
#ifndef GPU_REMOTE_DEVICE_H
#define GPU_REMOTE_DEVICE_H

#include <netinet/in.h>

#include "config/limits.h"
#include "gpu/remote/verbs.h"

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

#endif
