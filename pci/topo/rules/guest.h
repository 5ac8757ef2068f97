/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/rules/guest.h - virtual machines, by the functions that a hypervisor emulates.
 *
 * The bridges that a guest sees are emulated, whatever cards are passed through: their payload, ACS,
 * links and windows are not those of the hardware, and the host decides where the data goes. Only
 * rules on the cards themselves and on the guest's own software apply; a pair is UNKNOWN(vm).
 *
 * Some emulated chipsets and ports have the numbers of real ones. These are a sign only beside
 * functions that cannot be together on hardware. A host that runs virtual machines has no emulated
 * function and is no guest. Virtio functions below a port may be those of a DPU.
 */
#ifndef PCI_TOPO_RULES_GUEST_H
#define PCI_TOPO_RULES_GUEST_H

#include "pci/topo/rules/verdict.h"

/* Set e->emulated and e->guest, from the model and e->opt.vm. */
void hr_guest_find(struct hr_topology *e);

/* True when the rule applies in a guest, too. */
bool hr_guest_rule(const struct hr_rule *r);

#endif
