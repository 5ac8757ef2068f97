/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/boot/iommu.h - decides from facts whether the IOMMU translates.
 *
 * IOMMU groups show that an IOMMU is on, but not its mode. The kernel's log and its command line
 * state the mode; "Default domain type: Translated" alone does not show that an IOMMU is on, because
 * Linux prints it on machines without one, too. Sources: Linux drivers/iommu/iommu.c, intel/iommu.c,
 * amd/init.c.
 */
#ifndef PCI_TOPO_BOOT_IOMMU_H
#define PCI_TOPO_BOOT_IOMMU_H

#include "pci/topo/model.h"

/*
 * Set m->sys.iommu of a linked model, unless its reader has, and m->sys.iommu_reason: what states or
 * implies the mode, or what is known of an unknown mode; "" when nothing is known.
 */
void hr_iommu_decide(struct hr_model *m);

#endif
