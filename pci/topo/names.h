/*
 * pci/topo/names.h - what the names of the PCI ID list say where a capture has no numbers.
 *
 * lspci without -nn prints names only. The kernel's list of trusted root complexes goes by number.
 */
#ifndef PCI_TOPO_NAMES_H
#define PCI_TOPO_NAMES_H

#include "pci/topo/model.h"

/*
 * Device number of the host bridge that this title names (without class); 0: the name says no
 * number. The vendor is known.
 */
uint32_t hr_name_host(uint32_t vendor, const char *title);

/* The title names a host bridge that no version of the kernel lists, whatever its number is. */
bool hr_name_unlisted(uint32_t vendor, const char *title);

/* The title names a GPU that is part of an AMD processor. */
bool hr_name_integrated(const char *title);

#endif
