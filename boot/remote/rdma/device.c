/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/rdma/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GIDS_MAX 512

/* What was found, for the text of an error. */
struct search {
	const struct hr_verbs *verbs;
	const char *name;
	union ibv_gid gid;
	char seen[256], down[HR_NAME_MAX];
};

static union ibv_gid mapped(struct in_addr address)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	memcpy(gid.raw + 12, &address.s_addr, 4);
	return gid;
}

static const struct ibv_gid_entry *find_gid(const struct search *search,
					    const struct ibv_gid_entry *entry, ssize_t count)
{
	for (ssize_t i = 0; i < count; i++)
		if (entry[i].gid_type == IBV_GID_TYPE_ROCE_V2 && entry[i].port_num <= UINT8_MAX &&
		    entry[i].gid_index <= UINT8_MAX &&
		    memcmp(&entry[i].gid, &search->gid, sizeof(search->gid)) == 0)
			return &entry[i];
	return NULL;
}

static bool has_address(struct search *search, struct hr_rdma_device *device)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	const ssize_t count = search->verbs->query_gid_table(device->context, entries, GIDS_MAX, 0,
							     sizeof(*entries));
	const struct ibv_gid_entry *entry = find_gid(search, entries, count);
	struct ibv_port_attr port;

	if (!entry)
		return false;
	memset(&port, 0, sizeof(port));
	device->port = (uint8_t)entry->port_num;
	device->gid_index = entry->gid_index;
	device->gid = entry->gid;
	if (search->verbs->query_port(device->context, device->port, &port) != 0 ||
	    port.state != IBV_PORT_ACTIVE) {
		snprintf(search->down, sizeof(search->down), "%s", device->name);
		return false;
	}
	device->mtu = port.active_mtu;
	return true;
}

static bool try_device(struct search *search, struct ibv_device *candidate,
		       struct hr_rdma_device *device)
{
	const char *name = search->verbs->get_device_name(candidate);
	const size_t used = strlen(search->seen);

	snprintf(search->seen + used, sizeof(search->seen) - used, "%s%s", used ? ", " : "", name);
	if (search->name && strcmp(search->name, name) != 0)
		return false;
	snprintf(device->name, sizeof(device->name), "%s", name);
	device->context = search->verbs->open_device(candidate);
	if (!device->context)
		return false;
	if (has_address(search, device))
		return true;
	hr_rdma_device_close(search->verbs, device);
	return false;
}

static int not_found(const struct search *search, struct in_addr address, struct hr_error *e)
{
	char text[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &address, text, sizeof(text));
	if (!search->seen[0])
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV, "this machine has no RDMA device");
	if (search->down[0])
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
			       "%s: the port with the address %s is not active", search->down,
			       text);
	return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
		       "no RDMA device%s%s has the address %s (RoCE v2); there are: %s",
		       search->name ? " " : "", search->name ? search->name : "", text,
		       search->seen);
}

int hr_rdma_device_open(const struct hr_verbs *verbs, const char *name, struct in_addr address,
			struct hr_rdma_device *device, struct hr_error *e)
{
	struct search search = { .verbs = verbs, .name = name, .gid = mapped(address) };
	int count = 0;
	struct ibv_device **list;

	memset(device, 0, sizeof(*device));
	list = verbs->get_device_list(&count);
	for (int i = 0; list && i < count; i++) {
		if (try_device(&search, list[i], device))
			break;
	}
	if (list)
		verbs->free_device_list(list);
	return device->context ? 0 : not_found(&search, address, e);
}

void hr_rdma_device_close(const struct hr_verbs *verbs, struct hr_rdma_device *device)
{
	if (device->context)
		verbs->close_device(device->context);
	device->context = NULL;
}
