/* pci/topo/source/unpack.h - compressed captures: gzip, bzip2, xz and zstd; and text in UTF-16. */
#ifndef PCI_TOPO_SOURCE_UNPACK_H
#define PCI_TOPO_SOURCE_UNPACK_H

#include "pci/topo/model.h"

#define HR_UNPACKED_MAX (256u << 20)

struct hr_packer;

/* The tool for packed bytes that begin like this; NULL: not a known format. */
const struct hr_packer *hr_packed_by(const char *head, size_t size);

/*
 * Unpack the bytes that were read ahead and the rest of fd (-1: none) with the system's tool into
 * the model's memory, and add a NUL. 0; -EINVAL: damaged, larger than HR_UNPACKED_MAX, or the tool
 * is not installed; -ENOMEM, -EIO and others.
 */
int hr_unpack(struct hr_model *m, const struct hr_packer *p, const char *head, size_t have, int fd,
	      char **out, size_t *size);

#endif
