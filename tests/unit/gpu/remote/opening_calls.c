/* The queue pair of a connection, its OPEN message, and the probe: device, queue pair and talk are the
 * test's. */
#include "gpu/remote/opening.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu/remote/loopback.h"
#include "gpu/remote/probe.h"
#include "gpu/remote/wake.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER

static struct hr_link *link_;
static struct {
	int address, local, load, open, create, receive, loopback;
} will;
static struct hr_link_opening said;
static struct ibv_comp_channel channel = { .fd = 44 };
static struct ibv_qp queue = { .qp_num = 9 };
static struct ibv_mr tiles = { .rkey = 11 }, table = { .rkey = 12 };
static void *proved; /* memory of the loopback */

static int failed(int err, struct hr_error *e)
{
	return err ? hr_fail(e, HR_ERROR_MISSING, err, "asked to fail") : 0;
}

int hr_rdma_device_open(const struct hr_verbs *verbs, const char *name, struct in_addr address,
			struct hr_rdma_device *device, struct hr_error *e)
{
	calls_note("open %s %x;", name ? name : "any", ntohl(address.s_addr));
	*device = (struct hr_rdma_device){ .name = "dev0",
					   .port = 3,
					   .gid_index = 5,
					   .gid = { .raw = { [10] = 0xff, 0xff, 1, 2, 3, 4 } },
					   .mtu = IBV_MTU_2048 };
	return failed(will.open, e);
}

void hr_rdma_device_close(const struct hr_verbs *verbs, struct hr_rdma_device *device)
{
	calls_note("close;");
}

int hr_rdma_qp_create(struct hr_rdma_qp *qp, const struct hr_verbs *verbs,
		      const struct hr_rdma_device *device, const struct hr_rdma_setup *setup,
		      struct hr_error *e)
{
	cr_expect(qp == &link_->qp && verbs == &link_->verbs &&
		  setup->memory == &link_->setup.memory && setup->table == link_->table);
	calls_note("create %x %zu %u %u;", (unsigned)setup->tile_access, setup->table_bytes,
		   setup->sends, setup->receives);
	qp->channel = &channel;
	return failed(will.create, e);
}

int hr_rdma_qp_receive(struct hr_rdma_qp *qp, uint32_t count)
{
	calls_note("receive %u;", count);
	return will.receive;
}

int hr_rdma_qp_connect(struct hr_rdma_qp *qp, const struct hr_rdma_peer *peer, uint32_t psn,
		       struct hr_error *e)
{
	calls_note("connect %u %u %u mtu %d gid %u.%u;", peer->qp, peer->psn, psn, (int)peer->mtu,
		   peer->gid[0], peer->gid[15]);
	return -ENOBUFS;
}

int hr_wake_watch(struct hr_link *link, int fd, enum hr_link_wake kind)
{
	calls_note("watch %d %d;", fd, (int)kind);
	return 0;
}

int hr_talk_say(struct hr_link_talk *talk, enum hr_link_kind kind, const void *body,
		uint64_t now_ns)
{
	cr_expect(talk == &link_->talk && kind == HR_LINK_OPEN && now_ns == 66);
	memcpy(&said, body, sizeof said);
	return -ENOBUFS;
}

int hr_talk_address(const char *text, struct sockaddr_in *address, struct hr_error *e)
{
	address->sin_addr.s_addr = htonl(0x0a000102);
	return failed(will.address, e);
}

int hr_talk_local(const struct sockaddr_in *to, struct in_addr *local, struct hr_error *e)
{
	calls_note("local;");
	local->s_addr = htonl(0x0a000101);
	return failed(will.local, e);
}

int hr_verbs_load(struct hr_verbs *verbs, struct hr_error *e)
{
	calls_note("load;");
	return failed(will.load, e);
}

void hr_verbs_unload(struct hr_verbs *verbs)
{
	calls_note("unload;");
}

int hr_rdma_loopback(const struct hr_verbs *verbs, const char *name, struct in_addr address,
		     const struct hr_link_memory *memory, struct hr_error *e)
{
	calls_note("loopback %s %x %u of %u, %llu, %d;", name ? name : "any", ntohl(address.s_addr),
		   memory->slots, memory->stride, (unsigned long long)memory->bytes,
		   memory->dmabuf);
	proved = memory->base;
	if (memory->slots == 3)
		((uint8_t *)proved)[memory->bytes - 1] = 1;
	return failed(will.loopback, e);
}

static void begin(void)
{
	link_ = calloc(1, sizeof *link_);
	cr_assert_not_null(link_);
	memset(&will, 0, sizeof will);
	calls_take();
	link_->setup.memory.slots = 20;
	link_->setup.memory.stride = 4096;
	link_->depth = 8;
	link_->peer.slots = 30;
	link_->local.s_addr = htonl(0x0a000105);
	link_->table = link_;
	link_->now_ns = 66;
	link_->generation = 4;
}

static void end(void)
{
	free(link_);
}

TestSuite(opening_calls, .init = begin, .fini = end, .timeout = 60);

Test(opening_calls, a_queue_pair_has_room_for_its_side)
{
	static const struct {
		enum hr_link_side side;
		int open, create, receive, err;
		const char *log;
	} row[] = {
		{ S, 0, 0, 0, 0, "open any a000105;create 0 65536 18 1032;receive 38;watch 44 4;" },
		{ R, 0, 0, 0, 0, "open any a000105;create 3 65536 42 1032;receive 28;watch 44 4;" },
		{ S, -ENODEV, 0, 0, -ENODEV, "open any a000105;" },
		{ S, 0, -EIO, 0, -EIO, "open any a000105;create 0 65536 18 1032;" },
		{ S, 0, 0, -EIO, -EIO, "open any a000105;create 0 65536 18 1032;receive 38;" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		end();
		begin();
		link_->setup.side = row[i].side;
		will.open = row[i].open;
		will.create = row[i].create;
		will.receive = row[i].receive;
		link_->psn = UINT32_MAX;
		cr_expect_eq(hr_opening_make(link_, test_error()), row[i].err, "row %zu", i);
		EXPECT_CALLS(row[i].log);
		cr_expect_eq(link_->generation, row[i].err ? 4 : 5);
		cr_expect_leq(link_->psn, 0xffffff);
	}
	snprintf(link_->device_name, sizeof link_->device_name, "dev7");
	will.open = -ENODEV;
	hr_opening_make(link_, test_error());
	EXPECT_CALLS("open dev7 a000105;");
}

Test(opening_calls, each_side_says_what_the_other_one_needs)
{
	link_->psn = 77;
	link_->qp = (struct hr_rdma_qp){ .qp = &queue,
					 .tiles = &tiles,
					 .table = &table,
					 .tile_base = 5000,
					 .device = { .gid.raw = { [0] = 1, [15] = 2 },
						     .mtu = IBV_MTU_1024 } };
	link_->have.low = 100;
	for (uint64_t tile = 101; tile < 100 + 2 * HR_LINK_WINDOW; tile += 64 - 1)
		hr_tileset_add(&link_->have, tile);
	for (int side = S; side <= R; side++) {
		memset(&said, 0xff, sizeof said);
		link_->setup.side = side;
		cr_expect_eq(hr_opening_say(link_), -ENOBUFS);
		cr_expect(said.generation == 4 && said.qp == 9 && said.psn == 77 &&
			  said.table_key == 12 && said.slots == 20 && said.stride == 4096 &&
			  said.mtu == IBV_MTU_1024 && said.gid[0] == 1 && said.gid[15] == 2 &&
			  said.table_address == (uintptr_t)link_ && said.reserved == 0);
		cr_expect_eq(said.tile_address, side == S ? 0 : 5000);
		cr_expect_eq(said.tile_key, side == S ? 0 : 11);
		cr_expect_eq(said.low, side == S ? 0 : 100);
		for (uint64_t i = 0; i < HR_LINK_WINDOW; i++)
			cr_assert_eq(said.has[i / 64] >> (i % 64) & 1, side == R && i % 63 == 1);
	}
}

Test(opening_calls, it_connects_to_the_queue_pair_of_the_other_side)
{
	link_->psn = 77;
	link_->peer.qp = 5;
	link_->peer.psn = 6;
	link_->peer.mtu = IBV_MTU_512;
	link_->peer.gid[0] = 7;
	link_->peer.gid[15] = 8;
	cr_expect_eq(hr_opening_connect(link_, test_error()), -ENOBUFS);
	EXPECT_CALLS("connect 5 6 77 mtu 2 gid 7.8;");
}

Test(opening_calls, a_sender_learns_what_the_receiver_has)
{
	struct hr_link_opening opening = { .low = 10 };

	opening.has[0] = 1ull << 1 | 1ull << 63;
	opening.has[1] = 1;
	opening.has[HR_LINK_WINDOW / 64 - 1] = 1ull << 63;
	link_->have.low = 10;
	cr_expect(hr_opening_take(link_, &opening));
	for (uint64_t i = 0; i <= HR_LINK_WINDOW; i++)
		cr_assert_eq(hr_tileset_has(&link_->have, 10 + i),
			     i == 1 || i == 63 || i == 64 || i == HR_LINK_WINDOW - 1);
	opening.has[1] = 0;
	cr_expect_not(hr_opening_take(link_, &opening));
	cr_expect_str_eq(link_->text,
			 "the receiver has lost tile 74, which this run has given back; it needs "
			 "another run",
			 "%s", link_->text);
	cr_expect(hr_tileset_has(&link_->have, 74));
	opening.low = 75;
	opening.has[0] = opening.has[HR_LINK_WINDOW / 64 - 1] = 0;
	opening.has[(9 + HR_LINK_WINDOW - 75) / 64] |= 1ull << (9 + HR_LINK_WINDOW - 75) % 64;
	cr_expect(hr_opening_take(link_, &opening), "%s", link_->text);
	cr_expect_eq(link_->have.low, 75);
}

/* ---- the probe */

Test(opening_calls, a_probe_describes_the_device_and_proves_memory)
{
	struct hr_link_probe probe = { .side = S, .address = "x", .slots = 3, .slot_bytes = 4096 };
	static uint8_t tiles_of_side[14];
	const struct hr_link_memory memory = {
		.base = tiles_of_side, .slots = 2, .stride = 7, .dmabuf = 1
	};
	unsigned char state;
	char text[128];

	cr_expect_eq(hr_link_probe(&probe, text, sizeof text, test_error()), 0);
	EXPECT_CALLS("local;load;open any a000101;close;loopback any a000101 3 of 4096, 12288, -1;"
		     "unload;");
	cr_expect_str_eq(text, "dev0 port 3, GID 5 ::ffff:1.2.3.4, MTU 2048, address 10.0.1.1",
			 "%s", text);
	cr_expect_eq(mincore(proved, 4096, &state), -1); /* it is gone */
	probe.side = R;
	probe.device = "dev7";
	probe.memory = &memory;
	cr_expect_eq(hr_link_probe(&probe, text, sizeof text, test_error()), 0);
	EXPECT_CALLS("load;open dev7 a000102;close;loopback dev7 a000102 2 of 7, 0, 1;unload;");
	cr_expect_eq(proved, tiles_of_side);
}

Test(opening_calls, a_probe_ends_at_the_first_error)
{
	static const struct {
		int *of;
		const char *log;
	} row[] = {
		{ &will.address, "" },
		{ &will.local, "local;" },
		{ &will.load, "local;load;" },
		{ &will.open, "local;load;open any a000101;unload;" },
		{ &will.loopback, "local;load;open any a000101;close;"
				  "loopback any a000101 1 of 4096, 4096, -1;unload;" },
	};
	const struct hr_link_probe probe = { .side = S, .slots = 1, .slot_bytes = 4096 };
	char text[128];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		memset(&will, 0, sizeof will);
		*row[i].of = -EPERM;
		cr_expect_eq(hr_link_probe(&probe, text, sizeof text, test_error()), -EPERM);
		EXPECT_CALLS(row[i].log);
		cr_expect_str_eq(test_error_text(), "asked to fail");
	}
}

/* More bytes than a process has addresses. */
Test(opening_calls, a_probe_without_memory_is_an_error)
{
	const struct hr_link_probe probe = { .side = S,
					     .slots = UINT32_MAX,
					     .slot_bytes = UINT32_MAX };
	char text[128];

	cr_expect_eq(hr_link_probe(&probe, text, sizeof text, test_error()), -ENOMEM);
	EXPECT_CALLS("local;load;open any a000101;close;unload;");
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect_str_eq(test_error_text(), "out of memory for 4294967295 slots");
}
