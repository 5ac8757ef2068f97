/*
 * pci/topo/lspci/lspci_machine.h - the output of lspci for programs: lines of option -mm, and
 * records of
 * -vmm. Their fields become a title as lspci -nn prints it, which pci/topo/lspci/lspci_title.h reads.
 *
 *   00:00.0 "Host bridge" "Intel Corporation" "Device 09a2" -r04 "" ""          -mm
 *
 *   Slot:	00:00.0                                                              -vmm
 *   Class:	Host bridge [0600]                                                   (and -nn)
 *   Vendor:	Intel Corporation [8086]
 *   Device:	Ice Lake Memory Map/VT-d [09a2]
 */
#ifndef PCI_TOPO_LSPCI_LSPCI_MACHINE_H
#define PCI_TOPO_LSPCI_LSPCI_MACHINE_H

#include "pci/topo/model.h"

#define HR_MACHINE_FIELD 160u
#define HR_MACHINE_TITLE 512u

/* Fields of a function; starts zeroed. A longer field is cut. */
struct hr_machine {
	bool record; /* lines of the function are those of -vmm */
	char class[HR_MACHINE_FIELD], vendor[HR_MACHINE_FIELD], device[HR_MACHINE_FIELD];
	char revision[8];
};

/* Read the fields of -mm after the address; false: text does not begin with a quoted field. */
bool hr_machine_fields(struct hr_machine *r, const char *text);

/*
 * Offset of the address in the first line of a record, "Slot:" or in older versions "Device:"; 0:
 * another line.
 */
size_t hr_machine_slot(const char *line);

/* Read a line of a record; false: not one of its fields. */
bool hr_machine_line(struct hr_machine *r, struct hr_model *m, struct hr_fn *f, const char *line);

/* Write "CLASS: VENDOR DEVICE [vvvv:dddd] (rev rr)" to title[HR_MACHINE_TITLE]; returns title. */
char *hr_machine_title(const struct hr_machine *r, char *title);

#endif
