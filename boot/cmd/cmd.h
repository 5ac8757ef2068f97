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

/* Exit codes, the same for every command (topo has its own, documented there). */
enum hr_exit {
	HR_EXIT_DONE = 0,
	HR_EXIT_FAILED = 1,  /* not done: interrupted, wrong data, disk full, ... */
	HR_EXIT_USAGE = 2,   /* command line or configuration */
	HR_EXIT_MISSING = 3, /* a requirement or a device is missing */
	HR_EXIT_DEVICE = 4,  /* a device failed: NVMe status, lost command, gone */
};

struct hr_command {
	const char *name;
	const char *summary; /* one line, for the table of `headrace --help` */
	const char *help;    /* the whole text of `headrace NAME --help`, ends in a newline */
	/* argv[0] is the command's name. Returns an enum hr_exit. */
	int (*fn)(int argc, char **argv);
	bool own_help; /* it has subcommands, and fn answers --help itself */
};

/*
 * Exit code of a call's return value: 0; > 0 (NVMe status), lost, broken, failed device:
 * HR_EXIT_DEVICE; no such device, file or permission, or not supported: HR_EXIT_MISSING; -EINVAL:
 * HR_EXIT_USAGE; everything else HR_EXIT_FAILED.
 */
int hr_exit_code(int error);

/* The same for a device that was up: one that is gone now has failed, and is not missing. */
int hr_exit_code_up(int error);

/* "headrace: NAME: ..." and where help is, to stderr. Returns HR_EXIT_USAGE. */
int hr_usage_error(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

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
