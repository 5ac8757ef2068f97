/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/sysfs/sysfs.h - facts from sysfs and proc, of a captured tree or of this machine.
 */
#ifndef PCI_TOPO_SYSFS_SYSFS_H
#define PCI_TOPO_SYSFS_SYSFS_H

#include "pci/topo/sysfs/files.h"

/* Read all functions of a tree. Returns as hr_source_open(); does not link the model. */
int hr_read_sysfs(struct hr_model *m, const struct hr_files *files);

/* Read facts that are not in configuration space, for functions that are in the model. */
void hr_read_sysfs_system(struct hr_model *m, const struct hr_files *files);
void hr_read_sysfs_function(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
			    const char *folder);

#endif
