/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/log/kernel_log.h - facts in the messages of Linux: dmesg, journalctl -k, /var/log/kern.log.
 *
 * A message may follow the stamp of dmesg ("[    1.263328] ", "[Mon Oct  7 11:24:13 2024] "), its
 * level ("<6>", "kern  :info  : "), the thread ("[    T1] "), or date and host of a journal ("Oct 27
 * 08:50:11 host kernel: "). Spellings of 2.6.30 to 7.0 are known. Later messages replace earlier
 * ones, because the kernel reports an address again when it changes it.
 *
 * Functions are collected in a model of their own: hr_kernel_log_end() adds to another model only
 * what that model does not know.
 */
#ifndef PCI_TOPO_LOG_KERNEL_LOG_H
#define PCI_TOPO_LOG_KERNEL_LOG_H

#include "pci/topo/model.h"

/* A message about the IOMMU, and its line; line 0: not in the log. */
struct hr_log_fact {
	unsigned line;
	const char *text; /* constant */
};

struct hr_log_iommu {
	struct hr_log_fact type;  /* "Default domain type: ", of any IOMMU that is on */
	enum hr_iommu type_value; /* HR_IOMMU_PT or HR_IOMMU_ON */
	struct hr_log_fact on;	  /* a driver has set an IOMMU up */
	struct hr_log_fact asked; /* the command line has intel_iommu=on; hardware may have none */
	struct hr_log_fact off;	  /* the kernel reports it disabled */
	struct hr_log_fact pt;	  /* a driver reports passthrough */
	struct hr_log_fact tables, dmar, ivrs; /* ACPI tables: any, and those of an IOMMU */
	bool begins, ends; /* the log holds the first message of a boot, and the start of init */
};

#define HR_LOG_BUSES_MAX 256u

/* "pci_bus 0000:60: on NUMA node 0" and the buses below that root bus. */
struct hr_log_bus {
	uint32_t domain, first, last, numa;
	bool has_numa;
};

struct hr_kernel_log {
	struct hr_model *m;  /* of the machine */
	struct hr_model fns; /* functions in the log */
	bool open;	     /* fns is initialized */
	bool full;	     /* more functions than a model holds */
	struct hr_log_iommu iommu;
	struct hr_log_bus bus[HR_LOG_BUSES_MAX];
	unsigned buses;
};

/* Starts without messages, for facts of *m. */
void hr_kernel_log_init(struct hr_kernel_log *l, struct hr_model *m);

enum hr_log_line {
	HR_LOG_NONE,
	HR_LOG_MARKED, /* it has a stamp of the kernel; the text behind it is not known */
	HR_LOG_KNOWN   /* a message about the machine or a function */
};

/*
 * Read one line. `bare`: also lines without any stamp are messages (dmesg -t); else they are when
 * they begin like a message about PCI or an IOMMU, or name a function after such a message. A line
 * of lspci behind a stamp is none.
 */
enum hr_log_line hr_kernel_log_line(struct hr_kernel_log *l, const char *line, unsigned number,
				    bool bare);

/*
 * Add the functions to the machine's model. When it lists the whole machine, only facts that it
 * lacks are added, else also functions. 0, -ENOMEM or -E2BIG.
 */
int hr_kernel_log_end(struct hr_kernel_log *l);

/* Free its memory; also after an error of the reader. */
void hr_kernel_log_fini(struct hr_kernel_log *l);

/* A message about a function: "pci 0000:60:05.2: TEXT" (functions.c). */
void hr_kernel_log_function(struct hr_fn *f, const char *text);
/* "4.000 Gb/s available PCIe bandwidth, ...": links of the function and of the limiting port. */
void hr_kernel_log_link(struct hr_kernel_log *l, struct hr_fn *f, const char *text);
/* The function of that address in the log, added when it is new; NULL: the model is full. */
struct hr_fn *hr_kernel_log_at(struct hr_kernel_log *l, const char *bdf, size_t *used);

#endif
