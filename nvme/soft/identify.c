/* Identify (Base 5.17, NVM Command Set 4.1.5): CNS 00h to 03h. */
#include <stdio.h>
#include <string.h>

#include "nvme/soft/internal.h"

#define MODEL "headrace %s controller"
#define FIRMWARE "1.0"

/* ASCII fields are padded with blanks and not terminated. */
static void put_text(char *field, size_t bytes, const char *text)
{
	const size_t n = strnlen(text, bytes);

	memset(field, ' ', bytes);
	memcpy(field, text, n);
}

/* FNV-1a: the same image has the same identifiers each time. */
static uint64_t path_hash(const struct soft *soft, uint64_t hash)
{
	for (const char *c = soft->options.path; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 0x100000001b3ull;
	return hash;
}

static void make_uuid(const struct soft *soft, uint8_t uuid[16])
{
	const uint64_t half[2] = { path_hash(soft, 0xcbf29ce484222325ull),
				   path_hash(soft, 0x84222325cbf29ce4ull) };

	memcpy(uuid, half, sizeof(half));
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80); /* version 8: our own */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

/* Base 4.5: an NQN made of a UUID. */
static void put_nqn(const struct soft *soft, char *field, size_t bytes)
{
	size_t n = (size_t)snprintf(field, bytes, "nqn.2014-08.org.nvmexpress:uuid:");
	uint8_t uuid[16];

	make_uuid(soft, uuid);
	for (unsigned i = 0; i < sizeof(uuid); i++)
		n += (size_t)snprintf(field + n, bytes - n, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static void put_serial(const struct soft *soft, char *field, size_t bytes)
{
	const uint64_t hash = path_hash(soft, 0xcbf29ce484222325ull);
	char text[24];

	snprintf(text, sizeof(text), SOFT_SERIAL, (unsigned long long)hash);
	put_text(field, bytes, text);
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
	/* VID and SSVID stay 0: there is no PCI function to have them */
	id.mdts = (uint8_t)soft->options.mdts;
	id.ver = soft->vs;
	id.rtd3e = 5000000; /* us: a shutdown flushes the cache */
	id.cntrltype = NVME_CTRL_CNTRLTYPE_IO;
	id.oacs = soft_shadow_fits(soft) ? NVME_CTRL_OACS_DBBUF_CFG : 0;
	id.acl = 3;
	id.aerl = SOFT_AERL;
	id.frmw = 1 << 1 | 1; /* one slot, read only */
	id.lpa = 0;
	id.elpe = SOFT_ERROR_LOG - 1;
	id.wctemp = 343;
	id.cctemp = 353;
	id.sqes = 6 << 4 | 6;
	id.cqes = 4 << 4 | 4;
	id.nn = 1;
	id.oncs = NVME_CTRL_ONCS_WRITE_ZEROES | NVME_CTRL_ONCS_DSM;
	id.vwc = soft->cache.capacity ? NVME_CTRL_VWC_PRESENT | 3 << 1 : 0;
	put_nqn(soft, id.subnqn, sizeof(id.subnqn));
	return soft_copy_out(soft, sqe, &id, sizeof(id));
}

static uint16_t identify_ns(struct soft *soft, const struct hr_sqe *sqe)
{
	struct nvme_id_ns id;

	memset(&id, 0, sizeof(id));
	if (sqe->nsid != 1 && sqe->nsid != NVME_NSID_ALL)
		return NVME_SC_INVALID_NS | SOFT_DNR;
	if (sqe->nsid == 1) {
		id.nsze = id.ncap = id.nuse = soft->blocks;
		id.dlfeat = !soft->options.null; /* deallocated blocks read as zeros */
	}
	id.lbaf[0].ds = (uint8_t)soft->lba_shift;
	return soft_copy_out(soft, sqe, &id, sizeof(id));
}

static uint16_t identify_list(struct soft *soft, const struct hr_sqe *sqe)
{
	uint32_t list[HR_PAGE / 4] = { 0 };

	if (sqe->nsid >= NVME_NSID_ALL - 1)
		return NVME_SC_INVALID_NS | SOFT_DNR;
	if (sqe->nsid < 1)
		list[0] = 1;
	return soft_copy_out(soft, sqe, list, sizeof(list));
}

/* Namespace identification descriptors: one UUID (type 3), made from the path. */
static uint16_t identify_descriptors(struct soft *soft, const struct hr_sqe *sqe)
{
	uint8_t page[HR_PAGE] = { 0 };

	if (sqe->nsid != 1)
		return NVME_SC_INVALID_NS | SOFT_DNR;
	page[0] = NVME_NIDT_UUID;
	page[1] = 16;
	make_uuid(soft, page + 4);
	return soft_copy_out(soft, sqe, page, sizeof(page));
}

uint16_t soft_identify(struct soft *soft, const struct hr_sqe *sqe)
{
	switch (sqe->cdw10 & 0xff) {
	case NVME_IDENTIFY_CNS_NS:
		return identify_ns(soft, sqe);
	case NVME_IDENTIFY_CNS_CTRL:
		return identify_ctrl(soft, sqe);
	case NVME_IDENTIFY_CNS_NS_ACTIVE_LIST:
		return identify_list(soft, sqe);
	case NVME_IDENTIFY_CNS_NS_DESC_LIST:
		return identify_descriptors(soft, sqe);
	default:
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	}
}
