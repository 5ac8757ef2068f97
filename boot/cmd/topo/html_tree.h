/*
 * boot/cmd/topo/html_tree.h - the tree of bridges as SVG: root buses at the left, cards at the right.
 */
#ifndef BOOT_CMD_TOPO_HTML_TREE_H
#define BOOT_CMD_TOPO_HTML_TREE_H

#include "boot/cmd/topo/html.h"

/*
 * The tree of bridges as SVG, as far as it leads to what is judged. drawn[functions] is set for the
 * functions in it. Returns how many judged functions are left out because the drawing is full.
 */
uint32_t hr_html_tree(const struct hr_topo *t, const struct hr_survey *s, FILE *out, bool *drawn);

#endif
