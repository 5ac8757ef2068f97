/*
 * boot/cmd/topo/html_pair.h - articles of the page: one for each kind of pair, one for each
 * function that is drawn.
 */
#ifndef BOOT_CMD_TOPO_HTML_PAIR_H
#define BOOT_CMD_TOPO_HTML_PAIR_H

#include "boot/cmd/topo/html.h"

/* One function as "f12": its id in the page. text[16]; returns text. */
char *hr_html_id(int32_t fn, char *text);

/* The explanation of a pair as an article with that id; `equal` names all pairs that it stands for. */
void hr_html_pair(const struct hr_topo *t, FILE *out, const char *id, const char *equal,
		  const struct hr_pair *p);

/* The facts of a function as an article. */
void hr_html_function(const struct hr_topo *t, FILE *out, int32_t fn);

#endif
