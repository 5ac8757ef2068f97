/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first line of a function in lspci output: class, vendor and device, as numbers or names.
 */
#include "pci/topo/lspci/text.h"

#include <stdlib.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"

static const char *text_behind(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	return at ? at + strlen(word) : NULL;
}

static bool begins_with(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* The value of exactly four hexadecimal digits, or HR_NAME_UNKNOWN. */
static uint32_t four_digits(const char *text)
{
	char *end;
	unsigned long value;

	if (strspn(text, "0123456789abcdefABCDEF") != 4)
		return HR_NAME_UNKNOWN;
	value = strtoul(text, &end, 16);
	return (uint32_t)value;
}

/* "vvvv:dddd" */
static bool set_ids(struct hr_fn *f, const char *text)
{
	const uint32_t vendor = four_digits(text);
	uint32_t device;

	if (vendor == HR_NAME_UNKNOWN || text[4] != ':')
		return false;
	device = four_digits(text + 5);
	/* the registers of a virtual function read ffff */
	if (device == HR_NAME_UNKNOWN || vendor == 0xffff)
		return false;
	hr_fn_set(f, HR_F_VENDOR, vendor, HR_SRC_TEXT);
	hr_fn_set(f, HR_F_DEVICE, device, HR_SRC_TEXT);
	return true;
}

/* The last "[vvvv:dddd]" of the title; NULL: none. */
static const char *ids_in_brackets(const char *title)
{
	const char *at = title, *found = NULL;

	while ((at = strchr(at, '['))) {
		at++;
		if (strnlen(at, 10) == 10 && at[4] == ':' && at[9] == ']')
			found = at;
	}
	return found;
}

/*
 * "Device 2b85" at the end of a device's name: lspci prints the number when its list has no name.
 * "Unknown device 2b85" until pciutils 2.2.
 */
static uint32_t device_number(const char *title)
{
	const char *at = title;
	uint32_t number;

	while ((at = strstr(at, "evice "))) {
		at += 6;
		number = four_digits(at);
		if (number != HR_NAME_UNKNOWN && (at[4] == '\0' || begins_with(at + 4, " (")))
			return number;
	}
	return HR_NAME_UNKNOWN;
}

/* `name` is the title without the class. */
static void set_vendor_device(struct hr_fn *f, const char *name)
{
	const char *brackets = ids_in_brackets(name), *device = text_behind(name, "evice ");
	uint32_t number;

	if (!(brackets && set_ids(f, brackets)) && !set_ids(f, name) && device)
		set_ids(f, device);
	number = hr_name_vendor(name);
	if (number != HR_NAME_UNKNOWN)
		hr_fn_set(f, HR_F_VENDOR, number, HR_SRC_INFERRED);
	number = device_number(name);
	if (number != HR_NAME_UNKNOWN && hr_known(f, HR_F_VENDOR) && number != 0xffff)
		hr_fn_set(f, HR_F_DEVICE, number, HR_SRC_TEXT);
	number = hr_name_host(hr_get(f, HR_F_VENDOR, 0), name);
	if (number)
		hr_fn_set(f, HR_F_DEVICE, number, HR_SRC_INFERRED);
}

/*
 * "Host bridge: ", "Host bridge [0600]: ", "0600: " of lspci -n, "Class 0600: ". Returns the title
 * after the class.
 */
static const char *set_class(struct hr_fn *f, const char *title)
{
	const char *colon = strstr(title, ": "), *brackets = strstr(title, " [");
	const char *number = begins_with(title, "Class ") ? title + 6 : title;
	uint32_t class;
	size_t length;
	char end = ':';

	if (brackets && (!colon || brackets < colon)) {
		number = brackets + 2;
		end = ']';
	}
	class = four_digits(number);
	if (class != HR_NAME_UNKNOWN && number[4] != end)
		class = HR_NAME_UNKNOWN;
	if (class == HR_NAME_UNKNOWN)
		class = hr_name_class(title, &length);
	if (class != HR_NAME_UNKNOWN) {
		hr_fn_set(f, HR_F_CLASS, class << 8, HR_SRC_TEXT);
		if (class == 0x0604)
			hr_fn_set(f, HR_F_HEADER, 1, HR_SRC_INFERRED);
	}
	return colon ? colon + 2 : title;
}

void hr_lspci_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length)
{
	const char *interface = strstr(title, " (prog-if ");

	if (length == 0)
		return;
	if (f->name[0] == '\0')
		f->name = hr_model_word(m, title, interface ? (size_t)(interface - title) : length);
	set_vendor_device(f, set_class(f, title));
	/* lspci prints this for a function whose registers read all ones. */
	if (strstr(title, "(rev ff)"))
		hr_fn_set(f, HR_F_GONE, 1, HR_SRC_TEXT);
}

bool hr_text_title_more(struct hr_fn *f, const char *line)
{
	const char *ids = ids_in_brackets(line);

	if (ids && !hr_known(f, HR_F_DEVICE))
		return set_ids(f, ids);
	return begins_with(line, "(rev ") || begins_with(line, "(prog-if ");
}

/* True for the title of a GPU, as far as its vendor, its number or its name tells. */
static bool is_gpu_title(const struct hr_fn *f, const char *title)
{
	/* Ports and endpoints of NVIDIA's processors. */
	static const char *const no_gpu[] = { "PCI Express", "PCIe host", "Endpoint", NULL };
	static const char *const intel[] = {
		"Arc", "Data Center GPU", "Ponte Vecchio*", "Battlemage", "DG1",
		"DG2", "ATS-M*",	  "Iris Xe MAX",    NULL
	};
	const uint32_t vendor = hr_get(f, HR_F_VENDOR, 0), device = hr_get(f, HR_F_DEVICE, 0);

	if (vendor == 0x8086)
		return hr_device_is(vendor, device, HR_DEV_GPU) || hr_name_has_any(title, intel);
	/* A card without a name may be of any class; its GPU would be its first function. */
	return (vendor == 0x10de || vendor == 0x1002) &&
	       (f->fn == 0 || device_number(title) == HR_NAME_UNKNOWN) &&
	       four_digits(title) == HR_NAME_UNKNOWN &&
	       !hr_device_is(vendor, device, HR_DEV_NO_GPU) && !hr_name_has_any(title, no_gpu);
}

void hr_lspci_tree_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length)
{
	static const char *const ssd[] = { "NVMe*", "Non-Volatile", "SSD*", NULL };
	/* Controllers with drives behind them; their names may contain "NVMe", too. */
	static const char *const raid[] = { HR_NAME_VMD, "RAID*",      "Raid*",
					    "MegaRAID*", "SmartRAID*", NULL };
	static const char *const host[] = {
		"SAS*",	   "LSISAS*",		"Tri-Mode",	 "HBA*", "Host Bus",
		"NVMe-oF", "NVMe over Fabrics", "Fibre Channel", NULL
	};
	static const char *const other[] = { "SATA*",  "Audio",	     "USB*",	  "Bridge",
					     "bridge", "Switch",     "NVSwitch",  "I2C",
					     "UCSI",   "Ethernet",   "xHCI",	  "HDAudio",
					     "Root",   "BlueField*", "ConnectX*", NULL };

	if (length == 0)
		return;
	if (f->name[0] == '\0')
		f->name = hr_model_word(m, title, length);
	set_vendor_device(f, title);
	if (hr_name_has_any(title, raid)) {
		hr_fn_set(f, HR_F_CLASS, 0x010400, HR_SRC_INFERRED);
		return;
	}
	if (hr_name_has_any(title, other) || hr_name_has_any(title, host))
		return;
	if (hr_name_has_any(title, ssd))
		hr_fn_set(f, HR_F_CLASS, 0x010802, HR_SRC_INFERRED);
	else if (is_gpu_title(f, title))
		hr_fn_set(f, HR_F_CLASS, 0x030000, HR_SRC_INFERRED);
}
