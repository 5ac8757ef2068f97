/*
 * pci/topo/sysfs_software.h - drivers, modules and the kernel's configuration.
 */
#ifndef PCI_TOPO_SYSFS_SOFTWARE_H
#define PCI_TOPO_SYSFS_SOFTWARE_H

#include "pci/topo/files.h"

/* Read the facts that pci/topo/software.h needs, from sysfs, proc and /boot. */
void hr_read_sysfs_software(struct hr_model *m, const struct hr_files *files);

#endif
