/*
 * pci/topo/mounted.h - which NVMe controllers carry a mounted file system or swap (rule H6).
 */
#ifndef PCI_TOPO_MOUNTED_H
#define PCI_TOPO_MOUNTED_H

#include "pci/topo/files.h"

/*
 * Set HR_F_MOUNTED of NVMe controllers whose disks are mounted or swapped on, HR_F_STACKED where md
 * or dm stand between, and the type of the file systems.
 */
void hr_read_mounted(struct hr_model *m, const struct hr_files *files);

#endif
