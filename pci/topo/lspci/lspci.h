/*
 * pci/topo/lspci/lspci.h - reads dumps of lspci like pciutils (lib/dump.c).
 */
#ifndef PCI_TOPO_LSPCI_LSPCI_H
#define PCI_TOPO_LSPCI_LSPCI_H

#include "pci/topo/model.h"
#include "pci/topo/lspci/stream.h"

/* Read all functions of a text. Returns as hr_source_open(); does not link the model. */
int hr_read_lspci(struct hr_model *m, struct hr_capture_stream *s);

#endif
