/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/tables.h - hardware by number and by name, with properties known from the kernel and
 * vendors.
 */
#ifndef PCI_TOPO_TABLES_H
#define PCI_TOPO_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "pci/topo/model.h"

/* ---- hardware by number, with properties known from the kernel and vendors. */

#define HR_KERNEL_VERSION(major, minor) ((uint32_t)(major) << 16 | (minor))
/* Before this version p2pdma refuses all paths through a root complex. */
#define HR_KERNEL_FIRST_RC HR_KERNEL_VERSION(5, 2)
/* From this version on p2pdma trusts any AMD CPU of family 17h or later without a list. */
#define HR_KERNEL_ZEN HR_KERNEL_VERSION(5, 8)

/* pci_p2pdma_whitelist of drivers/pci/p2pdma.c: the first function of a trusted root bus. */
struct hr_listed {
	uint16_t vendor, first, last;
	bool same_root; /* REQ_SAME_HOST_BRIDGE */
	uint32_t since; /* first kernel version that has the row */
	const char *name;
};
extern const struct hr_listed hr_listed_bridges[];
extern const unsigned hr_listed_count;

/* Row for a device in that kernel version; NULL: not listed. */
const struct hr_listed *hr_listed_find(uint32_t vendor, uint32_t device, uint32_t kernel);

/* Kinds of hardware in the other tables. */
enum hr_device_kind {
	HR_DEV_ZEN_HOST,     /* root complex of an AMD CPU of family 17h or later */
	HR_DEV_ZEN_PART,     /* other bridge inside such a CPU */
	HR_DEV_OLD_HOST,     /* part of an AMD CPU or chipset of an earlier family */
	HR_DEV_HIDDEN_FIRST, /* root port of a CPU that has another function at 00.0 of each bus */
	HR_DEV_PCH_PORT,     /* root port of an Intel chipset for which the kernel has quirks */
	HR_DEV_PCH_LATER,    /* the same of later chipsets, with ACS as specified */
	HR_DEV_CHIPSET_PORT, /* switch inside an AMD chipset */
	/* Root ports that the kernel treats as isolated: no peer traffic between them. */
	HR_DEV_NO_PEER_PORT,
	HR_DEV_AMD_INTERNAL, /* internal bridge: source validation only */
	HR_DEV_PERICOM,	     /* redirect works only in store-and-forward mode */
	HR_DEV_IDT_SV,	     /* source validation drops completions */
	HR_DEV_NTB,	     /* requester identifiers are proxied */
	HR_DEV_NO_RELAXED,   /* root ports without relaxed ordering in the kernel's list */
	HR_DEV_UNIFIED_GPU,  /* its memory is host memory: no peer access by design */
	HR_DEV_VMD,	     /* hides NVMe functions in its own domain */
	HR_DEV_HIDES_NVME,   /* chipset controller in RAID mode, which hides NVMe drives */
	HR_DEV_NVIDIA_CPU,   /* root port of an NVIDIA CPU for servers */
	HR_DEV_TEGRA_PORT,   /* root port of an NVIDIA SoC whose GPU is not a PCI function */
	HR_DEV_CARD_SWITCH,  /* switch on a card, above its functions */
	HR_DEV_TUNNEL_ROOT,  /* root port of a processor that is the end of a tunnel */
	HR_DEV_TUNNEL,	     /* bridge in a Thunderbolt or USB4 controller */
	HR_DEV_TUNNEL_SLOW,  /* of these: Thunderbolt 1 and 2 */
	HR_DEV_TUNNEL_FAST,  /* of these: Thunderbolt 5 */
	HR_DEV_GPU,	     /* GPU of a vendor whose other cards are no GPUs */
	HR_DEV_NO_GPU,	     /* other function of a vendor of GPUs: sound, NVSwitch, port */
	HR_DEV_INTEGRATED,   /* GPU that is part of a processor or chipset */
	HR_DEV_X86_HOST,   /* host bridge or root port of an x86 CPU: bus addresses are the CPU's */
	HR_DEV_OTHER_HOST, /* the same of a CPU whose bus addresses may be others */
	HR_DEV_EMULATED,   /* exists in virtual machines only */
	HR_DEV_EMULATED_BUS, /* the same on a root bus; hardware may have it below a port */
	HR_DEV_OLD_CHIPSET,  /* chipset from before PCI Express, which virtual machines emulate */
	HR_DEV_ICH9_HOST,    /* chipset of 2007, which virtual machines emulate */
	HR_DEV_LIKE_REAL,    /* port that exists and that virtual machines emulate */
};

/* True when some version of the kernel lists host bridges of the vendor, or infers them (AMD). */
bool hr_vendor_is_listed(uint32_t vendor);
bool hr_device_is(uint32_t vendor, uint32_t device, enum hr_device_kind kind);

/* ---- facts from names of the PCI ID list, for captures without numbers.
 *
 * lspci without -nn prints only names, but the kernel's list of trusted root complexes uses
 * numbers. A name is compared as a whole: "GB10" is not a part of "GB100".
 */

/*
 * True when the title has the token, which may be several words: the characters before and after it
 * are not alphanumeric. A token that ends in '*' may continue: "GA10*" is in "GA102GL".
 */
bool hr_name_has_token(const char *title, const char *token);

/* True when the title has one of the tokens; the list ends with NULL. */
bool hr_name_has_any(const char *title, const char *const *tokens);

/*
 * Device number of the host bridge with this title (without class); 0: the name does not tell it.
 * The vendor is known.
 */
uint32_t hr_name_host(uint32_t vendor, const char *title);

/* True when the title names a host bridge that no version of the kernel lists. */
bool hr_name_unlisted(uint32_t vendor, const char *title);

/* True when the title names a port, or a port of the switch, of a chipset. */
bool hr_name_chipset(uint32_t vendor, const char *title);

/* In the names of Intel VMD controllers, which are no drives although "NVMe RAID" follows. */
#define HR_NAME_VMD "Volume Management Device"

/* True when the title names a GPU that is part of an AMD processor. */
bool hr_name_integrated(const char *title);

/* True when the title names an NVIDIA GPU whose memory is the CPU's. */
bool hr_name_unified(const char *title);

/* ---- NVIDIA's GPUs by device number: product line and architecture.
 *
 * The numbers are those of the PCI ID list (2026-05), from Kepler on. GeForce and professional
 * cards of one chip have interleaved numbers, so the ranges are exact: a number between two ranges
 * is unknown, and the caller can fall back to the card's name.
 */

enum hr_product { HR_PRODUCT_UNKNOWN, HR_PRODUCT_CONSUMER, HR_PRODUCT_PROFESSIONAL };

/* Product line of the GPU with this device number; HR_PRODUCT_UNKNOWN: not in the ranges. */
enum hr_product hr_product_by_id(uint32_t device);

/*
 * Product line by the name of an NVIDIA GPU, whose product is in brackets after the chip;
 * HR_PRODUCT_UNKNOWN: the name does not tell it.
 */
enum hr_product hr_product_by_name(const char *name);

enum hr_age { HR_AGE_UNKNOWN, HR_AGE_BEFORE_AMPERE, HR_AGE_AMPERE };

/* Architecture of the GPU, Ampere or later, by its device number (0: unknown), else by its name. */
enum hr_age hr_product_age(uint32_t device, const char *name);

/*
 * NVIDIA's product line by the card's device number, else by its name; HR_PRODUCT_UNKNOWN for other
 * vendors and for cards that neither tells.
 */
enum hr_product hr_product_of(const struct hr_fn *gpu);

#endif
