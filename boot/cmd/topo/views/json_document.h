/*
 * boot/cmd/topo/views/json_document.h - the documents of `topo --json`.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_JSON_DOCUMENT_H
#define BOOT_CMD_TOPO_VIEWS_JSON_DOCUMENT_H

#include "boot/cmd/topo/topo.h"

/*
 * Print the document of the verdicts. code: the exit code of the command. Returns code, or
 * HR_TOPO_NO_ACCESS with the reason printed.
 */
int hr_topo_json(struct hr_topo *t, int code);

/* The same for --explain of one pair, and for the table of rules. The exit code is that of the pair, or
 * 0. */
int hr_topo_json_explain(const struct hr_topo *t, const struct hr_pair *p);
int hr_topo_json_rules(const struct hr_topo *t);

#endif
