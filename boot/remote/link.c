/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/process.h"
#include "config/base/seam.h"
#include "boot/remote/internal.h"
#include "boot/remote/rdma/device.h"
#include "boot/remote/tcp.h"

#define DEPTH_DEFAULT 8u
#define DEAD_DEFAULT_NS HR_NS_PER_S
/* A gap between two steps counts as at most this share of dead_ns, so a limit that has passed was
 * passed in several steps, and in each of them the other side had nothing to say. */
#define GAPS 8u
/* One call does at most so much before it returns. */
#define WORK_MAX 64u

static int check_link_setup(const struct hr_link_setup *setup, struct hr_error *e)
{
	const struct hr_rdma_memory *m = &setup->memory;

	if (!m->slots || m->slots > HR_LINK_SLOTS_MAX || !setup->tile_bytes ||
	    setup->tile_bytes > HR_TILE_MAX || m->stride < setup->tile_bytes ||
	    (uint64_t)m->slots * m->stride > m->bytes || m->stride < HR_RDMA_INLINE ||
	    !setup->tiles || setup->tiles > UINT64_MAX / 2 || setup->depth > HR_LINK_SLOTS_MAX ||
	    !m->base || (m->dmabuf >= 0 && (!m->load || !m->store)) ||
	    setup->allowed_count > HR_REMOTE_ALLOWED_MAX)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "link %s: slots, tiles or memory out of range", setup->name);
	if (!setup->name[0] || strlen(setup->name) >= HR_NAME_MAX)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL, "link: the name has 1 to %u characters",
			       HR_NAME_MAX - 1);
	return 0;
}

static int find_addresses(struct hr_link *link, struct hr_error *e)
{
	int err = hr_tcp_parse_address(link->setup.address, &link->address, e);

	if (err)
		return err;
	if (link->setup.side == HR_LINK_SENDER)
		return hr_tcp_local_address(&link->address, &link->local, e);
	link->local = link->address.sin_addr;
	return 0;
}

static int open_sockets(struct hr_link *link, struct hr_error *e)
{
	int err;

	link->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (link->epoll < 0)
		return hr_fail(e, HR_ERROR_FAILED, -errno, "link %s: %s", link->setup.name,
			       strerror(errno));
	if (link->setup.side == HR_LINK_SENDER)
		return 0;
	for (uint32_t i = 0; i < link->setup.allowed_count; i++)
		if (inet_pton(AF_INET, link->setup.allowed[i], &link->allowed_address[i]) != 1)
			return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
				       "link %s: '%s' is no IPv4 address of a peer",
				       link->setup.name, link->setup.allowed[i]);
	link->listener = hr_tcp_listen(&link->address, e);
	if (link->listener < 0)
		return link->listener;
	err = hr_link_epoll_add(link, link->listener, HR_LINK_READABLE_LISTENER);
	if (err)
		return hr_fail(e, HR_ERROR_FAILED, err, "link %s: %s", link->setup.name,
			       strerror(-err));
	return 0;
}

static int make_self(struct hr_link *link)
{
	const struct hr_link_setup *setup = &link->setup;

	memcpy(link->key, setup->key, sizeof(link->key));
	hr_auth_wipe(link->setup.key, sizeof(link->setup.key));
	link->self.key = link->key;
	link->self.hello = (struct hr_link_hello){ .version = HR_LINK_VERSION,
						   .side = (uint32_t)setup->side,
						   .tiles = setup->tiles,
						   .tile_bytes = setup->tile_bytes };
	snprintf(link->self.hello.name, sizeof(link->self.hello.name), "%s", setup->name);
	link->setup.name = link->self.hello.name;
	return hr_random(&link->self.hello.instance, sizeof(link->self.hello.instance));
}

static int open_all(struct hr_link *link, struct hr_error *e)
{
	int err = make_self(link);

	if (err)
		return hr_fail(e, HR_ERROR_FAILED, err, "link: no random numbers: %s",
			       strerror(-err));
	err = find_addresses(link, e);
	if (!err)
		err = hr_verbs_load(&link->verbs, e);
	if (!err)
		err = hr_rdma_loopback(&link->verbs,
				       link->device_name[0] ? link->device_name : NULL, link->local,
				       &link->setup.memory, e);
	if (!err)
		err = open_sockets(link, e);
	if (err)
		return err;
	link->table = mmap(NULL, HR_LINK_TABLE_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (link->table != MAP_FAILED)
		return 0;
	link->table = NULL;
	return hr_fail(e, HR_ERROR_FAILED, -ENOMEM, "link %s: no memory", link->setup.name);
}

int hr_link_open(struct hr_link **out, const struct hr_link_setup *setup, struct hr_error *e)
{
	struct hr_link *link;
	int err = check_link_setup(setup, e);

	if (err)
		return err;
	link = calloc(1, sizeof(*link));
	if (!link)
		return hr_fail(e, HR_ERROR_FAILED, -ENOMEM, "link %s: no memory", setup->name);
	hr_not_dumped(link, sizeof(*link)); /* it has the keys */
	link->setup = *setup;
	link->depth = setup->depth ? setup->depth : DEPTH_DEFAULT;
	link->dead_ns = setup->dead_ns ? setup->dead_ns : DEAD_DEFAULT_NS;
	link->epoll = link->listener = link->tcp.fd = -1;
	for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++)
		link->unproved[i].fd = -1;
	if (setup->device)
		snprintf(link->device_name, sizeof(link->device_name), "%s", setup->device);
	err = open_all(link, e);
	link->setup.device = NULL;
	link->setup.address = NULL;
	link->setup.allowed = NULL;
	if (err) {
		hr_link_close(link);
		return err;
	}
	*out = link;
	return 0;
}

static void count_time(struct hr_link *link, uint64_t now_ns)
{
	const uint64_t passed = link->counted_ns ? now_ns - link->counted_ns : 0;
	const uint64_t most = link->dead_ns / GAPS;

	if (link->state == HR_LINK_STATE_UP)
		link->count.up_ns += passed;
	else
		link->count.down_ns += passed;
	if (!link->counted_ns)
		link->now_ns = link->lost_ns = link->since_ns = now_ns;
	link->now_ns += passed < most ? passed : most;
	link->counted_ns = now_ns;
}

static bool pop_event(struct hr_link *link, struct hr_link_event *event, struct hr_error *e)
{
	if (!link->events)
		return false;
	*event = link->event[0];
	memmove(link->event, link->event + 1, --link->events * sizeof(*link->event));
	if (event->kind == HR_LINK_FAILED && e && e->kind == HR_ERROR_NONE)
		*e = link->failure;
	return true;
}

bool hr_link_step(struct hr_link *link, uint64_t now_ns, struct hr_link_event *event,
		  struct hr_error *e)
{
	unsigned work = 0;

	*event = (struct hr_link_event){ .kind = HR_LINK_NOTHING };
	if (pop_event(link, event, e))
		return true;
	count_time(link, now_ns);
	while (hr_link_advance(link) && !link->events && ++work < WORK_MAX)
		;
	return pop_event(link, event, e) || work == WORK_MAX;
}

int hr_link_fd(const struct hr_link *link)
{
	return link->epoll;
}

bool hr_link_receiver_has(const struct hr_link *link, uint64_t tile)
{
	return hr_tileset_has(&link->have, tile);
}

void hr_link_end(struct hr_link *link, uint64_t tiles, uint64_t bytes)
{
	if (link->setup.side != HR_LINK_SENDER)
		return;
	link->end_known = true;
	link->end = (struct hr_link_stream_size){ .tiles = tiles, .bytes = bytes };
	hr_link_send_news(link);
}

void hr_link_set_durable(struct hr_link *link, uint64_t tile)
{
	if (link->setup.side == HR_LINK_RECEIVER)
		hr_tileset_raise(&link->have, tile);
}

void hr_link_report_result(struct hr_link *link, int code, const char *text)
{
	if (link->done_set)
		return;
	link->done_set = true;
	link->done.code = code < 0 || code > HR_ERROR_DEVICE ? HR_ERROR_FAILED : (uint32_t)code;
	snprintf(link->done.text, sizeof(link->done.text), "%s", text ? text : "");
	for (char *at = link->done.text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = ' ';
	hr_link_send_news(link);
}

bool hr_link_both_ended(const struct hr_link *link)
{
	return link->state == HR_LINK_STATE_ENDED;
}

uint16_t hr_link_port(const struct hr_link *link)
{
	return ntohs(link->address.sin_port);
}

struct hr_link_counters hr_link_read_counters(const struct hr_link *link)
{
	return link->count;
}

const char *hr_link_describe(struct hr_link *link)
{
	static const char *const state[] = {
		[HR_LINK_STATE_DOWN] = "down",		[HR_LINK_STATE_HANDSHAKE] = "greeting",
		[HR_LINK_STATE_CONNECTING] = "opening", [HR_LINK_STATE_UP] = "flow",
		[HR_LINK_STATE_DRAINING] = "broken",	[HR_LINK_STATE_ENDED] = "ended",
		[HR_LINK_STATE_FAILED] = "failed",
	};
	const bool sender = link->setup.side == HR_LINK_SENDER;
	const struct hr_rdma_device *device = &link->qp.device;
	char local[INET_ADDRSTRLEN], other[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &link->local, local, sizeof(local));
	inet_ntop(AF_INET, sender ? &link->address.sin_addr : &link->tcp.remote_address.sin_addr,
		  other, sizeof(other));
	snprintf(link->description, sizeof(link->description), "%s port %u, %s%s%s:%u, %s",
		 device->name[0] ? device->name : "no device", device->port, local,
		 sender ? " -> " : " <- ", other,
		 ntohs(sender ? link->address.sin_port : link->tcp.remote_address.sin_port),
		 state[link->state]);
	return link->description;
}

/* Collect the completions, so that the other side's last tiles are counted and nothing is in flight. */
static void drain(struct hr_link *link)
{
	const uint64_t end = hr_now_ns() + HR_NS_PER_S;
	struct hr_rdma_completion done;

	hr_rdma_qp_to_error(&link->qp);
	while (link->qp.qp && !hr_rdma_qp_drained(&link->qp) && hr_now_ns() < end)
		if (hr_rdma_qp_poll(&link->qp, &done) <= 0)
			hr_wait_ns(100000);
	hr_rdma_qp_destroy(&link->qp);
}

void hr_link_close(struct hr_link *link)
{
	if (!link)
		return;
	if (link->tcp.fd >= 0)
		hr_tcp_progress(&link->tcp, link->now_ns);
	drain(link);
	hr_tcp_close(&link->tcp);
	hr_link_close_unproved(link);
	if (link->listener >= 0)
		close(link->listener);
	if (link->epoll >= 0)
		close(link->epoll);
	if (link->table)
		munmap(link->table, HR_LINK_TABLE_BYTES);
	hr_verbs_unload(&link->verbs);
	hr_auth_wipe(link->key, sizeof(link->key));
	free(link);
}

/* ---- the proof that a device and its memory can be used */

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
