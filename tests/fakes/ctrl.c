/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/ctrl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "tests/fakes/clock.h"

#define BAR_BYTES (4 * (size_t)HR_PAGE)
#define RDY 1u
#define CFS 2u
#define SHST_DONE (2u << 2)

void fake_ctrl_set32(struct fake_ctrl *fake, uint32_t offset, uint32_t value)
{
	memcpy(fake->bar + offset, &value, sizeof(value));
}

uint32_t fake_ctrl_get32(const struct fake_ctrl *fake, uint32_t offset)
{
	uint32_t value;

	memcpy(&value, fake->bar + offset, sizeof(value));
	return value;
}

void fake_ctrl_set_cap(struct fake_ctrl *fake, uint64_t cap)
{
	memcpy(fake->bar + NVME_REG_CAP, &cap, sizeof(cap));
}

static void *at_bus(struct fake_ctrl *fake, uint64_t addr)
{
	if (addr < FAKE_BUS || addr >= FAKE_BUS + FAKE_PAGES * HR_PAGE)
		abort();
	return fake->memory + (addr - FAKE_BUS);
}

static void *queue_at(struct fake_ctrl *fake, uint32_t reg)
{
	uint64_t addr;

	memcpy(&addr, fake->bar + reg, sizeof(addr));
	return at_bus(fake, addr);
}

/* Change a CQE as configured, and post it. */
static void post(struct hr_cqe *cq, uint32_t entries, uint32_t *tail, uint32_t *phase,
		 struct hr_cqe cqe, enum fake_lie lie)
{
	if (lie == FAKE_GENERATION)
		cqe.cid = (uint16_t)(cqe.cid ^ 0x8000);
	if (lie == FAKE_CID)
		cqe.cid = 0xffff;
	if (lie == FAKE_SQHD)
		cqe.sqhd = (uint16_t)(cqe.sqhd + entries);
	if (lie == FAKE_SQID)
		cqe.sqid = (uint16_t)(cqe.sqid + 7);
	cqe.status = (uint16_t)(cqe.status | *phase);
	cq[*tail] = cqe;
	*tail = (*tail + 1) % entries;
	if (*tail == 0)
		*phase ^= 1;
}

static void leave(struct fake_ctrl *fake)
{
	memset(fake->bar, fake->gone_reads_zero ? 0 : 0xff, BAR_BYTES);
}

static void create_queue(struct fake_ctrl *fake, const struct hr_sqe *sqe)
{
	struct fake_io *io = &fake->io_queue;

	if (sqe->opcode == nvme_admin_create_cq) {
		memset(io, 0, sizeof(*io));
		io->cq = sqe->prp1;
		io->phase = 1;
	} else if (sqe->opcode == nvme_admin_create_sq) {
		io->sq = sqe->prp1;
		io->id = sqe->cdw10 & 0xffff;
		io->entries = (sqe->cdw10 >> 16) + 1;
		fake_ctrl_set32(fake, HR_DOORBELLS + io->id * 8, 0);
	} else if (sqe->opcode == nvme_admin_delete_sq) {
		io->entries = 0;
	}
}

/* Returns false when the fault leaves no completion. */
static bool misbehave(struct fake_ctrl *fake, enum fake_lie lie)
{
	if (lie == FAKE_FATAL)
		fake_ctrl_set32(fake, NVME_REG_CSTS, RDY | CFS);
	else if (lie == FAKE_GONE)
		leave(fake);
	return lie != FAKE_FATAL && lie != FAKE_GONE && lie != FAKE_LOSE;
}

static const void *identify_data(const struct fake_ctrl *fake, uint32_t cns)
{
	switch (cns) {
	case NVME_IDENTIFY_CNS_CTRL:
		return &fake->id_ctrl;
	case NVME_IDENTIFY_CNS_NS_ACTIVE_LIST:
		return fake->active;
	case NVME_IDENTIFY_CNS_NS_DESC_LIST:
		return fake->descriptors;
	default:
		return &fake->id_ns;
	}
}

static void execute(struct fake_ctrl *fake, const struct hr_sqe *sqe)
{
	const bool chosen = !fake->io && sqe->opcode == fake->opcode;
	const enum fake_lie lie = chosen ? fake->lie : FAKE_HONEST;
	struct hr_cqe cqe = {
		.sqhd = (uint16_t)fake->sq_head,
		.cid = sqe->cid,
		.status = (uint16_t)(chosen ? fake->status << 1 : 0),
	};

	if (fake->seen_count < sizeof(fake->seen) / sizeof(*fake->seen))
		fake->seen[fake->seen_count++] = *sqe;
	fake->commands++;
	if (sqe->opcode == nvme_admin_identify)
		memcpy(at_bus(fake, sqe->prp1), identify_data(fake, sqe->cdw10 & 0xff), HR_PAGE);
	if (chosen && fake->cns && sqe->cdw10 != fake->cns)
		cqe.status = 0;
	if (sqe->opcode == nvme_admin_set_features)
		cqe.dw0 = fake->queues_granted;
	if (!cqe.status)
		create_queue(fake, sqe);
	if (misbehave(fake, lie))
		post(queue_at(fake, NVME_REG_ACQ), HR_ADMIN_ENTRIES, &fake->cq_tail, &fake->phase,
		     cqe, lie);
}

/* Page n of a transfer of that many bytes. */
static uint8_t *page_of(struct fake_ctrl *fake, const struct hr_sqe *sqe, uint32_t n,
			uint32_t bytes)
{
	const uint64_t *list;

	if (n == 0)
		return at_bus(fake, sqe->prp1);
	if (bytes <= 2 * HR_PAGE)
		return at_bus(fake, sqe->prp2);
	list = at_bus(fake, sqe->prp2);
	return at_bus(fake, list[n - 1]);
}

static void move_data(struct fake_ctrl *fake, const struct hr_sqe *sqe)
{
	const uint32_t shift = fake->id_ns.lbaf[0].ds;
	const uint64_t at = ((uint64_t)sqe->cdw11 << 32 | sqe->cdw10) << shift;
	const uint32_t bytes = ((sqe->cdw12 & 0xffff) + 1) << shift;

	if (at + bytes > FAKE_MEDIA || bytes > fake->ctrl.max_transfer)
		abort();
	for (uint32_t done = 0; done < bytes; done += HR_PAGE) {
		uint8_t *page = page_of(fake, sqe, done / HR_PAGE, bytes);
		const uint32_t part = bytes - done < HR_PAGE ? bytes - done : HR_PAGE;

		if (sqe->opcode == nvme_cmd_write)
			memcpy(fake->media + at + done, page, part);
		else
			memcpy(page, fake->media + at + done, part);
	}
}

/* True when this command gets the fault; counts one use. */
static bool choose(struct fake_ctrl *fake, const struct hr_sqe *sqe)
{
	const uint64_t lba = (uint64_t)sqe->cdw11 << 32 | sqe->cdw10;
	const bool flush = sqe->opcode == nvme_cmd_flush;

	if (!fake->io || fake->times == 0 || sqe->opcode != fake->opcode ||
	    (!flush && (fake->lba + fake->more < lba || fake->lba > lba + (sqe->cdw12 & 0xffff))))
		return false;
	fake->times--;
	return true;
}

static void execute_io(struct fake_ctrl *fake, const struct hr_sqe *sqe)
{
	struct fake_io *io = &fake->io_queue;
	const bool chosen = choose(fake, sqe);
	struct hr_cqe cqe = {
		.sqhd = (uint16_t)io->sq_head,
		.sqid = (uint16_t)io->id,
		.cid = sqe->cid,
		.status = (uint16_t)(chosen ? fake->status << 1 | fake->dnr << 15 : 0),
	};

	if (fake->seen_count < sizeof(fake->seen) / sizeof(*fake->seen))
		fake->seen[fake->seen_count++] = *sqe;
	fake->commands++;
	if (!cqe.status && sqe->opcode != nvme_cmd_flush)
		move_data(fake, sqe);
	if (misbehave(fake, chosen ? fake->lie : FAKE_HONEST))
		post(at_bus(fake, io->cq), io->entries, &io->cq_tail, &io->phase, cqe,
		     chosen ? fake->lie : FAKE_HONEST);
}

static void run_io_queue(struct fake_ctrl *fake)
{
	struct fake_io *io = &fake->io_queue;
	const uint32_t tail = fake_ctrl_get32(fake, HR_DOORBELLS + io->id * 8);
	const struct hr_sqe *sq = at_bus(fake, io->sq);
	uint32_t pending = 0;

	for (; io->sq_head != tail; io->sq_head = (io->sq_head + 1) % io->entries)
		io->pending[pending++] = sq[io->sq_head];
	if (pending > io->most_pending)
		io->most_pending = pending;
	while (pending && fake_ctrl_get32(fake, NVME_REG_CSTS) == RDY)
		execute_io(fake, &io->pending[--pending]);
}

static void run_admin_queue(struct fake_ctrl *fake)
{
	const uint32_t tail = fake_ctrl_get32(fake, HR_DOORBELLS);
	const struct hr_sqe *sq = queue_at(fake, NVME_REG_ASQ);

	while (fake->sq_head != tail && fake_ctrl_get32(fake, NVME_REG_CSTS) == RDY) {
		const struct hr_sqe sqe = sq[fake->sq_head];

		fake->sq_head = (fake->sq_head + 1) % HR_ADMIN_ENTRIES;
		execute(fake, &sqe);
	}
}

/* CSTS follows CC after the given number of steps. */
static void follow(struct fake_ctrl *fake, uint32_t steps, uint32_t clear, uint32_t set)
{
	const uint32_t csts = fake_ctrl_get32(fake, NVME_REG_CSTS);

	if (steps != FAKE_NEVER && ++fake->waited >= steps)
		fake_ctrl_set32(fake, NVME_REG_CSTS, (csts & ~clear) | set);
}

static void step(void *context)
{
	struct fake_ctrl *fake = context;
	const uint32_t cc = fake_ctrl_get32(fake, NVME_REG_CC);
	const uint32_t csts = fake_ctrl_get32(fake, NVME_REG_CSTS);

	fake->steps++;
	if (csts == UINT32_MAX)
		return;
	if (fake->steps == fake->gone_at_step) {
		leave(fake);
		return;
	}
	if (fake->steps == fake->fatal_at_step)
		fake_ctrl_set32(fake, NVME_REG_CSTS, csts | CFS);
	if (NVME_CC_EN(fake->last_cc) && !NVME_CC_EN(cc) && !(csts & (RDY | CFS)))
		fake->undefined_resets++;
	if (cc != fake->last_cc)
		fake->waited = 0;
	fake->last_cc = cc;
	if (NVME_CC_SHN(cc) && NVME_CC_EN(cc)) {
		follow(fake, fake->shutdown_steps, 0, SHST_DONE);
	} else if (NVME_CC_EN(cc) && !(csts & RDY)) {
		fake->sq_head = fake->cq_tail = 0;
		fake->phase = 1;
		follow(fake, fake->ready_steps, CFS, RDY);
	} else if (!NVME_CC_EN(cc) && csts) {
		follow(fake, fake->stop_steps, UINT32_MAX, 0);
	} else if (NVME_CC_EN(cc)) {
		run_admin_queue(fake);
		if (fake->io_queue.entries)
			run_io_queue(fake);
	}
}

static int silence(struct hr_transport *t, bool for_good)
{
	struct fake_ctrl *fake = t->impl;
	const uint32_t vs = fake_ctrl_get32(fake, NVME_REG_VS);
	const uint32_t cc = fake_ctrl_get32(fake, NVME_REG_CC);

	fake->silenced++;
	return (vs == 0 || vs == UINT32_MAX || cc == UINT32_MAX) && !fake->deaf ? -ENODEV : 0;
}

static const struct hr_transport_ops fake_ops = { .silence = silence };

void fake_ctrl_init(struct fake_ctrl *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->bar = aligned_alloc(HR_PAGE, BAR_BYTES);
	fake->memory = aligned_alloc(HR_PAGE, FAKE_PAGES * (size_t)HR_PAGE);
	fake->media = calloc(1, FAKE_MEDIA);
	memset(fake->bar, 0, BAR_BYTES);
	memset(fake->memory, 0, FAKE_PAGES * (size_t)HR_PAGE);
	snprintf(fake->transport.name, sizeof(fake->transport.name), "fake");
	fake->transport.ops = &fake_ops;
	fake->transport.impl = fake;
	fake->transport.bar = fake->bar;
	fake->transport.bar_bytes = BAR_BYTES;
	fake->region = (struct hr_region){
		.name = "test",
		.cpu = fake->memory,
		.worker = fake->memory,
		.bytes = FAKE_PAGES * (size_t)HR_PAGE,
		.bus = { FAKE_BUS },
	};
	fake_ctrl_set_cap(fake, NVME_SET(63ull, CAP_MQES) | NVME_SET(15ull, CAP_TO) |
					NVME_SET((uint64_t)NVME_CAP_CSS_NVM, CAP_CSS));
	fake_ctrl_set32(fake, NVME_REG_VS, 0x20000);
	fake->ready_steps = fake->stop_steps = fake->shutdown_steps = 1;
	fake->queues_granted = 0x00070007;
	fake->opcode = 0xff;
	memcpy(fake->id_ctrl.sn, "S1  \x07                ", sizeof(fake->id_ctrl.sn));
	memset(fake->id_ctrl.mn, ' ', sizeof(fake->id_ctrl.mn));
	memcpy(fake->id_ctrl.mn, "Fake model", 10);
	memcpy(fake->id_ctrl.fr, "1.0     ", sizeof(fake->id_ctrl.fr));
	fake->id_ctrl.sqes = 0x66;
	fake->id_ctrl.cqes = 0x44;
	fake->id_ctrl.nn = 1;
	fake->id_ctrl.mdts = 5;
	fake->id_ctrl.vwc = 1;
	fake->id_ns.nsze = 1000;
	fake->id_ns.lbaf[0].ds = 12;
	fake_clock_start(HR_NS_PER_S, step, fake);
}

void fake_ctrl_fini(struct fake_ctrl *fake)
{
	fake_clock_stop();
	free(fake->media);
	free(fake->bar);
	free(fake->memory);
}

int fake_ctrl_open(struct fake_ctrl *fake)
{
	return hr_ctrl_open(&fake->ctrl, &fake->transport, &fake->region, 0, HR_ADMIN_TIMEOUT_NS,
			    NULL);
}

const char *fake_ctrl_trace(const struct fake_ctrl *fake)
{
	static char text[256];
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < fake->seen_count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%02x", i ? " " : "",
					 fake->seen[i].opcode);
	return text;
}
