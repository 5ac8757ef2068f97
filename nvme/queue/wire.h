/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/wire.h - layout of queue memory: submission and completion queue entries, PRP entries.
 *
 * Spec: NVMe Base 2.0, 3.3.3.1 (SQE, figure 87), 3.3.3.2 (CQE, figures 90-93), 4.1.1 (PRP).
 * Opcodes, identify pages, log pages, register offsets and fields, and status codes come from
 * libnvme (<nvme/types.h>: NVME_REG_*, NVME_CAP_MQES(), nvme_cmd_read, struct nvme_id_ctrl, ...).
 * Little-endian hosts only, so wire fields are plain integers.
 */
#ifndef NVME_QUEUE_WIRE_H
#define NVME_QUEUE_WIRE_H

#include <nvme/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvme/queue/worker.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "wire fields are plain integers: little-endian hosts only"
#endif

/* Submission queue entry: 64 bytes, CC.IOSQES = 6. Aligned, so that copies use large words. */
struct hr_sqe {
	union {
		struct {
			uint8_t opcode;
			uint8_t flags; /* FUSE 1:0, PSDT 7:6; always 0: no fused commands, PRPs */
			uint16_t cid;
		};
		uint32_t cdw0; /* the three fields above */
	};
	uint32_t nsid;
	uint32_t cdw2, cdw3;
	uint64_t mptr;
	uint64_t prp1, prp2;
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
} __attribute__((aligned(16)));

/* Completion queue entry: 16 bytes, CC.IOCQES = 4. */
struct hr_cqe {
	uint32_t dw0, dw1;
	union {
		struct {
			uint16_t sqhd, sqid;
			union {
				struct {
					uint16_t cid;
					uint16_t status; /* P 0, SC 8:1, SCT 11:9, CRD 13:12, M 14,
							    DNR 15 */
				};
				uint32_t dw3;
			};
		};
		uint64_t dw23; /* the four fields above: loaded with acquire, stored with release */
	};
};

#define HR_SQE_SHIFT 6u /* CC.IOSQES */
#define HR_CQE_SHIFT 4u /* CC.IOCQES */
#define HR_SQE_BYTES (1u << HR_SQE_SHIFT)
#define HR_CQE_BYTES (1u << HR_CQE_SHIFT)
#define HR_SQE_PSDT_MASK 0xc0u

HR_STATIC_ASSERT(sizeof(struct hr_sqe) == HR_SQE_BYTES, "SQE");
HR_STATIC_ASSERT(sizeof(struct hr_cqe) == HR_CQE_BYTES, "CQE");

/* Status as this project returns it: SCT << 8 | SC, 0 is success. */
HR_BOTH uint16_t hr_cqe_status(uint16_t field)
{
	return (uint16_t)((field >> 1) & 0x7ff);
}

/* Do Not Retry: the same command would fail again. */
HR_BOTH bool hr_cqe_dnr(uint16_t field)
{
	return (field >> 15) != 0;
}

/* Command Retry Delay: 1..3 name a delay of Identify Controller (CRDT1..3); 0: no delay
 * requested. */
HR_BOTH uint8_t hr_cqe_crd(uint16_t field)
{
	return (uint8_t)(field >> 12 & 3);
}

HR_BOTH uint16_t hr_cqe_phase(uint16_t field)
{
	return (uint16_t)(field & 1);
}

/* Fields of DW2 and DW3, loaded together. */
HR_BOTH uint16_t hr_cqe_sqhd(uint64_t dw23)
{
	return (uint16_t)dw23;
}

HR_BOTH uint16_t hr_cqe_sqid(uint64_t dw23)
{
	return (uint16_t)(dw23 >> 16);
}

HR_BOTH uint16_t hr_cqe_cid(uint64_t dw23)
{
	return (uint16_t)(dw23 >> 32);
}

HR_BOTH uint16_t hr_cqe_field(uint64_t dw23)
{
	return (uint16_t)(dw23 >> 48);
}

/* CDW12 of read, write, compare, write zeroes: NLB is zero-based. */
#define HR_CDW12_FUA (1u << 30)

/* A read or write of `blocks` (1..65536) at the 64-bit lba; the caller builds the PRPs. */
HR_BOTH void hr_sqe_io(struct hr_sqe *sqe, uint8_t opcode, uint32_t nsid, uint64_t lba,
		       uint32_t blocks, uint64_t prp1, uint64_t prp2)
{
	sqe->cdw0 = opcode;
	sqe->nsid = nsid;
	sqe->cdw2 = 0;
	sqe->cdw3 = 0;
	sqe->mptr = 0;
	sqe->prp1 = prp1;
	sqe->prp2 = prp2;
	sqe->cdw10 = (uint32_t)lba;
	sqe->cdw11 = (uint32_t)(lba >> 32);
	sqe->cdw12 = blocks - 1;
	sqe->cdw13 = 0;
	sqe->cdw14 = 0;
	sqe->cdw15 = 0;
}

/* An SQE with that CID as 64-bit words, in memory order. */
HR_WORKER void hr_sqe_words(const struct hr_sqe *sqe, uint16_t cid, uint64_t word[8])
{
	word[0] = (sqe->cdw0 & 0xffff) | (uint32_t)cid << 16 | (uint64_t)sqe->nsid << 32;
	word[1] = sqe->cdw2 | (uint64_t)sqe->cdw3 << 32;
	word[2] = sqe->mptr;
	word[3] = sqe->prp1;
	word[4] = sqe->prp2;
	word[5] = sqe->cdw10 | (uint64_t)sqe->cdw11 << 32;
	word[6] = sqe->cdw12 | (uint64_t)sqe->cdw13 << 32;
	word[7] = sqe->cdw14 | (uint64_t)sqe->cdw15 << 32;
}

#endif
