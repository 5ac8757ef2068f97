/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace COMMAND [...]: the table of commands.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "boot/appliance/machine/machine.h"
#include "config/base/process.h"
#include "config/base/text.h"

#define HR_VERSION "0.1.0"

/* The rows, each in boot/cmd/NAME.c, or in boot/cmd/request.c. */
#define ASKING(X) X(status) X(trigger) X(pause) X(resume) X(reload) X(stop)
#define COMMANDS(X) X(topo) X(check) X(run) X(store) X(post) X(bench) X(boot) ASKING(X)

#define DECLARE(name) extern const struct hr_command hr_cmd_##name;
COMMANDS(DECLARE)
#undef DECLARE

static const struct hr_command *const command[] = {
#define ROW(name) &hr_cmd_##name,
	COMMANDS(ROW) NULL
#undef ROW
};

static void print_help(FILE *out)
{
	fputs("usage: headrace COMMAND [ARGUMENTS]\n"
	      "       headrace COMMAND --help\n"
	      "       headrace --version\n\n"
	      "The firmware-like runtime of a storage+GPU appliance: brings up NVMe controllers,\n"
	      "partitions memory statically and runs fixed pipelines whose workers drive the\n"
	      "queues themselves.\n\nCommands:\n",
	      out);
	for (size_t i = 0; command[i]; i++)
		fprintf(out, "  %-8s %s\n", command[i]->name, command[i]->summary);
	fputs(HR_EXIT_HELP, out);
}

static const struct hr_command *find_command(const char *name)
{
	for (size_t i = 0; command[i]; i++)
		if (strcmp(command[i]->name, name) == 0)
			return command[i];
	return NULL;
}

/* Subcommands of store: users often omit `store`. */
static const char *const subcommand[] = { "format", "put", "get",    "ls", "rm",
					  "mv",	    "cp",  "verify", "df", "unlock" };

static const char *find_subcommand(const char *name)
{
	for (size_t i = 0; i < sizeof subcommand / sizeof *subcommand; i++)
		if (strcmp(subcommand[i], name) == 0)
			return subcommand[i];
	return strlen(name) > 3
		       ? hr_nearest(name, subcommand, sizeof subcommand / sizeof *subcommand)
		       : NULL;
}

static int unknown(const char *name)
{
	const char *known[sizeof command / sizeof *command] = { NULL };
	const char *near;
	size_t count = 0;

	for (; command[count]; count++)
		known[count] = command[count]->name;
	near = find_subcommand(name);
	if (near) {
		hr_error("'%s' is not a headrace command; did you mean 'store %s'?", name, near);
	} else {
		near = hr_nearest(name, known, count);
		hr_error("'%s' is not a headrace command%s%s%s", name,
			 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	}
	fputs("Try 'headrace --help'.\n", stderr);
	return HR_EXIT_USAGE;
}

/* Help is asked for anywhere before "--". */
static bool wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

/*
 * When the parent process has closed descriptors 0 to 2, the next open() would return them, and
 * messages would go into a disk image. Open /dev/null for each, with the wrong access, so that reads
 * and writes still fail.
 */
static bool hold_standard(void)
{
	bool held = true;

	for (int fd = 0; held && fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			held = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) == fd ||
			       open("/", O_PATH) == fd;
	return held;
}

/* The first process of a machine opens it itself (boot/appliance/machine/init.c); that of a
 * container has none. */
static bool waits_for_console(int argc, char **argv)
{
	return hr_pid1_is_self() && argc > 1 && strcmp(argv[1], "boot") == 0;
}

/* json: the command line asks for it. */
static int finish_command(int code, bool json)
{
	if (json && code)
		hr_report_failed(code);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fputs("headrace: error: standard output: cannot write\n", stderr);
		return code == HR_EXIT_DONE ? HR_EXIT_FAILED : code;
	}
	return code;
}

int main(int argc, char **argv)
{
	const struct hr_command *found;
	bool json;

	hr_exec_mark();
	signal(SIGCHLD, SIG_DFL); /* ignored by the parent, it would lose the status of children */
	signal(SIGXFSZ, SIG_IGN); /* a file at its limit is an error of the write (EFBIG) */
	/* The kernel passes the unknown words of its command line as arguments to the first process. */
	if (hr_pid1_is_self() && (argc < 2 || (argv[1][0] != '-' && !find_command(argv[1]))))
		return hr_cmd_boot.fn(1, argv);
	if (!waits_for_console(argc, argv) && !hold_standard())
		return HR_EXIT_FAILED;
	if (argc < 2) {
		print_help(stderr);
		return HR_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    (strcmp(argv[1], "help") == 0 && argc == 2)) {
		print_help(stdout);
		return finish_command(HR_EXIT_DONE, false);
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("headrace " HR_VERSION);
		return finish_command(HR_EXIT_DONE, false);
	}
	if (strcmp(argv[1], "help") == 0) {
		found = find_command(argv[2]);
		if (!found)
			return unknown(argv[2]);
		fputs(found->help, stdout);
		return finish_command(HR_EXIT_DONE, false);
	}
	found = find_command(argv[1]);
	json = hr_report_wants_json(argc - 1, argv + 1);
	if (!found)
		return finish_command(unknown(argv[1]), json);
	if (!found->own_help && wants_help(argc - 1, argv + 1)) {
		fputs(found->help, stdout);
		return finish_command(HR_EXIT_DONE, false);
	}
	return finish_command(found->fn(argc - 1, argv + 1), json);
}
