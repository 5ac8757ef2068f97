/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/fakes/ibverbs/fake.h"

enum { WRITE = 1, READ, ANSWER, ACK, NAK };

struct packet {
	uint32_t type, from, psn;
	uint32_t last, with_immediate, immediate;
	uint32_t key, bytes;
	uint64_t address;
	uint32_t status, pad;
	uint8_t data[FAKE_SEGMENT];
};

#define HEAD offsetof(struct packet, data)

/* Short names for any folder. */
static int address_of(uint32_t number, struct sockaddr_un *at)
{
	static int folder = -1;
	const char *name = getenv("FAKE_IBVERBS_DIR");

	if (folder < 0 && name)
		folder = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	memset(at, 0, sizeof(*at));
	at->sun_family = AF_UNIX;
	snprintf(at->sun_path, sizeof(at->sun_path), "/proc/self/fd/%d/qp-%06x", folder, number);
	return folder < 0 ? -1 : 0;
}

static void watch(struct fake_qp *qp, int fd)
{
	struct epoll_event wake = { .events = EPOLLIN };

	if (qp->init.recv_cq->channel)
		epoll_ctl(qp->init.recv_cq->channel->fd, EPOLL_CTL_ADD, fd, &wake);
}

int fake_wire_open(struct fake_qp *qp)
{
	struct sockaddr_un at;

	qp->out = -1;
	for (unsigned i = 0; i < FAKE_PEERS; i++)
		qp->in[i] = -1;
	qp->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	for (int tries = 0; qp->listener >= 0 && tries < 100; tries++) {
		uint32_t number;

		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			break;
		number = number % 0xfffffe + 1;
		if (address_of(number, &at) != 0)
			break;
		if (bind(qp->listener, (struct sockaddr *)&at, sizeof(at)) == 0 &&
		    listen(qp->listener, FAKE_PEERS) == 0) {
			qp->qp.qp_num = number;
			watch(qp, qp->listener);
			return 0;
		}
	}
	if (qp->listener >= 0)
		close(qp->listener);
	qp->listener = -1;
	return EIO;
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void fake_wire_close(struct fake_qp *qp)
{
	struct sockaddr_un at;

	if (qp->listener >= 0 && address_of(qp->qp.qp_num, &at) == 0)
		unlink(at.sun_path);
	shut(&qp->listener);
	shut(&qp->out);
	for (unsigned i = 0; i < FAKE_PEERS; i++)
		shut(&qp->in[i]);
}

static struct fake_send *send_at(struct fake_qp *qp, unsigned i)
{
	return &qp->send[(qp->send_head + i) % qp->init.cap.max_send_wr];
}

/* The oldest request of the send queue is over. */
static void finish_send(struct fake_qp *qp, enum ibv_wc_status status)
{
	struct fake_send *s = send_at(qp, 0);
	const struct ibv_wc wc = { .wr_id = s->wr.wr_id,
				   .status = status,
				   .opcode = s->wr.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ
									      : IBV_WC_RDMA_WRITE,
				   .byte_len = s->sge.length,
				   .qp_num = qp->qp.qp_num };

	if (status != IBV_WC_SUCCESS || (s->wr.send_flags & IBV_SEND_SIGNALED) ||
	    qp->init.sq_sig_all)
		fake_complete(qp->init.send_cq, &wc, false);
	qp->send_head = (qp->send_head + 1) % qp->init.cap.max_send_wr;
	qp->send_count--;
	if (qp->send_next)
		qp->send_next--;
}

static void finish_receive(struct fake_qp *qp, enum ibv_wc_status status, uint32_t immediate,
			   uint32_t bytes)
{
	struct ibv_wc wc = { .wr_id = qp->receive[qp->receive_head],
			     .status = status,
			     .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
			     .byte_len = bytes,
			     .wc_flags = IBV_WC_WITH_IMM,
			     .qp_num = qp->qp.qp_num };

	wc.imm_data = immediate;
	if (fake_ibverbs.mangle && status == IBV_WC_SUCCESS) {
		fake_ibverbs.mangle--;
		wc.imm_data ^= htonl(1u << (bytes % 22 < 16 ? bytes % 22 : bytes % 22 + 10));
	}
	qp->receive_head = (qp->receive_head + 1) % qp->init.cap.max_recv_wr;
	qp->receive_count--;
	fake_complete(qp->init.recv_cq, &wc, true);
}

void fake_qp_to_error(struct fake_qp *qp)
{
	qp->qp.state = IBV_QPS_ERR;
	while (qp->send_count)
		finish_send(qp, IBV_WC_WR_FLUSH_ERR);
	while (qp->receive_count)
		finish_receive(qp, IBV_WC_WR_FLUSH_ERR, 0, 0);
	shut(&qp->out);
	for (unsigned i = 0; i < FAKE_PEERS; i++)
		shut(&qp->in[i]);
}

static void fail_send(struct fake_qp *qp, enum ibv_wc_status status)
{
	if (qp->send_count)
		finish_send(qp, status);
	fake_qp_to_error(qp);
}

/* ---- the side that answers */

static void answer(int fd, const struct packet *to, uint32_t type, uint32_t status)
{
	struct packet p = { .type = type, .psn = to->psn, .status = status };

	/* The socket's buffer has room: the other side has at most its send queue on the way. */
	send(fd, &p, HEAD, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void refuse(struct fake_qp *qp, int fd, const struct packet *p, enum ibv_wc_status status)
{
	answer(fd, p, NAK, status);
	fake_qp_to_error(qp);
}

static void take_write(struct fake_context *context, struct fake_qp *qp, int fd,
		       const struct packet *p)
{
	const struct fake_mr *to = fake_reach(context, p->key, p->address, p->bytes,
					      IBV_ACCESS_REMOTE_WRITE, qp->qp.pd);

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) || (p->bytes && !to)) {
		fake_ibverbs.refused_keys++;
		refuse(qp, fd, p, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	if (p->last && p->with_immediate && !qp->receive_count) {
		fake_ibverbs.not_ready++;
		answer(fd, p, NAK, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	if (!fake_ibverbs.deaf && p->bytes && !fake_store(to, p->address, p->data, p->bytes)) {
		refuse(qp, fd, p, IBV_WC_REM_OP_ERR);
		return;
	}
	qp->received += p->bytes;
	if (p->last && p->with_immediate && !fake_ibverbs.no_immediate)
		finish_receive(qp, IBV_WC_SUCCESS, p->immediate, qp->received);
	if (p->last) {
		qp->received = 0;
		answer(fd, p, ACK, IBV_WC_SUCCESS);
	}
}

static void take_read(struct fake_context *context, struct fake_qp *qp, int fd,
		      const struct packet *p)
{
	struct packet reply = { .type = ANSWER, .psn = p->psn, .bytes = p->bytes };
	const struct fake_mr *from = fake_reach(context, p->key, p->address, p->bytes,
						IBV_ACCESS_REMOTE_READ, qp->qp.pd);

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) || !from ||
	    p->bytes > FAKE_SEGMENT) {
		fake_ibverbs.refused_keys++;
		refuse(qp, fd, p, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	if (!fake_ibverbs.blind && !fake_load(from, p->address, reply.data, p->bytes)) {
		refuse(qp, fd, p, IBV_WC_REM_OP_ERR);
		return;
	}
	send(fd, &reply, HEAD + p->bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* False: the connection is of no use. */
static bool take_request(struct fake_context *context, struct fake_qp *qp, int fd)
{
	struct packet p;
	const ssize_t n = recv(fd, &p, sizeof(p), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n < (ssize_t)HEAD)
		return false;
	if (p.from != qp->attr.dest_qp_num || p.psn != qp->attr.rq_psn) {
		fake_ibverbs.late++;
		return false;
	}
	if (p.last)
		qp->attr.rq_psn = (qp->attr.rq_psn + 1) & 0xffffff;
	if (p.type == WRITE && p.bytes <= FAKE_SEGMENT && n == (ssize_t)(HEAD + p.bytes))
		take_write(context, qp, fd, &p);
	else if (p.type == READ)
		take_read(context, qp, fd, &p);
	else
		return false;
	return true;
}

static bool readable(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return fd >= 0 && poll(&wait, 1, 0) == 1;
}

static void serve(struct fake_context *context, struct fake_qp *qp)
{
	for (unsigned i = 0; i < FAKE_PEERS; i++) {
		if (qp->in[i] < 0 && readable(qp->listener)) {
			qp->in[i] = accept4(qp->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (qp->in[i] >= 0)
				watch(qp, qp->in[i]);
		}
		while (readable(qp->in[i]) &&
		       (qp->qp.state == IBV_QPS_RTR || qp->qp.state == IBV_QPS_RTS))
			if (!take_request(context, qp, qp->in[i]))
				shut(&qp->in[i]);
	}
}

/* ---- the side that asks */

static bool take_answer(struct fake_qp *qp)
{
	struct packet p;
	const ssize_t n = recv(qp->out, &p, sizeof(p), MSG_DONTWAIT);
	struct fake_send *s;

	/* Without work on the way, the loss of the peer is seen at the next request. */
	if (n < (ssize_t)HEAD && !qp->send_next) {
		shut(&qp->out);
		return false;
	}
	if (n < (ssize_t)HEAD || !qp->send_count) {
		fail_send(qp, IBV_WC_RETRY_EXC_ERR);
		return false;
	}
	s = send_at(qp, 0);
	if (p.type == ANSWER) {
		uint8_t *to = (uint8_t *)(uintptr_t)s->sge.addr;

		memcpy(to, p.data, p.bytes < s->sge.length ? p.bytes : s->sge.length);
	}
	if (p.type == NAK) {
		fail_send(qp, (enum ibv_wc_status)p.status);
		return false;
	}
	finish_send(qp, IBV_WC_SUCCESS);
	return true;
}

static bool reach_peer(struct fake_qp *qp)
{
	struct sockaddr_un at;

	if (qp->connected)
		return qp->out >= 0;
	qp->connected = true;
	qp->out = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (qp->out < 0 || address_of(qp->attr.dest_qp_num, &at) != 0 ||
	    connect(qp->out, (struct sockaddr *)&at, sizeof(at)) != 0) {
		shut(&qp->out);
		return false;
	}
	watch(qp, qp->out);
	return true;
}

/* The bytes of a part of a request, to `to`. */
static bool gather(struct fake_context *context, struct fake_qp *qp, const struct fake_send *s,
		   void *to, uint32_t bytes)
{
	const uint64_t at = s->sge.addr + s->sent;
	const struct fake_mr *from;

	if (s->wr.send_flags & IBV_SEND_INLINE) {
		memcpy(to, s->data + s->sent, bytes);
		return true;
	}
	/* Local read needs no right. */
	from = fake_reach(context, s->sge.lkey, at, bytes, 0, qp->qp.pd);
	return from && (s->wr.opcode == IBV_WR_RDMA_READ || fake_load(from, at, to, bytes));
}

/* Send a part of a request. False: not now, or the queue pair is in error. */
static bool send_part(struct fake_context *context, struct fake_qp *qp, struct fake_send *s)
{
	const bool read = s->wr.opcode == IBV_WR_RDMA_READ;
	const uint32_t left = s->sge.length - s->sent;
	const uint32_t bytes = read || left < FAKE_SEGMENT ? left : FAKE_SEGMENT;
	struct packet p = { .type = read ? READ : WRITE,
			    .from = qp->qp.qp_num,
			    .psn = qp->attr.sq_psn,
			    .last = read || bytes == left,
			    .with_immediate = s->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM,
			    .immediate = s->wr.imm_data,
			    .key = s->wr.wr.rdma.rkey,
			    .bytes = bytes,
			    .address = s->wr.wr.rdma.remote_addr + s->sent };

	if (!gather(context, qp, s, p.data, bytes)) {
		fail_send(qp, IBV_WC_LOC_PROT_ERR);
		return false;
	}
	if (send(qp->out, &p, HEAD + (read ? 0 : bytes), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
			fail_send(qp, IBV_WC_RETRY_EXC_ERR);
		return false;
	}
	s->sent += bytes;
	if (p.last) {
		s->all_sent = true;
		qp->attr.sq_psn = (qp->attr.sq_psn + 1) & 0xffffff;
		qp->send_next++;
	}
	return true;
}

static bool cut(void)
{
	return fake_ibverbs.cut && --fake_ibverbs.cut == 0;
}

static void ask(struct fake_context *context, struct fake_qp *qp)
{
	while (readable(qp->out) && take_answer(qp))
		;
	while (qp->qp.state == IBV_QPS_RTS && qp->send_next < qp->send_count &&
	       !fake_ibverbs.stall) {
		if (fake_ibverbs.fail) {
			const unsigned status = fake_ibverbs.fail;

			fake_ibverbs.fail = 0;
			fail_send(qp, (enum ibv_wc_status)status);
			return;
		}
		if (!reach_peer(qp) || cut()) {
			fail_send(qp, IBV_WC_RETRY_EXC_ERR);
			return;
		}
		if (!send_part(context, qp, send_at(qp, qp->send_next)))
			return;
	}
}

void fake_wire_progress(struct fake_context *context)
{
	for (unsigned i = 0; i < FAKE_QPS; i++) {
		struct fake_qp *qp = context->qp[i];

		if (!qp)
			continue;
		if (qp->qp.state == IBV_QPS_RTR || qp->qp.state == IBV_QPS_RTS)
			serve(context, qp);
		if (qp->qp.state == IBV_QPS_RTS)
			ask(context, qp);
	}
}
