/*
 * pci/topo/lspci/capture.h - headrace's capture format: an lspci dump with further facts as "headrace:
 * key=value".
 */
#ifndef PCI_TOPO_LSPCI_CAPTURE_H
#define PCI_TOPO_LSPCI_CAPTURE_H

#include "pci/topo/model.h"

/*
 * Write the model as a capture: an lspci -xxxx dump that lspci -F reads, with further facts on
 * lines that lspci ignores. Serial numbers are overwritten with zeros. 0, or -errno of write().
 */
int hr_capture_write(const struct hr_model *m, int fd);

/*
 * Read one "headrace: key=value" line; f is NULL before the first function. False: not understood.
 */
bool hr_capture_line(struct hr_model *m, struct hr_fn *f, const char *line, size_t length);

#endif
