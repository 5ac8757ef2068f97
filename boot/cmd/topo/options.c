/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the options that change how pairs are evaluated. */
#include "boot/cmd/topo/topo.h"

#include <stdlib.h>
#include <string.h>

#include "pci/topo/tables.h"

bool hr_topo_set_mode(struct hr_topo_options *opt, const char *text)
{
	static const char *const name[] = { "gpu", "host", "vfio", "kernel" };

	for (unsigned i = 0; i < 4; i++)
		if (strcmp(text, name[i]) == 0) {
			opt->mode = (enum hr_mode)i;
			return true;
		}
	return false;
}

bool hr_topo_set_iommu(struct hr_topo_options *opt, const char *text)
{
	static const char *const name[] = { "", "off", "pt", "on" };

	for (unsigned i = 1; i < 4; i++)
		if (strcmp(text, name[i]) == 0) {
			opt->iommu = (enum hr_iommu)i;
			return true;
		}
	return false;
}

bool hr_topo_set_kernel(struct hr_topo_options *opt, const char *text)
{
	char *end;
	unsigned long major, minor;

	if (*text < '0' || *text > '9')
		return false;
	major = strtoul(text, &end, 10);
	if (*end != '.' || major > 0x7fff || end[1] < '0' || end[1] > '9')
		return false;
	text = end + 1;
	minor = strtoul(text, &end, 10);
	if (minor > 0xffff)
		return false;
	opt->kernel = HR_KERNEL_VERSION(major, (uint32_t)minor);
	return true;
}
