/* pci/topo/lspci_tree.h - the tree that lspci -t draws: bridges, buses below them, names of cards. */
#ifndef PCI_TOPO_LSPCI_TREE_H
#define PCI_TOPO_LSPCI_TREE_H

#include "pci/topo/source.h"

#define HR_TREE_COLUMNS 512u /* seven columns a level and more: deeper than HR_DEPTH_MAX */

struct hr_tree_bus {
	uint32_t domain, bus;
	bool root; /* of all: what branches here are root buses */
};

/* Starts zeroed. */
struct hr_tree {
	bool on;       /* the line before was part of it */
	unsigned line; /* where it began */
	bool used[HR_TREE_COLUMNS];
	struct hr_tree_bus column[HR_TREE_COLUMNS]; /* what branches there hangs on this bus */
};

bool hr_tree_begins(const char *line);
/* 1: the line was part of a tree, 0: it is something else, -EINVAL: it contradicts what is known. */
int hr_tree_line(struct hr_tree *t, struct hr_model *m, const char *line, unsigned number);

#endif
