/*
 * The last actions of the first process of a machine, and its source of the kernel's command line.
 */
#include "boot/appliance/init.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(init, .timeout = 60);

/* Replaces the C library's reboot(), so that the machine of the test goes on. */
static sigjmp_buf at_end;
static int how;
static unsigned syncs;

int reboot(int wanted)
{
	how = wanted;
	siglongjmp(at_end, 1);
}

void sync(void)
{
	syncs++;
}

static void end(enum hr_boot_end wanted)
{
	how = -1;
	syncs = 0;
	if (!sigsetjmp(at_end, 1))
		hr_init_end(wanted);
}

/* Give the shell this text as its standard input. */
static void give_input(const char *text)
{
	char path[] = "/tmp/headrace-init-XXXXXX";
	const int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	cr_assert_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	unlink(path);
}

Test(init, the_machine_ends_as_configured)
{
	static const struct {
		enum hr_boot_end end;
		const char *name;
		unsigned how;
		bool shell;
	} row[] = {
		{ HR_BOOT_POWEROFF, "poweroff", RB_POWER_OFF, false },
		{ HR_BOOT_REBOOT, "reboot", RB_AUTOBOOT, false },
		{ HR_BOOT_HALT, "halt", RB_HALT_SYSTEM, false },
		{ HR_BOOT_STAY, "stay", RB_POWER_OFF, false },
		{ HR_BOOT_SHELL, "shell", RB_POWER_OFF, true },
	};
	char folder[] = "/tmp/headrace-init-XXXXXX", script[128];

	cr_assert_not_null(mkdtemp(folder));
	snprintf(script, sizeof script, "mkdir %s/shell\n", folder);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char made[64];

		give_input(script);
		end(row[i].end);
		cr_expect_eq(how, (int)row[i].how, "%s", row[i].name);
		cr_expect_eq(syncs, 1u, "%s", row[i].name);
		snprintf(made, sizeof made, "%s/shell", folder);
		cr_expect_eq(rmdir(made) == 0, row[i].shell, "%s", row[i].name);
		cr_expect_str_eq(hr_init_end_name(row[i].end), row[i].name);
	}
	cr_expect_eq(rmdir(folder), 0);
}

Test(init, children_that_have_ended_are_collected)
{
	pid_t child[3];

	for (unsigned i = 0; i < 3; i++) {
		child[i] = fork();
		cr_assert_geq(child[i], 0);
		if (!child[i])
			_exit(0);
	}
	for (unsigned i = 0; i < 3; i++) {
		siginfo_t info;

		/* Ended, but not yet collected. */
		cr_assert_eq(waitid(P_PID, (id_t)child[i], &info, WEXITED | WNOWAIT), 0);
	}
	hr_init_reap(0);
	cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	hr_init_reap(0); /* no children */
}

/* The status of the engine is left for the supervisor. */
Test(init, one_child_is_kept)
{
	siginfo_t info;
	int status;
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (!child)
		_exit(7);
	cr_assert_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	hr_init_reap(child);
	cr_expect_eq(waitpid(child, &status, WNOHANG), child);
	cr_expect_eq(WEXITSTATUS(status), 7);
}

/* The command line of this machine's kernel: the last value of a key counts, as in a given text. */
Test(init, the_command_line_is_that_of_the_kernel)
{
	char text[4096], words[4096], value[4096], want[4096];
	FILE *file = fopen("/proc/cmdline", "re");
	size_t n;

	cr_assert_not_null(file);
	n = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[n] = '\0';
	memcpy(words, text, n + 1);
	cr_expect_null(hr_init_cmdline("headrace.no-such-key", value, sizeof value));
	for (char *save, *word = strtok_r(words, " \n", &save); word;
	     word = strtok_r(NULL, " \n", &save)) {
		const char *found, *same;

		if (!strchr(word, '=') || strchr(word, '"'))
			continue;
		word[strcspn(word, "=")] = '\0';
		found = hr_init_cmdline(word, value, sizeof value);
		same = hr_init_option(text, word, want, sizeof want);
		cr_assert_eq(!found, !same, "%s", word);
		if (found)
			cr_expect_str_eq(found, same);
	}
}
