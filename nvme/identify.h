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

#endif
