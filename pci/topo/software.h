/*
 * pci/topo/software.h - whether the software of a machine can use a way that its hardware has.
 *
 * A row per GPU and per SSD: product line, driver, what NVIDIA's cuFile needs for its two ways
 * (nvidia-fs, or PCI P2PDMA of the kernel), file systems. Sources: NVIDIA "GDS Support for NVMe"
 * release 615, GPUDirect Storage troubleshooting guide 14 (NVMe P2PDMA), GPUDirect RDMA guide.
 */
#ifndef PCI_TOPO_SOFTWARE_H
#define PCI_TOPO_SOFTWARE_H

#include "pci/topo/verdict.h"

enum hr_answer { HR_UNSURE, HR_NO, HR_YES };

enum hr_product { HR_PRODUCT_UNKNOWN, HR_PRODUCT_CONSUMER, HR_PRODUCT_PROFESSIONAL };

/* NVIDIA's product line by the card's name; HR_PRODUCT_UNKNOWN for other vendors and bare numbers. */
enum hr_product hr_product_of(const struct hr_fn *gpu);

/* One requirement, and whether it is met. */
struct hr_need {
	const char *what;      /* "product line", "nvidia-fs", ... */
	enum hr_answer answer; /* HR_UNSURE: a fact is missing, or it does not matter here */
	char text[128];	       /* what was found */
	const char *fix;       /* of one that is not met; NULL: none */
};
#define HR_NEEDS_MAX 12u

/* The rows of a GPU, and of an SSD. Returns how many of need[HR_NEEDS_MAX] are filled in. */
unsigned hr_software_gpu(const struct hr_engine *e, int32_t gpu, struct hr_need *need);
unsigned hr_software_ssd(const struct hr_engine *e, int32_t ssd, struct hr_need *need);

/* The source states what the rows need at least: a fact of the machine, beside the cards' names. */
bool hr_software_known(const struct hr_system *sys);

/*
 * Can cuFile use PCI P2PDMA for the pair, as far as software goes? The first requirement that is
 * not met in *missing, when the answer is HR_NO.
 */
enum hr_answer hr_cufile_p2pdma(const struct hr_engine *e, int32_t gpu, int32_t ssd,
				struct hr_need *missing);

#endif
