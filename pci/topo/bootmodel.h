/*
 * pci/topo/bootmodel.h - what Linux makes of the IOMMU and of the ACS controls at the next boot.
 *
 * Firmware leaves a value in each ACS control register. A kernel whose IOMMU driver asks for ACS
 * (pci_request_acs()) sets SV, RR, CR and UF on every function that has them, passthrough or not;
 * then pci=disable_acs_redir= and pci=config_acs= are applied. Sources: Linux drivers/pci/pci.c
 * (pci_enable_acs, pci_std_enable_acs, __pci_config_acs), drivers/pci/quirks.c,
 * drivers/iommu/intel/dmar.c (detect_intel_iommu), drivers/iommu/amd/init.c (detect_ivrs),
 * arch/x86/kernel/pci-dma.c (iommu_setup), drivers/acpi/arm64/iort.c (iort_enable_acs).
 */
#ifndef PCI_TOPO_BOOTMODEL_H
#define PCI_TOPO_BOOTMODEL_H

#include "pci/topo/model.h"
#include "pci/topo/tables.h"

#define HR_BOOT_LINE_MAX 4096u

/* Kernel versions that change the outcome, as HR_KERNEL_VERSION() */
#define HR_KERNEL_DISABLE_REDIR HR_KERNEL_VERSION(4, 19) /* pci=disable_acs_redir= */
#define HR_KERNEL_SOFT_IGNORED HR_KERNEL_VERSION(5, 19)	 /* iommu=soft hides no hardware IOMMU */
#define HR_KERNEL_CONFIG_ACS HR_KERNEL_VERSION(6, 11)	 /* pci=config_acs=, with faults in both */
#define HR_KERNEL_ACS_MENDED HR_KERNEL_VERSION(6, 15)	 /* without them (and in stable updates) */

struct hr_boot {
	enum hr_iommu iommu; /* after the boot; HR_IOMMU_UNKNOWN: the kernel's build decides */
	bool acs;	     /* an IOMMU driver asks for ACS */
	bool asked;	     /* the boot that the model's registers come from did so */
	bool noats;	     /* pci=noats: TB is set as well */
	uint32_t kernel;
	const char *disable; /* of the command line, at the value; NULL: not given */
	const char *config;
};

/* The machine's IOMMU is AMD's: by its CPU, or by its root complexes. */
bool hr_boot_is_amd(const struct hr_model *m);

/* What a command line says of passthrough, its last word counts: 1, 0, or -1: nothing. */
int hr_boot_passthrough(const char *cmdline);

/* "6.8.0-45-generic" as HR_KERNEL_VERSION(); 0: no version. */
uint32_t hr_kernel_of_release(const char *release);

/*
 * The next boot with that command line, which must live as long as *b. `kernel`: version, 0: that
 * of the model, else the newest. `now`: mode of the IOMMU at present, HR_IOMMU_UNKNOWN: as the
 * model says. Words that say nothing about the IOMMU leave its mode as it is.
 */
void hr_boot_read(const struct hr_model *m, uint32_t kernel, enum hr_iommu now, const char *cmdline,
		  struct hr_boot *b);

/*
 * The model's command line with the words that decide the IOMMU's mode replaced, in line. Returns
 * the words that were put in, as a user types them.
 */
const char *hr_boot_line(const struct hr_model *m, enum hr_iommu mode, char line[HR_BOOT_LINE_MAX]);

/* Let the boot end in that mode, whatever its words and the firmware make of it now. */
void hr_boot_force(const struct hr_model *m, struct hr_boot *b, enum hr_iommu mode);

/*
 * ACS control of a function after the boot; a value that the user states stands (HR_SRC_USER).
 * *assumed, which may be NULL: RR, CR or EC depend on what the firmware leaves in the register,
 * which an earlier boot has overwritten; 0 is assumed.
 */
uint32_t hr_boot_acs(const struct hr_model *m, const struct hr_boot *b, int32_t fn, bool *assumed);

/*
 * Make the model that of the booted machine: ACS controls, and groups formed anew. Returns the
 * number of functions whose control changes.
 */
uint32_t hr_boot_apply(struct hr_model *m, const struct hr_boot *b);

#endif
