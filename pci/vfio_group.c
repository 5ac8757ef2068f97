/* SPDX-License-Identifier: Apache-2.0 */
/* Explains in one sentence why VFIO cannot open a group of this machine. */
#include "pci/machine.h"

#include <stdio.h>

#include "pci/topo/rules/groups.h"

static int find_blocker(const char *bdf, struct hr_model *m, int32_t *blocker)
{
	uint32_t domain, bus, dev, fn;
	struct hr_groups groups = { 0 };
	int32_t self;
	int err = hr_source_live(m);

	if (!err)
		err = hr_groups_predict(m, &groups);
	if (err)
		return err;
	*blocker = HR_NO_FN;
	hr_bdf_parse(bdf, &domain, &bus, &dev, &fn);
	self = hr_model_find(m, domain, bus, dev, fn);
	if (self != HR_NO_FN)
		*blocker = hr_groups_blocker(m, &groups, self, true);
	return 0;
}

void hr_vfio_group_explain(const char *bdf, char *text, size_t capacity)
{
	static struct hr_model model; /* large; bring-up is one thread */
	int32_t blocker = HR_NO_FN;
	char other[HR_BDF_MAX];

	if (hr_model_init(&model) == 0 && find_blocker(bdf, &model, &blocker) == 0 &&
	    blocker != HR_NO_FN)
		snprintf(
			text, capacity,
			"%s is in the same group and bound to %s: unbind it, or bind it to vfio-pci; "
			"'headrace topo --groups' shows why they share a group",
			hr_bdf(&model.fn[blocker], other), model.fn[blocker].driver);
	else
		snprintf(text, capacity,
			 "a function in it is bound to another driver than vfio-pci; 'headrace "
			 "topo --groups' shows the group");
	hr_model_fini(&model);
}
