/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/bind.h - changes the kernel driver of a function, and restores it.
 *
 * Interface: Documentation/ABI/testing/sysfs-bus-pci: driver_override, drivers_probe, bind, unbind.
 * While the driver is changed, the undo helper (pci/undo.h) holds the steps that restore it, so
 * that it is restored even when this process dies.
 */
#ifndef PCI_BIND_H
#define PCI_BIND_H

#include "pci/function.h"

struct hr_binding {
	char bdf[HR_BDF_MAX]; /* "": no change was made */
	char driver[64];      /* driver before the change; "": none */
	char override[64];    /* driver_override before the change; "": none */
	int undo[3];	      /* identifiers of the undo steps */
};

/*
 * Unbind the function from the driver in `state` and bind it to `driver`; NULL: to no driver. The
 * caller has checked that nothing uses the old driver's devices. 0; -EACCES: not root; -EBUSY:
 * another process drives the function without a driver (pci/function.h), or its driver has changed
 * since `state` was read; -ENODEV: there is no such driver, or it does not bind the function; other
 * errors of the kernel. On error the old state is restored.
 */
int hr_bind(struct hr_binding *b, const struct hr_function_state *state, const char *driver,
	    struct hr_error *e);

/*
 * Restore driver and driver_override, and log each failure. The caller has closed the function.
 * When another process has opened the function meanwhile, nothing is restored. Does nothing for a
 * struct that is all zero.
 */
void hr_bind_undo(struct hr_binding *b);

#endif
