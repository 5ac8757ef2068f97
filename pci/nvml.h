/*
 * pci/nvml.h - links between NVIDIA GPUs of this machine, from NVIDIA's management library.
 */
#ifndef PCI_NVML_H
#define PCI_NVML_H

#include "pci/topo/model.h"

/*
 * NVLinks of this machine's GPUs, as NVIDIA's driver tells through its library: takes a while, so only
 * when they are asked for. The model must be linked. 0; -ENOENT: no driver, no library, or a static
 * build.
 */
int hr_read_nvml(struct hr_model *m);

#endif
