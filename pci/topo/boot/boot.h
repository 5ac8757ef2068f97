/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/boot/boot.h - predicts the IOMMU mode and the ACS controls that Linux sets at the next
 * boot.
 *
 * Firmware leaves a value in each ACS control register. A kernel whose IOMMU driver asks for ACS
 * (pci_request_acs()) sets SV, RR, CR and UF on every function that supports them, with and without
 * passthrough. Then it applies pci=disable_acs_redir= and pci=config_acs=. Sources: Linux
 * drivers/pci/pci.c (pci_enable_acs, pci_std_enable_acs, __pci_config_acs), drivers/pci/quirks.c,
 * drivers/iommu/intel/dmar.c (detect_intel_iommu), drivers/iommu/amd/init.c (detect_ivrs),
 * arch/x86/kernel/pci-dma.c (iommu_setup), drivers/acpi/arm64/iort.c (iort_enable_acs).
 */
#ifndef PCI_TOPO_BOOT_BOOT_H
#define PCI_TOPO_BOOT_BOOT_H

#include "pci/topo/model.h"
#include "pci/topo/tables.h"

#define HR_CMDLINE_MAX 4096u

/* Kernel versions that change the result, as HR_KERNEL_VERSION(). */
#define HR_KERNEL_DISABLE_REDIR HR_KERNEL_VERSION(4, 19) /* pci=disable_acs_redir= */
/* iommu=soft no longer hides a hardware IOMMU */
#define HR_KERNEL_SOFT_IGNORED HR_KERNEL_VERSION(5, 19)
/* pci=config_acs=; both parameters have faults */
#define HR_KERNEL_CONFIG_ACS HR_KERNEL_VERSION(6, 11)
/* the faults are corrected (also in stable updates) */
#define HR_KERNEL_ACS_MENDED HR_KERNEL_VERSION(6, 15)

struct hr_next_boot {
	enum hr_iommu iommu; /* after the boot; HR_IOMMU_UNKNOWN: the kernel's build decides */
	bool acs;	     /* an IOMMU driver asks for ACS */
	bool asked;	     /* the boot that left the model's registers asked for ACS */
	bool noats;	     /* pci=noats: TB is set, too */
	uint32_t kernel;
	const char *disable; /* value of the parameter on the command line; NULL: not given */
	const char *config;
};

/* True when the machine's IOMMU is AMD's, by its CPU or by its root complexes. */
bool hr_next_boot_is_amd(const struct hr_model *m);

/* Passthrough by the last relevant word of a command line: 1, 0, or -1: no such word. */
int hr_cmdline_passthrough(const char *cmdline);

/*
 * What the model's command line tells about the IOMMU of its CPU's maker. *passthrough as
 * hr_cmdline_passthrough(); *asked: its words turn the IOMMU on, or are given for one that is on unless
 * firmware has it off; *off: the word that keeps it off, or NULL.
 */
void hr_boot_words(const struct hr_model *m, int *passthrough, bool *asked, const char **off);

/* "6.8.0-45-generic" as HR_KERNEL_VERSION(); 0: not a version. */
uint32_t hr_kernel_of_release(const char *release);

/*
 * Predict the next boot with that command line, which must live as long as *b. `kernel`: a version;
 * 0: the model's kernel, or the newest when that is unknown. `now`: present mode of the IOMMU;
 * HR_IOMMU_UNKNOWN: the model's mode. A command line without IOMMU words keeps the mode.
 */
void hr_next_boot_predict(const struct hr_model *m, uint32_t kernel, enum hr_iommu now,
			  const char *cmdline, struct hr_next_boot *b);

/*
 * Write the model's command line to line, with the words that decide the IOMMU's mode replaced.
 * Returns the new words as a user types them.
 */
const char *hr_next_boot_cmdline(const struct hr_model *m, enum hr_iommu mode,
				 char line[HR_CMDLINE_MAX]);

/* Set the mode after the boot, regardless of command line and firmware. */
void hr_next_boot_force(const struct hr_model *m, struct hr_next_boot *b, enum hr_iommu mode);

/*
 * ACS control of a function after the boot. A value that the user states stays (HR_SRC_USER).
 * *assumed (may be NULL): RR, CR or EC depend on the firmware's value, which an earlier boot has
 * overwritten; the function assumes 0.
 */
uint32_t hr_next_boot_acs(const struct hr_model *m, const struct hr_next_boot *b, int32_t fn,
			  bool *assumed);

/*
 * Change the model to the machine after the boot: ACS controls, and new IOMMU groups. Returns the
 * number of functions whose ACS control changes.
 */
uint32_t hr_next_boot_apply(struct hr_model *m, const struct hr_next_boot *b);

#endif
