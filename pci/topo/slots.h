/*
 * pci/topo/slots.h - free slots, for advice about moving a card.
 */
#ifndef PCI_TOPO_SLOTS_H
#define PCI_TOPO_SLOTS_H

#include "pci/topo/verdict.h"

/* Find free slots; part of hr_topology_init(). 0 or -ENOMEM. */
int hr_pci_slots_find(struct hr_topology *e, struct hr_model *m);
#define HR_PCI_SLOTS_NAMED 4u
/* Write "; free slots of the GPU's switch: BDF BDF" or nothing to `to`; returns the length. */
size_t hr_pci_slots_text(const struct hr_topology *e, int32_t card, const char *whose, char *to,
			 size_t capacity);

#endif
