/*
 * pci/topo/lspci/id_names.h - numbers for the names of classes and vendors in the list of PCI
 * identifiers.
 */
#ifndef PCI_TOPO_LSPCI_ID_NAMES_H
#define PCI_TOPO_LSPCI_ID_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define HR_NAME_UNKNOWN 0xffffffffu

/*
 * Class and subclass (16 bits) of the name at the begin of text, or HR_NAME_UNKNOWN. *length is the
 * length of the name.
 */
uint32_t hr_name_class(const char *text, size_t *length);

/*
 * Vendor of the name at the begin of text, or HR_NAME_UNKNOWN: an unknown name, or one of several
 * vendors.
 */
uint32_t hr_name_vendor(const char *text);

#endif
