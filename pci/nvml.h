/*
 * pci/nvml.h - links between NVIDIA GPUs of this machine, and whether the driver lets them access
 * each other's memory, from NVIDIA's management library.
 */
#ifndef PCI_NVML_H
#define PCI_NVML_H

#include "pci/topo/model.h"

/*
 * Read the NVLinks of this machine's GPUs, and the driver's answers about peer access
 * (pci/topo/gpu_peers.h), from NVIDIA's management library. Slow, so callers do
 * this only on request. The model must be linked. 0; -ENOENT: no driver, no library, or a static
 * build.
 */
int hr_read_nvml(struct hr_model *m);

#endif
