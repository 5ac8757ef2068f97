#include "boot/remote/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "boot/remote/rdma/device.h"
#include "boot/remote/tcp.h"

/* The address of this machine that the link would have. */
static int find_local(const struct hr_link_probe *probe, struct in_addr *local, struct hr_error *e)
{
	struct sockaddr_in address;
	const int err = hr_tcp_parse_address(probe->address, &address, e);

	if (!err && probe->side == HR_LINK_SENDER)
		return hr_tcp_local_address(&address, local, e);
	*local = address.sin_addr;
	return err;
}

static int describe_rdma_device(const struct hr_verbs *verbs, const struct hr_link_probe *probe,
				struct in_addr local, char *text, size_t bytes, struct hr_error *e)
{
	char gid[INET6_ADDRSTRLEN], address[INET_ADDRSTRLEN];
	struct hr_rdma_device device;
	const int err = hr_rdma_device_open(verbs, probe->device, local, &device, e);

	if (err)
		return err;
	inet_ntop(AF_INET6, device.gid.raw, gid, sizeof gid);
	inet_ntop(AF_INET, &local, address, sizeof address);
	/* IBV_MTU_256 is 1 */
	snprintf(text, bytes, "%s port %u, GID %u %s, MTU %u, address %s", device.name, device.port,
		 device.gid_index, gid, 128u << device.mtu, address);
	hr_rdma_device_close(verbs, &device);
	return 0;
}

static int prove(const struct hr_verbs *verbs, const struct hr_link_probe *probe,
		 struct in_addr local, struct hr_error *e)
{
	struct hr_rdma_memory memory = { .bytes = (uint64_t)probe->slots * probe->slot_bytes,
					 .dmabuf = -1,
					 .slots = probe->slots,
					 .stride = probe->slot_bytes };
	int err;

	if (probe->memory)
		return hr_rdma_loopback(verbs, probe->device, local, probe->memory, e);
	memory.base = mmap(NULL, memory.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	if (memory.base == MAP_FAILED)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "out of memory for %u slots",
			       probe->slots);
	err = hr_rdma_loopback(verbs, probe->device, local, &memory, e);
	munmap(memory.base, memory.bytes);
	return err;
}

int hr_link_probe(const struct hr_link_probe *probe, char *text, size_t bytes, struct hr_error *e)
{
	struct hr_verbs verbs;
	struct in_addr local;
	int err = find_local(probe, &local, e);

	if (err)
		return err;
	err = hr_verbs_load(&verbs, e);
	if (err)
		return err;
	err = describe_rdma_device(&verbs, probe, local, text, bytes, e);
	if (!err)
		err = prove(&verbs, probe, local, e);
	hr_verbs_unload(&verbs);
	return err;
}
