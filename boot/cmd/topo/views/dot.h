/*
 * boot/cmd/topo/views/dot.h - graphviz: bridges as boxes, links as edges; the path of a pair in colour.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_DOT_H
#define BOOT_CMD_TOPO_VIEWS_DOT_H

#include "boot/cmd/topo/topo.h"

/* Print the machine as a graph to t->out; the path of the pair is marked unless gpu is HR_NO_FN. */
void hr_topo_dot(const struct hr_topo *t, int32_t gpu, int32_t ssd);

#endif
