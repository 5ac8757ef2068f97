/* In place of nvml.c in a static build, which loads no library at run time. */
#include "pci/topo/source.h"

#include <errno.h>

int hr_read_nvml(struct hr_model *m)
{
	(void)m;
	return -ENOENT;
}
