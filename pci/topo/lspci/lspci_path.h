/*
 * pci/topo/lspci/lspci_path.h - the address at the start of a function in lspci output, which
 * options -P and -PP print as a path through the bridges above:
 *
 *   0000:02:00.0                         plain
 *   0000:00:01.1/01:00.0/02:00.0         -PP
 *   0000:00:01.1/00.0/00.0               -P: without the buses below the first bridge
 */
#ifndef PCI_TOPO_LSPCI_LSPCI_PATH_H
#define PCI_TOPO_LSPCI_LSPCI_PATH_H

#include "pci/topo/model.h"

#define HR_SLOT_PATH_MAX 32u /* functions of a path */

struct hr_slot_path {
	uint32_t domain;
	unsigned count;
	struct {
		bool has_bus;
		uint8_t bus, dev, fn;
	} step[HR_SLOT_PATH_MAX];
};

/* What earlier paths state; starts zeroed. */
struct hr_slot_paths {
	uint32_t domain, top_bus; /* of the last path, and the highest bus of that domain */
	bool any;
	bool assumed; /* a bus number of -P is assumed */
};

/*
 * Read the path at the start of text. Returns its length; 0: not a path. A device above 31 or a
 * function above 7 is read, but hr_slot_path_add() refuses it.
 */
size_t hr_slot_path_parse(const char *text, struct hr_slot_path *path);

/*
 * Add the function at the end of the path and the bridges above it. The path states the secondary
 * bus of each bridge. When neither the path nor the bridge states it, the next bus number is
 * assumed, because lspci sorts functions by bus. NULL: more functions than the model can have, or
 * no such device or bus.
 */
struct hr_fn *hr_slot_path_add(struct hr_model *m, struct hr_slot_paths *paths,
			       const struct hr_slot_path *path);

#endif
