/* SPDX-License-Identifier: Apache-2.0 */
/* Reads this machine with libpciaccess. */
#include "pci/machine.h"

#include <errno.h>
#include <pciaccess.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/sysfs/files.h"
#include "pci/topo/source/source.h"
#include "pci/library.h"
#include "pci/topo/decode.h"
#include "pci/topo/boot/iommu.h"
#include "pci/topo/fields.h"
#include "pci/topo/sysfs/sysfs.h"

static uint32_t read_config(struct pci_device *dev, uint8_t *to, uint32_t from, uint32_t bytes)
{
	pciaddr_t got = 0;

	if (pci_device_cfg_read(dev, to + from, from, bytes, &got) && got == 0)
		return 0;
	return (uint32_t)got;
}

/*
 * Only Express functions have an extended configuration space. Each register read costs
 * microseconds, more under a hypervisor, so the extended space of other functions is not read.
 */
static int read_function_config(struct hr_model *m, struct hr_fn *f, struct pci_device *dev)
{
	uint8_t config[HR_CFG_EXTENDED];
	uint32_t bytes = read_config(dev, config, 0, HR_CFG_CONV);

	if (bytes == 0) {
		f->denied = true;
		return 0;
	}
	hr_decode(f, config, bytes);
	if (bytes == HR_CFG_CONV && hr_get(f, HR_F_EXP, 0))
		bytes += read_config(dev, config, HR_CFG_CONV, HR_CFG_EXTENDED - HR_CFG_CONV);
	f->config = hr_model_alloc(m, bytes);
	if (!f->config)
		return -ENOMEM;
	memcpy(f->config, config, bytes);
	f->config_bytes = bytes;
	hr_decode(f, f->config, f->config_bytes);
	return 0;
}

static int add_live_function(struct hr_model *m, const struct hr_files *files,
			     struct pci_device *dev)
{
	struct hr_fn *f = hr_model_add(m, dev->domain, dev->bus, dev->dev, dev->func);
	char folder[64], bdf[HR_BDF_MAX];
	const char *vendor = pci_device_get_vendor_name(dev),
		   *name = pci_device_get_device_name(dev);
	char title[HR_WORD_MAX];
	int err;

	if (!f)
		return -E2BIG;
	err = read_function_config(m, f, dev);
	if (err)
		return err;
	snprintf(title, sizeof title, "%s%s%s", vendor ? vendor : "", vendor && name ? " " : "",
		 name ? name : "");
	f->name = hr_model_word(m, title, strlen(title));
	snprintf(folder, sizeof folder, "sys/bus/pci/devices/%s", hr_bdf(f, bdf));
	hr_read_sysfs_function(m, files, f, folder);
	return 0;
}

int hr_source_live(struct hr_model *m)
{
	struct pci_device_iterator *all;
	struct pci_device *dev;
	struct hr_files files;
	int err = hr_pciaccess_get();

	if (err)
		return hr_fail(&m->error, HR_ERROR_USAGE, err,
			       "this machine has no accessible PCI bus");
	hr_files_folder(&files, "/");
	snprintf(m->input, sizeof m->input, "live");
	m->sys.live = true;
	all = pci_slot_match_iterator_create(NULL);
	while (!err && all && (dev = pci_device_next(all)))
		err = add_live_function(m, &files, dev);
	pci_iterator_destroy(all);
	hr_pciaccess_put();
	if (!err && m->count == 0)
		return hr_fail(&m->error, HR_ERROR_USAGE, -ENODATA,
			       "this machine has no PCI function");
	if (!err)
		hr_read_sysfs_system(m, &files);
	if (!err)
		err = hr_model_connect(m);
	if (!err)
		hr_iommu_decide(m);
	return err;
}
