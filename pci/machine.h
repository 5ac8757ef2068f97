/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/machine.h - this machine as a model; its messages about functions, its NVIDIA GPUs,
 * changes of its registers.
 */
#ifndef PCI_MACHINE_H
#define PCI_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "pci/topo/model.h"
#include "pci/topo/forecast/change.h"

/* ---- reads this machine into a topology model. */

/*
 * Read this machine: configuration space and BARs with libpciaccess, other facts from sysfs.
 * Returns as hr_source_open() and hr_pciaccess_get().
 */
int hr_source_live(struct hr_model *m);

/* ---- links between NVIDIA GPUs of this machine, and whether the driver lets them access
 * each other's memory, from NVIDIA's management library.
 */

/*
 * Read the NVLinks of this machine's GPUs, and the driver's answers about peer access
 * (pci/topo/gpu_peers.h), from NVIDIA's management library. Slow, so callers do
 * this only on request. The model must be linked. 0; -ENOENT: no driver, no library, or a static
 * build.
 */
int hr_read_nvml(struct hr_model *m);

/* ---- the kernel's messages when PCI functions appear, disappear or change driver.
 *
 * A message tells that something changed, not the new state: read the bus again. The kernel sends
 * no message when a register changes.
 */

/*
 * Open a socket that becomes readable with each message. Returns it, or -errno. The caller closes
 * it.
 */
int hr_uevent_open(void);

/*
 * Read the waiting messages, at most 4096. 1: at least one is about a PCI function or an NVMe
 * controller, or messages were lost; 0: none is; or -errno.
 */
int hr_uevent_drain(int fd);

/*
 * True when the message is about a PCI function or an NVMe controller. Format: "ACTION@DEVPATH",
 * then "KEY=VALUE", each with its NUL.
 */
bool hr_uevent_concerns(const char *message, size_t bytes);

/* ---- makes the register writes of a fix on this machine */

/*
 * Write through libpciaccess and read back; `after` of each write becomes the value read. Bits
 * outside the write's mask keep their present value. 0; -EIO: a register did not accept the value
 * (its index is in *failed); -ENODEV, -EACCES.
 */
int hr_fix_write_all(const struct hr_model *m, struct hr_fix *fix, unsigned *failed);

/* ---- why VFIO cannot open a group of this machine */

/*
 * Read this machine, find the function that keeps VFIO from opening the group of the function at
 * bdf, and write the reason and the remedy to text[capacity] as one sentence.
 */
void hr_vfio_group_explain(const char *bdf, char *text, size_t capacity);

#endif
