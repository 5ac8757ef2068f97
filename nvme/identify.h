/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/identify.h - parse and range-check identify data. Pure: sends no command.
 *
 * Spec: NVMe Base 2.0, 5.17.2.1 (controller, figure 275); NVM Command Set 1.0, 4.1.5.1 (namespace).
 * The data comes from the device and is untrusted: for any 4096 bytes the result is an error or a
 * description that the driver can use.
 */
#ifndef NVME_IDENTIFY_H
#define NVME_IDENTIFY_H

#include <nvme/types.h>

#include "nvme/ctrl.h"

/*
 * Copy the fields that ctrl keeps out of its identify data. name is for messages.
 * 0; -ENOTSUP: not an I/O controller, or an unsupported queue entry size.
 */
int hr_identify_ctrl(struct hr_ctrl *ctrl, const struct nvme_id_ctrl *id, const char *name,
		     struct hr_error *e);

/*
 * Parse a namespace identification descriptor list (Base 2.0, 5.17.2.3, figure 277) of HR_PAGE
 * bytes into *ns. *csi: the command set, or -1 when the list has none. A descriptor of the wrong
 * length ends the list, with a warning. Unknown types are skipped.
 */
void hr_identify_descriptors(struct hr_ns *ns, int *csi, uint32_t nsid, const uint8_t *list,
			     const char *name);

/* Name of an I/O command set (CSI), such as "zoned". Static text. */
const char *hr_command_set_name(int csi);

/*
 * Describe namespace nsid. Identifiers that *ns already has are kept; those that only *id has are
 * added.
 * 0; -ENOENT: inactive (all zero); -EPROTO: contradictory data; -ENOTSUP: metadata, protection
 * information, block size. -ENOENT does not fill e.
 */
int hr_identify_ns(struct hr_ns *ns, uint32_t nsid, const struct nvme_id_ns *id, const char *name,
		   struct hr_error *e);

/* ---- list, identify and compare namespaces of controllers */

/*
 * Identify namespace nsid: its identification descriptors (CNS 03h; Base 2.0, 5.17.2.3), from
 * revision 1.3 on, then its data structure (CNS 00h). Writes nothing to the disk.
 * Also -ENOENT: inactive or beyond NN, which does not fill e; -ENOTSUP: another command set than
 * NVM (zoned, key value), metadata, protection information, or blocks of another size than 512 and
 * 4096.
 */
int hr_ctrl_identify_ns(struct hr_ctrl *ctrl, uint32_t nsid, struct hr_ns *ns, struct hr_error *e);

/*
 * The active namespaces (CNS 02h) as text for a message: "1, 5", "none", "1, 2, 3 and more", or "1
 * to NN" when the controller does not list them. Returns text.
 */
const char *hr_ctrl_list_ns(struct hr_ctrl *ctrl, char *text, unsigned bytes);

enum hr_ns_match {
	HR_NS_DIFFERENT,
	HR_NS_SAME,
	HR_NS_UNKNOWN,	/* no identifier that both namespaces report */
	HR_NS_DOUBTFUL, /* equal identifiers of controllers that cannot share a namespace */
};

/* True when several controllers may reach the namespace, by its own word or its subsystem's. */
static inline bool hr_ns_can_share(const struct hr_ns *ns)
{
	return ns->shared || ns->shared_subsystem;
}

/*
 * Decide whether two namespaces, of any controllers, are the same. The first identifier that both
 * report decides, in the order NGUID, UUID, EUI64 (Base 2.0, 4.5.1). Disks of some models report the
 * same identifier, so an equal one decides only when both namespaces can be shared, or both have the
 * same subsystem (serial number, SUBNQN); identifiers of models that are known for it (nvme/quirks.h)
 * are not used. Without one, SUBNQN, serial
 * number and NSID of two shared namespaces decide: the NSID of a shared namespace is unique in its
 * NVM subsystem (3.2.1.6). *what: name of the identifier that decided, for a message, or "".
 */
enum hr_ns_match hr_ns_compare(const struct hr_ns *a, const struct hr_ns *b, const char **what);

#endif
