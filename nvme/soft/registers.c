/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The register page (PCIe Transport 3.1): register values for the host, and the reaction to a write
 * of CC. Poller 0 compares CC with its last value.
 */
#include "config/base/clock.h"
#include "nvme/soft/internal.h"

#define CAP_TO 10u /* 5 s, in units of 500 ms */
#define LATE_TO 1u
#define LATE_NS (700 * HR_NS_PER_MS) /* above LATE_TO */
#define BUSY_NS (2 * HR_NS_PER_S)
#define BLIND_NS (300 * HR_NS_PER_MS)

static void put32(struct soft *soft, uint32_t offset, uint32_t value)
{
	__atomic_store_n((uint32_t *)(void *)(soft->bar + offset), value, __ATOMIC_RELEASE);
}

static void put64(struct soft *soft, uint32_t offset, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)(soft->bar + offset), value, __ATOMIC_RELEASE);
}

static uint32_t get32(const struct soft *soft, uint32_t offset)
{
	return __atomic_load_n((uint32_t *)(void *)(soft->bar + offset), __ATOMIC_ACQUIRE);
}

static uint64_t get64(const struct soft *soft, uint32_t offset)
{
	return __atomic_load_n((uint64_t *)(void *)(soft->bar + offset), __ATOMIC_ACQUIRE);
}

static void set_csts(struct soft *soft, uint32_t csts)
{
	soft->csts = csts;
	put32(soft, NVME_REG_CSTS, csts);
}

void soft_regs_reset(struct soft *soft)
{
	const uint64_t to = soft_has_quirk(soft, HR_SOFT_LATE_READY) ? LATE_TO : CAP_TO;

	soft->cap = (uint64_t)(HR_SOFT_ENTRIES - 1) << NVME_CAP_MQES_SHIFT |
		    (uint64_t)1 << NVME_CAP_CQR_SHIFT | to << NVME_CAP_TO_SHIFT |
		    (uint64_t)soft->options.dstrd << NVME_CAP_DSTRD_SHIFT |
		    (uint64_t)NVME_CAP_CSS_NVM << NVME_CAP_CSS_SHIFT;
	if (soft->options.zoned)
		soft->cap |= (uint64_t)NVME_CAP_CSS_CSI << NVME_CAP_CSS_SHIFT;
	/* 1.4: mandatory additions of 2.0 (CRTO, effects logs) are not needed here */
	soft->vs = 1u << NVME_VS_MJR_SHIFT | 4u << NVME_VS_MNR_SHIFT;
	put64(soft, NVME_REG_CAP, soft->cap);
	put32(soft, NVME_REG_VS, soft->vs);
	set_csts(soft, 0);
}

void soft_fail(struct soft *soft)
{
	__atomic_store_n(&soft->failing, true, __ATOMIC_RELEASE);
}

static void fill_ones(struct soft *soft, size_t bytes)
{
	for (uint32_t i = 0; i < bytes; i += 4)
		if (get32(soft, i) != UINT32_MAX)
			put32(soft, i, UINT32_MAX);
}

void soft_vanish(struct soft *soft)
{
	/* repeated, because writes of the host stay in the page */
	fill_ones(soft, soft->vanished ? SOFT_DOORBELLS : soft->bar_bytes);
	soft->vanished = true;
}

/* Set up the admin queue from AQA, ASQ and ACQ; false when they are invalid. */
static bool set_admin_queue(struct soft *soft)
{
	const uint32_t aqa = get32(soft, NVME_REG_AQA);
	const uint64_t asq = get64(soft, NVME_REG_ASQ), acq = get64(soft, NVME_REG_ACQ);
	const uint32_t sq_entries = NVME_AQA_ASQS(aqa) + 1, cq_entries = NVME_AQA_ACQS(aqa) + 1;
	const struct soft_window *hint = soft->window;
	void *sq = soft_dma(soft, &hint, asq, (uint64_t)sq_entries * HR_SQE_BYTES);
	void *cq = soft_dma(soft, &hint, acq, (uint64_t)cq_entries * HR_CQE_BYTES);

	if (soft_has_quirk(soft, HR_SOFT_ADMIN_64) && (sq_entries % 64 || cq_entries % 64))
		return false;
	if (sq_entries < 2 || cq_entries < 2 || (asq | acq) & (HR_PAGE - 1) || !sq || !cq)
		return false;
	soft_init_cq_doorbell(soft, 0, cq, cq_entries);
	soft_init_sq_doorbell(soft, 0, 0, sq, sq_entries);
	return true;
}

static bool settings_valid(const struct soft *soft, uint32_t cc)
{
	return (NVME_CC_CSS(cc) == NVME_CC_CSS_NVM ||
		(soft->options.zoned && NVME_CC_CSS(cc) == NVME_CC_CSS_CSI)) &&
	       NVME_CC_MPS(cc) == 0 && NVME_CC_AMS(cc) == NVME_CC_AMS_RR &&
	       NVME_CC_IOSQES(cc) == HR_SQE_SHIFT && NVME_CC_IOCQES(cc) == HR_CQE_SHIFT;
}

static void become_ready(struct soft *soft)
{
	soft->ready_ns = 0;
	soft->running = true;
	set_csts(soft, 1u << NVME_CSTS_RDY_SHIFT);
}

static void enable(struct soft *soft, uint32_t cc)
{
	soft_queues_clear(soft);
	soft_features_reset(soft);
	if (!settings_valid(soft, cc) || !set_admin_queue(soft) || hr_now_ns() < soft->busy_ns) {
		set_csts(soft, 1u << NVME_CSTS_CFS_SHIFT);
		return;
	}
	if (soft_has_quirk(soft, HR_SOFT_LATE_READY))
		soft->ready_ns = hr_now_ns() + LATE_NS;
	else
		become_ready(soft);
}

/* INTMS sets bits of the mask and INTMC clears them; reads of both return the mask (PCIe
 * Transport 3.1.1). */
static void mask_interrupts(struct soft *soft)
{
	const uint32_t set = get32(soft, NVME_REG_INTMS), clear = get32(soft, NVME_REG_INTMC);
	const uint32_t mask = soft->interrupt_mask;

	if (set == mask && clear == mask)
		return;
	if (set != mask)
		soft->interrupt_mask |= set;
	if (clear != mask)
		soft->interrupt_mask &= ~clear;
	put32(soft, NVME_REG_INTMS, soft->interrupt_mask);
	put32(soft, NVME_REG_INTMC, soft->interrupt_mask);
}

static void unmask_interrupts(struct soft *soft)
{
	soft->interrupt_mask = 0;
	put32(soft, NVME_REG_INTMS, 0);
	put32(soft, NVME_REG_INTMC, 0);
}

/* Controller reset: queues and delayed completions are dropped; the cache keeps its data. */
static void reset_soft_controller(struct soft *soft)
{
	soft->running = false;
	soft_queues_clear(soft);
	unmask_interrupts(soft);
	__atomic_store_n(&soft->failing, false, __ATOMIC_RELEASE);
	soft->ready_ns = 0;
	soft->csts = 0;
	if (soft_has_quirk(soft, HR_SOFT_EARLY_READY))
		soft->busy_ns = hr_now_ns() + BUSY_NS;
	if (soft_has_quirk(soft, HR_SOFT_ONES))
		soft->blind_ns = hr_now_ns() + BLIND_NS;
	else
		set_csts(soft, 0);
}

/* Base 3.6.1: make all cached data durable, then set SHST. */
static void shut_down(struct soft *soft)
{
	const uint32_t rest = soft->csts & ~((uint32_t)NVME_CSTS_SHST_MASK << NVME_CSTS_SHST_SHIFT);

	soft->running = false;
	if (soft_cache_flush(&soft->cache) != 0) {
		set_csts(soft, rest | 1u << NVME_CSTS_CFS_SHIFT);
		return;
	}
	set_csts(soft,
		 rest | (uint32_t)(soft_has_quirk(soft, HR_SOFT_NO_SHUTDOWN) ? NVME_CSTS_SHST_OCCUR
									     : NVME_CSTS_SHST_CMPLT)
				 << NVME_CSTS_SHST_SHIFT);
}

static void change(struct soft *soft, uint32_t from, uint32_t to)
{
	soft->cc = to;
	if (NVME_CC_EN(from) && !NVME_CC_EN(to))
		reset_soft_controller(soft);
	if (!NVME_CC_EN(from) && NVME_CC_EN(to))
		enable(soft, to);
	if (NVME_CC_SHN(to) && NVME_CC_SHN(to) != NVME_CC_SHN(from))
		shut_down(soft);
}

/* Restore the read-only registers that the host has overwritten. */
static void restore(struct soft *soft)
{
	if (get64(soft, NVME_REG_CAP) != soft->cap)
		put64(soft, NVME_REG_CAP, soft->cap);
	if (get32(soft, NVME_REG_VS) != soft->vs)
		put32(soft, NVME_REG_VS, soft->vs);
	if (get32(soft, NVME_REG_CSTS) != soft->csts)
		put32(soft, NVME_REG_CSTS, soft->csts);
}

/* What the host has written meanwhile is lost. True: all registers read all ones. */
static bool is_blind(struct soft *soft)
{
	if (!soft->blind_ns)
		return false;
	if (hr_now_ns() < soft->blind_ns) {
		fill_ones(soft, SOFT_DOORBELLS);
		return true;
	}
	soft->blind_ns = 0;
	for (uint32_t i = 0; i < SOFT_DOORBELLS; i += 4)
		if (i != NVME_REG_CSTS) /* the last one: restore() */
			put32(soft, i, 0);
	put32(soft, NVME_REG_CC, soft->cc);
	return false;
}

bool soft_regs_poll(struct soft *soft)
{
	uint32_t cc;

	if (is_blind(soft))
		return false;
	restore(soft);
	cc = get32(soft, NVME_REG_CC);
	mask_interrupts(soft);
	if (__atomic_load_n(&soft->failing, __ATOMIC_ACQUIRE) && !NVME_CSTS_CFS(soft->csts)) {
		soft_quiesce(soft, 1);
		soft->running = false;
		soft_resume(soft, 1);
		set_csts(soft, soft->csts | 1u << NVME_CSTS_CFS_SHIFT);
	}
	if (cc == soft->cc) {
		if (soft->ready_ns && hr_now_ns() >= soft->ready_ns) {
			soft_quiesce(soft, 1);
			become_ready(soft);
			soft_resume(soft, 1);
		}
		return false;
	}
	soft_quiesce(soft, 1);
	change(soft, soft->cc, cc);
	soft_resume(soft, 1);
	return true;
}
