/*
 * pci/topo/groups.h - IOMMU groups as the kernel would form them from configuration space, and whether
 * VFIO could open them.
 *
 * Algorithm: pci_device_group() of Linux drivers/iommu/iommu.c with pci_acs_enabled() of
 * drivers/pci/pci.c: isolation needs SV, RR, CR and UF on every port up to the root; bits that a
 * port does not have count as satisfied.
 */
#ifndef PCI_TOPO_GROUPS_H
#define PCI_TOPO_GROUPS_H

#include <stddef.h>

#include "pci/topo/bootmodel.h"
#include "pci/topo/model.h"

struct hr_groups {
	uint32_t *of; /* [functions]: number of the group, from 0 in address order */
	bool *unsure; /* [functions]: an ACS capability on the way up is not known */
	uint32_t count;
	uint32_t mismatches;	/* functions whose real group is not the predicted one */
	int32_t first_mismatch; /* or HR_NO_FN */
};

/* From the ACS controls that the model shows. Memory comes from the model. 0 or -ENOMEM. */
int hr_groups_predict(struct hr_model *m, struct hr_groups *g);
/* From those after a boot: groups are formed then, and stay when a register is written later. */
int hr_groups_at_boot(struct hr_model *m, const struct hr_boot *boot, struct hr_groups *g);

/*
 * The function that keeps VFIO from opening the group of `fn` (bound to another driver), or
 * HR_NO_FN. Uses the real group when `real`, the predicted one otherwise.
 */
int32_t hr_groups_blocker(const struct hr_model *m, const struct hr_groups *g, int32_t fn,
			  bool real);

/* Whether the predicted group, and so the answer, rests on ACS that was not read. */
static inline bool hr_groups_unsure(const struct hr_groups *g, int32_t fn, int32_t blocker)
{
	return g->unsure[fn] || (blocker != HR_NO_FN && g->unsure[blocker]);
}

/*
 * The same for every function at once, in blocker[functions]: from its real group where that is
 * known and holds, else from the predicted one; g NULL: real groups only. 0 or -ENOMEM.
 */
int hr_groups_blockers(struct hr_model *m, const struct hr_groups *g, int32_t *blocker);

/* The group of f is known, and no change was assumed that would make it another. */
static inline bool hr_group_is_real(const struct hr_model *m, const struct hr_fn *f)
{
	return hr_known(f, HR_F_GROUP) && !m->regrouped;
}

#endif
