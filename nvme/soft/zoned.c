/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace of the zoned command set (Zoned Namespace Command Set 1.1), with the commands that a
 * driver needs to recognize and refuse it: identify, reads, and a report of its zones, all of which
 * are full.
 */
#include <string.h>

#include "nvme/soft/internal.h"

#define ZONE_BLOCKS 1024u
#define ZONE_TYPE_SEQUENTIAL 2u /* ZT */
#define ZONE_STATE_FULL 0xeu	/* ZS in bits 7:4 */
#define REPORT_HEAD 64u

static uint64_t zones_of(const struct soft *soft)
{
	return (soft->blocks + ZONE_BLOCKS - 1) / ZONE_BLOCKS;
}

static uint16_t copy_zeroes_but(struct soft *soft, const struct hr_sqe *sqe, const void *data,
				size_t at, size_t bytes)
{
	uint8_t page[HR_PAGE] = { 0 };

	memcpy(page + at, data, bytes);
	return soft_copy_out(soft, sqe, page, sizeof(page));
}

/* CNS 05h (ZNS 4.1.5.1): zone size of the LBA format in use. */
static uint16_t identify_ns(struct soft *soft, const struct hr_sqe *sqe)
{
	const struct nvme_zns_lbafe format = { .zsze = ZONE_BLOCKS };

	if (sqe->nsid != 1)
		return NVME_SC_INVALID_NS | SOFT_DNR;
	return copy_zeroes_but(soft, sqe, &format, offsetof(struct nvme_zns_id_ns, lbafe),
			       sizeof(format));
}

uint16_t soft_zoned_identify(struct soft *soft, const struct hr_sqe *sqe)
{
	const uint8_t csi = (uint8_t)(sqe->cdw11 >> 24);
	/* a single combination with both command sets */
	const uint64_t sets = 1 << NVME_CSI_NVM | 1 << NVME_CSI_ZNS;
	const uint32_t nsid = 1;

	switch (sqe->cdw10 & 0xff) {
	case NVME_IDENTIFY_CNS_CSI_NS:
		return csi == NVME_CSI_ZNS ? identify_ns(soft, sqe)
					   : NVME_SC_INVALID_IOCS | SOFT_DNR;
	case NVME_IDENTIFY_CNS_CSI_CTRL:
		if (csi != NVME_CSI_ZNS && csi != NVME_CSI_NVM)
			return NVME_SC_INVALID_IOCS | SOFT_DNR;
		return copy_zeroes_but(soft, sqe, "", 0, 1);
	case NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST:
		if (csi != NVME_CSI_ZNS && csi != NVME_CSI_NVM)
			return NVME_SC_INVALID_IOCS | SOFT_DNR;
		return copy_zeroes_but(soft, sqe, &nsid, 0,
				       csi == NVME_CSI_ZNS && sqe->nsid < 1 ? sizeof(nsid) : 0);
	case NVME_IDENTIFY_CNS_COMMAND_SET_STRUCTURE:
		return copy_zeroes_but(soft, sqe, &sets, 0, sizeof(sets));
	default:
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	}
}

/* Report Zones (ZNS 3.4.2): as many descriptors as fit, in at most one page. */
static uint16_t report_zones(struct soft *soft, const struct hr_sqe *sqe)
{
	const uint64_t from = (uint64_t)sqe->cdw11 << 32 | sqe->cdw10;
	const uint64_t bytes = ((uint64_t)sqe->cdw12 + 1) * 4;
	const uint64_t first = from / ZONE_BLOCKS, zones = zones_of(soft);
	struct nvme_zns_desc zone = { .zt = ZONE_TYPE_SEQUENTIAL, .zs = ZONE_STATE_FULL << 4 };
	uint8_t page[HR_PAGE] = { 0 };
	uint64_t count = zones - first;

	if (from >= soft->blocks)
		return NVME_SC_LBA_RANGE | SOFT_DNR;
	if (bytes > sizeof(page) || sqe->cdw13 & 0xff) /* zone receive action: report */
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	memcpy(page, &count, sizeof(count));
	for (uint64_t i = 0; i < count && REPORT_HEAD + (i + 1) * sizeof(zone) <= bytes; i++) {
		zone.zslba = (first + i) * ZONE_BLOCKS;
		zone.zcap = soft->blocks - zone.zslba < ZONE_BLOCKS ? soft->blocks - zone.zslba
								    : ZONE_BLOCKS;
		zone.wp = UINT64_MAX;
		memcpy(page + REPORT_HEAD + i * sizeof(zone), &zone, sizeof(zone));
	}
	return soft_copy_out(soft, sqe, page, (uint32_t)bytes);
}

uint16_t soft_zoned_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	switch (sqe->opcode) {
	case nvme_cmd_flush:
		return 0;
	case nvme_cmd_read:
		return soft_read(p, sq, sqe);
	case nvme_zns_cmd_mgmt_recv:
		return report_zones(p->soft, sqe);
	case nvme_cmd_write:
	case nvme_cmd_write_zeroes:
	case nvme_zns_cmd_append:
		return NVME_SC_ZNS_FULL | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	case nvme_zns_cmd_mgmt_send:
		return NVME_SC_ZNS_INVAL_TRANSITION | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	default:
		return NVME_SC_INVALID_OPCODE | SOFT_DNR;
	}
}
