/*
 * pci/topo/sysfs/parts.h - facts that drivers add to sysfs.
 */
#ifndef PCI_TOPO_SYSFS_PARTS_H
#define PCI_TOPO_SYSFS_PARTS_H

#include "pci/topo/sysfs/files.h"

/*
 * Read the error counters of the kernel
 * (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats), and the virtual switches that their
 * driver reports as linked. Parts of pci/topo/sysfs/sysfs.h.
 */
void hr_read_aer_counts(const struct hr_files *files, struct hr_fn *f, const char *folder);
void hr_read_switch_links(struct hr_model *m, const struct hr_files *files);

#endif
