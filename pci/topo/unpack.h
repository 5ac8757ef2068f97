/* pci/topo/unpack.h - compressed captures: gzip, bzip2, xz and zstd. */
#ifndef PCI_TOPO_UNPACK_H
#define PCI_TOPO_UNPACK_H

#include "pci/topo/model.h"

#define HR_UNPACKED_MAX (256u << 20)

struct hr_packer;

/* What packed bytes that begin like this; NULL: nothing that is known. */
const struct hr_packer *hr_packed_by(const char *head, size_t size);

/*
 * Unpack what was read ahead and the rest of fd (-1: there is none) with the system's tool, into the
 * model's memory, a NUL behind it. 0; -EINVAL: damaged, larger than HR_UNPACKED_MAX, or the tool is
 * not installed; -ENOMEM, -EIO and the like.
 */
int hr_unpack(struct hr_model *m, const struct hr_packer *p, const char *head, size_t have, int fd,
	      char **out, size_t *size);

#endif
