/*
 * pci/topo/names.h - maps names of the PCI ID list to numbers, for captures without numbers.
 *
 * lspci without -nn prints only names, but the kernel's list of trusted root complexes uses
 * numbers.
 */
#ifndef PCI_TOPO_NAMES_H
#define PCI_TOPO_NAMES_H

#include "pci/topo/model.h"

/*
 * Device number of the host bridge with this title (without class); 0: the name does not tell it.
 * The vendor is known.
 */
uint32_t hr_name_host(uint32_t vendor, const char *title);

/* True when the title names a host bridge that no version of the kernel lists. */
bool hr_name_unlisted(uint32_t vendor, const char *title);

/* In the names of Intel VMD controllers, which are no drives although "NVMe RAID" follows. */
#define HR_NAME_VMD "Volume Management Device"

/* True when the title names a GPU that is part of an AMD processor. */
bool hr_name_integrated(const char *title);

#endif
