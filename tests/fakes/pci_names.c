/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/pci_names.h"

#include <stddef.h>

const char *pci_device_get_vendor_name(const struct pci_device *dev)
{
	return NULL;
}

const char *pci_device_get_device_name(const struct pci_device *dev)
{
	return NULL;
}
