/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/rdma/qp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Identifiers of work requests; ID_ENTRY has its number behind it. */
enum { ID_ENTRY = 1, ID_DATA = 2, ID_RECEIVE = 3, ID_BITS = 2 };

/* 4.096 us << 14 = 67 ms for an answer, 7 tries: a dead peer is known after half a second. A receiver
 * that is not ready is a defect: 3 tries after 0.64 ms each. */
enum { ANSWER_TIMEOUT = 14, TRIES = 7, NOT_READY_TRIES = 3, NOT_READY_TIMER = 12, HOPS = 64 };

struct ibv_mr *hr_rdma_reg_mr(const struct hr_verbs *verbs, struct ibv_pd *pd,
			      const struct hr_rdma_memory *memory, int access, uint64_t *base)
{
	*base = (uint64_t)(uintptr_t)memory->base;
	if (memory->dmabuf < 0)
		return verbs->reg_mr(pd, memory->base, memory->bytes, access);
	if (!verbs->reg_dmabuf_mr) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return verbs->reg_dmabuf_mr(pd, memory->dmabuf_off, memory->bytes, *base, memory->dmabuf,
				    access);
}

static int fail_verbs_call(struct hr_rdma_qp *qp, const char *what, struct hr_error *e)
{
	const int code = errno ? -errno : -EIO;

	return hr_fail(e, code == -EOPNOTSUPP ? HR_ERROR_MISSING : HR_ERROR_DEVICE, code,
		       "%s: %s: %s%s", qp->device.name, what, strerror(-code),
		       code == -ENOMEM ? "; is the limit of locked memory (ulimit -l) too low?"
				       : "");
}

static int make_memory(struct hr_rdma_qp *qp, const struct hr_rdma_qp_setup *setup,
		       struct hr_error *e)
{
	const struct hr_verbs *v = qp->verbs;

	errno = 0;
	qp->pd = v->alloc_pd(qp->device.context);
	if (!qp->pd)
		return fail_verbs_call(qp, "no protection domain", e);
	qp->tiles = hr_rdma_reg_mr(v, qp->pd, setup->memory, setup->tile_access, &qp->tile_base);
	if (!qp->tiles)
		return fail_verbs_call(
			qp,
			setup->memory->dmabuf < 0
				? "cannot register the memory of the tiles"
				: "cannot register the GPU memory of the tiles (dma-buf)",
			e);
	qp->table = v->reg_mr(qp->pd, setup->table, setup->table_bytes,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return qp->table ? 0 : fail_verbs_call(qp, "cannot register memory", e);
}

static int make_queues(struct hr_rdma_qp *qp, const struct hr_rdma_qp_setup *setup,
		       struct hr_error *e)
{
	const struct hr_verbs *v = qp->verbs;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = setup->sends,
			 .max_recv_wr = setup->receives,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = HR_RDMA_INLINE },
	};
	int flags;

	qp->channel = v->create_comp_channel(qp->device.context);
	if (!qp->channel)
		return fail_verbs_call(qp, "no completion channel", e);
	flags = fcntl(qp->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(qp->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return fail_verbs_call(qp, "completion channel", e);
	qp->cq = v->create_cq(qp->device.context, (int)(setup->sends + setup->receives + 1), NULL,
			      qp->channel, 0);
	if (!qp->cq)
		return fail_verbs_call(qp, "no completion queue", e);
	init.send_cq = init.recv_cq = qp->cq;
	qp->qp = v->create_qp(qp->pd, &init);
	if (!qp->qp)
		return fail_verbs_call(qp, "no queue pair", e);
	qp->sends_max = setup->sends;
	return 0;
}

static int to_init(struct hr_rdma_qp *qp, struct hr_error *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = qp->device.port,
				    .qp_access_flags = (unsigned)qp->access };
	const int err = qp->verbs->modify_qp(qp->qp, &attr,
					     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						     IBV_QP_ACCESS_FLAGS);

	errno = err;
	return err ? fail_verbs_call(qp, "queue pair to INIT", e) : 0;
}

int hr_rdma_qp_create(struct hr_rdma_qp *qp, const struct hr_verbs *verbs,
		      const struct hr_rdma_device *device, const struct hr_rdma_qp_setup *setup,
		      struct hr_error *e)
{
	int err;

	memset(qp, 0, sizeof(*qp));
	qp->verbs = verbs;
	qp->device = *device;
	qp->access = IBV_ACCESS_REMOTE_WRITE | (setup->tile_access & IBV_ACCESS_REMOTE_READ);
	err = make_memory(qp, setup, e);
	if (!err)
		err = make_queues(qp, setup, e);
	if (!err)
		err = to_init(qp, e);
	if (err)
		hr_rdma_qp_destroy(qp);
	return err;
}

static int to_receive(struct hr_rdma_qp *qp, const struct hr_rdma_remote_qp *peer,
		      struct hr_error *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = peer->mtu < qp->device.mtu ? peer->mtu : qp->device.mtu,
		.dest_qp_num = peer->qp,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = NOT_READY_TIMER,
		.ah_attr = { .is_global = 1,
			     .port_num = qp->device.port,
			     .grh = { .sgid_index = (uint8_t)qp->device.gid_index,
				      .hop_limit = HOPS } },
	};
	int err;

	memcpy(&attr.ah_attr.grh.dgid, peer->gid, sizeof(peer->gid));
	err = qp->verbs->modify_qp(qp->qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER);
	errno = err;
	return err ? fail_verbs_call(qp, "queue pair to RTR", e) : 0;
}

int hr_rdma_qp_connect(struct hr_rdma_qp *qp, const struct hr_rdma_remote_qp *peer, uint32_t psn,
		       struct hr_error *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = ANSWER_TIMEOUT,
				    .retry_cnt = TRIES,
				    .rnr_retry = NOT_READY_TRIES,
				    .sq_psn = psn,
				    .max_rd_atomic = 1 };
	int err = to_receive(qp, peer, e);

	if (err)
		return err;
	err = qp->verbs->modify_qp(qp->qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
	errno = err;
	return err ? fail_verbs_call(qp, "queue pair to RTS", e) : 0;
}

int hr_rdma_qp_post_recv(struct hr_rdma_qp *qp, uint32_t count)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = ID_RECEIVE };

	for (uint32_t i = 0; i < count; i++) {
		const int err = ibv_post_recv(qp->qp, &wr, &bad);

		if (err)
			return -err;
		qp->receives++;
	}
	return 0;
}

bool hr_rdma_qp_has_room(const struct hr_rdma_qp *qp, uint32_t count)
{
	/* A request for a tile has no completion of its own: count two for each entry. */
	return 2 * qp->sends + count <= qp->sends_max;
}

static int post_send_wr(struct hr_rdma_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	const int err = ibv_post_send(qp->qp, wr, &bad);

	if (!err && wr->send_flags & IBV_SEND_SIGNALED) {
		qp->sends++;
		qp->number++;
	}
	return -err;
}

int hr_rdma_qp_post_write(struct hr_rdma_qp *qp, uint64_t from, uint32_t bytes, uint64_t to,
			  uint32_t rkey, const uint32_t *immediate)
{
	struct ibv_sge sge = { .addr = qp->tile_base + from,
			       .length = bytes,
			       .lkey = qp->tiles->lkey };
	struct ibv_send_wr wr = { .wr_id = ID_DATA,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { .remote_addr = to, .rkey = rkey } };

	if (immediate) {
		wr.wr_id = qp->number << ID_BITS | ID_ENTRY;
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.imm_data = *immediate;
	}
	return post_send_wr(qp, &wr);
}

int hr_rdma_qp_post_write_imm(struct hr_rdma_qp *qp, const void *entry, uint32_t bytes, uint64_t to,
			      uint32_t rkey, uint32_t immediate)
{
	struct ibv_sge sge = { .addr = (uint64_t)(uintptr_t)entry, .length = bytes };
	struct ibv_send_wr wr = { .wr_id = qp->number << ID_BITS | ID_ENTRY,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				  .imm_data = immediate,
				  .wr.rdma = { .remote_addr = to, .rkey = rkey } };

	return post_send_wr(qp, &wr);
}

int hr_rdma_qp_post_read(struct hr_rdma_qp *qp, void *to, uint32_t bytes, uint64_t from,
			 uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uint64_t)(uintptr_t)to,
			       .length = bytes,
			       .lkey = qp->table->lkey };
	struct ibv_send_wr wr = { .wr_id = qp->number << ID_BITS | ID_ENTRY,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = from, .rkey = rkey } };

	return post_send_wr(qp, &wr);
}

void hr_rdma_qp_ack_events(struct hr_rdma_qp *qp)
{
	struct ibv_cq *cq;
	void *owner;

	/* One request for an event is out at a time, so there is at most one event. */
	if (!qp->cq || qp->verbs->get_cq_event(qp->channel, &cq, &owner) != 0)
		return;
	/* ibv_destroy_cq() waits until all are acknowledged. */
	qp->verbs->ack_cq_events(qp->cq, 1);
	qp->armed = false;
}

static int poll_one(struct hr_rdma_qp *qp, struct ibv_wc *wc)
{
	const int n = ibv_poll_cq(qp->cq, 1, wc);

	if (n != 0 || qp->armed)
		return n;
	qp->armed = true;
	if (ibv_req_notify_cq(qp->cq, 0) != 0)
		return -1;
	/* A completion before the request gives no event. */
	return ibv_poll_cq(qp->cq, 1, wc);
}

int hr_rdma_qp_poll(struct hr_rdma_qp *qp, struct hr_rdma_completion *done)
{
	struct ibv_wc wc;
	const int n = poll_one(qp, &wc);

	if (n <= 0)
		return n ? -EIO : 0;
	*done = (struct hr_rdma_completion){
		.receive = wc.wr_id == ID_RECEIVE,
		.data = wc.wr_id == ID_DATA,
		.number = wc.wr_id >> ID_BITS,
		.status = wc.status,
		.has_immediate = wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM) &&
				 wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM,
	};
	if (done->has_immediate) {
		done->immediate = wc.imm_data;
		done->bytes = wc.byte_len;
	}
	if (done->receive)
		qp->receives--;
	else if (!done->data)
		qp->sends--;
	return 1;
}

void hr_rdma_qp_to_error(struct hr_rdma_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	/* If it fails, requests stay without a completion; callers wait for them for a limited time. */
	if (qp->qp)
		qp->verbs->modify_qp(qp->qp, &attr, IBV_QP_STATE);
}

bool hr_rdma_qp_drained(const struct hr_rdma_qp *qp)
{
	return !qp->qp || (!qp->sends && !qp->receives);
}

void hr_rdma_qp_destroy(struct hr_rdma_qp *qp)
{
	const struct hr_verbs *v = qp->verbs;

	if (!v)
		return;
	if (qp->qp)
		v->destroy_qp(qp->qp);
	hr_rdma_qp_ack_events(qp);
	if (qp->cq)
		v->destroy_cq(qp->cq);
	if (qp->channel)
		v->destroy_comp_channel(qp->channel);
	if (qp->table)
		v->dereg_mr(qp->table);
	if (qp->tiles)
		v->dereg_mr(qp->tiles);
	if (qp->pd)
		v->dealloc_pd(qp->pd);
	hr_rdma_device_close(v, &qp->device);
	memset(qp, 0, sizeof(*qp));
}
