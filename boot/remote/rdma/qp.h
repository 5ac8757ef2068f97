/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/remote/rdma/qp.h - a reliable queue pair with all that belongs to one connection:
 * protection domain, memory regions, completion queue. The regions have new keys in each
 * connection, so a packet of an old one reaches no memory.
 *
 * Work is counted: hr_rdma_qp_drained() is true when each request that was posted has a completion.
 * Requests that are posted together end in one with a completion.
 */
#ifndef BOOT_REMOTE_RDMA_QP_H
#define BOOT_REMOTE_RDMA_QP_H

#include "boot/remote/rdma/device.h"

#define HR_RDMA_INLINE 64u

struct hr_rdma_qp_setup {
	const struct hr_rdma_memory *memory; /* of the tiles */
	int tile_access;		     /* IBV_ACCESS_* */
	void *table;			     /* pages; the other side may write there */
	size_t table_bytes;
	uint32_t sends, receives; /* most that are posted at the same time */
};

/* The other side's queue pair. */
struct hr_rdma_remote_qp {
	uint32_t qp, psn;
	uint8_t gid[16];
	enum ibv_mtu mtu;
};

struct hr_rdma_qp {
	const struct hr_verbs *verbs;
	struct hr_rdma_device device;
	struct ibv_pd *pd;
	struct ibv_mr *tiles, *table;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint64_t tile_base;	  /* address of slot 0 for work requests */
	uint32_t sends, receives; /* posted, without a completion */
	uint64_t number;	  /* of the next send that has a completion */
	uint32_t sends_max;
	int access; /* of the other side, to the queue pair */
	bool armed;
};

/* One completion. */
struct hr_rdma_completion {
	bool receive, data; /* data: of the first request of two, which has one only on failure */
	uint64_t number;    /* neither: of a write with an immediate, from 0 on, or of a read */
	enum ibv_wc_status status;
	bool has_immediate;
	uint32_t immediate; /* network order */
	uint32_t bytes;	    /* with has_immediate: that were written */
};

/*
 * Register memory of this process, or GPU memory by its dma-buf. NULL: errno. The first byte of the
 * region has address base in work requests.
 */
struct ibv_mr *hr_rdma_reg_mr(const struct hr_verbs *verbs, struct ibv_pd *pd,
			      const struct hr_rdma_memory *memory, int access, uint64_t *base);

/* Make all, on the device, which then belongs to *qp; the queue pair can post receives. -errno:
 * everything is undone, and the device is closed. */
int hr_rdma_qp_create(struct hr_rdma_qp *qp, const struct hr_verbs *verbs,
		      const struct hr_rdma_device *device, const struct hr_rdma_qp_setup *setup,
		      struct hr_error *e);

/* Connect to the other side: it can then be written to. psn: of this side's packets. */
int hr_rdma_qp_connect(struct hr_rdma_qp *qp, const struct hr_rdma_remote_qp *peer, uint32_t psn,
		       struct hr_error *e);

/* Post so many receives without buffers. -errno. */
int hr_rdma_qp_post_recv(struct hr_rdma_qp *qp, uint32_t count);

/* True when so many more requests can be posted. */
bool hr_rdma_qp_has_room(const struct hr_rdma_qp *qp, uint32_t count);

/* Write `bytes` of the tile memory, from byte `from` on, to the other side. *immediate: with this one
 * (network order), as hr_rdma_qp_post_write_imm(). NULL: no completion when it succeeds, because
 * hr_rdma_qp_post_write_imm() follows. */
int hr_rdma_qp_post_write(struct hr_rdma_qp *qp, uint64_t from, uint32_t bytes, uint64_t to,
			  uint32_t rkey, const uint32_t *immediate);

/* Write at most HR_RDMA_INLINE bytes, which are copied, with an immediate (network order). */
int hr_rdma_qp_post_write_imm(struct hr_rdma_qp *qp, const void *entry, uint32_t bytes, uint64_t to,
			      uint32_t rkey, uint32_t immediate);

/* Read bytes of the other side to memory of the table. */
int hr_rdma_qp_post_read(struct hr_rdma_qp *qp, void *to, uint32_t bytes, uint64_t from,
			 uint32_t rkey);

/* Take a completion: 1, or 0: none, and the descriptor of the channel is readable, or becomes so with
 * the next one. -EIO: the device has failed. */
int hr_rdma_qp_poll(struct hr_rdma_qp *qp, struct hr_rdma_completion *done);

/* The descriptor of the channel is readable: it is not any more after this and the next
 * hr_rdma_qp_poll() that returns 0. */
void hr_rdma_qp_ack_events(struct hr_rdma_qp *qp);

/* End all work: each request that was posted gets a completion, most of them with an error. */
void hr_rdma_qp_to_error(struct hr_rdma_qp *qp);

bool hr_rdma_qp_drained(const struct hr_rdma_qp *qp);

/* Destroy all and close the device. No memory is accessed by the device after that. */
void hr_rdma_qp_destroy(struct hr_rdma_qp *qp);

#endif
