/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/disks.h - the disks of this machine's NVMe controllers, as the kernel's driver names
 * them.
 */
#ifndef BOOT_CMD_TOPO_DISKS_H
#define BOOT_CMD_TOPO_DISKS_H

#include "boot/cmd/topo/topo.h"

/* Add the disks of this machine (nvme/tree.h) to a linked model. Without the library, or without the
 * kernel's driver, there are none. */
void hr_topo_read_disks(struct hr_model *m);

/* Print "          SAMSUNG ..., serial ..., nvme0n1 3.84 TB" of a function, wrapped, behind `used`
 * columns; nothing when it has no disk. Returns the number of lines. */
unsigned hr_topo_put_disk(FILE *out, const struct hr_fn *f, unsigned indent);

/* Put the members model, serial, firmware and namespaces[], as far as they are known. */
void hr_topo_json_disk(struct hr_json *o, const struct hr_fn *f);

#endif
