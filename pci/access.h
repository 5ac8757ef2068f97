/*
 * pci/access.h - libpciaccess taken and given back, for the files of this folder that use it.
 *
 * The library has one list of devices for the process. Whoever walks the machine while a function
 * is held open must not free it, so the last one to leave does. The list is as old as the first
 * hr_access_get() of those that hold it.
 */
#ifndef PCI_ACCESS_H
#define PCI_ACCESS_H

/* 0; -ENODEV: there is no PCI bus to be walked, or access to it is denied. Not thread safe. */
int hr_access_get(void);
void hr_access_put(void);

#endif
