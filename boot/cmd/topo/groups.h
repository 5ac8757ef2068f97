/*
 * boot/cmd/topo/groups.h - --groups: IOMMU groups as predicted and as they are, and what that means
 * for VFIO.
 */
#ifndef BOOT_CMD_TOPO_GROUPS_H
#define BOOT_CMD_TOPO_GROUPS_H

#include "boot/cmd/topo/topo.h"

/* The view: text, or members of t->json. Returns an exit code of topo. */
int hr_topo_groups(struct hr_topo *t);

#endif
