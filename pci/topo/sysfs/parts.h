/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/sysfs/parts.h - parts of the reader of sysfs: drivers, software, gpus, mounted disks.
 * Private.
 */
#ifndef PCI_TOPO_SYSFS_PARTS_H
#define PCI_TOPO_SYSFS_PARTS_H

#include "pci/topo/sysfs/files.h"

/* ---- facts that drivers add to sysfs. */

/*
 * Read the error counters of the kernel
 * (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats), and the virtual switches that their
 * driver reports as linked. Parts of pci/topo/sysfs/sysfs.h.
 */
void hr_read_aer_counts(const struct hr_files *files, struct hr_fn *f, const char *folder);
void hr_read_switch_links(struct hr_model *m, const struct hr_files *files);

/* ---- names of functions, CPUs of their NUMA nodes, links between AMD's GPUs */

/*
 * Read names and nearby CPUs of a function, and links between AMD's GPUs (the topology of amdkfd,
 * Documentation/ABI/testing/sysfs-class-kfd). Parts of pci/topo/sysfs/sysfs.h.
 */
void hr_read_sysfs_peer(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
			const char *folder);
void hr_read_sysfs_links(struct hr_model *m, const struct hr_files *files);

/* ---- drivers, modules and the kernel's configuration */

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

/* ---- finds the NVMe controllers with a mounted file system or swap (rule H6) */

/*
 * For NVMe controllers whose disks are mounted or used as swap, set HR_F_MOUNTED and the file
 * system types, and HR_F_STACKED when md or dm is in between.
 */
void hr_read_mounted(struct hr_model *m, const struct hr_files *files);

#endif
