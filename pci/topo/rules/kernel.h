/*
 * pci/topo/rules/kernel.h - the verdict of the kernel's own algorithm (calc_map_type_and_dist).
 */
#ifndef PCI_TOPO_RULES_KERNEL_H
#define PCI_TOPO_RULES_KERNEL_H

#include "pci/topo/rules/verdict.h"

/* Only the kernel's algorithm; sets common, distance, redirect, listed and kernel of *p. */
void hr_pair_evaluate_kernel(const struct hr_topology *e, struct hr_pair *p);

/* enum hr_walk_flag of a function from its other derived facts; part of hr_topology_init(). */
uint8_t hr_walk_flags(const struct hr_topology *e, int32_t fn);

/*
 * Whether the CPU is AMD of family 17h or later: stated by the source, else derived from bridges and
 * the data fabric. Part of hr_topology_init().
 */
void hr_cpu_find(struct hr_topology *e);

/* Look up the first functions of the root buses; part of hr_topology_init(). 0 or -ENOMEM. */
int hr_hosts_list(struct hr_topology *e, struct hr_model *m);

/* True when the kernel allows peers through these root complexes: host_bridge_whitelist(). */
bool hr_root_listed(const struct hr_topology *e, int32_t root_a, int32_t root_b);

/*
 * True when they are not listed as far as is known, but the capture does not identify one of them.
 */
bool hr_root_unread(const struct hr_topology *e, int32_t root_a, int32_t root_b);

#endif
