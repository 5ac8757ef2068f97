/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/fields.h - registers and fields of configuration space that topology rules read.
 *
 * A field is written (name, high bit, low bit) as the specification prints it; masks and accessors
 * derive from it. Names and numbers: PCI Local Bus 3.0, PCI-to-PCI Bridge 1.2, PCI Express Base.
 */
#ifndef PCI_TOPO_FIELDS_H
#define PCI_TOPO_FIELDS_H

#include <stdint.h>

#define HR_FIELD_MASK_(h, l) (((2u << ((h) - (l))) - 1u) << (l))
#define HR_FIELD_GET_(v, h, l) (((uint32_t)(v)&HR_FIELD_MASK_(h, l)) >> (l))
#define HR_FIELD_GET(v, ...) HR_FIELD_GET_(v, __VA_ARGS__)

#define HR_CFG_BASIC 64u      /* bytes that an unprivileged process can read */
#define HR_CFG_CONV 256u      /* conventional configuration space */
#define HR_CFG_EXTENDED 4096u /* with extended capabilities */

/* Header, common part. */
#define HR_CFG_VENDOR 0x00
#define HR_CFG_DEVICE 0x02
#define HR_CFG_COMMAND 0x04
#define HR_CFG_STATUS 0x06
#define HR_CFG_REVISION 0x08
#define HR_CFG_CLASS 0x09
#define HR_CFG_HEADER 0x0e
#define HR_CFG_BAR0 0x10
#define HR_CFG_CAP_PTR 0x34

#define HR_COMMAND_MSE 0x0002u
#define HR_COMMAND_BME 0x0004u
#define HR_STATUS_CAPS 0x0010u
#define HR_HEADER_TYPE 6, 0
#define HR_HEADER_MULTI 0x80u

/* Header type 1. */
#define HR_CFG_PRIMARY 0x18
#define HR_CFG_SECONDARY 0x19
#define HR_CFG_SUBORDINATE 0x1a
#define HR_CFG_MEM_BASE 0x20
#define HR_CFG_MEM_LIMIT 0x22
#define HR_CFG_PREF_BASE 0x24
#define HR_CFG_PREF_LIMIT 0x26
#define HR_CFG_PREF_BASE_UPPER 0x28
#define HR_CFG_PREF_LIMIT_UPPER 0x2c
#define HR_CFG_BRIDGE_CTL 0x3e
#define HR_BRIDGE_CTL_SBR 0x0040u

/* Capabilities. */
#define HR_CAP_PM 0x01
#define HR_CAP_EXP 0x10
#define HR_CAP_EA 0x14
#define HR_PM_CTL 0x04
/* Enhanced Allocation (PCIe Base 7.8.5). */
#define HR_EA_COUNT 5, 0     /* in the byte after the header */
#define HR_EA_DWORDS 2, 0    /* dwords of an entry without its first */
#define HR_EA_INDEX 7, 4     /* BAR equivalent: 0 to 5 the BARs, 9 to 14 the VF BARs */
#define HR_EA_PROPERTY 15, 8 /* 0 memory, 1 prefetchable; 3 and 4 the same for VFs */
#define HR_EA_SECOND 23, 16  /* property to use when the first one is reserved */
#define HR_EA_ENABLE 0x80000000u
#define HR_EA_WIDE 0x2u /* in base and offset: a dword with the upper half follows */
#define HR_EA_VF_FIRST 9u
#define HR_EA_PREF 1u
#define HR_EA_IO 2u
#define HR_EA_VF_PREF 3u
#define HR_EA_VF 4u
#define HR_EA_BRIDGE_IO 7u
#define HR_PM_STATE 1, 0

#define HR_EXP_FLAGS 0x02
#define HR_EXP_TYPE 7, 4
#define HR_EXP_SLOT_IMPLEMENTED 0x0100u /* in the flags: a slot is implemented */
#define HR_EXP_DEVCAP 0x04
#define HR_EXP_DEVCTL 0x08
#define HR_EXP_DEVSTA 0x0a
#define HR_EXP_LNKCAP 0x0c
#define HR_EXP_LNKCTL 0x10
#define HR_EXP_LNKSTA 0x12
#define HR_EXP_SLTCAP 0x14
#define HR_EXP_SLTSTA 0x1a
#define HR_EXP_DEVCAP2 0x24
#define HR_EXP_DEVCTL2 0x28
#define HR_EXP_LNKCTL2 0x30
#define HR_DEVCAP_MPSS 2, 0
#define HR_DEVCTL_MPS 7, 5
#define HR_DEVCTL_MRRS 14, 12
#define HR_DEVCTL_RO 0x0010u
#define HR_LNK_SPEED 3, 0
#define HR_LNK_WIDTH 9, 4
#define HR_LNKCAP_LLACTREP 0x00100000u
#define HR_LNKSTA_DLACTIVE 0x2000u
#define HR_LNKCTL_ASPM 1, 0
#define HR_SLTCAP_NUMBER 31, 19
#define HR_SLTSTA_PDS 0x0040u
#define HR_DEVCAP2_ATOMIC_ROUTE 0x00000040u
#define HR_DEVCAP2_ATOMIC_32 0x00000080u
#define HR_DEVCAP2_ATOMIC_64 0x00000100u
#define HR_DEVCAP2_ATOMIC_128 0x00000200u
#define HR_DEVCTL2_ATOMIC_ENABLE 0x00000040u /* of a requester */
#define HR_DEVCTL2_ATOMIC_BLOCK 0x00000080u  /* of a port: egress blocking */
#define HR_DEVCAP2_TAG10_COMP 0x00010000u
#define HR_DEVCAP2_TAG10_REQ 0x00020000u
#define HR_DEVCTL2_TAG10_ENABLE 0x00001000u

/* Extended capabilities. */
#define HR_ECAP_ID 15, 0
#define HR_ECAP_NEXT 31, 20
#define HR_ECAP_AER 0x0001
#define HR_ECAP_VENDOR 0x000b
#define HR_ECAP_ACS 0x000d
#define HR_ECAP_ATS 0x000f
#define HR_ECAP_SRIOV 0x0010
#define HR_ECAP_REBAR 0x0015
#define HR_ECAP_DPC 0x001d
#define HR_ECAP_VF_REBAR 0x0024
#define HR_AER_UESTA 0x04
#define HR_AER_CESTA 0x10
#define HR_VSEC_ID 0x04
#define HR_VSEC_THUNDERBOLT 0x1234 /* PCI_VSEC_ID_INTEL_TBT of the kernel */
#define HR_ACS_CAP 0x04
#define HR_ACS_CTL 0x06
#define HR_ACS_EGRESS 0x08
#define HR_ATS_CTL 0x06
#define HR_ATS_ENABLE 0x8000u
#define HR_DPC_STATUS 0x08
/* Single Root I/O Virtualization (PCIe Base 9.3.3). */
#define HR_SRIOV_CTL 0x08
#define HR_SRIOV_VFS 0x10
#define HR_SRIOV_OFFSET 0x14
#define HR_SRIOV_STRIDE 0x16
#define HR_SRIOV_DEVICE 0x1a
#define HR_SRIOV_BAR0 0x24
#define HR_SRIOV_ENABLE 0x0001u
#define HR_SRIOV_MSE 0x0008u
#define HR_SRIOV_TAG10 0x0020u
#define HR_REBAR_CAP 0x04
#define HR_REBAR_CTL 0x08
#define HR_REBAR_SIZES 31, 4	   /* in the capability: 1 MiB to 128 TiB */
#define HR_REBAR_SIZES_MORE 31, 16 /* in the control: 256 TiB and above */
#define HR_REBAR_SIZES_COUNT 28u
#define HR_REBAR_INDEX 2, 0
#define HR_REBAR_COUNT 7, 5
#define HR_REBAR_SIZE 13, 8

/* ACS bits, the same in capability and control (PCIe Base 7.7.11). */
#define HR_ACS_SV 0x01u /* source validation */
#define HR_ACS_TB 0x02u /* translation blocking */
#define HR_ACS_RR 0x04u /* P2P request redirect */
#define HR_ACS_CR 0x08u /* P2P completion redirect */
#define HR_ACS_UF 0x10u /* upstream forwarding */
#define HR_ACS_EC 0x20u /* P2P egress control */
#define HR_ACS_DT 0x40u /* direct translated P2P */
#define HR_ACS_REDIRECT (HR_ACS_RR | HR_ACS_CR | HR_ACS_EC)
#define HR_ACS_ISOLATION (HR_ACS_SV | HR_ACS_RR | HR_ACS_CR | HR_ACS_UF)

/* AER uncorrectable status (PCIe Base 7.8.4.2). */
#define HR_UE_CMPLT_TIMEOUT 0x00004000u
#define HR_UE_CMPLT_ABORT 0x00008000u
#define HR_UE_MALFORMED 0x00040000u
#define HR_UE_UNSUPPORTED 0x00100000u
#define HR_UE_ACS_VIOLATION 0x00200000u

/* Device/port type of the PCI Express capability (PCIe Base 7.5.3.2). */
enum hr_port_type {
	HR_PORT_ENDPOINT = 0,
	HR_PORT_LEGACY = 1,
	HR_PORT_ROOT = 4,
	HR_PORT_UPSTREAM = 5,
	HR_PORT_DOWNSTREAM = 6,
	HR_PORT_TO_PCI = 7,
	HR_PORT_FROM_PCI = 8,
	HR_PORT_RC_ENDPOINT = 9,
	HR_PORT_RC_EVENTS = 10,
};

#endif
