/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/conform.h - a minimal driver for the conformance tests of controllers.
 *
 * It uses nothing of nvme/ctrl.c and nvme/queue/queue.h: the tests operate registers and rings
 * directly, so that a mistake there cannot hide a mistake in a controller. The environment variable
 * HEADRACE_CONFORM_DEVICE names the controller (a device string); without it the tests use a blank
 * software controller over memory. All blocks of the namespace may be overwritten.
 */
#ifndef TESTS_HARNESS_CONFORM_H
#define TESTS_HARNESS_CONFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "nvme/transport/transport.h"
#include "nvme/queue/wire.h"

#define CONFORM_PAGES 1024u	/* of DMA memory */
#define CONFORM_ENTRIES 16u	/* of the queues of conform_open() and conform_add_io() */
#define CONFORM_MS 50000u	/* limit of each wait; long, because a loaded machine is no fault */
#define CONFORM_SILENCE 0xffffu /* "status" of a command without a completion in time */
#define CONFORM_SPECIFIC(sc) ((uint16_t)(NVME_SCT_CMD_SPECIFIC << 8 | (sc)))

/* Pages of the DMA memory with a fixed use; the others up to CONFORM_PAGES hold data. */
enum {
	CONFORM_ASQ,
	CONFORM_ACQ,
	CONFORM_IDENTIFY,
	CONFORM_RINGS, /* SQ and CQ of queue pair i: two pages at RINGS + 2 * i */
	CONFORM_LIST = CONFORM_RINGS + 16, /* two pages for PRP lists */
	CONFORM_DATA = 32,
};

struct conform_queue {
	struct hr_sqe *sq;
	struct hr_cqe *cq;
	uint16_t id, cqid, entries;
	uint16_t tail, head, phase;
	uint16_t cid;  /* of the next command */
	uint16_t sqhd; /* last reported */
};

struct conform {
	struct hr_transport t;
	struct hr_region region;
	uint8_t *memory;
	uint64_t cap;
	uint32_t step;	  /* distance of doorbells in bytes */
	uint32_t wait_ms; /* limit of waits for CSTS: CONFORM_MS, or CAP.TO if that is longer */
	struct conform_queue admin, io;
	struct nvme_id_ctrl id;
	struct nvme_id_ns ns;
	uint32_t block_bytes;
	uint64_t max_bytes; /* of one command by MDTS; at most the size of the memory here */
};

/* From now on use this device in place of the one of the environment variable. */
void conform_use(const char *device);
/* Open the controller and leave it disabled: registers only. Ends the test on failure. */
void conform_reach(struct conform *c);
/* conform_reach(), enable with admin queues of CONFORM_ENTRIES, identify controller, namespace 1. */
void conform_open(struct conform *c);
/* The same, and create I/O queue pair 1 (c->io). */
void conform_open_io(struct conform *c);
/* Disable and close the controller. */
void conform_close(struct conform *c);

/* Clear CC.EN and wait; set CC with the usual settings and wait for RDY or CFS. False: timeout. */
bool conform_disable(struct conform *c);
bool conform_enable(struct conform *c, uint32_t cc);
uint32_t conform_cc(void);
/* Wait until (CSTS & mask) == want. */
bool conform_wait(struct conform *c, uint32_t mask, uint32_t want);

void *conform_page(struct conform *c, uint32_t page);
uint64_t conform_bus(struct conform *c, uint32_t page);

/* Put a command into the ring (its CID is set and returned); write the doorbell. */
uint16_t conform_push(struct conform_queue *q, const struct hr_sqe *sqe);
void conform_ring(struct conform *c, struct conform_queue *q);
void conform_doorbell(struct conform *c, uint32_t id, bool cq, uint32_t value);
/* The next completion, within wait_ms. The caller writes the CQ doorbell with conform_release(). */
bool conform_peek(struct conform *c, struct conform_queue *q, uint32_t wait_ms, struct hr_cqe *cqe);
void conform_release(struct conform *c, struct conform_queue *q);

/* Execute one command; returns its status (SCT << 8 | SC), and DW0 if dw0 is not NULL. */
uint16_t conform_do(struct conform *c, struct conform_queue *q, const struct hr_sqe *sqe,
		    uint32_t *dw0);
uint16_t conform_admin(struct conform *c, const struct hr_sqe *sqe, uint32_t *dw0);
uint16_t conform_identify(struct conform *c, uint8_t cns, uint32_t nsid);
uint16_t conform_get_log(struct conform *c, uint8_t lid, uint32_t bytes, uint32_t flags);
uint16_t conform_set_feature(struct conform *c, uint32_t cdw10, uint32_t cdw11, uint32_t *dw0);
uint16_t conform_get_feature(struct conform *c, uint32_t cdw10, uint32_t *dw0);
uint16_t conform_create_cq(struct conform *c, uint16_t id, uint32_t entries, uint32_t page);
uint16_t conform_create_sq(struct conform *c, uint16_t id, uint16_t cqid, uint32_t entries,
			   uint32_t page);
uint16_t conform_delete(struct conform *c, bool cq, uint16_t id);
/* Create queue pair `id` over the pages at CONFORM_RINGS + 2 * id. */
uint16_t conform_add_io(struct conform *c, struct conform_queue *q, uint16_t id, uint32_t entries);

/*
 * Read or write `blocks` blocks at page `page` and the following ones; makes a PRP list if needed.
 */
uint16_t conform_io(struct conform *c, uint8_t opcode, uint64_t lba, uint32_t blocks, uint32_t page,
		    uint32_t cdw12);
/* The command that conform_io() sends. */
struct hr_sqe conform_io_sqe(struct conform *c, uint8_t opcode, uint64_t lba, uint32_t blocks,
			     uint32_t page);
/* Write bytes that differ for each block and seed; check that all of them are there. */
void conform_fill(struct conform *c, uint32_t page, uint32_t bytes, uint32_t seed);
bool conform_is_filled(struct conform *c, uint32_t page, uint32_t bytes, uint32_t seed);
bool conform_is_zero(struct conform *c, uint32_t page, uint32_t bytes);

#endif
