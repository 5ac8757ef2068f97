/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/log/bug_report.h - reports that hold lspci, the kernel's log and files of proc: one text of
 * several sections, or an archive of such files.
 *
 *   nvidia-bug-report.log   a line of "_", then the command, or "*** /proc/cmdline"
 *   supportconfig (SUSE)    "#==[ Command ]====#", then "# /sbin/lspci -nnv"
 *   sos report              files as sos_commands/pci/lspci_-nnvv
 *
 * In text without sections, lines of the kernel's log and of uname and proc are found by their
 * form. Serial numbers, host names and addresses of networks are not stored.
 */
#ifndef PCI_TOPO_LOG_BUG_REPORT_H
#define PCI_TOPO_LOG_BUG_REPORT_H

#include "pci/topo/sysfs/files.h"
#include "pci/topo/log/kernel_log.h"

enum hr_section {
	HR_SECTION_NONE,  /* text without sections */
	HR_SECTION_LSPCI, /* lspci or nvidia-smi topo: lines for other readers */
	HR_SECTION_LOG,
	HR_SECTION_CPU, /* /proc/cpuinfo or lscpu */
	HR_SECTION_CMDLINE,
	HR_SECTION_UNAME,
	HR_SECTION_NVIDIA, /* /proc/driver/nvidia/version or params */
	HR_SECTION_OTHER   /* nothing in it is read */
};

struct hr_bug_report {
	struct hr_model *m;
	struct hr_kernel_log log;
	enum hr_section section;
	bool known;    /* the text is a report with sections */
	bool heading;  /* the next line that is not empty is a heading */
	bool stamped;  /* set by the caller: lspci's own lines have stamps like those of a log */
	uint32_t cpus; /* entries of /proc/cpuinfo */
	unsigned base; /* of several files in one text: the line before the present file */
};

/* Starts without lines, for facts of *m. Nothing to free until the first line. */
void hr_bug_report_init(struct hr_bug_report *r, struct hr_model *m);

/*
 * Read one line. True: the line belongs to the report, or is one of proc or of the kernel's log;
 * false: it may be lspci's.
 */
bool hr_bug_report_line(struct hr_bug_report *r, const char *line, size_t length, unsigned number);

/*
 * At the end of the text, after all functions of lspci: add the facts of the kernel's log. 0,
 * -ENOMEM or -E2BIG.
 */
int hr_bug_report_end(struct hr_bug_report *r);
void hr_bug_report_fini(struct hr_bug_report *r);

/*
 * Make one text of the files of an sos report or supportconfig, in memory of the model. *text is
 * NULL when the folder or archive holds no such report. 0 or -ENOMEM.
 */
int hr_bug_report_files(struct hr_model *m, const struct hr_files *files, char **text,
			size_t *size);

#endif
