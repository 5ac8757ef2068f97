/*
 * pci/uevent.h - the kernel's messages when PCI functions appear, disappear or change driver.
 *
 * A message tells that something changed, not the new state: read the bus again. The kernel sends
 * no message when a register changes.
 */
#ifndef PCI_UEVENT_H
#define PCI_UEVENT_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
