/*
 * pci/topo/rules/atomics.h - whether PCI Express AtomicOps of a GPU can reach the CPU.
 *
 * ROCm uses them on host memory and on the memory of peers. The kernel enables them for a GPU when
 * each switch port above routes them, no port blocks them on egress and the root port completes
 * operations of 32 and 64 bits (pci_enable_atomic_ops_to_root in drivers/pci/pci.c). A register that
 * was not read is not a cause.
 */
#ifndef PCI_TOPO_RULES_ATOMICS_H
#define PCI_TOPO_RULES_ATOMICS_H

#include "pci/topo/model.h"

enum hr_atomics {
	HR_ATOMICS_FINE, /* or not known */
	HR_ATOMICS_UNROUTED,
	HR_ATOMICS_BLOCKED,
	HR_ATOMICS_INCOMPLETE, /* the root port completes not all of them */
	HR_ATOMICS_OFF,	       /* the driver has not enabled them at the GPU */
};

/* The first cause on the path from the GPU to the root port; *at is the function that has it. */
enum hr_atomics hr_atomics_of(const struct hr_model *m, const struct hr_fn *gpu,
			      const struct hr_fn **at);

#endif
