/*
 * pci/live.h - this machine as a topology model.
 */
#ifndef PCI_LIVE_H
#define PCI_LIVE_H

#include "pci/topo/model.h"

/* This machine: libpciaccess for the walk, configuration space and BARs; sysfs for the rest.
 * Returns as hr_source_open(), and what hr_access_get() does. */
int hr_source_live(struct hr_model *m);

#endif
