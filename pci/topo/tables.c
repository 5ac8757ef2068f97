/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/tables.h"

#include <stddef.h>
#include <string.h>

#define V HR_KERNEL_VERSION

/*
 * drivers/pci/p2pdma.c. `since` is from the history of the file where marked; otherwise it is the
 * oldest of the checked kernel sources that has the row.
 */
const struct hr_listed hr_listed_bridges[] = {
	{ 0x1022, 0x1450, 0x1450, true, V(5, 2), "AMD Zen root complex (until 5.8)" },
	{ 0x8086, 0x3c00, 0x3c01, true, V(5, 4), "Xeon E5 (Sandy Bridge)" },
	{ 0x8086, 0x2f00, 0x2f01, true, V(5, 4), "Xeon E5/E7 v3 (Haswell)" },
	{ 0x8086, 0x2030, 0x2033, false, V(5, 10), "Xeon (Skylake)" },
	{ 0x8086, 0x2020, 0x2020, false, V(5, 10), "Xeon (Skylake)" },
	{ 0x8086, 0x09a2, 0x09a2, false, V(5, 18), "Xeon (Ice Lake and later)" },
	{ 0x8086, 0x0b25, 0x0b25, false, V(6, 14), "Xeon (Sapphire Rapids, DSA)" },
	{ 0x8086, 0x0cfe, 0x0cfe, false, V(6, 14), "Xeon (Sapphire Rapids, IAX)" },
	{ 0x8086, 0x11fb, 0x11fb, false, V(6, 14), "Xeon (Granite Rapids)" },
	{ 0x8086, 0x1212, 0x1212, false, V(6, 14), "Xeon (Diamond Rapids)" },
	{ 0x8086, 0x1216, 0x1216, false, V(6, 14), "Xeon (Diamond Rapids)" },
	{ 0x8086, 0x4940, 0x4940, false, V(6, 14), "Xeon (QAT)" },
	{ 0x8086, 0x4942, 0x4942, false, V(6, 14), "Xeon (QAT)" },
	{ 0x8086, 0x4944, 0x4944, false, V(6, 14), "Xeon (QAT)" },
	{ 0x8086, 0x4946, 0x4946, false, V(6, 14), "Xeon (QAT)" },
	{ 0x8086, 0x4948, 0x4948, false, V(6, 14), "Xeon (QAT)" },
	{ 0x1ae0, 0x0000, 0xffff, false, V(6, 14), "Google" },
	{ 0x10de, 0x2f95, 0x2f98, false, V(6, 18), "NVIDIA CPU" },
	{ 0x1d17, 0x1003, 0x1003, true, V(6, 18), "Zhaoxin" },
	{ 0x1d17, 0x1005, 0x1005, true, V(6, 18), "Zhaoxin" },
};
const unsigned hr_listed_count = sizeof hr_listed_bridges / sizeof *hr_listed_bridges;

const struct hr_listed *hr_listed_find(uint32_t vendor, uint32_t device, uint32_t kernel)
{
	for (unsigned i = 0; i < hr_listed_count; i++) {
		const struct hr_listed *row = &hr_listed_bridges[i];

		if (row->vendor == vendor && device >= row->first && device <= row->last &&
		    kernel >= row->since)
			return row;
	}
	return NULL;
}

bool hr_vendor_is_listed(uint32_t vendor)
{
	for (unsigned i = 0; i < hr_listed_count; i++)
		if (hr_listed_bridges[i].vendor == vendor)
			return true;
	return false;
}

static const struct {
	enum hr_device_kind kind;
	uint16_t vendor, first, last;
} devices[] = {
	/* pci.ids; root identifiers of arch/x86/kernel/amd_nb.c */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x1122, 0x1122 }, /* Krackan */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x13e0, 0x13e0 }, /* Ariel */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x1450, 0x1450 }, /* Naples, Summit Ridge */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x1480, 0x1480 }, /* Rome, Milan, Matisse, Vermeer */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x14a4, 0x14a4 }, /* Genoa */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x14b5, 0x14b5 }, /* Rembrandt */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x14bb, 0x14bb }, /* Trento, with MI200 */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x14d8, 0x14d8 }, /* Raphael, Granite Ridge */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x14e8, 0x14e8 }, /* Phoenix, Hawk Point */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x14f8, 0x14f8 }, /* MI300A */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x1507, 0x1507 }, /* Strix, Strix Halo */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x153a, 0x153a }, /* Turin */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x15d0, 0x15d0 }, /* Raven */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x15f8, 0x15f8 }, /* FireFlight */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x1626, 0x1626 }, /* Arden */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x1630, 0x1630 }, /* Renoir, Cezanne */
	{ HR_DEV_ZEN_HOST, 0x1022, 0x1645, 0x1645 }, /* Van Gogh */
	/* pci.ids: dummy host bridges, ports and internal bridges */
	{ HR_DEV_ZEN_PART, 0x1022, 0x1110, 0x1112 }, /* Krackan */
	{ HR_DEV_ZEN_PART, 0x1022, 0x1452, 0x1454 }, /* Naples, Summit Ridge */
	{ HR_DEV_ZEN_PART, 0x1022, 0x1482, 0x1484 }, /* Rome, Milan, Matisse, Vermeer */
	{ HR_DEV_ZEN_PART, 0x1022, 0x149a, 0x149a },
	{ HR_DEV_ZEN_PART, 0x1022, 0x149f, 0x149f }, /* Genoa */
	{ HR_DEV_ZEN_PART, 0x1022, 0x14a5, 0x14a5 },
	{ HR_DEV_ZEN_PART, 0x1022, 0x14a7, 0x14a7 },
	{ HR_DEV_ZEN_PART, 0x1022, 0x14aa, 0x14ab },
	{ HR_DEV_ZEN_PART, 0x1022, 0x14b7, 0x14ba }, /* Rembrandt */
	{ HR_DEV_ZEN_PART, 0x1022, 0x14cd, 0x14cd },
	{ HR_DEV_ZEN_PART, 0x1022, 0x14da, 0x14db }, /* Raphael, Granite Ridge */
	{ HR_DEV_ZEN_PART, 0x1022, 0x14dd, 0x14dd },
	{ HR_DEV_ZEN_PART, 0x1022, 0x14ea, 0x14eb }, /* Phoenix */
	{ HR_DEV_ZEN_PART, 0x1022, 0x14ed, 0x14ef },
	{ HR_DEV_ZEN_PART, 0x1022, 0x1509, 0x150c }, /* Strix, Strix Halo */
	{ HR_DEV_ZEN_PART, 0x1022, 0x153d, 0x153e }, /* Turin */
	{ HR_DEV_ZEN_PART, 0x1022, 0x1554, 0x1555 },
	{ HR_DEV_ZEN_PART, 0x1022, 0x15d2, 0x15d3 }, /* Raven */
	{ HR_DEV_ZEN_PART, 0x1022, 0x15da, 0x15dc },
	{ HR_DEV_ZEN_PART, 0x1022, 0x1632, 0x1635 }, /* Renoir, Cezanne */
	{ HR_DEV_ZEN_PART, 0x1022, 0x1647, 0x1648 }, /* Van Gogh */
	{ HR_DEV_OLD_HOST, 0x1022, 0x1100, 0x1103 }, /* K8 */
	{ HR_DEV_OLD_HOST, 0x1022, 0x1200, 0x1204 }, /* family 10h */
	{ HR_DEV_OLD_HOST, 0x1022, 0x1300, 0x1307 }, /* 11h */
	{ HR_DEV_OLD_HOST, 0x1022, 0x1400, 0x143b }, /* 15h, consoles */
	{ HR_DEV_OLD_HOST, 0x1022, 0x1510, 0x1516 }, /* 14h */
	{ HR_DEV_OLD_HOST, 0x1022, 0x1530, 0x1539 }, /* 16h */
	{ HR_DEV_OLD_HOST, 0x1022, 0x1540, 0x1553 }, /* consoles */
	{ HR_DEV_OLD_HOST, 0x1022, 0x155b, 0x155e },
	{ HR_DEV_OLD_HOST, 0x1022, 0x1566, 0x156b }, /* 16h */
	{ HR_DEV_OLD_HOST, 0x1022, 0x1570, 0x1585 }, /* 15h, 16h */
	{ HR_DEV_OLD_HOST, 0x1022, 0x15b0, 0x15b5 }, /* 15h */
	{ HR_DEV_OLD_HOST, 0x1022, 0x15bc, 0x15bc },
	{ HR_DEV_OLD_HOST, 0x1022, 0x1600, 0x1605 },
	{ HR_DEV_OLD_HOST, 0x1022, 0x1700, 0x1719 }, /* 12h, 14h */
	{ HR_DEV_OLD_HOST, 0x1022, 0x7000, 0x74ff }, /* chipsets of K7 and K8 */
	{ HR_DEV_OLD_HOST, 0x1022, 0x9600, 0x960f }, /* RS780, RS880 */
	/* Root ports of Ice Lake and later; 00.0 of their buses is 8086:09a2. */
	{ HR_DEV_HIDDEN_FIRST, 0x8086, 0x347a, 0x347d },
	{ HR_DEV_HIDDEN_FIRST, 0x8086, 0x352a, 0x352d },
	/* drivers/pci/quirks.c, pci_quirk_intel_pch_acs_ids, and the Sunrise Point ports */
	{ HR_DEV_PCH_PORT, 0x8086, 0x3b42, 0x3b51 },
	{ HR_DEV_PCH_PORT, 0x8086, 0x1c10, 0x1c1f },
	{ HR_DEV_PCH_PORT, 0x8086, 0x1d10, 0x1d1f },
	{ HR_DEV_PCH_PORT, 0x8086, 0x1e10, 0x1e1f },
	{ HR_DEV_PCH_PORT, 0x8086, 0x8c10, 0x8c1f },
	{ HR_DEV_PCH_PORT, 0x8086, 0x9c10, 0x9c1b },
	{ HR_DEV_PCH_PORT, 0x8086, 0x9c90, 0x9c9b },
	{ HR_DEV_PCH_PORT, 0x8086, 0x8c90, 0x8c9f },
	{ HR_DEV_PCH_PORT, 0x8086, 0x8d10, 0x8d1f },
	{ HR_DEV_PCH_PORT, 0x8086, 0xa110, 0xa11f },
	{ HR_DEV_PCH_PORT, 0x8086, 0xa167, 0xa16a },
	{ HR_DEV_PCH_PORT, 0x8086, 0xa290, 0xa29f },
	{ HR_DEV_PCH_PORT, 0x8086, 0xa2e7, 0xa2ee },
	{ HR_DEV_PCH_PORT, 0x8086, 0x9d10, 0x9d1b },
	/*
	 * Later chipsets implement ACS as specified, so the kernel has no list of them; numbers
	 * from pci.ids.
	 */
	{ HR_DEV_PCH_LATER, 0x8086, 0xa190, 0xa19f }, /* C620 */
	{ HR_DEV_PCH_LATER, 0x8086, 0xa1e7, 0xa1ea },
	{ HR_DEV_PCH_LATER, 0x8086, 0xa32c, 0xa343 }, /* 300 series */
	{ HR_DEV_PCH_LATER, 0x8086, 0x9db0, 0x9dbf },
	{ HR_DEV_PCH_LATER, 0x8086, 0x02b0, 0x02bf }, /* 400 series */
	{ HR_DEV_PCH_LATER, 0x8086, 0x06ac, 0x06c7 },
	{ HR_DEV_PCH_LATER, 0x8086, 0xa390, 0xa39f },
	{ HR_DEV_PCH_LATER, 0x8086, 0xa3e7, 0xa3ee },
	{ HR_DEV_PCH_LATER, 0x8086, 0x34b0, 0x34bf }, /* 495 */
	{ HR_DEV_PCH_LATER, 0x8086, 0x43b0, 0x43c7 }, /* 500 series */
	{ HR_DEV_PCH_LATER, 0x8086, 0xa0b0, 0xa0bf },
	{ HR_DEV_PCH_LATER, 0x8086, 0x51b0, 0x51bf }, /* 600 series */
	{ HR_DEV_PCH_LATER, 0x8086, 0x7ab0, 0x7acb },
	{ HR_DEV_PCH_LATER, 0x8086, 0x7a30, 0x7a4b },	 /* 700 series */
	{ HR_DEV_CHIPSET_PORT, 0x1022, 0x43b4, 0x43b4 }, /* 300 series */
	{ HR_DEV_CHIPSET_PORT, 0x1022, 0x43c6, 0x43c7 }, /* 400 series */
	{ HR_DEV_CHIPSET_PORT, 0x1022, 0x43e9, 0x43ea }, /* 500 series */
	{ HR_DEV_CHIPSET_PORT, 0x1022, 0x43f4, 0x43f5 }, /* 600 series */
	{ HR_DEV_CHIPSET_PORT, 0x1022, 0x57a3, 0x57a4 }, /* X570 */
	{ HR_DEV_CHIPSET_PORT, 0x1022, 0x57ad, 0x57ad }, /* X570 */
	{ HR_DEV_NO_PEER_PORT, 0x177d, 0xa000, 0xafff }, /* Cavium */
	{ HR_DEV_NO_PEER_PORT, 0x10e8, 0xe004, 0xe004 }, /* X-Gene */
	{ HR_DEV_NO_PEER_PORT, 0x1def, 0xe005, 0xe00c }, /* Ampere */
	{ HR_DEV_NO_PEER_PORT, 0x17cb, 0x0400, 0x0401 }, /* Qualcomm */
	{ HR_DEV_NO_PEER_PORT, 0x1c36, 0x0031, 0x0031 }, /* Annapurna */
	{ HR_DEV_NO_PEER_PORT, 0x1957, 0x8d80, 0x8d83 }, /* NXP LX2160A and its relatives */
	{ HR_DEV_NO_PEER_PORT, 0x1957, 0x8d88, 0x8d8b },
	{ HR_DEV_NO_PEER_PORT, 0x1957, 0x8d90, 0x8d93 },
	{ HR_DEV_NO_PEER_PORT, 0x1957, 0x8d98, 0x8d9b },
	{ HR_DEV_NO_PEER_PORT, 0x1957, 0x8da0, 0x8da1 },
	{ HR_DEV_NO_PEER_PORT, 0x1957, 0x8da8, 0x8da9 },
	{ HR_DEV_NO_PEER_PORT, 0x1957, 0x8db0, 0x8db1 },
	{ HR_DEV_NO_PEER_PORT, 0x1957, 0x8db8, 0x8db9 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x3c09, 0x3c09 }, /* Loongson */
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x3c19, 0x3c19 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x3c29, 0x3c29 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x7a09, 0x7a09 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x7a19, 0x7a19 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x7a29, 0x7a29 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x7a39, 0x7a39 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x7a49, 0x7a49 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x7a59, 0x7a59 },
	{ HR_DEV_NO_PEER_PORT, 0x0014, 0x7a69, 0x7a69 },
	{ HR_DEV_NO_PEER_PORT, 0x1d17, 0x0710, 0x071e }, /* Zhaoxin */
	{ HR_DEV_NO_PEER_PORT, 0x1d17, 0x0721, 0x0721 },
	{ HR_DEV_NO_PEER_PORT, 0x1d17, 0x0723, 0x0752 },
	{ HR_DEV_NO_PEER_PORT, 0x14e4, 0xd714, 0xd714 }, /* Broadcom iProc */
	{ HR_DEV_AMD_INTERNAL, 0x1022, 0x1484, 0x1484 },
	{ HR_DEV_PERICOM, 0x12d8, 0x2404, 0x2404 },
	{ HR_DEV_PERICOM, 0x12d8, 0x2304, 0x2304 },
	{ HR_DEV_PERICOM, 0x12d8, 0x2303, 0x2303 },
	{ HR_DEV_PERICOM, 0x12d8, 0xb404, 0xb404 },
	{ HR_DEV_IDT_SV, 0x111d, 0x80b5, 0x80b5 },
	{ HR_DEV_IDT_SV, 0x111d, 0x8090, 0x8090 },
	{ HR_DEV_NTB, 0x10b5, 0x87b0, 0x87b1 },
	{ HR_DEV_NTB, 0x11f8, 0x8531, 0x8576 },
	{ HR_DEV_NO_RELAXED, 0x8086, 0x2f01, 0x2f0e },
	{ HR_DEV_NO_RELAXED, 0x8086, 0x6f01, 0x6f0e },
	{ HR_DEV_NO_RELAXED, 0x1022, 0x1a00, 0x1a02 },
	{ HR_DEV_UNIFIED_GPU, 0x10de, 0x2b00, 0x2b00 }, /* Jetson AGX Thor */
	{ HR_DEV_UNIFIED_GPU, 0x10de, 0x2e12, 0x2e12 }, /* GB10 */
	{ HR_DEV_UNIFIED_GPU, 0x10de, 0x2e2a, 0x2e2a }, /* N1X */
	{ HR_DEV_VMD, 0x8086, 0x201d, 0x201d },
	{ HR_DEV_VMD, 0x8086, 0x28c0, 0x28c0 },
	{ HR_DEV_VMD, 0x8086, 0x9a0b, 0x9a0b },
	{ HR_DEV_VMD, 0x8086, 0x467f, 0x467f },
	{ HR_DEV_VMD, 0x8086, 0xa77f, 0xa77f },
	{ HR_DEV_VMD, 0x8086, 0x4c3d, 0x4c3d },
	{ HR_DEV_VMD, 0x8086, 0x7d0b, 0x7d0b },
	{ HR_DEV_VMD, 0x8086, 0xad0b, 0xad0b },
	{ HR_DEV_VMD, 0x8086, 0xb06f, 0xb06f },
	{ HR_DEV_VMD, 0x8086, 0xb07f, 0xb07f },
	{ HR_DEV_VMD, 0x8086, 0xb60b, 0xb60b },
	{ HR_DEV_HIDES_NVME, 0x8086, 0x2822, 0x2822 }, /* Rapid Storage Technology, desktop */
	{ HR_DEV_HIDES_NVME, 0x8086, 0x282a, 0x282a }, /* the same, mobile */
	{ HR_DEV_HIDES_NVME, 0x1022, 0xb000, 0xb000 }, /* RAIDXpert2: one NVMe drive each */
	/* Bridges in front of a GPU on its card; numbers from pci.ids and kernel logs. */
	{ HR_DEV_CARD_SWITCH, 0x8086, 0x4fa0, 0x4fa7 }, /* DG2: Arc A, Flex */
	{ HR_DEV_CARD_SWITCH, 0x8086, 0xe2f0, 0xe2f3 }, /* Battlemage, downstream */
	{ HR_DEV_CARD_SWITCH, 0x8086, 0xe2fe, 0xe2ff }, /* Battlemage, upstream */
	{ HR_DEV_CARD_SWITCH, 0x1022, 0x1470, 0x1471 }, /* Vega 10 */
	{ HR_DEV_CARD_SWITCH, 0x1002, 0x14a0, 0x14a1 }, /* Vega 20, Arcturus */
	{ HR_DEV_CARD_SWITCH, 0x1002, 0x1478, 0x1479 }, /* Navi */
	/* Thunderbolt and USB4; numbers from pci.ids. */
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x8a1d, 0x8a1d }, /* Ice Lake */
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x8a1f, 0x8a1f },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x8a21, 0x8a21 },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x8a23, 0x8a23 },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x9a23, 0x9a23 }, /* Tiger Lake */
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x9a25, 0x9a25 },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x9a27, 0x9a27 },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x9a29, 0x9a29 },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x9a2b, 0x9a2b },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x9a2d, 0x9a2d },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x9a2f, 0x9a2f },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x9a31, 0x9a31 },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x461f, 0x461f }, /* Alder Lake */
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x462f, 0x462f },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x463f, 0x463f },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x466e, 0x466e },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0xa71f, 0xa71f }, /* Raptor Lake */
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0xa72f, 0xa72f },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0xa73f, 0xa73f },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0xa76e, 0xa76e },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0x7ec4, 0x7ec7 }, /* Meteor Lake, Arrow Lake */
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0xa84e, 0xa84e }, /* Lunar Lake */
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0xa84f, 0xa84f },
	{ HR_DEV_TUNNEL_ROOT, 0x8086, 0xa860, 0xa860 },
	{ HR_DEV_TUNNEL_ROOT, 0x1022, 0x14cd, 0x14cd }, /* Rembrandt */
	{ HR_DEV_TUNNEL_ROOT, 0x1022, 0x14ef, 0x14ef }, /* Phoenix */
	{ HR_DEV_TUNNEL_ROOT, 0x1022, 0x150a, 0x150a }, /* Strix */
	{ HR_DEV_TUNNEL_ROOT, 0x106b, 0x1010, 0x1010 }, /* Apple */
	{ HR_DEV_TUNNEL, 0x8086, 0x1513, 0x1513 },	/* Light Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x151a, 0x151b },
	{ HR_DEV_TUNNEL, 0x8086, 0x1547, 0x1549 }, /* Cactus Ridge, Port Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x1567, 0x1567 }, /* Redwood Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x1569, 0x1569 },
	{ HR_DEV_TUNNEL, 0x8086, 0x156b, 0x156b }, /* Falcon Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x156d, 0x156d },
	{ HR_DEV_TUNNEL, 0x8086, 0x1576, 0x1576 }, /* Alpine Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x1578, 0x1578 },
	{ HR_DEV_TUNNEL, 0x8086, 0x157e, 0x157e }, /* Win Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x15c0, 0x15c0 },
	{ HR_DEV_TUNNEL, 0x8086, 0x15d3, 0x15d3 },
	{ HR_DEV_TUNNEL, 0x8086, 0x15da, 0x15da },
	{ HR_DEV_TUNNEL, 0x8086, 0x15e7, 0x15e7 }, /* Titan Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x15ea, 0x15ea },
	{ HR_DEV_TUNNEL, 0x8086, 0x15ef, 0x15ef },
	{ HR_DEV_TUNNEL, 0x8086, 0x0b26, 0x0b26 }, /* Goshen Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x1133, 0x1133 }, /* Maple Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x1136, 0x1136 },
	{ HR_DEV_TUNNEL, 0x8086, 0x5780, 0x5780 }, /* Barlow Ridge */
	{ HR_DEV_TUNNEL, 0x8086, 0x5783, 0x5783 },
	{ HR_DEV_TUNNEL, 0x8086, 0x5786, 0x5786 },
	{ HR_DEV_TUNNEL, 0x8086, 0x57a4, 0x57a4 },
	{ HR_DEV_TUNNEL_SLOW, 0x8086, 0x1513, 0x1513 },
	{ HR_DEV_TUNNEL_SLOW, 0x8086, 0x151a, 0x151b },
	{ HR_DEV_TUNNEL_SLOW, 0x8086, 0x1547, 0x1549 },
	{ HR_DEV_TUNNEL_SLOW, 0x8086, 0x1567, 0x156d },
	{ HR_DEV_TUNNEL_SLOW, 0x8086, 0x157e, 0x157e },
	{ HR_DEV_TUNNEL_FAST, 0x8086, 0x5780, 0x5780 },
	{ HR_DEV_TUNNEL_FAST, 0x8086, 0x5786, 0x5786 },
	{ HR_DEV_TUNNEL, 0x1b21, 0x2421, 0x2423 }, /* ASM4242 */
	{ HR_DEV_TUNNEL, 0x1b21, 0x2461, 0x2464 }, /* ASM2464 */
	{ HR_DEV_GPU, 0x8086, 0x0bd0, 0x0be5 },	   /* Max */
	{ HR_DEV_GPU, 0x8086, 0x4905, 0x4909 },	   /* DG1 */
	{ HR_DEV_GPU, 0x8086, 0x5690, 0x56c2 },	   /* DG2: Arc A, Flex */
	{ HR_DEV_GPU, 0x8086, 0xe202, 0xe223 },	   /* Battlemage: Arc B, Arc Pro B */
	{ HR_DEV_NO_GPU, 0x10de, 0x1ac0, 0x1aff },
	{ HR_DEV_NO_GPU, 0x10de, 0x2280, 0x22ff },
	{ HR_DEV_TEGRA_PORT, 0x10de, 0x0fae, 0x0faf }, /* Tegra X1 */
	{ HR_DEV_TEGRA_PORT, 0x10de, 0x10e5, 0x10e6 }, /* Tegra X2 */
	{ HR_DEV_TEGRA_PORT, 0x10de, 0x1ad0, 0x1ad2 }, /* Xavier */
	{ HR_DEV_TEGRA_PORT, 0x10de, 0x229a, 0x229a }, /* Orin */
	{ HR_DEV_TEGRA_PORT, 0x10de, 0x229c, 0x229c },
	{ HR_DEV_TEGRA_PORT, 0x10de, 0x229e, 0x229e },
	{ HR_DEV_NVIDIA_CPU, 0x10de, 0x22b0, 0x22b8 }, /* Grace */
	{ HR_DEV_NVIDIA_CPU, 0x10de, 0x2f95, 0x2f98 }, /* Vera */
	/* Numbers from pci.ids; the names of the AMD GPUs are in pci/topo/tables.c. */
	{ HR_DEV_INTEGRATED, 0x1002, 0x13c0, 0x13c0 }, /* Granite Ridge */
	{ HR_DEV_INTEGRATED, 0x1002, 0x1304, 0x131d }, /* Kaveri */
	{ HR_DEV_INTEGRATED, 0x1002, 0x1114, 0x1114 }, /* Krackan */
	{ HR_DEV_INTEGRATED, 0x1002, 0x1506, 0x1506 }, /* Mendocino */
	{ HR_DEV_INTEGRATED, 0x1002, 0x150e, 0x150e }, /* Strix */
	{ HR_DEV_INTEGRATED, 0x1002, 0x1586, 0x1586 }, /* Strix Halo */
	{ HR_DEV_INTEGRATED, 0x1002, 0x15bf, 0x15bf }, /* Phoenix */
	{ HR_DEV_INTEGRATED, 0x1002, 0x15c8, 0x15c8 },
	{ HR_DEV_INTEGRATED, 0x1002, 0x15d8, 0x15d8 }, /* Picasso, Raven 2 */
	{ HR_DEV_INTEGRATED, 0x1002, 0x15dd, 0x15dd }, /* Raven Ridge */
	{ HR_DEV_INTEGRATED, 0x1002, 0x15e7, 0x15e7 }, /* Barcelo */
	{ HR_DEV_INTEGRATED, 0x1002, 0x1636, 0x1636 }, /* Renoir */
	{ HR_DEV_INTEGRATED, 0x1002, 0x1638, 0x1638 }, /* Cezanne */
	{ HR_DEV_INTEGRATED, 0x1002, 0x163f, 0x163f }, /* Van Gogh */
	{ HR_DEV_INTEGRATED, 0x1002, 0x164c, 0x164f }, /* Lucienne to Phoenix */
	{ HR_DEV_INTEGRATED, 0x1002, 0x1681, 0x1681 }, /* Rembrandt */
	{ HR_DEV_INTEGRATED, 0x1002, 0x1900, 0x1901 }, /* Hawk Point */
	{ HR_DEV_INTEGRATED, 0x1002, 0x5834, 0x5835 }, /* chipsets, from RS300 on */
	{ HR_DEV_INTEGRATED, 0x1002, 0x5954, 0x5955 },
	{ HR_DEV_INTEGRATED, 0x1002, 0x5974, 0x5975 },
	{ HR_DEV_INTEGRATED, 0x1002, 0x5a41, 0x5a42 },
	{ HR_DEV_INTEGRATED, 0x1002, 0x5a61, 0x5a62 },
	{ HR_DEV_INTEGRATED, 0x1002, 0x791e, 0x791f },
	{ HR_DEV_INTEGRATED, 0x1002, 0x7941, 0x7942 },
	{ HR_DEV_INTEGRATED, 0x1002, 0x796c, 0x796f },
	{ HR_DEV_INTEGRATED, 0x1002, 0x9610, 0x9616 },
	{ HR_DEV_INTEGRATED, 0x1002, 0x9640, 0x964f }, /* Sumo */
	{ HR_DEV_INTEGRATED, 0x1002, 0x9710, 0x9715 },
	{ HR_DEV_INTEGRATED, 0x1002, 0x9802, 0x980a }, /* Wrestler */
	{ HR_DEV_INTEGRATED, 0x1002, 0x9830, 0x985f }, /* Kabini, Mullins */
	{ HR_DEV_INTEGRATED, 0x1002, 0x9870, 0x9877 }, /* Carrizo */
	{ HR_DEV_INTEGRATED, 0x1002, 0x98e4, 0x98e4 }, /* Stoney */
	{ HR_DEV_INTEGRATED, 0x1002, 0x9900, 0x99a4 }, /* Trinity, Richland */
	{ HR_DEV_INTEGRATED, 0x10de, 0x0240, 0x0247 }, /* chipsets, C51 to MCP89 */
	{ HR_DEV_INTEGRATED, 0x10de, 0x03d0, 0x03d6 },
	{ HR_DEV_INTEGRATED, 0x10de, 0x0531, 0x053e },
	{ HR_DEV_INTEGRATED, 0x10de, 0x07e0, 0x07e5 },
	{ HR_DEV_INTEGRATED, 0x10de, 0x0840, 0x087f },
	{ HR_DEV_INTEGRATED, 0x10de, 0x08a0, 0x08a5 },
	{ HR_DEV_INTEGRATED, 0x10de, 0x2b00, 0x2b00 }, /* Jetson AGX Thor */
	{ HR_DEV_INTEGRATED, 0x10de, 0x2e12, 0x2e12 }, /* GB10 */
	{ HR_DEV_INTEGRATED, 0x10de, 0x2e2a, 0x2e2a }, /* N1X */
	{ HR_DEV_X86_HOST, 0x8086, 0x0000, 0xffff },
	{ HR_DEV_X86_HOST, 0x1022, 0x0000, 0x19ff }, /* 1a00 to 1a02 are of an ARM CPU */
	{ HR_DEV_X86_HOST, 0x1022, 0x1a03, 0xffff },
	{ HR_DEV_X86_HOST, 0x1002, 0x0000, 0xffff }, /* chipsets: ATI, ServerWorks, VIA, SiS */
	{ HR_DEV_X86_HOST, 0x1166, 0x0000, 0xffff },
	{ HR_DEV_X86_HOST, 0x1106, 0x0000, 0xffff },
	{ HR_DEV_X86_HOST, 0x1039, 0x0000, 0xffff },
	{ HR_DEV_X86_HOST, 0x1d17, 0x0000, 0xffff },   /* Zhaoxin */
	{ HR_DEV_X86_HOST, 0x1d94, 0x0000, 0xffff },   /* Hygon */
	{ HR_DEV_OTHER_HOST, 0x1014, 0x0000, 0xffff }, /* IBM POWER */
	{ HR_DEV_OTHER_HOST, 0x10de, 0x0bf0, 0x0bf1 }, /* Tegra 2 */
	{ HR_DEV_OTHER_HOST, 0x10de, 0x0e12, 0x0e13 }, /* Tegra K1 */
	{ HR_DEV_OTHER_HOST, 0x10de, 0x0e1c, 0x0e1d },
	{ HR_DEV_OTHER_HOST, 0x10de, 0x0fae, 0x0faf }, /* Tegra X1 */
	{ HR_DEV_OTHER_HOST, 0x10de, 0x10e5, 0x10e6 }, /* Tegra X2 */
	{ HR_DEV_OTHER_HOST, 0x10de, 0x1ad0, 0x1ad2 }, /* Xavier */
	{ HR_DEV_OTHER_HOST, 0x10de, 0x229a, 0x229c }, /* Orin */
	{ HR_DEV_OTHER_HOST, 0x10de, 0x22b0, 0x22ff }, /* Grace */
	{ HR_DEV_OTHER_HOST, 0x10de, 0x2f95, 0x2f98 }, /* Vera */
	{ HR_DEV_OTHER_HOST, 0x14e4, 0x0000, 0xffff }, /* Broadcom: Raspberry Pi, iProc */
	{ HR_DEV_OTHER_HOST, 0x1d87, 0x0000, 0xffff }, /* Rockchip */
	{ HR_DEV_OTHER_HOST, 0x1957, 0x0000, 0xffff }, /* NXP Layerscape, QorIQ, i.MX */
	{ HR_DEV_OTHER_HOST, 0x1131, 0x0000, 0xffff },
	{ HR_DEV_OTHER_HOST, 0x19e5, 0x0000, 0xffff }, /* HiSilicon */
	{ HR_DEV_OTHER_HOST, 0x177d, 0x0000, 0xffff }, /* Cavium, Marvell */
	{ HR_DEV_OTHER_HOST, 0x11ab, 0x0000, 0xffff },
	{ HR_DEV_OTHER_HOST, 0x10e8, 0x0000, 0xffff }, /* X-Gene */
	{ HR_DEV_OTHER_HOST, 0x1def, 0x0000, 0xffff }, /* Ampere */
	{ HR_DEV_OTHER_HOST, 0x17cb, 0x0000, 0xffff }, /* Qualcomm */
	{ HR_DEV_OTHER_HOST, 0x1c36, 0x0000, 0xffff }, /* Annapurna */
	{ HR_DEV_OTHER_HOST, 0x14c3, 0x0000, 0xffff }, /* MediaTek */
	{ HR_DEV_OTHER_HOST, 0x16c3, 0x0000, 0xffff }, /* DesignWare */
	{ HR_DEV_OTHER_HOST, 0x17cd, 0x0000, 0xffff }, /* Cadence */
	{ HR_DEV_OTHER_HOST, 0x1556, 0x0000, 0xffff }, /* PLDA */
	{ HR_DEV_OTHER_HOST, 0x10ee, 0x0000, 0xffff }, /* Xilinx */
	{ HR_DEV_OTHER_HOST, 0x1172, 0x0000, 0xffff }, /* Altera */
	{ HR_DEV_OTHER_HOST, 0x104c, 0xb000, 0xbfff }, /* Texas Instruments */
	{ HR_DEV_OTHER_HOST, 0x1912, 0x0000, 0xffff }, /* Renesas */
	{ HR_DEV_OTHER_HOST, 0x1db7, 0x0000, 0xffff }, /* Phytium */
	{ HR_DEV_OTHER_HOST, 0x13b5, 0x0000, 0xffff }, /* ARM */
	{ HR_DEV_OTHER_HOST, 0x1022, 0x1a00, 0x1a02 }, /* AMD Seattle */
	{ HR_DEV_OTHER_HOST, 0x0014, 0x0000, 0xffff }, /* Loongson */
	{ HR_DEV_OTHER_HOST, 0x106b, 0x0000, 0xffff }, /* Apple */
	{ HR_DEV_EMULATED, 0x1b36, 0x0000, 0xffff },   /* QEMU: ports, host bridge, NVMe */
	{ HR_DEV_EMULATED, 0x1234, 0x1111, 0x1111 },   /* QEMU's display */
	{ HR_DEV_EMULATED, 0x8086, 0x5845, 0x5845 },   /* QEMU's NVMe with the former number */
	{ HR_DEV_EMULATED, 0x15ad, 0x0000, 0xffff },   /* VMware */
	{ HR_DEV_EMULATED, 0x80ee, 0x0000, 0xffff },   /* VirtualBox */
	{ HR_DEV_EMULATED, 0x5853, 0x0000, 0xffff },   /* Xen */
	{ HR_DEV_EMULATED, 0x1414, 0x5353, 0x5353 },   /* Hyper-V's display */
	{ HR_DEV_EMULATED, 0x1ab8, 0x0000, 0xffff },   /* Parallels */
	{ HR_DEV_EMULATED, 0x1275, 0x1275, 0x1275 },   /* bhyve's host bridge and display */
	{ HR_DEV_EMULATED, 0xfb5d, 0x40fb, 0x40fb },
	{ HR_DEV_EMULATED, 0x106b, 0x1a05, 0x1a05 },	 /* Apple's virtual host bridge */
	{ HR_DEV_EMULATED, 0x8086, 0x0d57, 0x0d57 },	 /* Firecracker, Cloud Hypervisor */
	{ HR_DEV_EMULATED_BUS, 0x1af4, 0x0000, 0xffff }, /* virtio; DPUs have it, too */
	{ HR_DEV_EMULATED_BUS, 0x1414, 0x0000, 0xffff }, /* Hyper-V: a domain for each device */
	{ HR_DEV_EMULATED_BUS, 0x1d0f, 0x1111, 0x1111 }, /* display of EC2 */
	{ HR_DEV_OLD_CHIPSET, 0x8086, 0x1237, 0x1237 },	 /* 440FX */
	{ HR_DEV_OLD_CHIPSET, 0x8086, 0x7190, 0x7192 },	 /* 440BX */
	{ HR_DEV_OLD_CHIPSET, 0x8086, 0x7000, 0x7020 },	 /* PIIX3 */
	{ HR_DEV_OLD_CHIPSET, 0x8086, 0x7110, 0x7113 },	 /* PIIX4 */
	{ HR_DEV_ICH9_HOST, 0x8086, 0x29c0, 0x29c0 },	 /* G33 */
	{ HR_DEV_LIKE_REAL, 0x104c, 0x8232, 0x8233 },	 /* XIO3130 */
	{ HR_DEV_LIKE_REAL, 0x8086, 0x3420, 0x3420 },	 /* port of the 5520 */
};

bool hr_device_is(uint32_t vendor, uint32_t device, enum hr_device_kind kind)
{
	for (unsigned i = 0; i < sizeof devices / sizeof *devices; i++)
		if (devices[i].kind == kind && devices[i].vendor == vendor &&
		    device >= devices[i].first && device <= devices[i].last)
			return true;
	return false;
}
