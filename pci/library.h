/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/library.h - takes and releases libpciaccess, for the files of this folder that use it.
 *
 * The library has one list of devices per process. It must not be freed while a function is open,
 * so the last release frees it. The list shows the machine at the time of the first
 * hr_pciaccess_get().
 */
#ifndef PCI_LIBRARY_H
#define PCI_LIBRARY_H

/* 0; -ENODEV: there is no PCI bus, or access to it is denied. Not thread safe. */
int hr_pciaccess_get(void);
void hr_pciaccess_put(void);

#endif
