/*
 * boot/cmd/cmd.h - the commands of the command line, and what they have in common.
 *
 * Each command is one file boot/cmd_NAME.c with its row; boot/main.c lists the rows. main handles
 * `--help`; everything else after the name is the command's, to be read with getopt_long().
 * Results go to stdout, messages and progress to stderr. `--json` prints one object.
 */
#ifndef BOOT_CMD_CMD_H
#define BOOT_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>

#include "boot/cmd/report/usage.h"
#include "boot/engine/exit.h"

struct hr_command {
	const char *name;
	const char *summary; /* one line, for the table of `headrace --help` */
	const char *help;    /* the whole text of `headrace NAME --help`, ends in a newline */
	/* argv[0] is the command's name. Returns an enum hr_exit. */
	int (*fn)(int argc, char **argv);
	bool own_help; /* it has subcommands, and fn answers --help itself */
};

/* The option of all commands that bring up the ssds of a configuration: hr_transport_allow_bind(). */
#define HR_BIND_HELP                                                                         \
	"  --bind         take ssds pci:BDF and vfio:BDF from the kernel's nvme driver, if " \
	"nobody\n"                                                                           \
	"                 uses their disks, and give them back at the end\n"

/* Paragraph for the end of every help text. */
#define HR_EXIT_HELP                                                                      \
	"\nExit codes:\n"                                                                 \
	"  0  done\n"                                                                     \
	"  1  failed: interrupted, verification failed, disk full, no such object, ...\n" \
	"  2  wrong usage or configuration\n"                                             \
	"  3  a requirement or device is missing, or access to it is denied\n"            \
	"  4  device error: NVMe status, lost command, controller failed or gone\n"

#endif
