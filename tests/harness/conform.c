/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/conform.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/dma/hostmem.h"
#include "tests/harness/error.h"

#define DEFAULT_DEVICE "soft:memory,size=64M,mdts=5,cache=16M"
#define STEP_NS 20000u

static const char *chosen;

void conform_use(const char *device)
{
	chosen = device;
}

void conform_reach(struct conform *c)
{
	const char *device = chosen ? chosen : getenv("HEADRACE_CONFORM_DEVICE");

	memset(c, 0, sizeof(*c));
	cr_assert_eq(hr_transport_open(&c->t, device ? device : DEFAULT_DEVICE, test_error()), 0,
		     "%s", test_error_text());
	if (device && hr_transport_is_physical(device))
		cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, NULL), 0);
	cr_assert_eq(hr_hostmem_alloc(&c->region, "conform", CONFORM_PAGES * HR_PAGE, NULL), 0);
	c->memory = c->region.cpu;
	cr_assert_eq(c->t.ops->map(&c->t, &c->region, NULL), 0);
	c->cap = hr_reg_read64(&c->t, NVME_REG_CAP);
	c->step = 4u << NVME_CAP_DSTRD(c->cap);
	c->wait_ms = ((uint32_t)NVME_CAP_TO(c->cap) + 1) * 500;
	if (c->wait_ms < CONFORM_MS)
		c->wait_ms = CONFORM_MS;
	cr_assert(conform_disable(c), "CSTS.RDY stays 1");
}

void conform_close(struct conform *c)
{
	if (!c->t.ops)
		return;
	conform_disable(c);
	c->t.ops->unmap(&c->t, &c->region);
	c->t.ops->close(&c->t);
	hr_hostmem_free(&c->region);
}

bool conform_wait(struct conform *c, uint32_t mask, uint32_t want)
{
	const uint64_t end = hr_now_ns() + c->wait_ms * HR_NS_PER_MS;

	while ((hr_reg_read32(&c->t, NVME_REG_CSTS) & mask) != want) {
		if (hr_now_ns() > end)
			return false;
		hr_wait_ns(STEP_NS);
	}
	return true;
}

bool conform_disable(struct conform *c)
{
	hr_reg_write32(&c->t, NVME_REG_CC, 0);
	return conform_wait(c, 1, 0);
}

uint32_t conform_cc(void)
{
	return 1u << NVME_CC_EN_SHIFT | HR_SQE_SHIFT << NVME_CC_IOSQES_SHIFT |
	       HR_CQE_SHIFT << NVME_CC_IOCQES_SHIFT;
}

static void start_queue(struct conform *c, struct conform_queue *q, uint16_t id, uint32_t entries,
			uint32_t sq_page, uint32_t cq_page)
{
	memset(q, 0, sizeof(*q));
	q->sq = (struct hr_sqe *)conform_page(c, sq_page);
	q->cq = (struct hr_cqe *)conform_page(c, cq_page);
	memset(q->cq, 0, HR_PAGE);
	q->id = q->cqid = id;
	q->entries = (uint16_t)entries;
	q->phase = 1;
	q->cid = 1;
}

bool conform_enable(struct conform *c, uint32_t cc)
{
	const uint64_t end = hr_now_ns() + c->wait_ms * HR_NS_PER_MS;
	uint32_t csts;

	start_queue(c, &c->admin, 0, CONFORM_ENTRIES, CONFORM_ASQ, CONFORM_ACQ);
	hr_reg_write32(&c->t, NVME_REG_AQA,
		       (CONFORM_ENTRIES - 1) << NVME_AQA_ACQS_SHIFT | (CONFORM_ENTRIES - 1));
	hr_reg_write64(&c->t, NVME_REG_ASQ, conform_bus(c, CONFORM_ASQ));
	hr_reg_write64(&c->t, NVME_REG_ACQ, conform_bus(c, CONFORM_ACQ));
	hr_reg_write32(&c->t, NVME_REG_CC, cc);
	do {
		hr_wait_ns(STEP_NS);
		csts = hr_reg_read32(&c->t, NVME_REG_CSTS);
	} while (!NVME_CSTS_RDY(csts) && !NVME_CSTS_CFS(csts) && hr_now_ns() < end);
	return NVME_CSTS_RDY(csts) && !NVME_CSTS_CFS(csts);
}

static void read_identity(struct conform *c)
{
	const uint64_t held = (CONFORM_PAGES - CONFORM_DATA) / 2 * (uint64_t)HR_PAGE;

	cr_assert_eq(conform_identify(c, NVME_IDENTIFY_CNS_CTRL, 0), 0);
	memcpy(&c->id, conform_page(c, CONFORM_IDENTIFY), sizeof(c->id));
	cr_assert_eq(conform_identify(c, NVME_IDENTIFY_CNS_NS, 1), 0);
	memcpy(&c->ns, conform_page(c, CONFORM_IDENTIFY), sizeof(c->ns));
	c->block_bytes = 1u << c->ns.lbaf[c->ns.flbas & 15].ds;
	c->max_bytes = c->id.mdts && c->id.mdts < 10 ? (uint64_t)HR_PAGE << c->id.mdts : held;
	if (c->max_bytes > held)
		c->max_bytes = held;
}

void conform_open(struct conform *c)
{
	conform_reach(c);
	cr_assert(conform_enable(c, conform_cc()), "CSTS %08x after CC.EN",
		  hr_reg_read32(&c->t, NVME_REG_CSTS));
	read_identity(c);
}

void conform_open_io(struct conform *c)
{
	conform_open(c);
	cr_assert_eq(conform_add_io(c, &c->io, 1, CONFORM_ENTRIES), 0);
}

void *conform_page(struct conform *c, uint32_t page)
{
	return c->memory + (size_t)page * HR_PAGE;
}

uint64_t conform_bus(struct conform *c, uint32_t page)
{
	return hr_region_bus(&c->region, (size_t)page * HR_PAGE).addr;
}

uint16_t conform_push(struct conform_queue *q, const struct hr_sqe *sqe)
{
	q->sq[q->tail] = *sqe;
	q->sq[q->tail].cid = q->cid;
	q->tail = (uint16_t)((q->tail + 1) % q->entries);
	return q->cid++;
}

void conform_doorbell(struct conform *c, uint32_t id, bool cq, uint32_t value)
{
	hr_reg_write32(&c->t, 0x1000 + (2 * id + cq) * c->step, value);
}

void conform_ring(struct conform *c, struct conform_queue *q)
{
	conform_doorbell(c, q->id, false, q->tail);
}

bool conform_peek(struct conform *c, struct conform_queue *q, uint32_t wait_ms, struct hr_cqe *cqe)
{
	const uint64_t end = hr_now_ns() + wait_ms * HR_NS_PER_MS;
	struct hr_cqe *at = &q->cq[q->head];

	for (;;) {
		cqe->dw23 = __atomic_load_n(&at->dw23, __ATOMIC_ACQUIRE);
		if (hr_cqe_phase(cqe->status) == q->phase)
			break;
		if (hr_now_ns() > end)
			return false;
		hr_wait_ns(STEP_NS);
	}
	cqe->dw0 = at->dw0;
	cqe->dw1 = at->dw1;
	q->sqhd = cqe->sqhd;
	q->head = (uint16_t)(q->head + 1);
	if (q->head == q->entries) {
		q->head = 0;
		q->phase ^= 1;
	}
	return true;
}

void conform_release(struct conform *c, struct conform_queue *q)
{
	conform_doorbell(c, q->cqid, true, q->head);
}

uint16_t conform_do(struct conform *c, struct conform_queue *q, const struct hr_sqe *sqe,
		    uint32_t *dw0)
{
	const uint16_t cid = conform_push(q, sqe);
	struct hr_cqe cqe;

	conform_ring(c, q);
	if (!conform_peek(c, q, CONFORM_MS, &cqe))
		return CONFORM_SILENCE;
	conform_release(c, q);
	cr_expect_eq(cqe.cid, cid, "CID %u completed, %u was sent", cqe.cid, cid);
	cr_expect_eq(cqe.sqid, q->id);
	cr_expect_eq(cqe.sqhd, q->tail, "SQHD %u, tail %u", cqe.sqhd, q->tail);
	if (dw0)
		*dw0 = cqe.dw0;
	return hr_cqe_status(cqe.status);
}

uint16_t conform_admin(struct conform *c, const struct hr_sqe *sqe, uint32_t *dw0)
{
	return conform_do(c, &c->admin, sqe, dw0);
}

uint16_t conform_identify(struct conform *c, uint8_t cns, uint32_t nsid)
{
	const struct hr_sqe sqe = {
		.opcode = nvme_admin_identify,
		.nsid = nsid,
		.prp1 = conform_bus(c, CONFORM_IDENTIFY),
		.cdw10 = cns,
	};

	memset(conform_page(c, CONFORM_IDENTIFY), 0xa5, HR_PAGE);
	return conform_admin(c, &sqe, NULL);
}

uint16_t conform_get_log(struct conform *c, uint8_t lid, uint32_t bytes, uint32_t flags)
{
	const struct hr_sqe sqe = {
		.opcode = nvme_admin_get_log_page,
		.nsid = NVME_NSID_ALL,
		.prp1 = conform_bus(c, CONFORM_IDENTIFY),
		.cdw10 = (bytes / 4 - 1) << 16 | lid | flags,
	};

	memset(conform_page(c, CONFORM_IDENTIFY), 0xa5, HR_PAGE);
	return conform_admin(c, &sqe, NULL);
}

uint16_t conform_set_feature(struct conform *c, uint32_t cdw10, uint32_t cdw11, uint32_t *dw0)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_set_features,
				    .cdw10 = cdw10,
				    .cdw11 = cdw11 };

	return conform_admin(c, &sqe, dw0);
}

uint16_t conform_get_feature(struct conform *c, uint32_t cdw10, uint32_t *dw0)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_get_features, .cdw10 = cdw10 };

	return conform_admin(c, &sqe, dw0);
}

uint16_t conform_create_cq(struct conform *c, uint16_t id, uint32_t entries, uint32_t page)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_create_cq,
				    .prp1 = conform_bus(c, page),
				    .cdw10 = (entries - 1) << 16 | id,
				    .cdw11 = 1 };

	return conform_admin(c, &sqe, NULL);
}

uint16_t conform_create_sq(struct conform *c, uint16_t id, uint16_t cqid, uint32_t entries,
			   uint32_t page)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_create_sq,
				    .prp1 = conform_bus(c, page),
				    .cdw10 = (entries - 1) << 16 | id,
				    .cdw11 = (uint32_t)cqid << 16 | 1 };

	return conform_admin(c, &sqe, NULL);
}

uint16_t conform_delete(struct conform *c, bool cq, uint16_t id)
{
	const struct hr_sqe sqe = { .opcode = cq ? nvme_admin_delete_cq : nvme_admin_delete_sq,
				    .cdw10 = id };

	return conform_admin(c, &sqe, NULL);
}

uint16_t conform_add_io(struct conform *c, struct conform_queue *q, uint16_t id, uint32_t entries)
{
	const uint32_t page = CONFORM_RINGS + 2u * id;
	uint16_t status;

	start_queue(c, q, id, entries, page, page + 1);
	status = conform_create_cq(c, id, entries, page + 1);
	return status ? status : conform_create_sq(c, id, id, entries, page);
}

struct hr_sqe conform_io_sqe(struct conform *c, uint8_t opcode, uint64_t lba, uint32_t blocks,
			     uint32_t page)
{
	const uint64_t bytes = (uint64_t)blocks * c->block_bytes;
	const uint32_t pages = (uint32_t)((bytes + HR_PAGE - 1) / HR_PAGE);
	uint64_t *list = (uint64_t *)conform_page(c, CONFORM_LIST);
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, opcode, 1, lba, blocks, conform_bus(c, page), 0);
	if (pages == 2)
		sqe.prp2 = conform_bus(c, page + 1);
	if (pages <= 2 || pages > CONFORM_PAGES / 2)
		return sqe;
	for (uint32_t i = 1; i < pages; i++)
		list[i - 1] = conform_bus(c, page + i);
	sqe.prp2 = conform_bus(c, CONFORM_LIST);
	return sqe;
}

uint16_t conform_io(struct conform *c, uint8_t opcode, uint64_t lba, uint32_t blocks, uint32_t page,
		    uint32_t cdw12)
{
	struct hr_sqe sqe = conform_io_sqe(c, opcode, lba, blocks, page);

	sqe.cdw12 |= cdw12;
	return conform_do(c, &c->io, &sqe, NULL);
}

static uint32_t word_at(uint32_t seed, uint32_t i)
{
	return (seed * 0x9e3779b9u) ^ (i * 0x85ebca6bu) ^ i >> 7;
}

void conform_fill(struct conform *c, uint32_t page, uint32_t bytes, uint32_t seed)
{
	uint32_t *words = (uint32_t *)conform_page(c, page);

	for (uint32_t i = 0; i < bytes / 4; i++)
		words[i] = word_at(seed, i);
}

bool conform_is_filled(struct conform *c, uint32_t page, uint32_t bytes, uint32_t seed)
{
	const uint32_t *words = (const uint32_t *)conform_page(c, page);
	uint32_t i = 0;

	while (i < bytes / 4 && words[i] == word_at(seed, i))
		i++;
	return i == bytes / 4;
}

bool conform_is_zero(struct conform *c, uint32_t page, uint32_t bytes)
{
	const uint32_t *words = (const uint32_t *)conform_page(c, page);
	uint32_t i = 0;

	while (i < bytes / 4 && !words[i])
		i++;
	return i == bytes / 4;
}
