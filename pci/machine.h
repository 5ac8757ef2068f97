/*
 * pci/machine.h - reads this machine into a topology model.
 */
#ifndef PCI_MACHINE_H
#define PCI_MACHINE_H

#include "pci/topo/model.h"

/*
 * Read this machine: configuration space and BARs with libpciaccess, other facts from sysfs.
 * Returns as hr_source_open() and hr_access_get().
 */
int hr_source_live(struct hr_model *m);

#endif
