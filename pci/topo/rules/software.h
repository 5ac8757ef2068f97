/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/rules/software.h - whether the software of a machine can use a path that its hardware has.
 *
 * One row per GPU and per SSD: product line, driver, requirements of the two ways in which NVIDIA's
 * cuFile can work (nvidia-fs, or PCI P2PDMA of the kernel), file systems. Sources: NVIDIA "GDS
 * Support for NVMe" release 615, GPUDirect Storage troubleshooting guide 14 (NVMe P2PDMA),
 * GPUDirect RDMA guide.
 */
#ifndef PCI_TOPO_RULES_SOFTWARE_H
#define PCI_TOPO_RULES_SOFTWARE_H

#include "pci/topo/tables.h"
#include "pci/topo/rules/verdict.h"

enum hr_met { HR_UNSURE, HR_NO, HR_YES };

/* One requirement, and whether it is met. */
struct hr_need {
	const char *what; /* "product line", "nvidia-fs", ... */
	enum hr_met met;  /* HR_UNSURE: a fact is missing or not relevant here */
	char text[128];	  /* the finding */
	const char *fix;  /* remedy when met is HR_NO; NULL: none */
};
#define HR_NEEDS_MAX 12u

/* Fill the rows of a GPU or an SSD. Returns the number of rows in need[HR_NEEDS_MAX]. */
unsigned hr_software_gpu(const struct hr_topology *e, int32_t gpu, struct hr_need *need);
unsigned hr_software_ssd(const struct hr_topology *e, int32_t ssd, struct hr_need *need);

/*
 * True when the source states at least one fact of the machine that the rows need, besides card
 * names.
 */
bool hr_software_known(const struct hr_system *sys);

/*
 * Whether the software allows cuFile to use PCI P2PDMA for the pair. For HR_NO, *missing is the
 * first requirement that is not met.
 */
enum hr_met hr_cufile_p2pdma(const struct hr_topology *e, int32_t gpu, int32_t ssd,
			     struct hr_need *missing);

#endif
