/*
 * boot/cmd/topo/views/groups.h - --groups: predicted and real IOMMU groups, and what VFIO can open.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_GROUPS_H
#define BOOT_CMD_TOPO_VIEWS_GROUPS_H

#include "boot/cmd/topo/topo.h"

/* Show the groups: text, or members of t->json. Returns an exit code of topo. */
int hr_topo_groups(struct hr_topo *t);

#endif
