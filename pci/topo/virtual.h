/*
 * pci/topo/virtual.h - virtual functions of SR-IOV (PCIe Base 9.3). Private to the model.
 *
 * The registers of a virtual function show identifiers of ffff, BARs of 0 and memory decoding off,
 * in every state. The true values are in the SR-IOV capability of its physical function.
 */
#ifndef PCI_TOPO_VIRTUAL_H
#define PCI_TOPO_VIRTUAL_H

#include "pci/topo/model.h"

/*
 * Set vf, physfn and HR_F_PHYSFN of all functions, from the readers' facts and from the SR-IOV
 * capabilities. The model is sorted.
 */
void hr_virtual_find(struct hr_model *m);

/*
 * Copy to virtual functions the facts that their physical functions hold: payload, link, BARs,
 * memory decoding, identifiers. Without the physical function these facts stay unknown.
 */
void hr_virtual_complete(struct hr_model *m);

/* True when memory decoding of a virtual function is on, as far as is known. */
bool hr_virtual_decodes(const struct hr_model *m, const struct hr_fn *f);

#endif
