/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/disk.h - what the kernel's driver tells about an NVMe controller: model, serial number,
 * firmware, and its namespaces with their block devices. A capture keeps all but the serial number.
 */
#ifndef PCI_TOPO_DISK_H
#define PCI_TOPO_DISK_H

#include "pci/topo/model.h"

#define HR_DISK_NAMESPACES 64u /* kept; more are counted */
#define HR_DISK_LINE 200u      /* of a capture */

struct hr_namespace {
	const char *name; /* "nvme0n1" */
	uint64_t bytes;
	uint32_t block_bytes;
};

/* Texts are "" when unknown. Memory of the model. */
struct hr_disk {
	const char *model, *serial, *firmware;
	uint32_t namespaces, more; /* kept, and not kept */
	struct hr_namespace namespace[HR_DISK_NAMESPACES];
};

/* The disk of a function, made when there is none. NULL: the model's memory is full. */
struct hr_disk *hr_disk_of(struct hr_model *m, struct hr_fn *f);

/* Set a text; add a namespace. */
void hr_disk_set(struct hr_model *m, const char **to, const char *text);
void hr_disk_add(struct hr_model *m, struct hr_disk *d, const char *name, uint64_t bytes,
		 uint32_t block_bytes);

/* Take a line of a capture: key "model", "firmware" or "namespace" (at its beginning). False: not
 * valid. */
bool hr_disk_line(struct hr_model *m, struct hr_fn *f, const char *key, const char *value);

/* Write line `at` of a capture, "key=value". d may be NULL. False: there is none. */
bool hr_disk_text_line(const struct hr_disk *d, unsigned at, char *text, size_t bytes);

/*
 * Write "SAMSUNG MZQL23T8, serial S64H, firmware GDC5602Q, nvme0n1 3.84 TB"; serial false: without the
 * serial number. d may be NULL: "". Returns text.
 */
char *hr_disk_text(const struct hr_disk *d, bool serial, char *text, size_t bytes);

#endif
