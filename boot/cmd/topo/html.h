/*
 * boot/cmd/topo/html.h - the page of --html: what its files share.
 *
 * The page is one file without external resources. Everything from the machine or the capture goes
 * through hr_html_put() or hr_html_text(), which escape it; nothing of it gets into the script or
 * the style sheet.
 */
#ifndef BOOT_CMD_TOPO_HTML_H
#define BOOT_CMD_TOPO_HTML_H

#include "boot/cmd/topo/topo.h"

#include "boot/cmd/topo/headline.h"

/* Text of any bytes, escaped for content and for attributes in double quotes. */
void hr_html_text(FILE *out, const char *text);
/* Markup in which each ~ stands for the next argument (const char *), escaped. */
void hr_html_put(FILE *out, const char *markup, ...);

/* Class of the style sheet for a verdict: "good", "root", "detour", "unknown", "bad", "loss". */
const char *hr_html_colour(enum hr_verdict verdict);

/* boot/cmd/topo/page.css and boot/cmd/topo/page.js. */
extern const char hr_page_style[], hr_page_script[];

/*
 * Write the page of --html to a file ("-": standard output), which appears under its name when it is
 * whole; one that exists needs `force`. Returns the exit code of the verdicts, or HR_TOPO_NO_ACCESS,
 * which is told on stderr.
 */
int hr_topo_html(struct hr_topo *t, const char *path, bool force);

#endif
