/*
 * pci/topo/rules/slots.h - advice about moving a card: where to, and which slots are free.
 *
 * A free slot is a port that implements a slot (or has a slot's name), has nothing below it and
 * reports no card. Its width is known and is at least that of the card's link. Ports of chipsets
 * and of Thunderbolt controllers are not offered.
 */
#ifndef PCI_TOPO_RULES_SLOTS_H
#define PCI_TOPO_RULES_SLOTS_H

#include "pci/topo/rules/verdict.h"

/* Find free slots; part of hr_topology_init(). 0 or -ENOMEM. */
int hr_pci_slots_find(struct hr_topology *e, struct hr_model *m);
#define HR_PCI_SLOTS_NAMED 4u
/*
 * Write "; free slots of the GPU's switch: BDF BDF" or nothing to `to`: the slots for `moved` of the
 * switch above `card`. Returns the length.
 */
size_t hr_pci_slots_text(const struct hr_topology *e, int32_t card, int32_t moved,
			 const char *whose, char *to, size_t capacity);

/*
 * Which card of a pair to move, for cards without a common switch: away from a chipset, else below
 * one switch. "move a card so that both are below one switch"; returns the length.
 */
size_t hr_pci_move_text(const struct hr_topology *e, const struct hr_pair *p, char *to,
			size_t capacity);
/* The slots for that move: "; free slots of the CPU: BDF", or as hr_pci_slots_text(), or nothing. */
size_t hr_pci_move_slots(const struct hr_topology *e, const struct hr_pair *p, char *to,
			 size_t capacity);

#endif
