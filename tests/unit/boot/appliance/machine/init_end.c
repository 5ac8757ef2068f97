/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last actions of the first process of a machine, and its source of the kernel's command line.
 */
#include "boot/appliance/machine/machine.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "tests/fakes/log.h"

TestSuite(init, .timeout = 60);

/* Replaces the C library's reboot(), so that the machine of the test goes on. */
static sigjmp_buf at_end;
static int how;
static unsigned syncs;

static int refused; /* errno of reboot(); 0: the machine ends */
static unsigned pauses;

int reboot(int wanted)
{
	how = wanted;
	if (!refused)
		siglongjmp(at_end, 1);
	errno = refused;
	return -1;
}

int pause(void)
{
	if (++pauses == 3)
		siglongjmp(at_end, 1);
	return -1;
}

static bool no_fork, no_shell;

pid_t fork(void)
{
	pid_t (*real)(void);

	*(void **)&real = dlsym(RTLD_NEXT, "fork");
	if (!no_fork)
		return real();
	errno = EAGAIN;
	return -1;
}

int execv(const char *path, char *const argv[])
{
	int (*real)(const char *, char *const *);

	*(void **)&real = dlsym(RTLD_NEXT, "execv");
	return no_shell ? -1 : real(path, argv);
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
		hr_pid1_end(wanted);
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
		cr_expect_str_eq(hr_pid1_end_name(row[i].end), row[i].name);
	}
	cr_expect_eq(rmdir(folder), 0);
}

/* The machine ends also without a shell. */
Test(init, a_shell_that_does_not_start)
{
	static const struct {
		bool no_fork, no_shell;
		const char *text;
	} row[] = {
		{ true, false, "cannot start a shell: Resource temporarily unavailable" },
		{ false, true,
		  "cannot start /bin/sh; `make image EXTRA=FOLDER` adds one to an image" },
		{ false, false, NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const unsigned before = fake_log_count();

		no_fork = row[i].no_fork;
		no_shell = row[i].no_shell;
		give_input("exit 3\n");
		end(HR_BOOT_SHELL);
		cr_expect_eq(how, (int)RB_POWER_OFF, "row %zu", i);
		cr_expect_eq(fake_log_count() - before, row[i].text ? 1u : 0u, "row %zu", i);
		if (row[i].text)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), row[i].text, "row %zu: %s",
					 i, fake_log_last());
	}
	no_fork = no_shell = false;
}

/* The first process must not end. */
Test(init, it_sleeps_when_the_kernel_refuses)
{
	static const struct {
		enum hr_boot_end end;
		int error;
		const char *text;
	} row[] = {
		{ HR_BOOT_HALT, EPERM, "the kernel refuses to halt: Operation not permitted" },
		{ HR_BOOT_REBOOT, EINVAL, "the kernel refuses to reboot: Invalid argument" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		refused = row[i].error;
		pauses = 0;
		end(row[i].end);
		cr_expect_eq(pauses, 3u);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), row[i].text, "%s",
				 fake_log_last());
	}
	refused = 0;
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
	hr_pid1_reap();
	cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	hr_pid1_reap(); /* no children */
}

/* The engine, and the reader of a reload: their status is left for the function that started them. */
Test(init, own_children_are_kept)
{
	const int code[] = { 7, 8 };
	pid_t child[2];

	for (unsigned i = 0; i < 2; i++) {
		siginfo_t info;

		child[i] = hr_fork();
		cr_assert_geq(child[i], 0);
		if (!child[i])
			_exit(code[i]);
		cr_assert_eq(waitid(P_PID, (id_t)child[i], &info, WEXITED | WNOWAIT), 0);
	}
	hr_pid1_reap();
	for (unsigned i = 0; i < 2; i++) {
		int status = 0;

		cr_expect(hr_is_child(child[i]));
		cr_expect_eq(hr_kill(child[i], 0), 0);
		cr_expect_eq(hr_wait_child(child[i], &status, WNOHANG), child[i]);
		cr_expect_eq(WEXITSTATUS(status), code[i]);
		cr_expect_not(hr_is_child(child[i]));
		cr_expect_eq(hr_kill(child[i], 0), -ESRCH);
	}
}

/* The kernel's file: what init has written, and the text that the kernel answers; NULL: none is
 * open. */
static char written[32];
static const char *answer;

static ssize_t take_write(void *cookie, const char *text, size_t bytes)
{
	(void)cookie;
	snprintf(written, sizeof written, "%.*s", (int)bytes, text);
	return (ssize_t)bytes;
}

static ssize_t give_answer(void *cookie, char *text, size_t bytes)
{
	const size_t n = strlen(answer) < bytes ? strlen(answer) : bytes;

	(void)cookie;
	memcpy(text, answer, n);
	answer += n;
	return (ssize_t)n;
}

static int seek_begin(void *cookie, off64_t *at, int whence)
{
	(void)cookie, (void)whence;
	*at = 0;
	return 0;
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *);

	*(void **)&real = dlsym(RTLD_NEXT, "fopen");
	if (strcmp(path, "/proc/sys/vm/nr_hugepages") != 0)
		return real(path, mode);
	errno = answer ? EBUSY : EACCES; /* of no meaning after a success */
	return answer ? fopencookie(NULL, "r+",
				    (cookie_io_functions_t){
					    .read = give_answer,
					    .write = take_write,
					    .seek = seek_begin,
				    })
		      : NULL;
}

Test(init, huge_pages_are_those_that_the_kernel_reserves)
{
	static const struct {
		uint64_t bytes;
		const char *written, *answer;
		int err;
	} row[] = {
		{ 6 << 20, "3\n", "3\n", 0 },	  { (6 << 20) + 1, "4\n", "4\n", 0 },
		{ 6 << 20, "3\n", "5\n", 0 },	  { 6 << 20, "3\n", "2\n", -ENOMEM },
		{ 6 << 20, "3\n", "none", -EIO }, { 6 << 20, "", NULL, -EACCES },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const unsigned before = fake_log_count_of(HR_LOG_ERROR);

		written[0] = '\0';
		answer = row[i].answer;
		cr_expect_eq(hr_pid1_hugepages(row[i].bytes), row[i].err, "row %zu", i);
		cr_expect_str_eq(written, row[i].written, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_ERROR) - before, row[i].err != 0, "row %zu",
			     i);
	}
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
	cr_expect_null(hr_pid1_cmdline("headrace.no-such-key", value, sizeof value));
	for (char *save, *word = strtok_r(words, " \n", &save); word;
	     word = strtok_r(NULL, " \n", &save)) {
		const char *found, *same;

		if (!strchr(word, '=') || strchr(word, '"'))
			continue;
		word[strcspn(word, "=")] = '\0';
		found = hr_pid1_cmdline(word, value, sizeof value);
		same = hr_pid1_option(text, word, want, sizeof want);
		cr_assert_eq(!found, !same, "%s", word);
		if (found)
			cr_expect_str_eq(found, same);
	}
}
