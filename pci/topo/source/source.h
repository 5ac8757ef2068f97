/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/source/source.h - reads a topology from any source. Every reader fills a model.
 *
 * Readers set facts and draw no conclusions. They end with hr_model_connect(). Their errors go into
 * model->error, with the line of the capture if there is one.
 */
#ifndef PCI_TOPO_SOURCE_SOURCE_H
#define PCI_TOPO_SOURCE_SOURCE_H

#include "pci/topo/model.h"

/*
 * Read a capture and link the model. The format is detected:
 *   directory            sysfs tree: its root (holds sys/), any part of sys, or a folder that holds it
 *   tar                  the same, as an archive
 *   XML                  topology of NCCL or RCCL (<system>) or of hwloc (<topology>)
 *   report               of sos or supportconfig, as a directory or tar (pci/topo/log/bug_report.h)
 *   anything else        lspci -x|-xxx|-xxxx dump, -vv[nn] text, -t[v] tree, several of them, or
 *                        headrace's capture format; lines may be quoted or indented. Matrices of
 *                        nvidia-smi, rocm-smi and amd-smi (pci/topo/lspci/text.h) beside them are read,
 *                        nvidia-bug-report.log, files of supportconfig, the kernel's log
 * A file may be compressed by gzip, bzip2, xz or zstd, if that tool is installed. "-" is standard
 * input (not for directories).
 * Returns 0; -EINVAL: malformed, truncated or contradictory; -ENODATA: no PCI function in it
 * (m->smi and m->acs_lines hold what such a text states);
 * -E2BIG: more than HR_FUNCTIONS_MAX functions; -ENOENT, -EACCES, -EIO, -ENOMEM.
 */
int hr_source_open(struct hr_model *m, const char *path);

/* The same for bytes in memory (not for directories); `path` begins the texts of errors. */
int hr_source_parse(struct hr_model *m, const char *path, const void *bytes, size_t size);

#endif
