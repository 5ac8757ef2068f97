/*
 * boot/cmd/topo/html/html_tree.h - the tree of bridges as SVG: root buses at the left, cards at the
 * right.
 */
#ifndef BOOT_CMD_TOPO_HTML_HTML_TREE_H
#define BOOT_CMD_TOPO_HTML_HTML_TREE_H

#include "boot/cmd/topo/html/html.h"

/*
 * Write the tree of bridges above evaluated functions as SVG. Sets drawn[functions] for the
 * functions in it. Returns the number of evaluated functions that do not fit into the drawing.
 */
uint32_t hr_html_tree(const struct hr_topo *t, const struct hr_survey *s, FILE *out, bool *drawn);

#endif
