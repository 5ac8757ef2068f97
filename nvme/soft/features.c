/* SPDX-License-Identifier: Apache-2.0 */
/* Get and Set Features (Base 5.27): the mandatory features, and the volatile write cache. */
#include <string.h>

#include "nvme/soft/internal.h"

#define SAVE 0x80000000u /* CDW10 of Set Features */
#define SELECT(cdw10) ((cdw10) >> 8 & 7)
#define TEMPERATURE_OVER 343u /* kelvin; equal to WCTEMP */
#define ALL_SENSORS 15u	      /* TMPSEL */

static const uint8_t known[] = {
	NVME_FEAT_FID_ARBITRATION,  NVME_FEAT_FID_POWER_MGMT,	 NVME_FEAT_FID_TEMP_THRESH,
	NVME_FEAT_FID_ERR_RECOVERY, NVME_FEAT_FID_VOLATILE_WC,	 NVME_FEAT_FID_NUM_QUEUES,
	NVME_FEAT_FID_IRQ_COALESCE, NVME_FEAT_FID_IRQ_CONFIG,	 NVME_FEAT_FID_WRITE_ATOMIC,
	NVME_FEAT_FID_ASYNC_EVENT,  NVME_FEAT_FID_HOST_BEHAVIOR, NVME_FEAT_FID_HOST_ID,
};

static bool is_known(const struct soft *soft, uint8_t fid)
{
	if (fid == NVME_FEAT_FID_VOLATILE_WC && !soft->cache.capacity)
		return false;
	if (fid == NVME_FEAT_FID_HOST_ID && !soft->reservations)
		return false;
	return memchr(known, fid, sizeof(known)) != NULL;
}

static uint32_t default_of(const struct soft *soft, uint8_t fid)
{
	const uint32_t queues = HR_SOFT_QUEUES - 1;

	switch (fid) {
	case NVME_FEAT_FID_TEMP_THRESH:
		return TEMPERATURE_OVER;
	case NVME_FEAT_FID_VOLATILE_WC:
		return soft->cache.capacity > 0;
	case NVME_FEAT_FID_NUM_QUEUES:
		return queues << 16 | queues;
	default:
		return 0;
	}
}

void soft_features_reset(struct soft *soft)
{
	for (unsigned fid = 0; fid < 256; fid++)
		soft->feature[fid] = default_of(soft, (uint8_t)fid);
	soft->under_kelvin = 0;
	soft->granted = HR_SOFT_QUEUES;
	soft->aers = 0;
	soft->masked = 0;
	soft->retry_delays = false;
	soft_reservations_reset(soft);
	__atomic_store_n(&soft->events, 0, __ATOMIC_RELAXED);
	soft_compare_temperature(soft);
	soft_check_spare(soft);
	hr_write_lock(&soft->cache.lock);
	soft->cache.enabled = soft->cache.capacity > 0;
	pthread_rwlock_unlock(&soft->cache.lock);
}

static bool has_io_queues(const struct soft *soft)
{
	for (unsigned q = 1; q <= HR_SOFT_QUEUES; q++)
		if (soft->sq[q].ring || soft->cq[q].ring)
			return true;
	return false;
}

/* Grants the requested number, the same for SQs and CQs. */
static uint16_t set_queues(struct soft *soft, uint32_t cdw11, uint32_t *dw0)
{
	const uint32_t nsqr = cdw11 & 0xffff, ncqr = cdw11 >> 16;
	uint32_t grant = nsqr > ncqr ? nsqr : ncqr;

	if (has_io_queues(soft))
		return NVME_SC_CMD_SEQ_ERROR | SOFT_DNR;
	if (nsqr == 0xffff || ncqr == 0xffff)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	if (grant > HR_SOFT_QUEUES - 1)
		grant = HR_SOFT_QUEUES - 1;
	soft->granted = (uint16_t)(grant + 1);
	soft->feature[NVME_FEAT_FID_NUM_QUEUES] = *dw0 = grant << 16 | grant;
	return 0;
}

static uint16_t set_cache(struct soft *soft, uint32_t cdw11)
{
	const bool on = cdw11 & 1;

	if (!on && soft_cache_flush(&soft->cache) != 0)
		return NVME_SC_INTERNAL;
	hr_write_lock(&soft->cache.lock);
	soft->cache.enabled = on;
	pthread_rwlock_unlock(&soft->cache.lock);
	soft->feature[NVME_FEAT_FID_VOLATILE_WC] = on;
	return 0;
}

/* Thresholds of the composite temperature only: over (0) and under (1), CDW11 21:20. */
static uint32_t *threshold_of(struct soft *soft, uint32_t cdw11, bool set)
{
	const uint32_t sensor = cdw11 >> 16 & 15, type = cdw11 >> 20 & 3;

	if (type > 1 || (sensor != 0 && !(set && sensor == ALL_SENSORS)))
		return NULL;
	return type ? &soft->under_kelvin : &soft->feature[NVME_FEAT_FID_TEMP_THRESH];
}

static uint16_t set_threshold(struct soft *soft, uint32_t cdw11)
{
	uint32_t *threshold = threshold_of(soft, cdw11, true);

	if (!threshold)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	*threshold = cdw11 & 0xffff;
	soft_compare_temperature(soft);
	return 0;
}

static uint16_t get_threshold(struct soft *soft, uint32_t cdw11, bool current, uint32_t *dw0)
{
	const uint32_t *threshold = threshold_of(soft, cdw11, false);

	if (!threshold)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	if (current)
		*dw0 = *threshold;
	else
		*dw0 = threshold == &soft->under_kelvin ? 0 : TEMPERATURE_OVER;
	return 0;
}

/* 512 bytes of data: byte 0 bit 0 is ACRE, all other bits are reserved (5.27.1.18). */
static uint16_t set_behavior(struct soft *soft, const struct hr_sqe *sqe)
{
	const struct soft_window *hint = soft->window;
	struct nvme_feat_host_behavior behavior;
	struct iovec vec[2];
	unsigned pieces;
	const uint16_t status = soft_prp(soft, &hint, sqe, sizeof(behavior), vec, 2, &pieces);

	if (status)
		return (uint16_t)(status | SOFT_DNR);
	soft_gather(&behavior, vec, pieces);
	if (behavior.acre > 1)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	soft->retry_delays = behavior.acre;
	return 0;
}

static uint16_t get_behavior(struct soft *soft, const struct hr_sqe *sqe, bool current)
{
	const struct nvme_feat_host_behavior behavior = { .acre = current && soft->retry_delays };

	return soft_copy_out(soft, sqe, &behavior, sizeof(behavior));
}

/* All features belong to the controller. Set Features with a namespace is refused (5.27, 10Fh).
 * Get Features accepts the NSID of an existing namespace. */
static uint16_t refuse_namespace(const struct soft *soft, uint32_t nsid, bool set)
{
	if (!soft_has_namespace(soft, nsid))
		return NVME_SC_INVALID_NS | SOFT_DNR;
	return set ? NVME_SC_FEATURE_NOT_PER_NS | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR : 0;
}

uint16_t soft_set_feature(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0)
{
	const uint8_t fid = (uint8_t)sqe->cdw10;

	if (!is_known(soft, fid))
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	if (sqe->nsid && sqe->nsid != NVME_NSID_ALL)
		return refuse_namespace(soft, sqe->nsid, true);
	if (sqe->cdw10 & SAVE)
		return NVME_SC_FEATURE_NOT_SAVEABLE | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	switch (fid) {
	case NVME_FEAT_FID_NUM_QUEUES:
		return set_queues(soft, sqe->cdw11, dw0);
	case NVME_FEAT_FID_VOLATILE_WC:
		return set_cache(soft, sqe->cdw11);
	case NVME_FEAT_FID_TEMP_THRESH:
		return set_threshold(soft, sqe->cdw11);
	case NVME_FEAT_FID_POWER_MGMT: /* the only power state */
		if (sqe->cdw11 & 0x1f)
			return NVME_SC_INVALID_FIELD | SOFT_DNR;
		break;
	case NVME_FEAT_FID_HOST_BEHAVIOR:
		return set_behavior(soft, sqe);
	case NVME_FEAT_FID_HOST_ID:
		return soft_set_host_id(soft, sqe);
	case NVME_FEAT_FID_IRQ_CONFIG:
		return NVME_SC_INVALID_FIELD | SOFT_DNR; /* no vectors to configure */
	default:
		break;
	}
	soft->feature[fid] = sqe->cdw11;
	return 0;
}

uint16_t soft_get_feature(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0)
{
	const uint8_t fid = (uint8_t)sqe->cdw10;

	if (!is_known(soft, fid))
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	if (sqe->nsid && sqe->nsid != NVME_NSID_ALL && refuse_namespace(soft, sqe->nsid, false))
		return refuse_namespace(soft, sqe->nsid, false);
	/* ONCS reports no saved values */
	if (SELECT(sqe->cdw10) > NVME_GET_FEATURES_SEL_DEFAULT)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	if (fid == NVME_FEAT_FID_HOST_BEHAVIOR)
		return get_behavior(soft, sqe, !SELECT(sqe->cdw10));
	if (fid == NVME_FEAT_FID_HOST_ID)
		return soft_get_host_id(soft, sqe, !SELECT(sqe->cdw10));
	if (fid == NVME_FEAT_FID_TEMP_THRESH)
		return get_threshold(soft, sqe->cdw11, !SELECT(sqe->cdw10), dw0);
	*dw0 = SELECT(sqe->cdw10) ? default_of(soft, fid) : soft->feature[fid];
	return 0;
}
