/*
 * boot/cmd/cmd.h - the commands of the command line, and their common parts.
 *
 * Each command is one file boot/cmd/NAME.c with a row; boot/main.c lists the rows. main handles
 * `--help`; the command parses everything after its name (boot/cmd/options.h). Results go to stdout,
 * messages and progress to stderr. `--json` prints one object.
 */
#ifndef BOOT_CMD_CMD_H
#define BOOT_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>

#include "boot/cmd/report/usage.h"
#include "config/base/exit.h"

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

#endif
