/*
 * pci/topo/sysfs/sysfs_peers.h - names of functions, CPUs of their NUMA nodes, links between
 * AMD's GPUs.
 */
#ifndef PCI_TOPO_SYSFS_SYSFS_PEERS_H
#define PCI_TOPO_SYSFS_SYSFS_PEERS_H

#include "pci/topo/sysfs/files.h"

/*
 * Read names and nearby CPUs of a function, and links between AMD's GPUs (the topology of amdkfd,
 * Documentation/ABI/testing/sysfs-class-kfd). Parts of pci/topo/sysfs/sysfs.h.
 */
void hr_read_sysfs_peer(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
			const char *folder);
void hr_read_sysfs_links(struct hr_model *m, const struct hr_files *files);

#endif
