/*
 * pci/topo/lspci/smi.h - matrices that vendors' tools print: nvidia-smi topo -m, -mp and -p2p, rocm-smi
 * --showtopo, amd-smi topology.
 *
 * The devices of a matrix have names like GPU0 and no PCI address (except amd-smi's), so they are
 * no functions of the model. A text that has a matrix and no PCI function is a text without
 * functions: hr_source_open() fails with -ENODATA, and model->smi holds what the matrix states.
 * In a text that has both, hr_smi_attach() gives the GPUs of the model the facts of the matrix.
 */
#ifndef PCI_TOPO_LSPCI_SMI_H
#define PCI_TOPO_LSPCI_SMI_H

#include "pci/topo/gpu_peers.h"

#define HR_SMI_MAX 64u	   /* devices; more are counted and not read */
#define HR_SMI_NAME 32u	   /* "GPU0", "NIC1", "0000:03:00.0", "mlx5_bond_0"; with NUL */
#define HR_SMI_TOKENS 160u /* words of a line that are read */

enum hr_smi_distance { HR_SMI_NONE, HR_SMI_PIX, HR_SMI_PXB, HR_SMI_PHB, HR_SMI_NODE, HR_SMI_SYS };
enum hr_smi_type { HR_SMI_UNTYPED, HR_SMI_PCIE, HR_SMI_XGMI };

/* What the tables state about two devices; 0 is "not stated" in each member. */
struct hr_smi_cell {
	uint8_t distance;		  /* enum hr_smi_distance */
	uint8_t type;			  /* enum hr_smi_type: link type of rocm-smi and amd-smi */
	uint16_t nvlinks;		  /* NV#: number of NVLinks */
	uint16_t weight, hops;		  /* of rocm-smi and amd-smi */
	uint8_t p2p[HR_P2P_ACCESSES + 1]; /* enum hr_p2p_status; the last: access not stated */
	bool refused;			  /* the access table says False or DISABLED */
};

struct hr_smi_device {
	char name[HR_SMI_NAME];
	char device[HR_SMI_NAME]; /* the system's name, "mlx5_0"; "" unknown */
	char cpus[HR_WORD_MAX];	  /* CPU affinity; "" unknown */
	char numa[16];		  /* "" unknown */
	bool gpu;
};

struct hr_smi {
	const char *tool; /* "nvidia-smi topo", "rocm-smi --showtopo", "amd-smi topology" */
	uint32_t devices, left_out, rows; /* rows: lines with cells */
	struct hr_smi_device device[HR_SMI_MAX];
	struct hr_smi_cell cell[HR_SMI_MAX][HR_SMI_MAX];
};

/* State of the reader; starts zeroed. */
struct hr_smi_reader {
	uint8_t table;	  /* private: enum table */
	uint8_t accesses; /* bits of the last -p2p in the text; 0: none */
	bool amd;	  /* a table of amd-smi may begin: lines with addresses belong to it */
	uint32_t columns;
	uint8_t column[HR_SMI_TOKENS]; /* device of each column, HR_SMI_MAX: left out */
};

/*
 * Read a line. True when it is part of a matrix or of its legend. Other lines are unchanged.
 * Memory comes from the model; when it is full, the matrix is not read.
 */
bool hr_smi_line(struct hr_smi_reader *r, struct hr_model *m, const char *line);

/*
 * After hr_model_link(): when the model has as many GPUs of NVIDIA as the matrix of nvidia-smi,
 * both are in the order of their addresses, so NVLinks and answers about peer access become facts
 * of the model. 0, -ENOMEM or -E2BIG.
 */
int hr_smi_attach(struct hr_model *m);

/* "PIX"; "" for HR_SMI_NONE. */
const char *hr_smi_distance_word(enum hr_smi_distance distance);

#endif
