/*
 * pci/topo/rules/traits.h - properties of a machine that several rules use.
 */
#ifndef PCI_TOPO_RULES_TRAITS_H
#define PCI_TOPO_RULES_TRAITS_H

#include "pci/topo/rules/verdict.h"

/* Traits of the machine, enum hr_trait; the last part of hr_topology_init(). */
uint32_t hr_traits_of(const struct hr_topology *e);

#endif
