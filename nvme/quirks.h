/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/quirks.h - models of controllers that need another treatment than the specification says.
 *
 * A misbehaviour that the driver can detect, or endure without harm to other controllers, needs no row
 * here: a late CSTS.RDY, registers that read all ones after a reset, SQHD that goes back.
 */
#ifndef NVME_QUIRKS_H
#define NVME_QUIRKS_H

#include <stdint.h>

enum hr_quirk {
	HR_QUIRK_DELAY_READY = 1, /* do not read CSTS.RDY for HR_QUIRK_DELAY_NS after CC.EN = 0 */
	HR_QUIRK_MEDIUM_PRIORITY = 2, /* create submission queues of medium priority */
	HR_QUIRK_IDENTIFIERS = 4,     /* EUI64, NGUID and UUID are not unique: do not use them */
	HR_QUIRK_NO_SHUTDOWN = 8,     /* CSTS.SHST never shows a complete shutdown */
};

#define HR_QUIRK_DELAY_NS (2300ull * 1000 * 1000)

/* A model and its bits of enum hr_quirk. */
struct hr_quirks {
	uint16_t vendor, device; /* of the PCI function */
	uint32_t quirks;
	const char *model, *reason;
};

/* NULL: the model needs no special treatment. */
const struct hr_quirks *hr_quirks_find(uint16_t vendor, uint16_t device);

#endif
