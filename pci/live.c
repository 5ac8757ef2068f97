/* This machine, walked by libpciaccess. */
#include "pci/live.h"

#include <errno.h>
#include <pciaccess.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/files.h"
#include "pci/topo/source.h"
#include "pci/access.h"
#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "pci/topo/sysfs.h"

static uint32_t read_config(struct pci_device *dev, uint8_t *to, uint32_t from, uint32_t bytes)
{
	pciaddr_t got = 0;

	if (pci_device_cfg_read(dev, to + from, from, bytes, &got) && got == 0)
		return 0;
	return (uint32_t)got;
}

/*
 * Only Express functions have an extended space. Each register costs microseconds, and more where
 * a hypervisor stands in between, so it is not read from the others.
 */
static int take_config(struct hr_model *m, struct hr_fn *f, struct pci_device *dev)
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

static bool has_sizes(const struct hr_fn *f)
{
	for (unsigned i = 0; i < HR_BARS_MAX; i++)
		if (f->bar[i].flags & HR_BAR_MEM && !f->bar[i].size_source)
			return false;
	return true;
}

/*
 * Sizes that sysfs did not give. Probing reads configuration space once more, which costs
 * milliseconds a function where a hypervisor stands in between.
 */
static void take_bars(struct hr_fn *f, struct pci_device *dev)
{
	if (has_sizes(f) || pci_device_probe(dev))
		return;
	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		if (!dev->regions[i].size || dev->regions[i].is_IO ||
		    f->bar[i].size_source > HR_SRC_SYSFS)
			continue;
		f->bar[i].size = dev->regions[i].size;
		f->bar[i].size_source = HR_SRC_SYSFS;
	}
}

static int take_device(struct hr_model *m, const struct hr_files *files, struct pci_device *dev)
{
	struct hr_fn *f = hr_model_add(m, dev->domain, dev->bus, dev->dev, dev->func);
	char folder[64], bdf[HR_BDF_MAX];
	const char *vendor = pci_device_get_vendor_name(dev),
		   *name = pci_device_get_device_name(dev);
	char title[HR_WORD_MAX];
	int err;

	if (!f)
		return -E2BIG;
	err = take_config(m, f, dev);
	if (err)
		return err;
	snprintf(title, sizeof title, "%s%s%s", vendor ? vendor : "", vendor && name ? " " : "",
		 name ? name : "");
	f->name = hr_model_word(m, title, strlen(title));
	snprintf(folder, sizeof folder, "sys/bus/pci/devices/%s", hr_bdf(f, bdf));
	hr_read_sysfs_function(m, files, f, folder);
	take_bars(f, dev);
	return 0;
}

int hr_source_live(struct hr_model *m)
{
	struct pci_device_iterator *all;
	struct pci_device *dev;
	struct hr_files files;
	int err = hr_access_get();

	if (err) {
		snprintf(m->message, sizeof m->message, "no PCI bus can be walked here");
		return err;
	}
	hr_files_folder(&files, "/");
	snprintf(m->input, sizeof m->input, "live");
	m->sys.live = true;
	all = pci_slot_match_iterator_create(NULL);
	while (!err && all && (dev = pci_device_next(all)))
		err = take_device(m, &files, dev);
	pci_iterator_destroy(all);
	hr_access_put();
	if (!err && m->count == 0) {
		snprintf(m->message, sizeof m->message, "this machine has no PCI function");
		return -ENODATA;
	}
	if (!err)
		hr_read_sysfs_system(m, &files);
	return err ? err : hr_model_link(m);
}
