/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/source/formats.h - readers of other formats: XML of NCCL, RCCL and hwloc; compressed
 * captures.
 */
#ifndef PCI_TOPO_SOURCE_FORMATS_H
#define PCI_TOPO_SOURCE_FORMATS_H

#include "pci/topo/model.h"

/* ---- code shared by the readers of XML topologies: NCCL and RCCL, and hwloc.
 *
 * expat parses the file and calls a reader for each element in the order of the file. No entity is
 * expanded, and nothing outside the file is read.
 */

#define HR_XML_DEPTH_MAX 256u

struct hr_xml {
	struct hr_model *m;
	const struct hr_xml_format *format;
	void *parser;
	void *state; /* of the reader: format->state_bytes of zeros */
	unsigned depth;
	bool failed;
};

struct hr_xml_format {
	const char *root;  /* name of the outermost element */
	const char *input; /* text for hr_model.input */
	size_t state_bytes;
	/* attributes: name, value, name, value, NULL */
	void (*start)(struct hr_xml *x, const char *element, const char **attributes);
	void (*end)(struct hr_xml *x, const char *element);
};

extern const struct hr_xml_format hr_xml_nccl, hr_xml_hwloc;

/*
 * Read a whole file. 0; -EINVAL: malformed, cut off or another format; -ENODATA: no PCI function.
 */
int hr_read_xml(struct hr_model *m, const char *text, size_t size);

/* Stop reading with an error; its text names the line. */
void hr_xml_fail(struct hr_xml *x, const char *what);
/* Value of an attribute, or NULL. */
const char *hr_xml_get(const char **attributes, const char *name);
/* Number of an attribute in that base; false: missing, or more than 32 bits. */
bool hr_xml_number(const char **attributes, const char *name, int base, unsigned long *value);
/*
 * "0-15,32" from a mask in words of 32 bits, the highest first: "ffff0000,0000ffff" or
 * "0xffff0000,0x0000ffff". NULL: not a mask, empty or infinite.
 */
const char *hr_xml_cpus(struct hr_model *m, const char *mask);
/* Add one more name that the system gives a function. */
void hr_xml_device(struct hr_model *m, struct hr_fn *f, const char *name);

/* ---- compressed captures: gzip, bzip2, xz and zstd; and text in UTF-16. */

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
