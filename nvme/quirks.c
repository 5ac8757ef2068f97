/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/quirks.h"

#include <stddef.h>

#define DELAY HR_QUIRK_DELAY_READY
#define MEDIUM HR_QUIRK_MEDIUM_PRIORITY
#define IDENTIFIERS HR_QUIRK_IDENTIFIERS
#define NO_SHUTDOWN HR_QUIRK_NO_SHUTDOWN

#define EARLY "CSTS.RDY is not valid for about 2 s after CC.EN = 0"
#define ALIKE "disks of this model report the same EUI64 or NGUID"

/* From public reports and the tables of other drivers, which have the same treatment. */
static const struct hr_quirks table[] = {
	{ 0x10ec, 0x5763, IDENTIFIERS, "TeamGroup Cardea Zero Z330", ALIKE },
	{ 0x126f, 0x2262, IDENTIFIERS, "Silicon Motion SM2262", ALIKE },
	{ 0x126f, 0x2263, IDENTIFIERS, "Silicon Motion SM2263", ALIKE },
	{ 0x144d, 0xa821, DELAY, "Samsung PM1725", EARLY },
	{ 0x144d, 0xa822, DELAY, "Samsung PM1725a", EARLY },
	{ 0x144d, 0xa824, IDENTIFIERS, "Samsung PM173X", ALIKE },
	{ 0x144d, 0xa825, IDENTIFIERS, "Samsung PM1733a", ALIKE },
	{ 0x15ad, 0x07f0, NO_SHUTDOWN, "VMware virtual controller",
	  "it never reports that a shutdown is complete" },
	{ 0x1987, 0x5012, IDENTIFIERS, "Phison E12", ALIKE },
	{ 0x1987, 0x5016, IDENTIFIERS, "Phison E16", ALIKE },
	{ 0x1bb1, 0x0100, DELAY, "Seagate Nytro Flash Storage", EARLY },
	{ 0x1c58, 0x0003, DELAY, "HGST adapter", EARLY },
	{ 0x1c58, 0x0023, DELAY, "WDC SN200", EARLY },
	{ 0x1c5c, 0x174a, IDENTIFIERS, "SK Hynix P31", ALIKE },
	{ 0x1c5f, 0x0540, DELAY, "Memblaze PBlaze4", EARLY },
	{ 0x1cc1, 0x5350, IDENTIFIERS, "ADATA XPG Gammix S50", ALIKE },
	{ 0x1d97, 0x2269, IDENTIFIERS, "Lexar NM760", ALIKE },
	{ 0x1dbe, 0x5236, IDENTIFIERS, "ADATA XPG Gammix S70", ALIKE },
	{ 0x1e4b, 0x1202, IDENTIFIERS, "Maxio MAP1202", ALIKE },
	{ 0x8086, 0x0a54, IDENTIFIERS, "Intel P4500, P4600", ALIKE },
	{ 0x8086, 0xf1a5, MEDIUM, "Intel 600p, P3100",
	  "it enables weighted arbitration by itself, and serves a queue of urgent priority alone" },
	{ 0xc0a9, 0x540a, IDENTIFIERS, "Crucial P2", ALIKE },
};

const struct hr_quirks *hr_quirks_find(uint16_t vendor, uint16_t device)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].vendor == vendor && table[i].device == device)
			return &table[i];
	return NULL;
}
