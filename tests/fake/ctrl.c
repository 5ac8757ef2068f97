#include "tests/fake/ctrl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/clock.h"
#include "tests/fake/clock.h"

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

static void post(struct fake_ctrl *fake, uint16_t cid, uint32_t dw0, uint16_t status,
		 enum fake_lie lie)
{
	struct hr_cqe *cq = queue_at(fake, NVME_REG_ACQ);
	struct hr_cqe cqe = {
		.dw0 = dw0,
		.sqhd = (uint16_t)fake->sq_head,
		.cid = cid,
		.status = (uint16_t)(status << 1 | fake->phase),
	};

	if (lie == FAKE_GENERATION)
		cqe.cid = (uint16_t)(cid ^ 0x8000);
	if (lie == FAKE_CID)
		cqe.cid = 0xffff;
	if (lie == FAKE_SQHD)
		cqe.sqhd = (uint16_t)((fake->sq_head + 1) % HR_ADMIN_ENTRIES);
	if (lie == FAKE_SQID)
		cqe.sqid = 7;
	cq[fake->cq_tail] = cqe;
	fake->cq_tail = (fake->cq_tail + 1) % HR_ADMIN_ENTRIES;
	if (fake->cq_tail == 0)
		fake->phase ^= 1;
}

static void leave(struct fake_ctrl *fake)
{
	memset(fake->bar, 0xff, BAR_BYTES);
}

static void execute(struct fake_ctrl *fake, const struct hr_sqe *sqe)
{
	const bool chosen = sqe->opcode == fake->opcode;
	const enum fake_lie lie = chosen ? fake->lie : FAKE_HONEST;
	uint32_t dw0 = 0;

	if (fake->seen_count < sizeof(fake->seen) / sizeof(*fake->seen))
		fake->seen[fake->seen_count++] = *sqe;
	fake->commands++;
	if (sqe->opcode == nvme_admin_identify)
		memcpy(at_bus(fake, sqe->prp1),
		       sqe->cdw10 == NVME_IDENTIFY_CNS_CTRL ? (void *)&fake->id_ctrl
							    : (void *)&fake->id_ns,
		       HR_PAGE);
	if (sqe->opcode == nvme_admin_set_features)
		dw0 = fake->queues_granted;
	if (lie == FAKE_FATAL)
		fake_ctrl_set32(fake, NVME_REG_CSTS, RDY | CFS);
	else if (lie == FAKE_GONE)
		leave(fake);
	else if (lie != FAKE_LOSE)
		post(fake, sqe->cid, dw0, chosen ? fake->status : 0, lie);
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
	if (cc != fake->last_cc)
		fake->waited = 0;
	fake->last_cc = cc;
	if (NVME_CC_SHN(cc) && NVME_CC_EN(cc)) {
		follow(fake, fake->shutdown_steps, 0, SHST_DONE);
	} else if (NVME_CC_EN(cc) && !(csts & RDY)) {
		fake->sq_head = fake->cq_tail = 0;
		fake->phase = 1;
		follow(fake, fake->ready_steps, 0, RDY);
	} else if (!NVME_CC_EN(cc) && csts) {
		follow(fake, fake->stop_steps, UINT32_MAX, 0);
	} else if (NVME_CC_EN(cc)) {
		run_admin_queue(fake);
	}
}

void fake_ctrl_init(struct fake_ctrl *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->bar = aligned_alloc(HR_PAGE, BAR_BYTES);
	fake->memory = aligned_alloc(HR_PAGE, FAKE_PAGES * (size_t)HR_PAGE);
	memset(fake->bar, 0, BAR_BYTES);
	memset(fake->memory, 0, FAKE_PAGES * (size_t)HR_PAGE);
	snprintf(fake->transport.name, sizeof(fake->transport.name), "fake");
	fake->transport.bar = fake->bar;
	fake->transport.worker_bar = fake->bar;
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
	fake->id_ctrl.oacs = NVME_CTRL_OACS_DBBUF_CFG;
	fake->id_ctrl.vwc = 1;
	fake->id_ns.nsze = 1000;
	fake->id_ns.lbaf[0].ds = 12;
	fake_clock_start(HR_NS_PER_S, step, fake);
}

void fake_ctrl_fini(struct fake_ctrl *fake)
{
	fake_clock_stop();
	free(fake->bar);
	free(fake->memory);
}

int fake_ctrl_open(struct fake_ctrl *fake)
{
	return hr_ctrl_open(&fake->ctrl, &fake->transport, &fake->region, 0);
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
