/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/cmd.h - the commands of the command line, and their common parts.
 *
 * A command is a file boot/cmd/NAME.c with a row, or a row of request.c; boot/main.c lists the
 * rows. main handles `--help`; the command parses everything after its name. Results go to stdout,
 * messages and progress to stderr. `--json` prints one object.
 */
#ifndef BOOT_CMD_CMD_H
#define BOOT_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/cmd/report/output.h"
#include "config/base/error.h"
#include "boot/engine/bringup/stages.h"
#include "config/file/file.h"

struct hr_command {
	const char *name;
	const char *summary; /* one line, for the table of `headrace --help` */
	const char *help;    /* text of `headrace NAME --help`, ends with a newline */
	/* argv[0] is the command's name. Returns an enum hr_exit. */
	int (*fn)(int argc, char **argv);
	bool own_help; /* the command has subcommands, and fn handles --help itself */
};

/* Option of all commands that bring up the ssds of a configuration: hr_transport_allow_bind(). */
#define HR_BIND_HELP                                                                         \
	"  --bind         take ssds pci:BDF and vfio:BDF from the kernel's nvme driver, if " \
	"their\n"                                                                            \
	"                 disks are not in use, and give them back at the end\n"

/* Paragraph at the end of every help text. */
#define HR_EXIT_HELP                                                                      \
	"\nExit codes:\n"                                                                 \
	"  0  done\n"                                                                     \
	"  1  failed: interrupted, verification failed, disk full, no such object, ...\n" \
	"  2  wrong usage or configuration\n"                                             \
	"  3  a requirement or device is missing, or access to it is denied\n"            \
	"  4  device error: NVMe status, lost command, controller failed or gone\n"

/* ---- options and the argument of a command, as a table of the variables that they set */

#define HR_OPTIONS_MAX 8u

/* One of the three is not NULL. */
struct hr_option {
	const char *name;   /* without "--"; NULL ends the table */
	bool *flag;	    /* becomes true */
	void (*call)(void); /* is called */
	const char **text;  /* gets the value; the others have no value */
};

/* Report an option that is not in the list, with the one that was probably meant. Returns
 * HR_EXIT_USAGE. */
#define HR_OPTIONS_KNOWN_MAX 48u
#define HR_OPTION_NAME_MAX 64u
struct option;
int hr_option_unknown(const char *command, const char *given, const struct option *list);

/* A decimal number of 1..max. False: the text is none. */
bool hr_option_count(const char *text, unsigned long max, uint32_t *number);

/* Parse "I/N", part I of N: N up to max, I below N. */
bool hr_option_part(const char *text, unsigned long max, uint32_t *index, uint32_t *count);

/* Obey the value of --log: "text", which NULL means, too, or "json" (hr_log_set_json()). 0, or
 * HR_EXIT_USAGE, printed. */
int hr_option_log(const char *command, const char *form);

/* The option, for help texts. */
#define HR_LOG_HELP                                                                                  \
	"  --log FORM     form of messages on stderr: \"text\", or \"json\": one JSON object in a\n" \
	"                 line, with time, level, message, and the pipeline, ssd, gpu or device\n"   \
	"                 that the message names\n"

/*
 * Take the options of argv, whose first word is the name of the command, and at most one further
 * argument, which goes to *argument and is named `what` in errors. -q stands for an option "quiet".
 * 0, or HR_EXIT_USAGE, printed.
 */
int hr_options_parse(int argc, char **argv, const struct hr_option *option, const char *what,
		     const char **argument);

/* ---- loads the configuration of a command: a file, or the embedded default */

/* Configurations that are loaded from now on may have ${rank} and ${local_rank} in device strings. */
void hr_load_set_rank(const struct hr_config_rank *rank);

/*
 * Make an appliance with the configuration read and the log level set; the caller frees it with
 * free(). file NULL: the embedded configuration. pipeline NULL: all pipelines are selected. NULL on
 * error, with everything logged and the exit code in *code.
 */
struct hr_engine *hr_load(const char *file, const char *pipeline, int *code);

/*
 * The same with all pipelines selected, for the supervisor: another process reads the configuration
 * (boot/appliance/supervisor/reader.h), and user operators are not loaded. *last_resort is the
 * value of the configuration, also after mistakes elsewhere in it. It is the default when the
 * configuration gives none or is not readable.
 */
struct hr_engine *hr_load_to_boot(const char *file, enum hr_boot_end *last_resort, int *code);

/* Read a configuration into *config, in this process, and check that an appliance can be made of it;
 * file: const char *, NULL: the built-in one. Errors are logged. Returns as hr_config_read() and
 * hr_engine_init(). */
int hr_load_read(struct hr_config *config, void *file, struct hr_error *e);

#endif
