/* Each call of a queue pair to the RDMA library, with all its arguments: the library is the test's. */
#include "gpu/remote/qp.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/calls.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static unsigned calls, fails; /* the call that fails, from 1 on */
static int modify_fails, post_fails, notify_fails, event;
static struct ibv_wc wc[4]; /* completions */
static unsigned wcs;
static struct ibv_context context;
static struct ibv_device device_;
static struct ibv_pd pd;
static struct ibv_mr tiles = { .lkey = 31 }, table = { .lkey = 32 };
static struct ibv_comp_channel channel;
static struct ibv_cq cq = { .context = &context };
static struct ibv_qp queue = { .context = &context };
static uint8_t memory_[64], table_[64];
static int pipe_[2];

/* The nth object cannot be made. */
static void *made(void *object)
{
	if (++calls != fails)
		return object;
	errno = ENOSPC;
	return NULL;
}

static struct ibv_pd *alloc_pd(struct ibv_context *of)
{
	cr_expect_eq(of, &context);
	calls_note("pd;");
	return made(&pd);
}

static int dealloc_pd(struct ibv_pd *of)
{
	cr_expect_eq(of, &pd);
	calls_note("-pd;");
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *of, void *at, size_t bytes, int access)
{
	cr_expect(of == &pd && (at == memory_ || at == table_));
	calls_note("mr %s %zu %x;", at == table_ ? "table" : "tiles", bytes, (unsigned)access);
	return made(at == table_ ? &table : &tiles);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *of, uint64_t offset, size_t bytes, uint64_t base,
				    int fd, int access)
{
	cr_expect(of == &pd && base == (uintptr_t)memory_);
	calls_note("dmabuf %d+%llu %zu %x;", fd, (unsigned long long)offset, bytes,
		   (unsigned)access);
	return made(&tiles);
}

static int dereg_mr(struct ibv_mr *of)
{
	calls_note("-mr %s;", of == &table ? "table" : "tiles");
	return 0;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *of)
{
	cr_expect_eq(of, &context);
	calls_note("channel;");
	return made(&channel);
}

static int destroy_comp_channel(struct ibv_comp_channel *of)
{
	cr_expect_eq(of, &channel);
	calls_note("-channel;");
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *of, int entries, void *owner,
				struct ibv_comp_channel *on, int vector)
{
	cr_expect(of == &context && !owner && on == &channel && vector == 0);
	calls_note("cq %d;", entries);
	return made(&cq);
}

static int destroy_cq(struct ibv_cq *of)
{
	cr_expect_eq(of, &cq);
	calls_note("-cq;");
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *of, struct ibv_cq **which, void **owner)
{
	cr_expect_eq(of, &channel);
	calls_note("event;");
	*which = &cq;
	return event ? 0 : -1;
}

static void ack_cq_events(struct ibv_cq *of, unsigned count)
{
	cr_expect_eq(of, &cq);
	calls_note("ack %u;", count);
}

static struct ibv_qp *create_qp(struct ibv_pd *of, struct ibv_qp_init_attr *a)
{
	cr_expect(of == &pd && a->send_cq == &cq && a->recv_cq == &cq && !a->srq);
	calls_note("qp %d %u %u %u %u %u all %d;", a->qp_type, a->cap.max_send_wr,
		   a->cap.max_recv_wr, a->cap.max_send_sge, a->cap.max_recv_sge,
		   a->cap.max_inline_data, a->sq_sig_all);
	return made(&queue);
}

static int destroy_qp(struct ibv_qp *of)
{
	cr_expect_eq(of, &queue);
	calls_note("-qp;");
	return 0;
}

static int modify_qp(struct ibv_qp *of, struct ibv_qp_attr *a, int mask)
{
	cr_expect_eq(of, &queue);
	calls_note("state %d mask %x;", a->qp_state, (unsigned)mask);
	if (a->qp_state == IBV_QPS_INIT)
		calls_note("port %u access %x pkey %u;", a->port_num, a->qp_access_flags,
			   a->pkey_index);
	if (a->qp_state == IBV_QPS_RTR)
		calls_note(
			"mtu %d to %u psn %u reads %u timer %u port %u global %u index %u hops %u gid "
			"%02x%02x;",
			a->path_mtu, a->dest_qp_num, a->rq_psn, a->max_dest_rd_atomic,
			a->min_rnr_timer, a->ah_attr.port_num, a->ah_attr.is_global,
			a->ah_attr.grh.sgid_index, a->ah_attr.grh.hop_limit,
			a->ah_attr.grh.dgid.raw[0], a->ah_attr.grh.dgid.raw[15]);
	if (a->qp_state == IBV_QPS_RTS)
		calls_note("timeout %u tries %u rnr %u psn %u reads %u;", a->timeout, a->retry_cnt,
			   a->rnr_retry, a->sq_psn, a->max_rd_atomic);
	return modify_fails == (int)a->qp_state ? EINVAL : 0;
}

static int close_device(struct ibv_context *of)
{
	cr_expect_eq(of, &context);
	calls_note("-device;");
	return 0;
}

static int post_send(struct ibv_qp *of, struct ibv_send_wr *w, struct ibv_send_wr **bad)
{
	cr_expect(of == &queue && !w->next && w->num_sge == 1);
	calls_note("send %llu op %d flags %x imm %x %lld+%u/%u >%llu/%u;",
		   (unsigned long long)w->wr_id, w->opcode, w->send_flags, w->imm_data,
		   (long long)(w->sg_list->addr - (uintptr_t)memory_), w->sg_list->length,
		   w->sg_list->lkey, (unsigned long long)w->wr.rdma.remote_addr, w->wr.rdma.rkey);
	return post_fails;
}

static int post_recv(struct ibv_qp *of, struct ibv_recv_wr *w, struct ibv_recv_wr **bad)
{
	cr_expect(of == &queue && !w->next && w->num_sge == 0);
	calls_note("receive %llu;", (unsigned long long)w->wr_id);
	return ++calls == fails ? ENOMEM : 0;
}

static int poll_cq(struct ibv_cq *of, int most, struct ibv_wc *into)
{
	cr_expect(of == &cq && most == 1);
	calls_note("poll;");
	if (++calls == fails)
		return -1;
	if (!wcs)
		return 0;
	*into = wc[0];
	memmove(wc, wc + 1, sizeof wc - sizeof *wc);
	wcs--;
	return 1;
}

/* A completion comes while the event is asked for. */
static bool comes_late;

static int req_notify_cq(struct ibv_cq *of, int solicited)
{
	cr_expect(of == &cq && solicited == 0);
	calls_note("notify;");
	wcs += comes_late;
	return notify_fails;
}

static struct hr_verbs verbs;
static struct hr_link_memory memory;
static struct hr_rdma_setup setup;
static struct hr_rdma_device device;
static struct hr_rdma_qp qp;
static struct hr_error error;

static void begin(void)
{
	calls_take();
	calls = fails = wcs = 0;
	modify_fails = post_fails = notify_fails = event = 0;
	comes_late = false;
	memset(&error, 0, sizeof error);
	memset(wc, 0, sizeof wc);
	context.device = &device_;
	context.ops.poll_cq = poll_cq;
	context.ops.req_notify_cq = req_notify_cq;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	verbs = (struct hr_verbs){ .alloc_pd = alloc_pd,
				   .dealloc_pd = dealloc_pd,
				   .reg_mr = reg_mr,
				   .reg_dmabuf_mr = reg_dmabuf_mr,
				   .dereg_mr = dereg_mr,
				   .create_comp_channel = create_comp_channel,
				   .destroy_comp_channel = destroy_comp_channel,
				   .create_cq = create_cq,
				   .destroy_cq = destroy_cq,
				   .get_cq_event = get_cq_event,
				   .ack_cq_events = ack_cq_events,
				   .create_qp = create_qp,
				   .modify_qp = modify_qp,
				   .destroy_qp = destroy_qp,
				   .close_device = close_device };
	memory = (struct hr_link_memory){ .base = memory_, .bytes = 64, .dmabuf = -1 };
	setup = (struct hr_rdma_setup){ .memory = &memory,
					.tile_access = IBV_ACCESS_LOCAL_WRITE,
					.table = table_,
					.table_bytes = 48,
					.sends = 10,
					.receives = 7 };
	device = (struct hr_rdma_device){
		.context = &context, .name = "dev0", .port = 3, .gid_index = 9, .mtu = IBV_MTU_2048
	};
	cr_assert_eq(pipe(pipe_), 0);
	channel.fd = pipe_[0];
}

static void end(void)
{
	close(pipe_[0]);
	close(pipe_[1]);
}

TestSuite(qp_calls, .init = begin, .fini = end, .timeout = 60);

#define MADE                                                                                   \
	"pd;mr tiles 64 1;mr table 48 3;channel;cq 18;qp 2 10 7 1 1 64 all 0;state 1 mask 39;" \
	"port 3 access 2 pkey 0;"
#define GONE "-qp;event;-cq;-channel;-mr table;-mr tiles;-pd;-device;"

static void make(void)
{
	cr_assert_eq(hr_rdma_qp_create(&qp, &verbs, &device, &setup, &error), 0);
	calls_take();
	calls = 0;
}

Test(qp_calls, all_objects_are_made_and_destroyed_in_order)
{
	memset(&qp, 0xff, sizeof qp);
	cr_assert_eq(hr_rdma_qp_create(&qp, &verbs, &device, &setup, &error), 0);
	EXPECT_CALLS(MADE);
	cr_expect(fcntl(pipe_[0], F_GETFL) & O_NONBLOCK);
	cr_expect_eq(qp.tile_base, (uintptr_t)memory_);
	cr_expect(qp.sends_max == 10 && !qp.sends && !qp.receives && !qp.number && !qp.armed);
	cr_expect(hr_rdma_qp_drained(&qp));
	hr_rdma_qp_destroy(&qp);
	EXPECT_CALLS(GONE);
	hr_rdma_qp_destroy(&qp);
	hr_rdma_qp_break(&qp);
	EXPECT_CALLS("");
	cr_expect(hr_rdma_qp_drained(&qp));
	setup.tile_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	make();
	cr_expect_eq(qp.access, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	hr_rdma_qp_break(&qp);
	EXPECT_CALLS("state 6 mask 1;");
	/* an event that was not taken */
	event = 1;
	hr_rdma_qp_destroy(&qp);
	EXPECT_CALLS("-qp;event;ack 1;-cq;-channel;-mr table;-mr tiles;-pd;-device;");
}

Test(qp_calls, an_object_that_cannot_be_made_undoes_those_before)
{
	static const struct {
		unsigned fails;
		int modify, dmabuf, err;
		enum hr_error_kind kind;
		const char *text, *undone;
	} row[] = {
		{ 1, 0, -1, -ENOSPC, HR_ERROR_DEVICE,
		  "dev0: no protection domain: No space left on device", "pd;-device;" },
		{ 2, 0, -1, -ENOSPC, HR_ERROR_DEVICE,
		  "dev0: cannot register the memory of the tiles: No space left on device",
		  ";-pd;-device;" },
		{ 2, 0, 0, -ENOSPC, HR_ERROR_DEVICE,
		  "dev0: cannot register the GPU memory of the tiles (dma-buf): No space left on "
		  "device",
		  "pd;dmabuf 0+8 64 1;-pd;-device;" },
		{ 3, 0, -1, -ENOSPC, HR_ERROR_DEVICE,
		  "dev0: cannot register memory: No space left on device",
		  ";-mr tiles;-pd;-device;" },
		{ 4, 0, -1, -ENOSPC, HR_ERROR_DEVICE,
		  "dev0: no completion channel: No space left on device",
		  ";-mr table;-mr tiles;-pd;-device;" },
		{ 5, 0, -1, -ENOSPC, HR_ERROR_DEVICE,
		  "dev0: no completion queue: No space left on device",
		  ";-channel;-mr table;-mr tiles;-pd;-device;" },
		{ 6, 0, -1, -ENOSPC, HR_ERROR_DEVICE,
		  "dev0: no queue pair: No space left on device",
		  ";event;-cq;-channel;-mr table;-mr tiles;-pd;-device;" },
		{ 0, IBV_QPS_INIT, -1, -EINVAL, HR_ERROR_DEVICE,
		  "dev0: queue pair to INIT: Invalid argument", "port 3 access 2 pkey 0;" GONE },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		size_t undone = strlen(row[i].undone);

		end();
		begin();
		fails = row[i].fails;
		modify_fails = row[i].modify ? row[i].modify : -1;
		memory.dmabuf = row[i].dmabuf;
		memory.dmabuf_off = 8;
		cr_expect_eq(hr_rdma_qp_create(&qp, &verbs, &device, &setup, &error), row[i].err);
		cr_expect_str_eq(error.text, row[i].text, "%s", error.text);
		cr_expect_eq(error.kind, row[i].kind);
		cr_expect(strlen(calls_text()) >= undone &&
				  strcmp(calls_text() + strlen(calls_text()) - undone,
					 row[i].undone) == 0,
			  "row %zu: %s", i, calls_text());
		cr_expect(!qp.verbs && !qp.pd && !qp.qp);
	}
}

Test(qp_calls, errors_have_their_reason)
{
	memory.dmabuf = 0;
	verbs.reg_dmabuf_mr = NULL;
	cr_expect_eq(hr_rdma_qp_create(&qp, &verbs, &device, &setup, &error), -EOPNOTSUPP);
	cr_expect_eq(error.kind, HR_ERROR_MISSING);
	EXPECT_CALLS("pd;-pd;-device;");
	begin();
	channel.fd = -1;
	cr_expect_eq(hr_rdma_qp_create(&qp, &verbs, &device, &setup, &error), -EBADF);
	cr_expect_eq(error.kind, HR_ERROR_DEVICE);
	cr_expect_str_eq(error.text, "dev0: completion channel: Bad file descriptor");
}

Test(qp_calls, it_connects_with_the_smaller_mtu)
{
	struct hr_rdma_peer peer = {
		.qp = 77, .psn = 88, .gid = { [0] = 0xab, [15] = 0xcd }, .mtu = IBV_MTU_4096
	};

	make();
	cr_expect_eq(hr_rdma_qp_connect(&qp, &peer, 99, &error), 0);
	EXPECT_CALLS(
		"state 2 mask 129181;mtu 4 to 77 psn 88 reads 1 timer 12 port 3 global 1 index 9 "
		"hops 64 gid abcd;state 3 mask 12e01;timeout 14 tries 7 rnr 3 psn 99 reads 1;");
	peer.mtu = IBV_MTU_1024;
	modify_fails = IBV_QPS_RTS;
	cr_expect_eq(hr_rdma_qp_connect(&qp, &peer, 99, &error), -EINVAL);
	cr_expect(strstr(calls_text(), "mtu 3 "), "%s", calls_text());
	cr_expect_str_eq(error.text, "dev0: queue pair to RTS: Invalid argument", "%s", error.text);
	calls_take();
	modify_fails = IBV_QPS_RTR;
	hr_error_clear(&error);
	cr_expect_eq(hr_rdma_qp_connect(&qp, &peer, 99, &error), -EINVAL);
	cr_expect_null(strstr(calls_text(), "state 3"), "%s", calls_text());
	cr_expect_str_eq(error.text, "dev0: queue pair to RTR: Invalid argument", "%s", error.text);
}

Test(qp_calls, requests_are_numbered_and_counted)
{
	const uint32_t immediate = 0x1234;

	make();
	for (int i = 0; i < 2; i++)
		cr_expect_eq(hr_rdma_qp_write_tile(&qp, 8, 16, 1000, 5, NULL), 0);
	EXPECT_CALLS("send 2 op 0 flags 0 imm 0 8+16/31 >1000/5;"
		     "send 2 op 0 flags 0 imm 0 8+16/31 >1000/5;");
	cr_expect(qp.sends == 0 && qp.number == 0);
	cr_expect_eq(hr_rdma_qp_write_tile(&qp, 8, 16, 1000, 5, &immediate), 0);
	EXPECT_CALLS("send 1 op 1 flags 2 imm 1234 8+16/31 >1000/5;");
	cr_expect_eq(hr_rdma_qp_write_entry(&qp, memory_ + 4, 24, 2000, 6, immediate), 0);
	EXPECT_CALLS("send 5 op 1 flags a imm 1234 4+24/0 >2000/6;");
	cr_expect_eq(hr_rdma_qp_read(&qp, memory_ + 2, 12, 3000, 7), 0);
	EXPECT_CALLS("send 9 op 4 flags 2 imm 0 2+12/32 >3000/7;");
	cr_expect(qp.sends == 3 && qp.number == 3 && !hr_rdma_qp_drained(&qp));
	/* two for each that has a completion */
	cr_expect(hr_rdma_qp_room(&qp, 4) && !hr_rdma_qp_room(&qp, 5));
	post_fails = ENOMEM;
	cr_expect_eq(hr_rdma_qp_write_entry(&qp, memory_, 1, 1, 1, 1), -ENOMEM);
	cr_expect(qp.sends == 3 && qp.number == 3);
	calls_take();
	fails = 3;
	cr_expect_eq(hr_rdma_qp_receive(&qp, 2), 0);
	EXPECT_CALLS("receive 3;receive 3;");
	cr_expect_eq(hr_rdma_qp_receive(&qp, 2), -ENOMEM);
	EXPECT_CALLS("receive 3;");
	cr_expect_eq(qp.receives, 2);
	qp.sends = 0;
	cr_expect_not(hr_rdma_qp_drained(&qp));
	qp.receives = 0;
	cr_expect(hr_rdma_qp_drained(&qp));
}

Test(qp_calls, completions_are_told_apart)
{
	static const struct {
		struct ibv_wc wc;
		struct hr_rdma_done done;
		uint32_t sends, receives; /* of five each */
	} row[] = {
		{ { .wr_id = 3,
		    .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		    .wc_flags = IBV_WC_WITH_IMM,
		    .imm_data = 7,
		    .byte_len = 900 },
		  { .receive = true, .has_immediate = true, .immediate = 7, .bytes = 900 },
		  5,
		  4 },
		{ { .wr_id = 3,
		    .opcode = IBV_WC_RECV,
		    .wc_flags = IBV_WC_WITH_IMM,
		    .imm_data = 7,
		    .byte_len = 900 },
		  { .receive = true },
		  5,
		  4 },
		{ { .wr_id = 3,
		    .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		    .wc_flags = IBV_WC_GRH,
		    .imm_data = 7,
		    .byte_len = 900 },
		  { .receive = true },
		  5,
		  4 },
		{ { .wr_id = 3,
		    .status = IBV_WC_WR_FLUSH_ERR,
		    .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		    .wc_flags = IBV_WC_WITH_IMM,
		    .imm_data = 7,
		    .byte_len = 900 },
		  { .receive = true, .status = IBV_WC_WR_FLUSH_ERR },
		  5,
		  4 },
		{ { .wr_id = 2, .status = IBV_WC_REM_ACCESS_ERR, .byte_len = 900 },
		  { .data = true, .status = IBV_WC_REM_ACCESS_ERR },
		  5,
		  5 },
		{ { .wr_id = 6 << 2 | 1, .opcode = IBV_WC_RDMA_WRITE }, { .number = 6 }, 4, 5 },
	};

	make();
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_rdma_done done = { .number = 99 };

		qp.sends = qp.receives = 5;
		wc[0] = row[i].wc;
		wcs = 1;
		cr_expect_eq(hr_rdma_qp_poll(&qp, &done), 1);
		EXPECT_CALLS("poll;");
		cr_expect(done.receive == row[i].done.receive && done.data == row[i].done.data &&
				  done.status == row[i].done.status &&
				  done.has_immediate == row[i].done.has_immediate &&
				  done.immediate == row[i].done.immediate &&
				  done.bytes == row[i].done.bytes,
			  "row %zu", i);
		if (!done.receive && !done.data)
			cr_expect_eq(done.number, row[i].done.number);
		cr_expect(qp.sends == row[i].sends && qp.receives == row[i].receives, "row %zu", i);
	}
}

Test(qp_calls, an_event_is_asked_for_once)
{
	struct hr_rdma_done done;

	make();
	cr_expect_eq(hr_rdma_qp_poll(&qp, &done), 0);
	EXPECT_CALLS("poll;notify;poll;");
	cr_expect_eq(hr_rdma_qp_poll(&qp, &done), 0);
	EXPECT_CALLS("poll;");
	hr_rdma_qp_wake(&qp); /* there is none */
	EXPECT_CALLS("event;");
	cr_expect(qp.armed);
	event = 1;
	hr_rdma_qp_wake(&qp);
	EXPECT_CALLS("event;ack 1;");
	comes_late = true;
	qp.sends = 1;
	wc[0].wr_id = 1;
	cr_expect_eq(hr_rdma_qp_poll(&qp, &done), 1);
	EXPECT_CALLS("poll;notify;poll;");
	qp.armed = comes_late = false;
	notify_fails = 1;
	cr_expect_eq(hr_rdma_qp_poll(&qp, &done), -EIO);
	EXPECT_CALLS("poll;notify;");
	fails = calls + 1;
	cr_expect_eq(hr_rdma_qp_poll(&qp, &done), -EIO);
	EXPECT_CALLS("poll;");
	qp.cq = NULL;
	hr_rdma_qp_wake(&qp);
	EXPECT_CALLS("");
}
