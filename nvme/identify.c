/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/identify.h"

#include <string.h>

#include "config/base/bytes.h"
#include "config/base/log.h"

#define CNTRLTYPE_IO 1
#define FORMATS_MAX 64u	       /* maximum LBA formats in Identify Namespace */
#define DESCRIPTOR_HEAD 4u     /* type, length, two reserved bytes */
#define FORMATS_WITH_LOWER 16u /* with more formats, bits 6:5 of FLBAS extend the index */

/* ASCII fields are padded with blanks, have no terminator, and may hold other bytes than ASCII. */
static void copy_text(char *to, const char *from, size_t bytes)
{
	size_t length = 0;

	for (size_t i = 0; i < bytes; i++) {
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
		if (from[i] == '\0')
			to[i] = ' ';
		if (to[i] != ' ')
			length = i + 1;
	}
	to[length] = '\0';
}

/* MDTS: 2^n memory pages of CAP.MPSMIN, which is 4 KiB here; 0 means no limit. */
static uint32_t max_transfer(uint8_t mdts)
{
	uint32_t bytes = HR_PAGE;

	if (mdts == 0)
		return HR_CHUNK_MAX;
	while (mdts-- && bytes < HR_CHUNK_MAX)
		bytes *= 2;
	return bytes;
}

/* SQES, CQES: smallest size in bits 3:0, largest in bits 7:4, as powers of two. */
static bool entry_size_fits(uint8_t field, uint8_t size)
{
	return (field & 0xf) <= size && size <= field >> 4;
}

static uint64_t shutdown_timeout_ns(uint32_t rtd3e_us)
{
	const uint64_t ns = rtd3e_us * 1000ull;

	if (ns < HR_SHUTDOWN_TIMEOUT_MIN_NS)
		return HR_SHUTDOWN_TIMEOUT_MIN_NS;
	return ns < HR_SHUTDOWN_TIMEOUT_MAX_NS ? ns : HR_SHUTDOWN_TIMEOUT_MAX_NS;
}

int hr_identify_ctrl(struct hr_ctrl *ctrl, const struct nvme_id_ctrl *id, const char *name,
		     struct hr_error *e)
{
	/* 0 before revision 1.4: not reported */
	if (id->cntrltype != 0 && id->cntrltype != CNTRLTYPE_IO)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "%s: identify: CNTRLTYPE %u is not an I/O controller (1)", name,
			       id->cntrltype);
	if (!entry_size_fits(id->sqes, HR_SQE_SHIFT) || !entry_size_fits(id->cqes, HR_CQE_SHIFT))
		return hr_fail(
			e, HR_ERROR_MISSING, -ENOTSUP,
			"%s: identify: SQES %02x, CQES %02x do not allow entries of 2^%u and 2^%u",
			name, id->sqes, id->cqes, HR_SQE_SHIFT, HR_CQE_SHIFT);
	copy_text(ctrl->serial, id->sn, sizeof(id->sn));
	copy_text(ctrl->model, id->mn, sizeof(id->mn));
	copy_text(ctrl->firmware, id->fr, sizeof(id->fr));
	ctrl->shared_subsystem = id->cmic & NVME_CTRL_CMIC_MULTI_CTRL;
	memcpy(ctrl->subnqn, id->subnqn, sizeof(ctrl->subnqn));
	ctrl->max_transfer = max_transfer(id->mdts);
	ctrl->shutdown_timeout_ns = shutdown_timeout_ns(id->rtd3e);
	ctrl->namespaces = id->nn;
	ctrl->aerl = id->aerl;
	ctrl->oaes = id->oaes;
	ctrl->oncs = id->oncs;
	ctrl->long_host_id = id->ctratt & NVME_CTRL_CTRATT_128_ID;
	ctrl->awupf = id->awupf;
	ctrl->crdt[1] = id->crdt1;
	ctrl->crdt[2] = id->crdt2;
	ctrl->crdt[3] = id->crdt3;
	ctrl->volatile_cache = id->vwc & NVME_CTRL_VWC_PRESENT;
	return 0;
}

/* Index of the LBA format in use, or FORMATS_MAX when FLBAS is invalid. */
static uint32_t format_in_use(const struct nvme_id_ns *id)
{
	const uint32_t formats = id->nlbaf + 1u + id->nulbaf;
	uint32_t index = id->flbas & NVME_NS_FLBAS_LOWER_MASK;

	if (formats > FORMATS_WITH_LOWER)
		index |= (id->flbas & NVME_NS_FLBAS_HIGHER_MASK) >> 1;
	return formats <= FORMATS_MAX && index < formats ? index : FORMATS_MAX;
}

/* Length of a descriptor of that type (NIDL), 0 for types that are skipped. */
static uint8_t descriptor_bytes(uint8_t type)
{
	switch (type) {
	case NVME_NIDT_EUI64:
		return NVME_NIDT_EUI64_LEN;
	case NVME_NIDT_NGUID:
		return NVME_NIDT_NGUID_LEN;
	case NVME_NIDT_UUID:
		return NVME_NIDT_UUID_LEN;
	case NVME_NIDT_CSI:
		return NVME_NIDT_CSI_LEN;
	default:
		return 0;
	}
}

static void parse_ns_descriptor(struct hr_ns *ns, int *csi, uint8_t type, const uint8_t *data)
{
	switch (type) {
	case NVME_NIDT_EUI64:
		memcpy(ns->eui64, data, sizeof(ns->eui64));
		break;
	case NVME_NIDT_NGUID:
		memcpy(ns->nguid, data, sizeof(ns->nguid));
		break;
	case NVME_NIDT_UUID:
		memcpy(ns->uuid, data, sizeof(ns->uuid));
		break;
	case NVME_NIDT_CSI:
		*csi = data[0];
		break;
	default:
		break;
	}
}

void hr_identify_descriptors(struct hr_ns *ns, int *csi, uint32_t nsid, const uint8_t *list,
			     const char *name)
{
	*csi = -1;
	for (uint32_t at = 0; at + DESCRIPTOR_HEAD <= HR_PAGE && list[at + 1];) {
		const uint8_t type = list[at], bytes = list[at + 1], want = descriptor_bytes(type);

		if (at + DESCRIPTOR_HEAD + bytes > HR_PAGE || (want && bytes != want)) {
			hr_warn("%s: namespace %u: identification descriptor of type %u at byte %u "
				"has %u bytes; the rest of the list is not used",
				name, nsid, type, at, bytes);
			return;
		}
		parse_ns_descriptor(ns, csi, type, list + at + DESCRIPTOR_HEAD);
		at += DESCRIPTOR_HEAD + bytes;
	}
}

const char *hr_command_set_name(int csi)
{
	static const char *const name[] = { "NVM", "key value", "zoned" };

	return csi >= 0 && csi < 3 ? name[csi] : "unknown";
}

int hr_identify_ns(struct hr_ns *ns, uint32_t nsid, const struct nvme_id_ns *id, const char *name,
		   struct hr_error *e)
{
	const uint32_t index = format_in_use(id);
	const struct nvme_lbaf *format = &id->lbaf[index < FORMATS_MAX ? index : 0];

	if (id->nsze == 0)
		return -ENOENT;
	if (index == FORMATS_MAX)
		return hr_fail(e, HR_ERROR_DEVICE, -EPROTO,
			       "%s: namespace %u: FLBAS %02x is not one of its %u LBA formats",
			       name, nsid, id->flbas, id->nlbaf + 1u + id->nulbaf);
	if (format->ds != 9 && format->ds != 12)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "%s: namespace %u: blocks of 2^%u bytes; 512 and 4096 are supported",
			       name, nsid, format->ds);
	if (format->ms || (id->dps & NVME_NS_DPS_PI_MASK))
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "%s: namespace %u: %u bytes of metadata, protection type %u; "
			       "format it without",
			       name, nsid, format->ms, id->dps & NVME_NS_DPS_PI_MASK);
	if (id->nsze > (uint64_t)INT64_MAX >> format->ds)
		return hr_fail(e, HR_ERROR_DEVICE, -EPROTO,
			       "%s: namespace %u: NSZE %llu blocks are more than 2^63 bytes", name,
			       nsid, (unsigned long long)id->nsze);
	ns->nsid = nsid;
	ns->lba_shift = format->ds;
	ns->blocks = id->nsze;
	ns->read_only = id->nsattr & NVME_NS_NSATTR_WRITE_PROTECTED;
	ns->shared = id->nmic & NVME_NS_NMIC_SHARED;
	ns->rescap = id->rescap;
	if (hr_is_zero(ns->nguid, sizeof(ns->nguid)))
		memcpy(ns->nguid, id->nguid, sizeof(ns->nguid));
	if (hr_is_zero(ns->eui64, sizeof(ns->eui64)))
		memcpy(ns->eui64, id->eui64, sizeof(ns->eui64));
	return 0;
}
