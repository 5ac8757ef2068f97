/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/library.h"

#include <errno.h>
#include <pciaccess.h>

static unsigned users;

int hr_pciaccess_get(void)
{
	if (users == 0 && pci_system_init() != 0)
		return -ENODEV;
	users++;
	return 0;
}

void hr_pciaccess_put(void)
{
	if (--users == 0)
		pci_system_cleanup();
}
