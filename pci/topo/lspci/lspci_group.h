/*
 * pci/topo/lspci/lspci_group.h - lists of IOMMU groups, as scripts print them from
 * /sys/kernel/iommu_groups and lspci:
 *
 *   IOMMU Group 1:                                      a heading, then indented functions
 *           00:01.0 PCI bridge [0604]: ...
 *   IOMMU Group 1 00:01.0 PCI bridge [0604]: ...        or the group in front of each function
 *   IOMMU Group 1: 00:01.0 PCI bridge [0604]: ...
 *   Group:  1  0000:00:01.0 PCI bridge [0604]: ...   Driver: pcieport
 */
#ifndef PCI_TOPO_LSPCI_LSPCI_GROUP_H
#define PCI_TOPO_LSPCI_LSPCI_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_fn;
struct hr_model;

/* What the lines before state. Starts zeroed. */
struct hr_groups_seen {
	bool any;     /* the next function is in `group` */
	bool heading; /* and so are the functions below it with the same indentation */
	uint32_t group;
	const char *driver; /* of the function in the last line; NULL: not stated */
	size_t indent;	    /* of the functions below the heading; 0: no function yet */
};

/*
 * Remove the group in front of a function, in place; *length is updated. A heading becomes an empty
 * line, which ends the function before it. `begins` is true for the start of a function.
 */
char *hr_groups_line(struct hr_groups_seen *g, bool (*begins)(const char *line, size_t length),
		     char *line, size_t *length);

/* Set the group and the driver of a function whose line hr_groups_line() returned last. */
void hr_groups_set(const struct hr_groups_seen *g, struct hr_model *m, struct hr_fn *f);

#endif
