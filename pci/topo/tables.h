/*
 * pci/topo/tables.h - hardware by number: what the kernel and vendors say about it.
 */
#ifndef PCI_TOPO_TABLES_H
#define PCI_TOPO_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#define HR_KERNEL_VERSION(major, minor) ((uint32_t)(major) << 16 | (minor))
/* Before this version p2pdma refuses everything that goes through a root complex. */
#define HR_KERNEL_FIRST_RC HR_KERNEL_VERSION(5, 2)
/* From this version on any AMD CPU of family 17h or later is trusted without a list. */
#define HR_KERNEL_ZEN HR_KERNEL_VERSION(5, 8)

/* pci_p2pdma_whitelist of drivers/pci/p2pdma.c: the first function of a trusted root bus. */
struct hr_listed {
	uint16_t vendor, first, last;
	bool same_host; /* REQ_SAME_HOST_BRIDGE */
	uint32_t since; /* first kernel version that has the row */
	const char *name;
};
extern const struct hr_listed hr_listed_bridges[];
extern const unsigned hr_listed_count;

/* Row for a device in that kernel version; NULL: not listed. */
const struct hr_listed *hr_listed_find(uint32_t vendor, uint32_t device, uint32_t kernel);

/* What other tables hold. */
enum hr_device_kind {
	HR_DEV_ZEN_HOST,     /* root complex of an AMD CPU of family 17h or later */
	HR_DEV_PCH_PORT,     /* root port of an Intel chipset that the kernel has quirks for */
	HR_DEV_PCH_LATER,    /* of a later one, which has ACS as the specification says */
	HR_DEV_CHIPSET_PORT, /* switch inside an AMD chipset */
	HR_DEV_NO_PEER_PORT, /* root ports that the kernel treats as isolated: no port to port */
	HR_DEV_AMD_INTERNAL, /* internal bridge: source validation only */
	HR_DEV_PERICOM,	     /* redirect broken unless store and forward */
	HR_DEV_IDT_SV,	     /* source validation drops completions */
	HR_DEV_NTB,	     /* requester identifiers are proxied */
	HR_DEV_NO_RELAXED,   /* kernel's no-relaxed-ordering root ports */
	HR_DEV_UNIFIED_GPU,  /* memory is the CPU's: no peer access by design */
	HR_DEV_VMD,	     /* hides NVMe functions in its own domain */
	HR_DEV_HIDES_NVME,   /* chipset controller in RAID mode: NVMe drives are behind it */
	HR_DEV_NVIDIA_CPU,   /* root port of an NVIDIA CPU for servers */
	HR_DEV_INTEGRATED,   /* GPU that is part of a processor or chipset */
};
bool hr_device_is(uint32_t vendor, uint32_t device, enum hr_device_kind kind);

#endif
