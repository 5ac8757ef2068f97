/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/ibverbs/fake.h - inside of the fake libibverbs: objects.c has devices, memory and
 * completions, queues.c the queue pairs, wire.c moves packets between queue pairs, gpu.c copies from
 * and to the memory of a real GPU.
 */
#ifndef TESTS_FAKES_IBVERBS_FAKE_H
#define TESTS_FAKES_IBVERBS_FAKE_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>

#include "tests/fakes/ibverbs/control.h"

#define FAKE_DEVICES 4u
#define FAKE_CONTEXTS 64u
#define FAKE_QPS 64u   /* of a context */
#define FAKE_MRS 256u  /* of a context */
#define FAKE_PEERS 16u /* connections to a queue pair */
#define FAKE_SEGMENT 32768u
#define FAKE_INLINE 64u

extern struct fake_ibverbs fake_ibverbs;

struct fake_mr {
	struct ibv_mr mr; /* first */
	int access;
	uint64_t iova;
	uint8_t *at; /* what the device reaches at iova */
	bool mapped;
	bool gpu; /* `at` is an address of the GPU */
};

struct fake_cq {
	struct ibv_cq cq; /* first */
	struct ibv_wc *entry;
	unsigned size, head, count;
	bool armed;
	unsigned events; /* not taken */
};

struct fake_channel {
	struct ibv_comp_channel channel; /* first */
	int event;			 /* an eventfd within the epoll descriptor of the channel */
};

struct fake_send {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint8_t data[FAKE_INLINE];
	uint32_t sent; /* bytes */
	bool all_sent;
};

struct fake_qp {
	struct ibv_qp qp; /* first */
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int listener, out, in[FAKE_PEERS];
	struct fake_send *send;
	unsigned send_head, send_count; /* posted, not completed */
	unsigned send_next;		/* of them, how many are sent */
	uint64_t *receive;
	unsigned receive_head, receive_count;
	uint32_t received; /* bytes of the write that goes on */
	bool connected;
};

struct fake_context {
	struct ibv_context context; /* first */
	unsigned device;
	struct fake_qp *qp[FAKE_QPS];
	struct fake_mr *mr[FAKE_MRS];
};

/* ---- wire.c */

int fake_wire_open(struct fake_qp *qp); /* bind; sets qp_num */
void fake_wire_close(struct fake_qp *qp);
void fake_wire_progress(struct fake_context *context);
void fake_qp_to_error(struct fake_qp *qp); /* flush all */

/* ---- objects.c */

extern pthread_mutex_t fake_lock;
bool fake_call_fails(void); /* sets errno; with the lock */
void fake_progress(void);   /* with the lock */
enum ibv_mtu fake_mtu(const struct fake_context *context);

void fake_complete(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited);
/* The region of a key, when the access is allowed, or NULL. */
const struct fake_mr *fake_reach(const struct fake_context *context, uint32_t key, uint64_t address,
				 uint64_t bytes, int access, const struct ibv_pd *pd);
/* Copy from and to a region, within its bounds. False: the GPU has failed. */
bool fake_load(const struct fake_mr *mr, uint64_t address, void *to, uint32_t bytes);
bool fake_store(const struct fake_mr *mr, uint64_t address, const void *from, uint32_t bytes);

/* ---- gpu.c: all with the lock */

bool fake_gpu_has(uint64_t at); /* it is an address of a GPU */
bool fake_gpu_load(uint64_t at, void *to, uint32_t bytes);
bool fake_gpu_store(uint64_t at, const void *from, uint32_t bytes);

/* ---- queues.c */

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
