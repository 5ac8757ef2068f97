/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/report/output.h - output for users: files, JSON on stdout, mistakes on the command line.
 */
#ifndef BOOT_CMD_REPORT_OUTPUT_H
#define BOOT_CMD_REPORT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

#include "config/base/json.h"

/* ---- a file that a command writes for its user.
 *
 * A regular file is written under a temporary name in its folder and renamed when all of it is on
 * the disk. Whenever the command ends, FILE is either the old file or the complete new one. Pipes,
 * terminals and block devices are written in place. "-" is standard output.
 */

struct hr_target {
	const char *name; /* for messages; the caller's */
	int fd;		  /* write to it; -1: not open */
	bool force;
	char path[PATH_MAX]; /* of a regular file, links resolved; "": written in place */
	char temporary[PATH_MAX];
};

/*
 * Open the file for writing. An error is logged:
 *   HR_EXIT_USAGE: this process has the file open, as the image of the store that it reads. Links to
 *   the file, block devices that hold it and loop devices over it are refused, too;
 *   HR_EXIT_FAILED: the file or block device exists and force is false; or the system refuses.
 * Returns 0 or that exit code. After an error there is nothing to end.
 */
int hr_target_open(struct hr_target *target, const char *file, bool force);

/*
 * Make the file durable and rename it. 0 or an exit code, with the error logged. Ends the target.
 */
int hr_target_commit(struct hr_target *target);

/* Remove the temporary file; data written in place stays. Ends the target; may be called again. */
void hr_target_discard(struct hr_target *target);

/*
 * True when this process has that file open, or the block device that holds it, or when an open
 * loop device shows it.
 */
struct stat;
bool hr_target_is_ours(int fd, const struct stat *file);

/* ---- the output of commands with --json: one object on stdout with stable
 * fields and units in names. It is written in parts (config/base/json.h). Its first members
 * are `schema` and `version`. A command that fails after the beginning still ends the
 * document; `exit_code` or the findings in it tell the failure. One that fails before prints
 * the document of hr_report_failed().
 */

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

/* ---- reports mistakes on the command line */

/* Print "headrace: NAME: ..." and a hint about --help to stderr. Returns HR_EXIT_USAGE. */
int hr_usage_error(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
