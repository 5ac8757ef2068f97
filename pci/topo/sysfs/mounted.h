/*
 * pci/topo/sysfs/mounted.h - finds the NVMe controllers with a mounted file system or swap (rule H6).
 */
#ifndef PCI_TOPO_SYSFS_MOUNTED_H
#define PCI_TOPO_SYSFS_MOUNTED_H

#include "pci/topo/sysfs/files.h"

/*
 * For NVMe controllers whose disks are mounted or used as swap, set HR_F_MOUNTED and the file
 * system types, and HR_F_STACKED when md or dm is in between.
 */
void hr_read_mounted(struct hr_model *m, const struct hr_files *files);

#endif
