/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/ibverbs/fake.h"

static int post_send_locked(struct ibv_qp *handle, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)handle;
	struct fake_send *s;

	*bad = wr;
	if (handle->state != IBV_QPS_RTS && handle->state != IBV_QPS_ERR)
		return EINVAL;
	if (fake_call_fails())
		return ENOSPC;
	if (wr->next || wr->num_sge != 1)
		return EINVAL;
	if (qp->send_count == qp->init.cap.max_send_wr)
		return ENOMEM;
	s = &qp->send[(qp->send_head + qp->send_count++) % qp->init.cap.max_send_wr];
	memset(s, 0, sizeof(*s));
	s->wr = *wr;
	s->sge = *wr->sg_list;
	s->wr.sg_list = &s->sge;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (s->sge.length > qp->init.cap.max_inline_data) {
			qp->send_count--;
			return EINVAL;
		}
		memcpy(s->data, (const void *)(uintptr_t)s->sge.addr, s->sge.length);
	}
	fake_ibverbs.requests++;
	if (handle->state == IBV_QPS_ERR)
		fake_qp_to_error(qp);
	fake_progress();
	return 0;
}

int fake_post_send(struct ibv_qp *handle, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int result;

	pthread_mutex_lock(&fake_lock);
	result = post_send_locked(handle, wr, bad);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

static int post_recv_locked(struct ibv_qp *handle, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)handle;

	*bad = wr;
	if (fake_call_fails())
		return ENOSPC;
	if (handle->state == IBV_QPS_RESET || wr->next || wr->num_sge)
		return EINVAL;
	if (qp->receive_count == qp->init.cap.max_recv_wr)
		return ENOMEM;
	qp->receive[(qp->receive_head + qp->receive_count++) % qp->init.cap.max_recv_wr] =
		wr->wr_id;
	if (handle->state == IBV_QPS_ERR)
		fake_qp_to_error(qp);
	return 0;
}

int fake_post_recv(struct ibv_qp *handle, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int result;

	pthread_mutex_lock(&fake_lock);
	result = post_recv_locked(handle, wr, bad);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

static struct ibv_qp *ibv_create_qp_locked(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_context *context = (struct fake_context *)pd->context;
	struct fake_qp *qp;
	unsigned place = 0;

	if (fake_call_fails())
		return NULL;
	if (init->cap.max_inline_data > (fake_ibverbs.no_inline ? 0 : FAKE_INLINE)) {
		errno = EINVAL;
		return NULL;
	}
	while (place < FAKE_QPS && context->qp[place])
		place++;
	qp = place < FAKE_QPS ? calloc(1, sizeof(*qp)) : NULL;
	if (!qp)
		return NULL;
	qp->init = *init;
	qp->qp.context = pd->context;
	qp->qp.pd = pd;
	qp->qp.send_cq = init->send_cq;
	qp->qp.recv_cq = init->recv_cq;
	qp->qp.qp_type = init->qp_type;
	qp->send = calloc(init->cap.max_send_wr, sizeof(*qp->send));
	qp->receive = calloc(init->cap.max_recv_wr, sizeof(*qp->receive));
	errno = fake_wire_open(qp);
	if (!qp->send || !qp->receive || errno) {
		free(qp->send);
		free(qp->receive);
		free(qp);
		return NULL;
	}
	context->qp[place] = qp;
	fake_ibverbs.qps++;
	return &qp->qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *result;

	pthread_mutex_lock(&fake_lock);
	result = ibv_create_qp_locked(pd, init);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

/* What each step of a reliable queue pair needs, as the kernel checks it. */
static bool step_fits(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	static const struct {
		enum ibv_qp_state from, to;
		int mask;
	} steps[] = {
		{ IBV_QPS_RESET, IBV_QPS_INIT,
		  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
		{ IBV_QPS_INIT, IBV_QPS_RTR,
		  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER },
		{ IBV_QPS_RTR, IBV_QPS_RTS,
		  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC },
	};

	if (to == IBV_QPS_ERR)
		return mask == IBV_QP_STATE;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (steps[i].from == from && steps[i].to == to && steps[i].mask == mask)
			return true;
	return false;
}

static int ibv_modify_qp_locked(struct ibv_qp *handle, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)handle;

	if (!step_fits(handle->state, attr->qp_state, mask))
		return EINVAL;
	if (attr->qp_state == IBV_QPS_ERR) {
		fake_qp_to_error(qp);
		return 0;
	}
	if (fake_call_fails())
		return ENOSPC;
	if (attr->qp_state == IBV_QPS_INIT)
		qp->attr.qp_access_flags = attr->qp_access_flags;
	if (attr->qp_state == IBV_QPS_RTR) {
		const enum ibv_mtu mtu = fake_mtu((struct fake_context *)handle->context);

		if (attr->ah_attr.grh.sgid_index != 3 || attr->path_mtu > mtu)
			return EINVAL;
		qp->attr.dest_qp_num = attr->dest_qp_num;
		qp->attr.rq_psn = attr->rq_psn;
	}
	if (attr->qp_state == IBV_QPS_RTS)
		qp->attr.sq_psn = attr->sq_psn;
	handle->state = attr->qp_state;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *handle, struct ibv_qp_attr *attr, int mask)
{
	int result;

	pthread_mutex_lock(&fake_lock);
	result = ibv_modify_qp_locked(handle, attr, mask);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

static int ibv_destroy_qp_locked(struct ibv_qp *handle)
{
	struct fake_context *context = (struct fake_context *)handle->context;
	struct fake_qp *qp = (struct fake_qp *)handle;

	for (unsigned i = 0; i < FAKE_QPS; i++)
		if (context->qp[i] == qp)
			context->qp[i] = NULL;
	fake_wire_close(qp);
	fake_ibverbs.qps--;
	free(qp->send);
	free(qp->receive);
	free(qp);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *handle)
{
	int result;

	pthread_mutex_lock(&fake_lock);
	result = ibv_destroy_qp_locked(handle);
	pthread_mutex_unlock(&fake_lock);
	return result;
}
