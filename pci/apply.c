/* SPDX-License-Identifier: Apache-2.0 */
/* Writes registers of a fix through libpciaccess. */
#include "pci/machine.h"

#include <errno.h>
#include <pciaccess.h>

#include "pci/library.h"
#include "pci/topo/fields.h"

static int read_register(struct pci_device *dev, const struct hr_fix_write *w, uint32_t *value)
{
	uint16_t low;
	int err;

	if (w->width == 4)
		return pci_device_cfg_read_u32(dev, value, w->offset);
	err = pci_device_cfg_read_u16(dev, &low, w->offset);
	*value = low;
	return err;
}

static int write_register(struct pci_device *dev, const struct hr_fix_write *w, uint32_t value)
{
	return w->width == 4 ? pci_device_cfg_write_u32(dev, value, w->offset)
			     : pci_device_cfg_write_u16(dev, (uint16_t)value, w->offset);
}

static int write_one(struct pci_device *dev, struct hr_fix_write *w)
{
	uint32_t now;

	if (read_register(dev, w, &now))
		return -EACCES;
	w->before = now;
	if (write_register(dev, w, now & ~HR_ACS_REDIRECT) || read_register(dev, w, &w->after))
		return -EACCES;
	return w->after & HR_ACS_REDIRECT ? -EIO : 0;
}

int hr_fix_write_all(const struct hr_model *m, struct hr_fix *fix, unsigned *failed)
{
	int err = hr_pciaccess_get();

	if (err)
		return err;
	for (unsigned i = 0; i < fix->count && !err; i++) {
		const struct hr_fn *f = &m->fn[fix->write[i].fn];
		struct pci_device *dev = pci_device_find_by_slot(f->domain, f->bus, f->dev, f->fn);

		*failed = i;
		err = dev ? write_one(dev, &fix->write[i]) : -ENODEV;
	}
	hr_pciaccess_put();
	return err;
}
