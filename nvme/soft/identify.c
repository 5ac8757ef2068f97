/* SPDX-License-Identifier: Apache-2.0 */
/* Identify (Base 5.17, NVM Command Set 4.1.5): CNS 00h to 03h, and more for a zoned namespace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/bytes.h"

#include "nvme/soft/internal.h"

#define MODEL "headrace %s controller"
#define FIRMWARE "1.0"
/* of controllers with quirks= */
#define SAME_SERIAL "SAME0123456789"
#define SAME_NQN "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-8000-8000-000000000001"

/* ASCII fields are padded with blanks and have no terminator. */
static void put_text(char *field, size_t bytes, const char *text)
{
	const size_t n = strnlen(text, bytes);

	memset(field, ' ', bytes);
	memcpy(field, text, n);
}

/* The identity follows from the real path of the image, so every link to it gives the same.
 * Memory gets a random one. */
void soft_make_identity(struct soft *soft)
{
	char *path = *soft->options.path ? realpath(soft->options.path, NULL) : NULL;

	if (path)
		soft->identity = hr_hash(HR_HASH_BEGIN, path, strlen(path));
	else if (hr_random(&soft->identity, sizeof(soft->identity)) != 0)
		soft->identity = (uintptr_t)soft ^ soft->opened_ns;
	free(path);
}

static void make_uuid(const struct soft *soft, uint32_t nsid, uint8_t uuid[16])
{
	const uint64_t half[2] = { soft->identity,
				   (soft->identity + nsid - 1) * 0x9e3779b97f4a7c15ull };

	memcpy(uuid, half, sizeof(half));
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80); /* version 8: custom */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

/* Base 4.5: NQN in the UUID format, from the UUID of the first namespace. */
static void put_nqn(const struct soft *soft, char *field, size_t bytes)
{
	size_t n = (size_t)snprintf(field, bytes, "nqn.2014-08.org.nvmexpress:uuid:");
	uint8_t uuid[16];

	if (soft_has_quirk(soft, HR_SOFT_SAME_SERIAL)) {
		snprintf(field, bytes, "%s", SAME_NQN);
		return;
	}
	make_uuid(soft, 1, uuid);
	for (unsigned i = 0; i < sizeof(uuid); i++)
		n += (size_t)snprintf(field + n, bytes - n, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static void put_serial(const struct soft *soft, char *field, size_t bytes)
{
	const uint64_t hash =
		hr_hash(HR_HASH_BEGIN, soft->options.path, strlen(soft->options.path));
	char text[24];

	snprintf(text, sizeof(text), SOFT_SERIAL, (unsigned long long)hash);
	put_text(field, bytes, soft_has_quirk(soft, HR_SOFT_SAME_SERIAL) ? SAME_SERIAL : text);
}

/* The identifier of a namespace when all controllers report the same one. */
static void make_same(uint32_t nsid, uint8_t *id, size_t bytes)
{
	memset(id, 0, bytes);
	id[0] = 0x01;
	id[bytes - 1] = (uint8_t)nsid;
}

static uint16_t identify_ctrl(struct soft *soft, const struct hr_sqe *sqe)
{
	struct nvme_id_ctrl id;
	char model[sizeof(id.mn) + 1];

	memset(&id, 0, sizeof(id));
	put_serial(soft, id.sn, sizeof(id.sn));
	snprintf(model, sizeof(model), MODEL, soft->options.null ? "null" : "software");
	put_text(id.mn, sizeof(id.mn), model);
	put_text(id.fr, sizeof(id.fr), FIRMWARE);
	id.vid = id.ssvid = soft->options.vendor;
	id.cmic = soft->options.shared ? NVME_CTRL_CMIC_MULTI_CTRL : 0;
	id.mdts = (uint8_t)soft->options.mdts;
	id.ver = soft->vs;
	/* us: a shutdown flushes the cache */
	id.rtd3e = soft_has_quirk(soft, HR_SOFT_NO_SHUTDOWN) ? 0 : 5000000;
	id.cntrltype = NVME_CTRL_CNTRLTYPE_IO;
	id.crdt1 = 1; /* 100 ms, 200 ms and 60 s */
	id.crdt2 = 2;
	id.crdt3 = 600;
	id.oaes = NVME_CTRL_OAES_NA;
	id.acl = 3;
	id.aerl = SOFT_AERL;
	id.frmw = 1 << 1 | 1; /* one firmware slot, read-only */
	id.lpa = 0;
	id.elpe = SOFT_ERROR_LOG - 1;
	id.wctemp = 343;
	id.cctemp = 353;
	id.sqes = 6 << 4 | 6;
	id.cqes = 4 << 4 | 4;
	id.nn = soft->namespaces;
	id.oncs = NVME_CTRL_ONCS_WRITE_ZEROES | NVME_CTRL_ONCS_DSM;
	if (soft_compares(soft))
		id.oncs |= NVME_CTRL_ONCS_COMPARE;
	if (soft->reservations) {
		id.oncs |= NVME_CTRL_ONCS_RESERVATIONS;
		id.ctratt = NVME_CTRL_CTRATT_128_ID;
	}
	id.vwc = soft->cache.capacity ? NVME_CTRL_VWC_PRESENT | 3 << 1 : 0;
	put_nqn(soft, id.subnqn, sizeof(id.subnqn));
	return soft_copy_out(soft, sqe, &id, sizeof(id));
}

static uint16_t identify_ns(struct soft *soft, const struct hr_sqe *sqe)
{
	struct nvme_id_ns id;

	memset(&id, 0, sizeof(id));
	if (!soft_has_namespace(soft, sqe->nsid) && sqe->nsid != NVME_NSID_ALL)
		return NVME_SC_INVALID_NS | SOFT_DNR;
	if (sqe->nsid != NVME_NSID_ALL) {
		id.nsze = id.ncap = id.nuse = soft->blocks;
		id.dlfeat = !soft->options.null; /* deallocated blocks read as zeros */
		id.nmic = soft->options.shared ? NVME_NS_NMIC_SHARED : 0;
		id.rescap = soft->reservations
				    ? NVME_NS_RESCAP_WE | NVME_NS_RESCAP_EA | NVME_NS_RESCAP_WERO |
					      NVME_NS_RESCAP_EARO | NVME_NS_RESCAP_WEAR |
					      NVME_NS_RESCAP_EAAR | NVME_NS_RESCAP_IEK_13
				    : 0;
		if (soft_has_quirk(soft, HR_SOFT_SAME_EUI64))
			make_same(sqe->nsid, id.eui64, sizeof(id.eui64));
		if (soft_has_quirk(soft, HR_SOFT_SAME_NGUID))
			make_same(sqe->nsid, id.nguid, sizeof(id.nguid));
		id.nsattr = soft_is_protected(soft) ? NVME_NS_NSATTR_WRITE_PROTECTED : 0;
	}
	id.lbaf[0].ds = (uint8_t)soft->lba_shift;
	return soft_copy_out(soft, sqe, &id, sizeof(id));
}

static uint16_t identify_list(struct soft *soft, const struct hr_sqe *sqe)
{
	uint32_t list[HR_PAGE / 4] = { 0 };

	if (sqe->nsid >= NVME_NSID_ALL - 1)
		return NVME_SC_INVALID_NS | SOFT_DNR;
	for (uint32_t nsid = sqe->nsid + 1, i = 0; nsid <= soft->namespaces; nsid++)
		list[i++] = nsid;
	return soft_copy_out(soft, sqe, list, sizeof(list));
}

static void put_identifier(const struct soft *soft, uint32_t nsid, uint8_t *at)
{
	if (soft_has_quirk(soft, HR_SOFT_SAME_NGUID)) {
		at[0] = NVME_NIDT_NGUID;
		at[1] = NVME_NIDT_NGUID_LEN;
		make_same(nsid, at + 4, NVME_NIDT_NGUID_LEN);
	} else if (soft_has_quirk(soft, HR_SOFT_SAME_EUI64)) {
		at[0] = NVME_NIDT_EUI64;
		at[1] = NVME_NIDT_EUI64_LEN;
		make_same(nsid, at + 4, NVME_NIDT_EUI64_LEN);
	} else {
		at[0] = NVME_NIDT_UUID;
		at[1] = NVME_NIDT_UUID_LEN;
		make_uuid(soft, nsid, at + 4);
	}
}

/* Namespace identification descriptors: a UUID (type 3), or another identifier in its place, and
 * the command set when there are several. */
static uint16_t identify_descriptors(struct soft *soft, const struct hr_sqe *sqe)
{
	uint8_t page[HR_PAGE] = { 0 }, *csi;

	if (!soft_has_namespace(soft, sqe->nsid))
		return NVME_SC_INVALID_NS | SOFT_DNR;
	put_identifier(soft, sqe->nsid, page);
	csi = page + 4 + page[1];
	if (soft->options.zoned) {
		csi[0] = NVME_NIDT_CSI;
		csi[1] = NVME_NIDT_CSI_LEN;
		csi[4] = NVME_CSI_ZNS;
	}
	return soft_copy_out(soft, sqe, page, sizeof(page));
}

uint16_t soft_identify(struct soft *soft, const struct hr_sqe *sqe)
{
	switch (sqe->cdw10 & 0xff) {
	case NVME_IDENTIFY_CNS_NS:
		if (soft->options.zoned && sqe->nsid == 1)
			return NVME_SC_INVALID_IOCS | SOFT_DNR;
		return identify_ns(soft, sqe);
	case NVME_IDENTIFY_CNS_CTRL:
		if (sqe->nsid) /* figure 273: NSID is not used */
			return NVME_SC_INVALID_FIELD | SOFT_DNR;
		return identify_ctrl(soft, sqe);
	case NVME_IDENTIFY_CNS_NS_ACTIVE_LIST:
		return identify_list(soft, sqe);
	case NVME_IDENTIFY_CNS_NS_DESC_LIST:
		return identify_descriptors(soft, sqe);
	default:
		return soft->options.zoned ? soft_zoned_identify(soft, sqe)
					   : NVME_SC_INVALID_FIELD | SOFT_DNR;
	}
}
