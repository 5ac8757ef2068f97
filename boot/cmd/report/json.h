/*
 * boot/cmd/report/json.h - the output of commands with --json: one object on stdout with stable
 * fields and units in names. It is written in parts (config/json.h). A command that fails after the
 * beginning still ends the document; `exit_code` or the findings in it tell the failure.
 */
#ifndef BOOT_CMD_REPORT_JSON_H
#define BOOT_CMD_REPORT_JSON_H

#include "config/json.h"

void hr_report_begin(struct hr_json *report);

/*
 * End the document. Returns code; or `unwritten`, with the reason logged, when stdout was not
 * writable.
 */
int hr_report_end(struct hr_json *report, int code, int unwritten);

#endif
