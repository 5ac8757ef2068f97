/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/rules/groups.h - predicts the IOMMU groups that the kernel forms from configuration
 * space, and whether VFIO can open them.
 *
 * Algorithm: pci_device_group() of Linux drivers/iommu/iommu.c with pci_acs_enabled() of
 * drivers/pci/pci.c. Isolation needs SV, RR, CR and UF on every port up to the root; bits that a
 * port does not support count as set.
 */
#ifndef PCI_TOPO_RULES_GROUPS_H
#define PCI_TOPO_RULES_GROUPS_H

#include <stddef.h>

#include "pci/topo/boot/boot.h"
#include "pci/topo/model.h"

struct hr_groups {
	uint32_t *of; /* [functions]: number of the group, from 0 in address order */
	bool *unsure; /* [functions]: an ACS capability on the way up is not known */
	uint32_t count;
	uint32_t mismatches;	/* functions whose real group differs from the prediction */
	int32_t first_mismatch; /* or HR_NO_FN */
};

/* Predict from the ACS controls of the model. Memory comes from the model. 0 or -ENOMEM. */
int hr_groups_predict(struct hr_model *m, struct hr_groups *g);
/* Predict from the ACS controls after a boot: groups are formed at boot and do not change later. */
int hr_groups_at_boot(struct hr_model *m, const struct hr_next_boot *boot, struct hr_groups *g);

/*
 * The function that prevents VFIO from opening the group of `fn` because of its driver, or
 * HR_NO_FN. Uses the real group when `real`, else the predicted group.
 */
int32_t hr_groups_blocker(const struct hr_model *m, const struct hr_groups *g, int32_t fn,
			  bool real);

/* True when the predicted group, and therefore the answer, depends on ACS that was not read. */
static inline bool hr_groups_unsure(const struct hr_groups *g, int32_t fn, int32_t blocker)
{
	return g->unsure[fn] || (blocker != HR_NO_FN && g->unsure[blocker]);
}

/*
 * The same for all functions at once, in blocker[functions]. Uses the real group when it is known
 * and valid, else the predicted one; g NULL: real groups only. 0 or -ENOMEM.
 */
int hr_groups_blockers(struct hr_model *m, const struct hr_groups *g, int32_t *blocker);

/* True when the group of f is known and no assumed change invalidates it. */
static inline bool hr_group_is_real(const struct hr_model *m, const struct hr_fn *f)
{
	return hr_known(f, HR_F_GROUP) && !m->regrouped;
}

/* True when the kernel driver of a function allows VFIO to open its group. */
bool hr_driver_allows_vfio(const struct hr_fn *f);

#endif
