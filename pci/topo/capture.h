/*
 * pci/topo/capture.h - our own capture: an lspci dump with further facts as "headrace: key=value".
 */
#ifndef PCI_TOPO_CAPTURE_H
#define PCI_TOPO_CAPTURE_H

#include "pci/topo/source.h"

/*
 * Write what is known as a capture: an lspci -xxxx dump that lspci -F reads, with further facts on
 * lines that it ignores. Serial numbers are overwritten with zeros. 0, or the negative errno of
 * write().
 */
int hr_capture_write(const struct hr_model *m, int fd);

/* One "headrace: key=value" line; f is NULL before the first function. false: not understood. */
bool hr_capture_line(struct hr_model *m, struct hr_fn *f, const char *line, size_t length);

#endif
