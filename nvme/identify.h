/*
 * nvme/identify.h - what identify data says, range-checked. Pure; no command is sent here.
 *
 * Spec: NVMe Base 2.0, 5.17.2.1 (controller, figure 275); NVM Command Set 1.0, 4.1.5.1 (namespace).
 * The data is the device's and thus untrusted: whatever 4096 bytes hold, the result is an error or
 * a description that the driver can work with.
 */
#ifndef NVME_IDENTIFY_H
#define NVME_IDENTIFY_H

#include <nvme/types.h>

#include "nvme/ctrl.h"

/*
 * Take over what ctrl keeps of its identify data. name is for messages.
 * 0; -ENOTSUP: not an I/O controller, or queue entries of other sizes than ours.
 */
int hr_identify_ctrl(struct hr_ctrl *ctrl, const struct nvme_id_ctrl *id, const char *name);

/*
 * Describe namespace nsid. 0; -ENOENT: inactive (all zero); -EPROTO: contradicts itself;
 * -ENOTSUP: metadata, protection information, block size. All but -ENOENT are logged.
 */
/*
 * Take the identifiers out of a namespace identification descriptor list (Base 2.0, 5.17.2.3, figure
 * 277) of HR_PAGE bytes. *csi: the command set, or -1 when the list does not say. A descriptor of the
 * wrong length ends the list, with a warning; types that are not known here are skipped.
 */
void hr_identify_descriptors(struct hr_ns *ns, int *csi, uint32_t nsid, const uint8_t *list,
			     const char *name);

/* "zoned" and the like: name of an I/O command set (CSI). Static text. */
const char *hr_command_set_name(int csi);

/* It keeps what *ns has of identifiers, and adds those that only *id has. */
int hr_identify_ns(struct hr_ns *ns, uint32_t nsid, const struct nvme_id_ns *id, const char *name);

#endif
