/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces nvml.c in a static build, which loads no library at run time. */
#include "pci/machine.h"

#include <errno.h>

#include "pci/topo/source/source.h"

int hr_read_nvml(struct hr_model *m)
{
	return -ENOENT;
}
