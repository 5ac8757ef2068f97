/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/decode.h - decodes the bytes of configuration space into facts.
 *
 * The bytes are untrusted: capability lists may loop, point anywhere or be cut off. Registers at or
 * after `bytes` are unknown, never zero.
 */
#ifndef PCI_TOPO_DECODE_H
#define PCI_TOPO_DECODE_H

#include "pci/topo/model.h"

/* Set all facts that config[bytes] holds (HR_SRC_CONFIG). bytes may be anything up to 4096. */
void hr_decode(struct hr_fn *f, const uint8_t *config, uint32_t bytes);

/* True for the Intel chipset root ports whose ACS registers are 32 bits wide (rule A7). */
bool hr_acs_is_wide(uint32_t vendor, uint32_t device);

/* Offset of the ACS control register, given that of the capability. */
uint32_t hr_acs_ctl_offset(const struct hr_fn *f);

#endif
