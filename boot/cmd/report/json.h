/*
 * boot/cmd/report/json.h - the output of commands with --json: one object on stdout with stable
 * fields and units in names. It is written in parts (config/base/json.h). Its first members
 * are `schema` and `version`. A command that fails after the beginning still ends the
 * document; `exit_code` or the findings in it tell the failure. One that fails before prints
 * the document of hr_report_failed().
 */
#ifndef BOOT_CMD_REPORT_JSON_H
#define BOOT_CMD_REPORT_JSON_H

#include <stdbool.h>

#include "config/base/json.h"

/* The options of a command ask for JSON: argv, without the name of the program, up to "--". From then
 * on errors are kept for hr_report_failed(). False: they do not. */
bool hr_report_wants_json(int argc, char **argv);

/* Begin the document "headrace.NAME" of version 1. */
void hr_report_begin(struct hr_json *report, const char *name);

/* Another writer has begun a document, or has printed it: hr_report_failed() prints none. */
void hr_report_begun(void);

/*
 * End the document. Returns code; or `unwritten`, with the reason logged, when stdout was not
 * writable.
 */
int hr_report_end(struct hr_json *report, int code, int unwritten);

/*
 * The command has failed with this exit code: when no document was begun, print "headrace.error" with
 * the errors that were logged, each with `file` and `line` when it names them.
 */
void hr_report_failed(int code);

#endif
