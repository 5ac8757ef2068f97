/*
 * pci/nvml.h - links between NVIDIA GPUs of this machine, from NVIDIA's management library.
 */
#ifndef PCI_NVML_H
#define PCI_NVML_H

#include "pci/topo/model.h"

/*
 * Read the NVLinks of this machine's GPUs from NVIDIA's management library. Slow, so callers do
 * this only on request. The model must be linked. 0; -ENOENT: no driver, no library, or a static
 * build.
 */
int hr_read_nvml(struct hr_model *m);

#endif
