/*
 * pci/topo/lspci/lspci_tree.h - the tree that lspci -t prints: bridges, the buses below them, names of
 * cards.
 */
#ifndef PCI_TOPO_LSPCI_LSPCI_TREE_H
#define PCI_TOPO_LSPCI_LSPCI_TREE_H

#include "pci/topo/model.h"

/* at least seven columns per level: more than HR_DEPTH_MAX levels fit */
#define HR_TREE_COLUMNS 512u

struct hr_tree_bus {
	uint32_t domain, bus;
	bool root; /* the root of the tree: its branches are root buses */
	bool lost; /* the line above that states the bus is missing, as after grep */
};

/* Starts zeroed. */
struct hr_tree {
	bool on;       /* the preceding line was part of the tree */
	unsigned line; /* first line of the tree */
	bool used[HR_TREE_COLUMNS];
	struct hr_tree_bus column[HR_TREE_COLUMNS]; /* bus of the branches in each column */
};

bool hr_tree_begins(const char *line);
/* 1: the line is part of a tree; 0: it is not; -EINVAL: it contradicts known facts. */
int hr_tree_line(struct hr_tree *t, struct hr_model *m, const char *line, unsigned number);

#endif
