/* SPDX-License-Identifier: Apache-2.0 */
/* List and identify the namespaces of a controller (Base 2.0, 5.17). */
#include "nvme/identify.h"

#include <stdio.h>
#include <string.h>

#include "nvme/admin.h"
#include "nvme/ctrl.h"
#include "nvme/quirks.h"
#include "nvme/queue/status.h"

#define VS_1_3 (1u << NVME_VS_MJR_SHIFT | 3u << NVME_VS_MNR_SHIFT)
#define LIST_ENTRIES (HR_PAGE / 4) /* of an active namespace list */

static bool has_command_sets(const struct hr_ctrl *ctrl)
{
	return NVME_CAP_CSS(ctrl->cap) & NVME_CAP_CSS_CSI;
}

/* 0, a status, which does not fill e, or an error. *csi: as in hr_identify_descriptors(). */
static int identify_descriptors(struct hr_ctrl *ctrl, uint32_t nsid, struct hr_ns *ns, int *csi,
				struct hr_error *e)
{
	int err;

	*csi = -1;
	if (ctrl->vs < VS_1_3 && !has_command_sets(ctrl))
		return 0;
	err = hr_admin_identify(ctrl, NVME_IDENTIFY_CNS_NS_DESC_LIST, nsid, e);
	if (!err)
		hr_identify_descriptors(ns, csi, nsid, ctrl->admin_data, ctrl->transport->name);
	return err;
}

/*
 * A controller with several command sets must report which one a namespace uses (descriptor 4h,
 * figure 277). For other controllers the list is optional.
 */
static int check_command_set(const struct hr_ctrl *ctrl, uint32_t nsid, int status, int csi,
			     struct hr_error *e)
{
	const char *name = ctrl->transport->name;

	if (csi > NVME_CSI_NVM)
		return hr_fail(
			e, HR_ERROR_MISSING, -ENOTSUP,
			"%s: namespace %u: its command set is %s (CSI %02xh); only the NVM command "
			"set (00h) is supported; nothing was written",
			name, nsid, hr_command_set_name(csi), (unsigned)csi);
	if (csi == NVME_CSI_NVM || !has_command_sets(ctrl))
		return 0;
	if (status)
		return hr_admin_fail(ctrl, "identify descriptors of namespace", nsid, status, e);
	return hr_fail(e, HR_ERROR_DEVICE, -EPROTO,
		       "%s: namespace %u: CAP.CSS reports several command sets, but the "
		       "namespace does not report which one it uses",
		       name, nsid);
}

static void name_subsystem(const struct hr_ctrl *ctrl, struct hr_ns *ns)
{
	ns->not_unique = ctrl->quirks & HR_QUIRK_IDENTIFIERS;
	ns->shared_subsystem = ctrl->shared_subsystem;
	memcpy(ns->subnqn, ctrl->subnqn, sizeof(ns->subnqn));
	memcpy(ns->serial, ctrl->serial, sizeof(ns->serial));
}

int hr_ctrl_identify_ns(struct hr_ctrl *ctrl, uint32_t nsid, struct hr_ns *ns, struct hr_error *e)
{
	int csi, status, err;

	memset(ns, 0, sizeof(*ns));
	if (nsid == 0 || nsid > ctrl->namespaces || nsid == NVME_NSID_ALL)
		return -ENOENT;
	status = identify_descriptors(ctrl, nsid, ns, &csi, e);
	if (status < 0)
		return status;
	if (csi > NVME_CSI_NVM) /* such a namespace may lack the data structure */
		return check_command_set(ctrl, nsid, status, csi, e);
	err = hr_admin_identify(ctrl, NVME_IDENTIFY_CNS_NS, nsid, e);
	hr_admin_fail(ctrl, "identify namespace", nsid, err, e);
	if (!err)
		err = hr_identify_ns(ns, nsid, ctrl->admin_data, ctrl->transport->name, e);
	name_subsystem(ctrl, ns);
	return err ? err : check_command_set(ctrl, nsid, status, csi, e);
}

const char *hr_ctrl_list_ns(struct hr_ctrl *ctrl, char *text, unsigned bytes)
{
	const uint32_t *list = ctrl->admin_data;
	unsigned used = 0;

	snprintf(text, bytes, "1 to %u", ctrl->namespaces);
	if (hr_admin_identify(ctrl, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, NULL) != 0)
		return text;
	snprintf(text, bytes, "none");
	for (unsigned i = 0; i < LIST_ENTRIES && list[i]; i++) {
		const unsigned room = (unsigned)sizeof(", 4294967295 and more");

		if (used + room > bytes) {
			snprintf(text + used, bytes - used, " and more");
			break;
		}
		used += (unsigned)snprintf(text + used, bytes - used, "%s%u", i ? ", " : "",
					   list[i]);
	}
	return text;
}

static enum hr_ns_match compare_identifiers(const uint8_t *a, const uint8_t *b, size_t bytes)
{
	static const uint8_t none[16];

	if (!memcmp(a, none, bytes) || !memcmp(b, none, bytes))
		return HR_NS_UNKNOWN;
	return memcmp(a, b, bytes) ? HR_NS_DIFFERENT : HR_NS_SAME;
}

static bool same_subsystem(const struct hr_ns *a, const struct hr_ns *b)
{
	return memcmp(a->subnqn, b->subnqn, sizeof(a->subnqn)) == 0 &&
	       strcmp(a->serial, b->serial) == 0;
}

/* Two controllers can only reach one namespace when they say that they share, or are one. */
static bool may_be_same(const struct hr_ns *a, const struct hr_ns *b)
{
	return (hr_ns_can_share(a) && hr_ns_can_share(b)) || (a->serial[0] && same_subsystem(a, b));
}

/* Against the specification, all disks of a model may report the same SUBNQN; their serial
 * numbers differ. */
static enum hr_ns_match compare_in_subsystem(const struct hr_ns *a, const struct hr_ns *b)
{
	if (!a->shared || !a->shared_subsystem || !b->shared || !b->shared_subsystem ||
	    !a->subnqn[0] || !same_subsystem(a, b))
		return HR_NS_UNKNOWN;
	return a->nsid == b->nsid ? HR_NS_SAME : HR_NS_DIFFERENT;
}

enum hr_ns_match hr_ns_compare(const struct hr_ns *a, const struct hr_ns *b, const char **what)
{
	const struct {
		const char *name;
		enum hr_ns_match match;
	} id[] = {
		{ "NGUID", compare_identifiers(a->nguid, b->nguid, sizeof(a->nguid)) },
		{ "UUID", compare_identifiers(a->uuid, b->uuid, sizeof(a->uuid)) },
		{ "EUI64", compare_identifiers(a->eui64, b->eui64, sizeof(a->eui64)) },
		{ "SUBNQN and NSID", compare_in_subsystem(a, b) },
	};

	const unsigned subsystem = sizeof(id) / sizeof(id[0]) - 1;
	const char *doubtful = "";

	for (unsigned i = 0; i <= subsystem; i++) {
		*what = id[i].name;
		if (id[i].match == HR_NS_UNKNOWN ||
		    (i < subsystem && (a->not_unique || b->not_unique)))
			continue;
		if (i == subsystem || id[i].match == HR_NS_DIFFERENT || may_be_same(a, b))
			return id[i].match;
		doubtful = *doubtful ? doubtful : id[i].name;
	}
	*what = doubtful;
	return *doubtful ? HR_NS_DOUBTFUL : HR_NS_UNKNOWN;
}
