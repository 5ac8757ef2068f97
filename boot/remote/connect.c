#include "boot/remote/internal.h"

#include <stdio.h>
#include <string.h>

#include "config/base/seam.h"

/* Receives beside those for slots. */
#define SPARE 8u

int hr_link_make_qp(struct hr_link *link, struct hr_error *e)
{
	const bool sender = link->setup.side == HR_LINK_SENDER;
	const struct hr_rdma_qp_setup setup = {
		.memory = &link->setup.memory,
		.tile_access = sender ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		.table = link->table,
		.table_bytes = HR_LINK_TABLE_BYTES,
		.sends = 2 * (sender ? link->depth : link->setup.memory.slots) + 2,
		.receives = HR_LINK_SLOTS_MAX + SPARE,
	};
	struct hr_rdma_device device;
	int err = hr_rdma_device_open(&link->verbs, link->device_name[0] ? link->device_name : NULL,
				      link->local, &device, e);

	if (!err)
		err = hr_rdma_qp_create(&link->qp, &link->verbs, &device, &setup, e);
	if (!err)
		err = hr_random(&link->psn, sizeof(link->psn));
	link->psn &= 0xffffff;
	if (!err)
		err = hr_rdma_qp_post_recv(&link->qp, sender ? link->remote_qp.slots + SPARE
							     : link->setup.memory.slots + SPARE);
	if (!err) {
		hr_link_epoll_add(link, link->qp.channel->fd, HR_LINK_READABLE_CQ);
		link->generation++;
	}
	return err;
}

int hr_link_send_open(struct hr_link *link)
{
	const bool sender = link->setup.side == HR_LINK_SENDER;
	struct hr_link_qp_info opening = {
		.generation = link->generation,
		.tile_address = sender ? 0 : link->qp.tile_base,
		.table_address = (uint64_t)(uintptr_t)link->table,
		.low = sender ? 0 : link->have.low,
		.qp = link->qp.qp->qp_num,
		.psn = link->psn,
		.tile_key = sender ? 0 : link->qp.tiles->rkey,
		.table_key = link->qp.table->rkey,
		.slots = link->setup.memory.slots,
		.stride = link->setup.memory.stride,
		.mtu = link->qp.device.mtu,
	};

	memcpy(opening.gid, link->qp.device.gid.raw, sizeof(opening.gid));
	for (unsigned i = 0; !sender && i < HR_LINK_WINDOW; i++)
		if (hr_tileset_has(&link->have, link->have.low + i))
			opening.has[i / 64] |= 1ull << (i % 64);
	return hr_tcp_send(&link->tcp, HR_LINK_OPEN, &opening, link->now_ns);
}

int hr_link_connect_qp(struct hr_link *link, struct hr_error *e)
{
	struct hr_rdma_remote_qp peer = { .qp = link->remote_qp.qp,
					  .psn = link->remote_qp.psn,
					  .mtu = (enum ibv_mtu)link->remote_qp.mtu };

	memcpy(peer.gid, link->remote_qp.gid, sizeof(peer.gid));
	return hr_rdma_qp_connect(&link->qp, &peer, link->psn, e);
}

bool hr_link_receive_open(struct hr_link *link, const struct hr_link_qp_info *opening)
{
	struct hr_tileset has = { 0 };
	uint64_t tile;

	hr_tileset_raise(&has, opening->low);
	for (unsigned i = 1; i < HR_LINK_WINDOW; i++)
		if (opening->has[i / 64] >> (i % 64) & 1)
			hr_tileset_add(&has, opening->low + i);
	if (hr_tileset_lost(&link->have, &has, &tile)) {
		snprintf(link->text, sizeof(link->text),
			 "the receiver has lost tile %llu, which this run has given back; it needs "
			 "another run",
			 (unsigned long long)tile);
		return false;
	}
	link->have = has;
	return true;
}
