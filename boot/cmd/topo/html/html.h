/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/html/html.h - shared parts of the page of --html.
 *
 * The page is one file without external resources. Every text from the machine or the capture
 * passes hr_html_put() or hr_html_text(), which escape it. No such text becomes part of the script
 * or the style sheet.
 */
#ifndef BOOT_CMD_TOPO_HTML_HTML_H
#define BOOT_CMD_TOPO_HTML_HTML_H

#include "boot/cmd/topo/topo.h"
#include "boot/cmd/topo/headline.h"

/* Write a text of any bytes, escaped for content and for attributes in double quotes. */
void hr_html_text(FILE *out, const char *text);
/* Write markup in which each ~ stands for the next argument (const char *), escaped. */
void hr_html_put(FILE *out, const char *markup, ...);

/* CSS class of a verdict: "good", "root", "detour", "unknown", "bad", "loss". */
const char *hr_html_colour(enum hr_verdict verdict);

/* boot/cmd/topo/html/page.css and boot/cmd/topo/html/page.js. */
extern const char hr_html_style[], hr_html_script[];

/*
 * Write the page of --html to a file ("-": standard output). A file appears under its name when it
 * is complete; an existing one needs `force`. Returns the exit code of the verdicts, or
 * HR_TOPO_NO_ACCESS, which is reported on stderr.
 */
int hr_topo_html(struct hr_topo *t, const char *path, bool force);

/* ---- articles of the page: one for each kind of pair, one for each function in the tree */

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

/* ---- the output of --peers as a table of the page */

/*
 * Write GPUs and network cards against each other as a table, if there are 2 to 32 of them. Memory
 * comes from the model. 0 or -ENOMEM.
 */
int hr_html_peers(struct hr_topo *t, FILE *out);

/* ---- the tree of bridges as SVG: root buses at the left, cards at the right */

/*
 * Write the tree of bridges above evaluated functions as SVG. Sets drawn[functions] for the
 * functions in it. Returns the number of evaluated functions that do not fit into the drawing.
 */
uint32_t hr_html_tree(const struct hr_topo *t, const struct hr_survey *s, FILE *out, bool *drawn);

#endif
