/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/peer.h - the controller's side of one queue pair, for tests of the driver's side.
 *
 * It fetches the commands that the doorbell announces, and completes them in any order, with any
 * status, or with faults. The doorbells are plain memory in the struct.
 */
#ifndef TESTS_FAKES_PEER_H
#define TESTS_FAKES_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/queue/queue.h"
#include "tests/harness/qprun.h" /* so that it is linked, too */

#define PEER_ENTRIES_MAX 4096u

struct peer {
	struct hr_nvme_qp *qp;
	uint32_t sq_doorbell, cq_doorbell; /* values that the driver wrote */
	uint32_t sq_head, cq_tail, phase;
	uint32_t fetched; /* commands in pending[] */
	struct hr_sqe pending[PEER_ENTRIES_MAX];
	void *memory; /* memory of the queue pair */
};

/* A new queue pair and its peer; peer_fini() frees the memory. */
void peer_init(struct peer *peer, struct hr_nvme_qp *qp, uint32_t entries, uint64_t timeout_ns);
void peer_fini(struct peer *peer);

/* Fetch commands up to the doorbell; returns the number of pending commands. */
uint32_t peer_fetch(struct peer *peer);

/* Post a CQE unchanged except for P. */
void peer_post(struct peer *peer, struct hr_cqe cqe);

/* True when the CQ has a free entry according to the driver's doorbell. */
bool peer_can_post(const struct peer *peer);

/* Complete pending command i; status is SCT << 8 | SC. dw0 is ~cdw10. */
void peer_complete(struct peer *peer, uint32_t i, uint16_t status);

#endif
