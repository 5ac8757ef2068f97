/*
 * nvme/namespaces.h - namespaces of a controller: which there are, what each of them is.
 */
#ifndef NVME_NAMESPACES_H
#define NVME_NAMESPACES_H

#include "nvme/ctrl.h"

/*
 * Identify namespace nsid: its identification descriptors (CNS 03h; Base 2.0, 5.17.2.3), from
 * revision 1.3 on, then its data structure (CNS 00h). Also -ENOENT: inactive or beyond NN; -ENOTSUP:
 * another command set than NVM (zoned, key value), metadata, protection information, or blocks of
 * another size than 512 and 4096. Writes nothing.
 */
int hr_ctrl_identify_ns(struct hr_ctrl *ctrl, uint32_t nsid, struct hr_ns *ns);

/*
 * The active namespaces (CNS 02h) as text for a message: "1, 5", "none", "1, 2, 3 and more", or
 * "1 to NN" from a controller that does not list them. Returns text.
 */
const char *hr_ctrl_list_ns(struct hr_ctrl *ctrl, char *text, unsigned bytes);

enum hr_ns_match {
	HR_NS_DIFFERENT,
	HR_NS_SAME,
	HR_NS_UNKNOWN, /* no identifier that both report */
};

/*
 * Whether two namespaces, of any controllers, are one. An identifier that both report decides, the
 * longest first: NGUID, UUID, EUI64 (Base 2.0, 4.5.1); without one, SUBNQN, serial number and NSID
 * of two shared namespaces: within an NVM subsystem these have an NSID of their own (3.2.1.6). what:
 * what has decided, for a message, or "".
 */
enum hr_ns_match hr_ns_compare(const struct hr_ns *a, const struct hr_ns *b, const char **what);

#endif
