/*
 * pci/bind.h - the kernel driver of a function, changed and put back.
 *
 * Documentation/ABI/testing/sysfs-bus-pci: driver_override, drivers_probe, bind, unbind. While it is
 * changed, the way back is with the custodian (pci/custodian.h), so that it is gone when this
 * process has died.
 */
#ifndef PCI_BIND_H
#define PCI_BIND_H

#include "pci/function.h"

struct hr_binding {
	char bdf[HR_BDF_MAX]; /* "": nothing was changed */
	char driver[64];      /* before; "": none */
	char override[64];    /* driver_override before; "": none */
	int custody[3];
};

/*
 * Take the function from the driver that state says, and give it to `driver`, or to none when that
 * is NULL. The caller has made sure that nobody uses what the old driver offered.
 * 0; -EACCES: not root; -EBUSY: another process drives it without a driver (pci/function.h), or its
 * driver is another one by now; -ENODEV: there is no such driver, or it does not take the function;
 * others of the kernel. On error everything is as it was, and message says why.
 */
int hr_bind(struct hr_binding *b, const struct hr_function_state *state, const char *driver,
	    char *message);

/* Put everything back; logs what cannot be. Nobody of this process has the function open; when another
 * one has it by now, it is left to that. Does nothing for a struct that is all zero. */
void hr_bind_undo(struct hr_binding *b);

#endif
