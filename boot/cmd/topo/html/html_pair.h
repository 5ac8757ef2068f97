/*
 * boot/cmd/topo/html/html_pair.h - articles of the page: one for each kind of pair, one for each
 * function in the tree.
 */
#ifndef BOOT_CMD_TOPO_HTML_HTML_PAIR_H
#define BOOT_CMD_TOPO_HTML_HTML_PAIR_H

#include "boot/cmd/topo/html/html.h"

/* Identifier of a function in the page: "f12". text[16]; returns text. */
char *hr_html_id(int32_t fn, char *text);

/*
 * Write the explanation of a pair as an article with that identifier; `equal` names all pairs with
 * this explanation.
 */
void hr_html_pair(const struct hr_topo *t, FILE *out, const char *id, const char *equal,
		  const struct hr_pair *p);

/* Write the facts of a function as an article. */
void hr_html_function(const struct hr_topo *t, FILE *out, int32_t fn);

#endif
