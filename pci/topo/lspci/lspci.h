/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/lspci/lspci.h - readers of the output of lspci: dumps, pasted text, captures of
 * headrace.
 */
#ifndef PCI_TOPO_LSPCI_LSPCI_H
#define PCI_TOPO_LSPCI_LSPCI_H

#include <stdbool.h>
#include <stddef.h>

#include "pci/topo/model.h"
#include "pci/topo/lspci/stream.h"

/* ---- reads dumps of lspci like pciutils (lib/dump.c). */

/* Read all functions of a text. Returns as hr_source_open(); does not link the model. */
int hr_read_lspci(struct hr_model *m, struct hr_capture_stream *s);

/* ---- headrace's capture format: an lspci dump with further facts as "headrace: key=value" */

/*
 * Write the model as a capture: an lspci -xxxx dump that lspci -F reads, with further facts on
 * lines that lspci ignores. Serial numbers are overwritten with zeros. 0, or -errno of write().
 */
int hr_capture_write(const struct hr_model *m, int fd);

/*
 * Read one "headrace: key=value" line; f is NULL before the first function. False: not understood.
 */
bool hr_capture_line(struct hr_model *m, struct hr_fn *f, const char *line, size_t length);

/* ---- lines of lspci in pasted text */

#define HR_PASTE_PREFIX_MAX 96u

/* True when a function or a tree begins at the start of the line. */
typedef bool hr_paste_begins(const char *line, size_t length);

/* Starts zeroed. */
struct hr_lspci_paste {
	char prefix[HR_PASTE_PREFIX_MAX]; /* of every line: a quotation mark, a time, a name */
	size_t length;
	bool plain;   /* the first function is at the start of its line, so nothing is quoted */
	bool stamped; /* the prefix has words: its numbers of a time may differ in other lines */
	bool quoted;  /* each line is a string of its own */
};

/*
 * Remove the prefix from the line, in place; *length is updated. The first line that `begins` a
 * function after a prefix or tags determines the prefix of the following lines:
 *
 *   > 00:00.0 ..                  quotation marks, bars, indentation (31 at most)
 *   <pre>00:00.0 ..               tags, {code}, [code], quotation marks: in this line only
 *   [    1.234567] 00:00.0 ..     time, host name ("node7: ", "node7 | "), file name, list mark
 *       "00:00.0 ..",             a list of strings
 *
 * Before such a line, lines are unchanged, except for escapes (pci/topo/lspci/text.h).
 */
char *hr_lspci_paste_line(struct hr_lspci_paste *p, hr_paste_begins *begins, char *line,
			  size_t *length);

/*
 * Remove the marks of emphasis around a function or its group, in place; returns the new length:
 * "- **01:00.0 VGA ..**", "> `01:00.0 ..`", "**IOMMU Group 1 01:00.0 ..**". Other marks are text.
 */
size_t hr_paste_emphasis(hr_paste_begins *begins, char *line, size_t length);

/* True for text that begins with a tag of a web page or issue, not of an XML topology. */
bool hr_paste_is_html(const char *head, size_t size);

#endif
