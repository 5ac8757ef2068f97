/*
 * boot/cmd/topo/views/tree.h - the tree of bridges, with the path of one pair marked.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_TREE_H
#define BOOT_CMD_TOPO_VIEWS_TREE_H

#include "boot/cmd/topo/topo.h"

/* Print the tree to t->out; the path of the pair is marked unless gpu is HR_NO_FN. */
void hr_topo_tree(const struct hr_topo *t, int32_t gpu, int32_t ssd);

#endif
