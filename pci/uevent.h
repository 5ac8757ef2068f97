/*
 * pci/uevent.h - the kernel's messages about PCI functions that come, go or change driver.
 *
 * Messages say that something changed, never what is there now: read the bus again. The kernel sends
 * none when a register changes.
 */
#ifndef PCI_UEVENT_H
#define PCI_UEVENT_H

#include <stdbool.h>
#include <stddef.h>

/* A socket that becomes readable with each message; or -errno. The caller closes it. */
int hr_uevent_open(void);

/*
 * Read the messages that wait, at most 4096. 1: one is about a PCI function or an NVMe controller, or
 * some were lost; 0: none is; or -errno.
 */
int hr_uevent_drain(int fd);

/* Is that message about a PCI function or an NVMe controller? "ACTION@DEVPATH", then "KEY=VALUE",
 * each with its NUL. */
bool hr_uevent_concerns(const char *message, size_t bytes);

#endif
