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

#endif
