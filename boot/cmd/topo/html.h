/*
 * boot/cmd/topo/html.h - the page of --html: what its files share.
 *
 * The page is one file without external resources. Everything from the machine or the capture goes
 * through hr_html_put() or hr_html_text(), which escape it; nothing of it gets into the script or
 * the style sheet.
 */
#ifndef BOOT_CMD_TOPO_HTML_H
#define BOOT_CMD_TOPO_HTML_H

#include "boot/cmd/topo/headline.h"

/* Text of any bytes, escaped for content and for attributes in double quotes. */
void hr_html_text(FILE *out, const char *text);
/* Markup in which each ~ stands for the next argument (const char *), escaped. */
void hr_html_put(FILE *out, const char *markup, ...);

/* Class of the style sheet for a verdict: "good", "root", "detour", "unknown", "bad", "loss". */
const char *hr_html_colour(enum hr_verdict verdict);

/* One function as "f12": its id in the page. text[16]; returns text. */
char *hr_html_id(int32_t fn, char *text);

/* The explanation of a pair as an article with that id; `equal` names all pairs that it stands for. */
void hr_html_pair(const struct hr_topo *t, FILE *out, const char *id, const char *equal,
		  const struct hr_pair *p);
/* The facts of a function as an article. */
void hr_html_function(const struct hr_topo *t, FILE *out, int32_t fn);

/*
 * The tree of bridges as SVG, as far as it leads to what is judged. drawn[functions] is set for the
 * functions in it. Returns how many judged functions are left out because the drawing is full.
 */
uint32_t hr_html_tree(const struct hr_topo *t, const struct hr_survey *s, FILE *out, bool *drawn);

/* GPUs and network cards against each other as a table, if there are two, and at most 32. Memory comes
 * from the model. 0 or -ENOMEM. */
int hr_html_peers(struct hr_topo *t, FILE *out);

/* boot/cmd/topo/page.css and boot/cmd/topo/page.js. */
extern const char hr_page_style[], hr_page_script[];

#endif
