/*
 * pci/topo/lspci.h - dumps of lspci, as pciutils reads them (lib/dump.c).
 */
#ifndef PCI_TOPO_LSPCI_H
#define PCI_TOPO_LSPCI_H

#include "pci/topo/source.h"

/* Read all functions of a text. As hr_source_open(), without linking the model. */
int hr_read_lspci(struct hr_model *m, struct hr_stream *s);

#endif
