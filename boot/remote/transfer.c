/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/seam.h"

void hr_link_queue_event(struct hr_link *link, struct hr_link_event event)
{
	/* hr_link_step() works only while the queue is empty. */
	if (link->events < HR_LINK_EVENTS)
		link->event[link->events++] = event;
}

static int fail_protocol(struct hr_link *link, const char *what)
{
	snprintf(link->text, sizeof(link->text), "the other side has broken the protocol: %s",
		 what);
	return -EPROTO;
}

static void queue_offer(struct hr_link *link, uint32_t slot)
{
	link->post[(link->post_head + link->post_count++) % HR_LINK_SLOTS_MAX] = slot;
}

void hr_link_begin_transfer(struct hr_link *link)
{
	const bool receiver = link->setup.side == HR_LINK_RECEIVER;

	link->sequence_in = link->sequence_out = 0;
	link->post_head = link->post_count = link->unused = 0;
	link->flight_head = link->flight_count = 0;
	for (uint32_t s = 0; s < HR_LINK_SLOTS_MAX; s++) {
		link->slot[s].posted = false;
		if (!receiver)
			link->slot[s].offered = false;
		else if (link->slot[s].offered)
			queue_offer(link, s);
	}
}

void hr_link_end_transfer(struct hr_link *link)
{
	for (; link->flight_count; link->flight_count--) {
		const uint32_t at = link->flight_head++ % HR_LINK_SLOTS_MAX;

		if (link->unsent_count < HR_LINK_SLOTS_MAX)
			link->unsent[link->unsent_count++] = link->in_flight[at].tile;
	}
	link->flight_head = 0;
}

void hr_link_check_end(struct hr_link *link)
{
	if (!link->end_heard || link->end_told || link->have.low < link->end.tiles)
		return;
	link->end_told = true;
	hr_link_queue_event(link, (struct hr_link_event){ .kind = HR_LINK_END,
							  .tile = link->end.tiles,
							  .total = link->end.bytes });
}

/* The sender can still use an offer for the lowest tile that is missing. */
static bool knows_lowest(const struct hr_link *link)
{
	for (uint32_t s = 0; s < link->setup.memory.slots; s++)
		if (link->slot[s].posted && link->slot[s].tile == link->have.low)
			return true;
	return false;
}

/* True: more offers are to come before these are posted, which costs two packets and an event of the
 * sender. The sender has offers left until then. */
static bool gathers(const struct hr_link *link)
{
	const uint32_t slots = link->setup.memory.slots;
	const uint32_t most = slots / 4 < HR_LINK_OFFERS ? slots / 4 : HR_LINK_OFFERS;

	return link->post_count < most && 2 * link->unused >= slots && knows_lowest(link);
}

/* Post one message. */
static int post_offers(struct hr_link *link)
{
	const uint32_t first = link->sequence_out % HR_LINK_SLOTS_MAX;
	struct hr_link_offer_entry offer[HR_LINK_OFFERS];
	uint32_t count = 0;
	int err;

	for (; count < HR_LINK_OFFERS && count < link->post_count &&
	       first + count < HR_LINK_SLOTS_MAX;
	     count++) {
		const uint32_t slot = link->post[(link->post_head + count) % HR_LINK_SLOTS_MAX];

		offer[count] =
			(struct hr_link_offer_entry){ .tile = link->slot[slot].tile,
						      .slot = slot,
						      .sequence = link->sequence_out + count };
		link->slot[slot].posted = true;
	}
	err = hr_rdma_qp_post_write_imm(
		&link->qp, offer, count * (uint32_t)sizeof(offer[0]),
		link->remote_qp.table_address + first * sizeof(offer[0]), link->remote_qp.table_key,
		hr_link_immediate(HR_LINK_IMM_OFFER, link->generation, count, link->sequence_out));
	if (err) {
		snprintf(link->text, sizeof(link->text), "%s: cannot post a request: %s",
			 link->qp.device.name, strerror(-err));
		return err;
	}
	link->sends_ns = link->now_ns;
	link->post_head = (link->post_head + count) % HR_LINK_SLOTS_MAX;
	link->post_count -= count;
	link->sequence_out += count;
	link->unused += count;
	return 0;
}

int hr_link_post_offers(struct hr_link *link)
{
	int err = 0;

	while (!err && link->post_count && hr_rdma_qp_has_room(&link->qp, 1) && !gathers(link))
		err = post_offers(link);
	return err;
}

int hr_link_offer(struct hr_link *link, uint32_t slot, uint64_t tile)
{
	if (link->setup.side != HR_LINK_RECEIVER || slot >= link->setup.memory.slots ||
	    tile >= link->setup.tiles)
		return -EINVAL;
	if (link->slot[slot].offered || hr_tileset_has(&link->have, tile))
		return -EALREADY;
	if (tile - link->have.low >= HR_LINK_WINDOW)
		return -ERANGE;
	for (uint32_t s = 0; s < link->setup.memory.slots; s++)
		if (link->slot[s].offered && link->slot[s].tile == tile)
			return -EALREADY;
	link->slot[slot] = (struct hr_link_slot){ .tile = tile, .offered = true };
	if (link->state == HR_LINK_STATE_UP)
		queue_offer(link, slot);
	return 0;
}

/* The receiver's slot that is offered for the tile, or HR_LINK_SLOTS_MAX. */
static uint32_t find_offer(const struct hr_link *link, uint64_t tile)
{
	for (uint32_t s = 0; s < link->remote_qp.slots; s++)
		if (link->slot[s].offered && link->slot[s].tile == tile)
			return s;
	return HR_LINK_SLOTS_MAX;
}

static int post_tile(struct hr_link *link, uint32_t from, uint32_t to, uint32_t bytes)
{
	const uint32_t immediate =
		hr_link_immediate(HR_LINK_IMM_TILE, link->generation, to, link->sequence_out);

	return hr_rdma_qp_post_write(&link->qp, (uint64_t)from * link->setup.memory.stride, bytes,
				     link->remote_qp.tile_address +
					     (uint64_t)to * link->remote_qp.stride,
				     link->remote_qp.tile_key, &immediate);
}

static bool in_flight(const struct hr_link *link, uint64_t tile, uint32_t slot)
{
	for (uint32_t i = 0; i < link->flight_count; i++) {
		const struct hr_link_write *f =
			&link->in_flight[(link->flight_head + i) % HR_LINK_SLOTS_MAX];

		if (f->tile == tile || f->slot == slot)
			return true;
	}
	return false;
}

int hr_link_send(struct hr_link *link, uint32_t slot, uint64_t tile, uint32_t bytes)
{
	uint64_t number;
	uint32_t to;

	if (link->setup.side != HR_LINK_SENDER || slot >= link->setup.memory.slots || !bytes ||
	    bytes > link->setup.tile_bytes || tile >= link->setup.tiles)
		return -EINVAL;
	if (link->state != HR_LINK_STATE_UP)
		return -ENOTCONN;
	if (hr_tileset_has(&link->have, tile))
		return -EALREADY;
	if (in_flight(link, tile, slot))
		return -EINVAL;
	to = find_offer(link, tile);
	if (to == HR_LINK_SLOTS_MAX || link->flight_count == link->depth ||
	    !hr_rdma_qp_has_room(&link->qp, 1))
		return -EAGAIN;
	number = link->qp.number;
	if (post_tile(link, slot, to, bytes) != 0) {
		/* The next step finds the queue pair in its error state. */
		hr_rdma_qp_to_error(&link->qp);
		return -ENOTCONN;
	}
	link->slot[to].offered = false;
	link->sequence_out++;
	link->sends_ns = link->now_ns;
	link->in_flight[(link->flight_head + link->flight_count++) % HR_LINK_SLOTS_MAX] =
		(struct hr_link_write){
			.tile = tile, .number = number, .slot = slot, .bytes = bytes
		};
	return 0;
}

static int read_offer(struct hr_link *link)
{
	struct hr_link_offer_entry offer;

	memcpy(&offer,
	       (const uint8_t *)link->table + link->sequence_in % HR_LINK_SLOTS_MAX * sizeof(offer),
	       sizeof(offer));
	if (offer.slot >= link->remote_qp.slots || offer.sequence != link->sequence_in)
		return fail_protocol(link, "an offer for another slot");
	if (link->slot[offer.slot].offered)
		return fail_protocol(link, "a slot is offered twice");
	/* The receiver may say more than this side knows already, never more than its window. */
	if (hr_tileset_has(&link->have, offer.tile) ||
	    offer.tile - link->have.low >= HR_TILESET_WINDOW)
		return fail_protocol(link, "an offer for a tile out of its window");
	link->sequence_in++;
	link->slot[offer.slot] = (struct hr_link_slot){ .tile = offer.tile, .offered = true };
	hr_link_queue_event(link,
			    (struct hr_link_event){ .kind = HR_LINK_OFFERED, .tile = offer.tile });
	return 0;
}

static int read_offers(struct hr_link *link, uint32_t count)
{
	int err = 0;

	if (!count || count > HR_LINK_OFFERS)
		return fail_protocol(link, "a wrong number of offers");
	while (!err && count--)
		err = read_offer(link);
	return err;
}

/* A tile of so many bytes was written to the slot. */
static int accept_tile(struct hr_link *link, uint32_t slot, uint32_t bytes)
{
	struct hr_link_slot *at = &link->slot[slot];

	if (slot >= link->setup.memory.slots)
		return fail_protocol(link, "a tile for another slot");
	if (!at->offered || !at->posted)
		return fail_protocol(link, "a tile that the slot was not offered for");
	if (!bytes || bytes > link->setup.tile_bytes)
		return fail_protocol(link, "a tile with a wrong size");
	if (hr_tileset_add(&link->have, at->tile) != 0)
		return fail_protocol(link, "a tile that has arrived already");
	link->sequence_in++;
	link->unused--;
	at->offered = at->posted = false;
	link->count.tiles++;
	link->count.bytes += bytes;
	hr_link_queue_event(link, (struct hr_link_event){ .kind = HR_LINK_RECEIVED,
							  .slot = slot,
							  .bytes = bytes,
							  .tile = at->tile });
	hr_link_check_end(link);
	return 0;
}

/* Writes of the network device to GPU memory are visible to workers only after this. */
static int flush_gpu_writes(struct hr_link *link)
{
	const struct hr_rdma_memory *memory = &link->setup.memory;
	int err;

	if (!memory->flush)
		return 0;
	err = memory->flush(memory->to);
	link->count.flushes++;
	if (err)
		snprintf(link->text, sizeof(link->text), "cannot flush writes to GPU memory: %s",
			 strerror(err < 0 ? -err : EIO));
	return err;
}

static int handle_immediate(struct hr_link *link, const struct hr_rdma_completion *done)
{
	const bool sender = link->setup.side == HR_LINK_SENDER;
	uint32_t slot;
	int err = -EPROTO;

	if (done->has_immediate)
		err = hr_link_immediate_check(done->immediate,
					      sender ? HR_LINK_IMM_OFFER : HR_LINK_IMM_TILE,
					      link->remote_qp.generation, link->sequence_in, &slot);
	if (err)
		return fail_protocol(link, "an immediate out of sequence");
	/* Before the slot can be offered again, so the other side always finds a receive. */
	if (link->state == HR_LINK_STATE_UP || link->state == HR_LINK_STATE_CONNECTING) {
		err = hr_rdma_qp_post_recv(&link->qp, 1);
		if (err)
			return fail_protocol(link, "cannot post a receive");
	}
	if (sender)
		return read_offers(link, slot);
	err = flush_gpu_writes(link);
	return err ? err : accept_tile(link, slot, done->bytes);
}

/* What a receiver sends are offers: their completions only show that none is lost. */
static int complete_send(struct hr_link *link, uint64_t number)
{
	const struct hr_link_write *f = &link->in_flight[link->flight_head];

	link->sends_ns = link->now_ns;
	if (link->setup.side == HR_LINK_RECEIVER)
		return 0;
	if (!link->flight_count || f->number != number) {
		snprintf(link->text, sizeof(link->text), "%s: a completion is lost",
			 link->qp.device.name);
		return -EIO;
	}
	link->flight_head = (link->flight_head + 1) % HR_LINK_SLOTS_MAX;
	link->flight_count--;
	hr_tileset_add(&link->have, f->tile);
	link->count.tiles++;
	link->count.bytes += f->bytes;
	hr_link_queue_event(link, (struct hr_link_event){ .kind = HR_LINK_SENT,
							  .slot = f->slot,
							  .bytes = f->bytes,
							  .tile = f->tile });
	return 0;
}

static int fail_completion(struct hr_link *link, const struct hr_rdma_completion *done)
{
	if (done->status == IBV_WC_RNR_RETRY_EXC_ERR)
		link->count.not_ready++;
	snprintf(link->text, sizeof(link->text), "%s: %s", link->qp.device.name,
		 link->verbs.wc_status_str(done->status));
	return -EIO;
}

int hr_link_poll_cq(struct hr_link *link)
{
	struct hr_rdma_completion done;
	int n = hr_rdma_qp_poll(&link->qp, &done), err = 0;

	if (n < 0) {
		snprintf(link->text, sizeof(link->text), "%s: cannot poll for completions",
			 link->qp.device.name);
		return n;
	}
	if (!n)
		return 0;
	if (done.status != IBV_WC_SUCCESS)
		err = fail_completion(link, &done);
	else if (done.receive)
		err = handle_immediate(link, &done);
	else
		err = complete_send(link, done.number);
	return err ? err : 1;
}

/* ---- the queue pair of a connection, and OPEN */

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
