/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/remote/rdma/verbs.h - the functions of libibverbs that the link uses. The library must match the
 * drivers of the machine, so it is loaded, never linked, with the symbol versions of rdma-core.
 *
 * Calls on the path of data (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) are inline
 * functions of its header over a table of the device's driver.
 */
#ifndef BOOT_REMOTE_RDMA_VERBS_H
#define BOOT_REMOTE_RDMA_VERBS_H

#include <infiniband/verbs.h>

#include "config/base/error.h"

struct hr_verbs {
	void *library;
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	/* Fills the fields before `flags`. */
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t max, uint32_t flags, size_t entry_bytes);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *at, size_t bytes, int access);
	/* NULL: rdma-core before version 34 has none */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					uint64_t iova, int fd, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *owner,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **owner);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned count);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	const char *(*wc_status_str)(enum ibv_wc_status status);
};

/* 0; -ENOENT: no libibverbs; -ENOTSUP: it lacks a function, or a static build. An error fills *e. */
int hr_verbs_load(struct hr_verbs *verbs, struct hr_error *e);

void hr_verbs_unload(struct hr_verbs *verbs);

#endif
