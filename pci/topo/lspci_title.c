/*
 * The first line of a function in lspci output: class, vendor and device, as numbers or names.
 */
#include "pci/topo/lspci_title.h"

#include <stdlib.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/names.h"

static const char *after(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	return at ? at + strlen(word) : NULL;
}

static bool starts(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* Last "[vvvv:dddd]", or "Device vvvv:dddd" of lspci -n. */
static void title_ids(struct hr_fn *f, const char *title)
{
	const char *at = title, *found = NULL;
	char *end;
	unsigned long vendor, device;

	while ((at = strchr(at, '[')) && strlen(at) >= 11) {
		if (at[5] == ':' && at[10] == ']')
			found = at + 1;
		at++;
	}
	if (!found)
		found = after(title, "Device ");
	if (!found)
		return;
	vendor = strtoul(found, &end, 16);
	if (end != found + 4 || *end != ':')
		return;
	device = strtoul(end + 1, &end, 16);
	/* the registers of a virtual function read ffff */
	if (end != found + 9 || vendor == 0xffff)
		return;
	hr_fn_set(f, HR_F_VENDOR, (uint32_t)vendor, HR_SRC_TEXT);
	hr_fn_set(f, HR_F_DEVICE, (uint32_t)device, HR_SRC_TEXT);
}

static void title_vendor(struct hr_fn *f, const char *title)
{
	static const struct {
		const char *name;
		uint32_t vendor;
	} vendors[] = { { "NVIDIA Corporation", 0x10de },
			{ "nVidia Corporation", 0x10de },
			{ "Advanced Micro Devices, Inc. [AMD/ATI]", 0x1002 },
			{ "Advanced Micro Devices", 0x1022 },
			{ "Intel Corporation", 0x8086 },
			{ "ASPEED", 0x1a03 },
			{ "Matrox", 0x102b } };

	for (unsigned i = 0; i < sizeof vendors / sizeof *vendors; i++)
		if (strstr(title, vendors[i].name)) {
			hr_fn_set(f, HR_F_VENDOR, vendors[i].vendor, HR_SRC_INFERRED);
			return;
		}
}

static void title_class(struct hr_fn *f, const char *title)
{
	static const struct {
		const char *name;
		uint32_t class;
	} classes[] = { { "Non-Volatile memory controller", 0x0108 },
			{ "VGA compatible controller", 0x0300 },
			{ "3D controller", 0x0302 },
			{ "Display controller", 0x0380 },
			{ "Processing accelerators", 0x1200 },
			{ "PCI bridge", 0x0604 },
			{ "Host bridge", 0x0600 },
			{ "ISA bridge", 0x0601 },
			{ "RAID bus controller", 0x0104 },
			{ "SATA controller", 0x0106 },
			{ "Ethernet controller", 0x0200 } };
	const char *at = starts(title, "Class ") ? title + 6 : after(title, " [");
	char *end;
	unsigned long class;

	for (unsigned i = 0; i < sizeof classes / sizeof *classes; i++)
		if (starts(title, classes[i].name)) {
			hr_fn_set(f, HR_F_CLASS, classes[i].class << 8, HR_SRC_TEXT);
			if (classes[i].class == 0x0604)
				hr_fn_set(f, HR_F_HEADER, 1, HR_SRC_INFERRED);
			return;
		}
	class = at ? strtoul(at, &end, 16) : 0;
	if (at && end == at + 4 && (*end == ']' || *end == ':'))
		hr_fn_set(f, HR_F_CLASS, (uint32_t) class << 8, HR_SRC_TEXT);
}

void hr_text_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length)
{
	uint32_t device;

	if (length == 0)
		return;
	if (f->name[0] == '\0')
		f->name = hr_model_word(m, title, length);
	title_class(f, title);
	title_ids(f, title);
	title_vendor(f, title);
	device = hr_name_host(hr_get(f, HR_F_VENDOR, 0), title);
	if (device)
		hr_fn_set(f, HR_F_DEVICE, device, HR_SRC_INFERRED);
	/* lspci prints this for a function whose registers read all ones. */
	if (strstr(title, "(rev ff)"))
		hr_fn_set(f, HR_F_GONE, 1, HR_SRC_TEXT);
}

static bool any(const char *title, const char *const *words)
{
	for (; *words; words++)
		if (strstr(title, *words))
			return true;
	return false;
}

void hr_text_tree_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length)
{
	static const char *const ssd[] = { "NVMe", "Non-Volatile", "SSD", NULL };
	/* Controllers with drives behind them; their names may contain "NVMe", too. */
	static const char *const raid[] = { HR_NAME_VMD, "RAID", "Raid", NULL };
	static const char *const host[] = { "SAS",	     "Tri-Mode", "HBA",
					    "Host Bus",	     "NVMe-oF",	 "NVMe over Fabrics",
					    "Fibre Channel", NULL };
	static const char *const other[] = { "SATA",	 "Audio",     "USB",	  "Bridge",
					     "bridge",	 "Switch",    "I2C",	  "UCSI",
					     "Ethernet", "BlueField", "ConnectX", NULL };
	uint32_t vendor;

	if (length == 0)
		return;
	if (f->name[0] == '\0')
		f->name = hr_model_word(m, title, length);
	title_ids(f, title);
	title_vendor(f, title);
	vendor = hr_get(f, HR_F_VENDOR, 0);
	if (any(title, raid)) {
		hr_fn_set(f, HR_F_CLASS, 0x010400, HR_SRC_INFERRED);
		return;
	}
	if (any(title, other) || any(title, host))
		return;
	if (any(title, ssd))
		hr_fn_set(f, HR_F_CLASS, 0x010802, HR_SRC_INFERRED);
	else if (vendor == 0x10de || vendor == 0x1002)
		hr_fn_set(f, HR_F_CLASS, 0x030000, HR_SRC_INFERRED);
}
