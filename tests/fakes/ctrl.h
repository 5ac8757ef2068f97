/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/ctrl.h - a controller for driver tests: registers, an admin queue and one I/O queue
 * pair in plain memory.
 *
 * It works while the tested code waits (each hr_wait_ns() of the fake clock is a step), so every
 * timeout is exact and repeatable. Its members make it late, dead or faulty; nvme/soft is the
 * conforming software controller.
 */
#ifndef TESTS_FAKES_CTRL_H
#define TESTS_FAKES_CTRL_H

#include <nvme/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvme/ctrl.h"

#define FAKE_PAGES 640u
#define FAKE_BUS 0x1000000000ull
#define FAKE_NEVER UINT32_MAX
#define FAKE_MEDIA (4096u * 1000u)

/* Faults of the completion of an opcode. */
enum fake_lie {
	FAKE_HONEST,
	FAKE_LOSE,	 /* no completion */
	FAKE_GENERATION, /* CID of another generation, and no other completion */
	FAKE_CID,	 /* CID that was never sent */
	FAKE_SQHD,	 /* SQHD outside of the ring */
	FAKE_SQID,	 /* SQID of another queue */
	FAKE_FATAL,	 /* CSTS.CFS instead of a completion */
	FAKE_GONE,	 /* registers read all ones from now on */
};

/* The I/O queue pair that was created last. It completes fetched commands in reverse order. */
struct fake_io {
	uint64_t sq, cq;
	uint32_t id, entries, sq_head, cq_tail, phase;
	struct hr_sqe pending[64];
	uint32_t most_pending;
};

struct fake_ctrl {
	struct hr_transport transport;
	struct hr_region region;
	struct hr_ctrl ctrl;
	struct nvme_id_ctrl id_ctrl; /* data of Identify */
	struct nvme_id_ns id_ns;
	uint8_t descriptors[HR_PAGE]; /* descriptors of namespace 1; none at the start */
	uint32_t active[HR_PAGE / 4]; /* active namespaces; none at the start */
	uint32_t ready_steps, stop_steps, shutdown_steps; /* or FAKE_NEVER */
	uint32_t fatal_at_step;				  /* CSTS.CFS at that step; 0: never */
	uint32_t gone_at_step;				  /* all ones from that step; 0: never */
	bool gone_reads_zero;	 /* gone registers read 0, like emulators */
	bool deaf;		 /* the configuration space answers when the registers are gone */
	uint32_t queues_granted; /* Number of Queues, raw dw0 */
	uint8_t opcode;		 /* opcode of the faulty command */
	uint8_t cns;		 /* faulty page of Identify; 0: all */
	enum fake_lie lie;	 /* kind of the fault */
	uint16_t status;	 /* fault: this status (SCT << 8 | SC) */
	bool io;		 /* the faulty command is an I/O command */
	uint64_t lba;		 /* the faulty command has this block, */
	uint64_t more;		 /* or one of so many behind it */
	uint32_t times;		 /* number of faulty commands */
	bool dnr;		 /* status with Do Not Retry */

	/* Actions of the driver. */
	uint32_t undefined_resets; /* CC.EN was cleared before CSTS.RDY or CSTS.CFS followed */
	uint32_t silenced;	   /* times that bus mastering was turned off */
	uint32_t steps, commands, seen_count;
	struct hr_sqe seen[64];
	struct fake_io io_queue;
	uint8_t *media; /* data of namespace 1: FAKE_MEDIA bytes */

	uint32_t sq_head, cq_tail, phase, waited, last_cc;
	uint8_t *bar, *memory;
};

/* A working controller of 4096-byte blocks, CAP.TO 15, MQES 63, with the fake clock started. */
void fake_ctrl_init(struct fake_ctrl *fake);
void fake_ctrl_fini(struct fake_ctrl *fake);

/* Call hr_ctrl_open() for the fake controller. */
int fake_ctrl_open(struct fake_ctrl *fake);

void fake_ctrl_set32(struct fake_ctrl *fake, uint32_t offset, uint32_t value);
uint32_t fake_ctrl_get32(const struct fake_ctrl *fake, uint32_t offset);
void fake_ctrl_set_cap(struct fake_ctrl *fake, uint64_t cap);

/* Opcodes of the commands, in order, as text: "06 09 05 01". Valid until the next call. */
const char *fake_ctrl_trace(const struct fake_ctrl *fake);

#endif
