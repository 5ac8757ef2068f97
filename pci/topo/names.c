/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/tables.h"

#include <string.h>

/*
 * Present and former names in the PCI ID list. A longer name comes before a name that it contains.
 * Device 0: several numbers have that name, and none of them is in the kernel's list.
 */
static const struct {
	uint16_t vendor, device;
	const char *name;
} bridges[] = {
	{ 0x8086, 0x2020, "Sky Lake-E DMI3 Registers" },
	{ 0x8086, 0x2030, "Sky Lake-E PCI Express Root Port A" },
	{ 0x8086, 0x2031, "Sky Lake-E PCI Express Root Port B" },
	{ 0x8086, 0x2032, "Sky Lake-E PCI Express Root Port C" },
	{ 0x8086, 0x2033, "Sky Lake-E PCI Express Root Port D" },
	{ 0x8086, 0x2030, "Sky Lake-E PCI Express Root Port" },
	{ 0x8086, 0x2f00, "Xeon E7 v3/Xeon E5 v3/Core i7 DMI2" },
	{ 0x8086, 0x2f00, "Haswell-E DMI2" },
	{ 0x8086, 0x2f01, "Xeon E7 v3/Xeon E5 v3/Core i7 PCI Express Root Port 0" },
	{ 0x8086, 0x2f01, "Haswell-E PCI Express Root Port 0" },
	{ 0x8086, 0x3c01, "Xeon E5/Core i7 DMI2 in PCI Express Mode" },
	{ 0x8086, 0x3c01, "Sandy Bridge DMI2 in PCI Express Mode" },
	{ 0x8086, 0x3c00, "Xeon E5/Core i7 DMI2" },
	{ 0x8086, 0x3c00, "Sandy Bridge DMI2" },
	{ 0x8086, 0x09a2, "Ice Lake Memory Map/VT-d" },
	{ 0x8086, 0x0e00, "Xeon E7 v2/Xeon E5 v2/Core i7 DMI2" },
	{ 0x8086, 0x0e00, "Ivytown DMI2" },
	{ 0x8086, 0x0e00, "Ivy Bridge DMI2" },
	{ 0x8086, 0x0e01, "Xeon E7 v2/Xeon E5 v2/Core i7 PCI Express Root Port in DMI2 Mode" },
	{ 0x8086, 0x6f00, "Xeon E7 v4/Xeon E5 v4/Xeon E3 v4/Xeon D DMI2" },
	{ 0x8086, 0x6f00, "Broadwell DMI2" },
	{ 0x8086, 0x6f01, "Xeon E7 v4/Xeon E5 v4/Xeon E3 v4/Xeon D PCI Express Root Port 0" },
	{ 0x8086, 0x3406, "5520 I/O Hub to ESI Port" },
	{ 0x8086, 0x3405, "X58 I/O Hub to ESI Port" },
	{ 0x8086, 0, "I/O Hub to ESI Port" },
	{ 0x8086, 0, "Xeon C5500/C3500 DMI" },
	{ 0x8086, 0, "Core Processor DMI" },
	{ 0x8086, 0, "DMI Bridge" },
	/* All other root ports with a name: Sandy Bridge, Ivy Bridge, Haswell, Broadwell, client. */
	{ 0x8086, 0, "PCI Express Root Port" },
	{ 0x8086, 0, "PCIe Root Port" },
	{ 0x8086, 0, "Host Bridge" },
	{ 0x8086, 0, "DRAM Controller" },
	{ 0x8086, 0, "Memory Controller Hub" },
	{ 0x8086, 0, "DRAM Registers" },
	{ 0x8086, 0, "SoC Transaction Register" },
	{ 0x8086, 0, "System Agent" },
	{ 0x8086, 0, "PCI-e Root Complex" },
	{ 0x8086, 0, "440BX/ZX/DX" },
	{ 0x8086, 0, "440LX/EX" },
	{ 0x8086, 0x1237, "440FX - 82441FX PMC" },
	{ 0x1022, 0x1450, "Family 17h (Models 00h-0fh) Root Complex" },
	{ 0x1022, 0x1452, "Family 17h (Models 00h-1fh) PCIe Dummy Host Bridge" },
	{ 0x1022, 0x1452, "Family 17h (Models 00h-0fh) PCIe Dummy Host Bridge" },
	{ 0x1022, 0x1453, "Family 17h (Models 00h-0fh) PCIe GPP Bridge" },
	{ 0x1022, 0x15d0, "Raven/Raven2 Root Complex" },
	{ 0x1022, 0x15d3, "Raven/Raven2 PCIe GPP Bridge [6:0]" },
	{ 0x1022, 0x15f8, "FireFlight Root Complex" },
	{ 0x1022, 0x1480, "Starship/Matisse Root Complex" },
	{ 0x1022, 0x1482, "Starship/Matisse PCIe Dummy Host Bridge" },
	{ 0x1022, 0x1483, "Starship/Matisse GPP Bridge" },
	{ 0x1022, 0x1630, "Renoir/Cezanne Root Complex" },
	{ 0x1022, 0x1630, "Renoir Root Complex" },
	{ 0x1022, 0x1632, "Renoir PCIe Dummy Host Bridge" },
	{ 0x1022, 0x1645, "VanGogh Root Complex" },
	{ 0x1022, 0x14b5, "Family 17h-19h PCIe Root Complex" },
	{ 0x1022, 0x14b7, "Family 17h-19h PCIe Dummy Host Bridge" },
	{ 0x1022, 0x14a4, "Genoa/Bergamo Root Complex" },
	{ 0x1022, 0x149f, "Genoa/Bergamo Dummy Host Bridge" },
	{ 0x1022, 0x14d8, "Raphael/Granite Ridge Root Complex" },
	{ 0x1022, 0x14da, "Raphael/Granite Ridge Dummy Host Bridge" },
	{ 0x1022, 0x14db, "Raphael/Granite Ridge GPP Bridge" },
	{ 0x1022, 0x14e8, "Phoenix Root Complex" },
	{ 0x1022, 0x14ea, "Phoenix Dummy Host Bridge" },
	{ 0x1022, 0x1507, "Strix/Strix Halo Root Complex" },
	{ 0x1022, 0x1509, "Strix/Strix Halo Dummy Host Bridge" },
	{ 0x1022, 0x150b, "Strix/Strix Halo GPP Bridge" },
	{ 0x1022, 0x1122, "Krackan Root Complex" },
	{ 0x1022, 0x153a, "Turin Root Complex" },
	{ 0x1022, 0x153d, "Turin PCIe Dummy Host Bridge" },
	{ 0x1022, 0, "K8 [Athlon64/Opteron]" },
	{ 0x1022, 0, "Family 10h Processor" },
	{ 0x1022, 0, "Family 11h Processor" },
	{ 0x1022, 0, "Family 12h Processor" },
	{ 0x1022, 0, "Family 12h/14h Processor" },
	{ 0x1022, 0, "Family 14h Processor" },
	{ 0x1022, 0, "Family 15h Processor" },
	{ 0x1022, 0, "Family 15h (Models" },
	{ 0x1022, 0, "Family 16h Processor" },
	{ 0x1022, 0, "Family 16h (Models" },
	{ 0x1022, 0, "RS780 Host Bridge" },
	{ 0x1022, 0, "RS880 Host Bridge" },
	{ 0x10de, 0x229a, "Orin PCIe x8 Root Complex" },
	{ 0x10de, 0x229c, "Orin PCIe x4/x8 Endpoint/Root Complex" },
	{ 0x10de, 0x229e, "Orin PCIe x1 Root Complex" },
	{ 0x10de, 0x1ad1, "Tegra PCIe x4/x8 Endpoint/Root Complex" },
	{ 0x10de, 0x1ad2, "Tegra PCIe x1 Root Complex" },
	{ 0x10de, 0x22ce, "GB10 GEN5 X4 PCIe host" },
	{ 0x10de, 0x22d0, "GB10 GEN4 X1 PCIe host" },
	{ 0x10de, 0x22d1, "GB20B PCI bridge" },
	{ 0x10de, 0x22d8, "THOR Processor PCI Express Root Port" },
	{ 0x10de, 0x22e6, "THOR Processor PCI Express x16 Controller" },
	{ 0x1d17, 0x1003, "ZX-E Standard Host Bridge" },
	{ 0x1d17, 0x1006, "KX-6000G Standard Host Bridge" },
	{ 0x1d17, 0, "ZX-D Standard Host Bridge" },
	{ 0x1d17, 0, "ZX-100 Standard Host Bridge" },
	{ 0x1d17, 0, "ZX-100/KX-5000/KX-6000/KX-6000G Standard Host Bridge" },
};

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool hr_name_has_token(const char *title, const char *token)
{
	size_t n = strlen(token);
	const bool prefix = n > 1 && token[n - 1] == '*';

	n -= prefix;
	for (const char *at = title; (at = strchr(at, token[0])); at++)
		if (strncmp(at, token, n) == 0 && (at == title || !is_alnum(at[-1])) &&
		    (prefix || !is_alnum(at[n])))
			return true;
	return false;
}

bool hr_name_has_any(const char *title, const char *const *tokens)
{
	for (; *tokens; tokens++)
		if (hr_name_has_token(title, *tokens))
			return true;
	return false;
}

static int find_bridge_name(uint32_t vendor, const char *title)
{
	for (unsigned i = 0; i < sizeof bridges / sizeof *bridges; i++)
		if (bridges[i].vendor == vendor && hr_name_has_token(title, bridges[i].name))
			return (int)i;
	return -1;
}

uint32_t hr_name_host(uint32_t vendor, const char *title)
{
	int row = find_bridge_name(vendor, title);

	return row < 0 ? 0 : bridges[row].device;
}

bool hr_name_unlisted(uint32_t vendor, const char *title)
{
	int row = find_bridge_name(vendor, title);

	return row >= 0 && bridges[row].device == 0;
}

/*
 * Intel counts ports of chipsets with '#', ports of processors with letters, or names them by width.
 * AMD's processors of the same name have "GPP Bridge" only.
 */
bool hr_name_chipset(uint32_t vendor, const char *title)
{
	static const char *const amd[] = { "Series Chipset*", "Chipset", "Matisse Switch Upstream",
					   NULL };
	static const char *const parts[] = { "PCH", "Chipset", "chipset", "82801*", NULL };

	if (vendor == 0x1022)
		return hr_name_has_any(title, amd) || strstr(title, "] Matisse PCIe GPP Bridge");
	if (vendor != 0x8086 || !hr_name_has_token(title, "Root Port") ||
	    hr_name_has_token(title, "Thunderbolt"))
		return false;
	return hr_name_has_any(title, parts) || strstr(title, "PCI Express Root Port #");
}

bool hr_name_integrated(const char *title)
{
	static const char *const names[] = {
		"Kaveri",   "Carrizo",	  "Stoney",    "Raven Ridge", "Picasso",       "Raven 2",
		"Renoir",   "Lucienne",	  "Cezanne",   "Barcelo",     "Rembrandt",     "Raphael",
		"Phoenix",  "Phoenix1",	  "Phoenix2",  "Phoenix3",    "Mendocino",     "Strix",
		"Krackan",  "Hawk Point", "HawkPoint", "HawkPoint1",  "HawkPoint2",    "VanGogh",
		"Van Gogh", "Kabini",	  "Temash",    "Mullins",     "Trinity",       "Richland",
		"Wrestler", "Sumo",	  "SuperSumo", "Wani",	      "Granite Ridge", NULL,
	};

	return hr_name_has_any(title, names);
}

bool hr_name_unified(const char *title)
{
	static const char *const names[] = { "GB10", "GB10B", "GB20B", "Tegra*", "Jetson", NULL };

	return hr_name_has_any(title, names);
}
