/*
 * pci/topo/names.h - facts from names of the PCI ID list, for captures without numbers.
 *
 * lspci without -nn prints only names, but the kernel's list of trusted root complexes uses
 * numbers. A name is compared as a whole: "GB10" is not a part of "GB100".
 */
#ifndef PCI_TOPO_NAMES_H
#define PCI_TOPO_NAMES_H

#include "pci/topo/model.h"

/*
 * True when the title has the token, which may be several words: the characters before and after it
 * are not alphanumeric. A token that ends in '*' may continue: "GA10*" is in "GA102GL".
 */
bool hr_name_has_token(const char *title, const char *token);

/* True when the title has one of the tokens; the list ends with NULL. */
bool hr_name_has_any(const char *title, const char *const *tokens);

/*
 * Device number of the host bridge with this title (without class); 0: the name does not tell it.
 * The vendor is known.
 */
uint32_t hr_name_host(uint32_t vendor, const char *title);

/* True when the title names a host bridge that no version of the kernel lists. */
bool hr_name_unlisted(uint32_t vendor, const char *title);

/* True when the title names a port, or a port of the switch, of a chipset. */
bool hr_name_chipset(uint32_t vendor, const char *title);

/* In the names of Intel VMD controllers, which are no drives although "NVMe RAID" follows. */
#define HR_NAME_VMD "Volume Management Device"

/* True when the title names a GPU that is part of an AMD processor. */
bool hr_name_integrated(const char *title);

/* True when the title names an NVIDIA GPU whose memory is the CPU's. */
bool hr_name_unified(const char *title);

#endif
