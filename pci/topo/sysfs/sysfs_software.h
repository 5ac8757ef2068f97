/*
 * pci/topo/sysfs/sysfs_software.h - drivers, modules and the kernel's configuration.
 */
#ifndef PCI_TOPO_SYSFS_SYSFS_SOFTWARE_H
#define PCI_TOPO_SYSFS_SYSFS_SOFTWARE_H

#include "pci/topo/sysfs/files.h"

/* Read the facts that pci/topo/rules/software.h needs, from sysfs, proc and /boot. */
void hr_read_sysfs_software(struct hr_model *m, const struct hr_files *files);

/*
 * One line of /proc/driver/nvidia/version: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64
 * 570.86.10  Release Build ..." or "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu
 * Oct 19 ...".
 */
void hr_read_nvidia_version(struct hr_model *m, const char *line, enum hr_src source);

/* One line of /proc/driver/nvidia/params; true: RegistryDwords: "RMForceStaticBar1=1;". */
bool hr_read_nvidia_key(struct hr_model *m, const char *line);

#endif
