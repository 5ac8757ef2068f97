/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/machine/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/base/seam.h"

#define HUGE_PAGE (2ull << 20)
#define CMDLINE_BYTES 4096u

bool hr_pid1_is_self(void)
{
	return getpid() == 1;
}

/* Open descriptors 0 to 2; the kernel leaves them closed when the initramfs has no /dev/console. */
static void open_console(void)
{
	int fd;

	if (fcntl(STDERR_FILENO, F_GETFD) != -1)
		return;
	fd = open("/dev/console", O_RDWR | O_NOCTTY);
	if (fd < 0)
		fd = open("/dev/null", O_RDWR);
	for (int to = 0; fd >= 0 && to < 3; to++)
		if (fd != to)
			dup2(fd, to);
	if (fd > 2)
		close(fd);
}

/* True when a file system is mounted there: the folder and its parent are on different devices. */
static bool is_mounted(const char *at)
{
	struct stat root, st;

	return stat("/", &root) == 0 && stat(at, &st) == 0 && st.st_dev != root.st_dev;
}

void hr_pid1_mount(void)
{
	static const struct {
		const char *type, *at, *data;
		unsigned long flags;
	} file_system[] = {
		{ "devtmpfs", "/dev", "mode=0755", MS_NOSUID },
		{ "proc", "/proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "sysfs", "/sys", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "tmpfs", "/run", "mode=0755", MS_NOSUID | MS_NODEV },
	};
	int failed[4] = { 0 };

	for (size_t i = 0; i < 4; i++) {
		mkdir(file_system[i].at, 0755);
		if (!is_mounted(file_system[i].at) &&
		    mount(file_system[i].type, file_system[i].at, file_system[i].type,
			  file_system[i].flags, file_system[i].data) != 0)
			failed[i] = errno;
		if (i == 0)
			open_console();
	}
	for (size_t i = 0; i < 4; i++)
		if (failed[i])
			hr_warn("%s cannot be mounted: %s", file_system[i].at, strerror(failed[i]));
}

const char *hr_pid1_option(const char *cmdline, const char *key, char *value, size_t bytes)
{
	const size_t length = strlen(key);
	const char *found = NULL;

	for (const char *word = cmdline; *word; word += strcspn(word, " \n")) {
		word += strspn(word, " \n");
		if (strncmp(word, key, length) == 0 && word[length] == '=')
			found = word + length + 1;
	}
	if (!found || strcspn(found, " \n") == 0 || strcspn(found, " \n") >= bytes)
		return NULL;
	snprintf(value, bytes, "%.*s", (int)strcspn(found, " \n"), found);
	return value;
}

const char *hr_pid1_cmdline(const char *key, char *value, size_t bytes)
{
	char cmdline[CMDLINE_BYTES] = "";
	const int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? 0 : read(fd, cmdline, sizeof cmdline - 1);

	if (fd >= 0)
		close(fd);
	cmdline[n > 0 ? n : 0] = '\0';
	return hr_pid1_option(cmdline, key, value, bytes);
}

int hr_pid1_hugepages(uint64_t bytes)
{
	static const char path[] = "/proc/sys/vm/nr_hugepages";
	const unsigned long long want = (bytes + HUGE_PAGE - 1) / HUGE_PAGE;
	unsigned long long got = 0;
	FILE *file = fopen(path, "r+e");
	int err = 0;

	if (!file || fprintf(file, "%llu\n", want) < 0 || fflush(file) != 0)
		err = -errno;
	if (!err) {
		rewind(file);
		if (fscanf(file, "%llu", &got) != 1)
			err = -EIO;
	}
	if (file)
		fclose(file);
	if (err)
		hr_error("%s: %s", path, strerror(-err));
	else if (got < want)
		hr_error("%s: the kernel reserved %llu huge pages of 2 MiB, expected %llu", path,
			 got, want);
	return !err && got < want ? -ENOMEM : err;
}

int hr_pid1_prepare(const struct hr_config_boot *boot)
{
	char folder[512];
	int first = 0;

	hr_module_folder(folder, sizeof folder);
	for (uint32_t i = 0; i < boot->modules; i++) {
		int err = hr_module_load(folder, boot->module[i].name, boot->module[i].options);

		if (!err)
			hr_info("module %s loaded", boot->module[i].name);
		if (!first)
			first = err;
	}
	if (boot->hugepage_bytes) {
		int err = hr_pid1_hugepages(boot->hugepage_bytes);

		if (!first)
			first = err;
	}
	return first;
}

void hr_pid1_reap(void)
{
	siginfo_t ended = { .si_pid = 0 };

	while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid &&
	       !hr_is_child(ended.si_pid) && hr_wait_child(ended.si_pid, NULL, WNOHANG) > 0)
		ended.si_pid = 0;
}

/* Run a shell on the console, and wait for its end. */
static void run_shell(void)
{
	static char sh[] = "sh";
	static char *const argv[] = { sh, NULL };
	const pid_t child = hr_fork();
	int status = 0;
	pid_t ended;

	if (child == 0) {
		setsid();
		execv("/bin/sh", argv);
		_exit(127);
	}
	if (child < 0) {
		hr_error("cannot start a shell: %s", strerror(-child));
		return;
	}
	/* Orphans become children of the first process and are collected here, too. */
	do
		ended = hr_wait_child(-1, &status, 0);
	while (ended != child && ended > 0);
	if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 127)
		hr_error("cannot start /bin/sh; `make image EXTRA=FOLDER` adds one to an image");
}

void hr_pid1_end(enum hr_boot_end end)
{
	static const unsigned how[] = { [HR_BOOT_POWEROFF] = RB_POWER_OFF,
					[HR_BOOT_REBOOT] = RB_AUTOBOOT,
					[HR_BOOT_HALT] = RB_HALT_SYSTEM,
					[HR_BOOT_STAY] = RB_POWER_OFF,
					[HR_BOOT_SHELL] = RB_POWER_OFF };

	if (end == HR_BOOT_SHELL)
		run_shell();
	sync();
	reboot((int)how[end]);
	hr_error("the kernel refuses to %s: %s", hr_pid1_end_name(end), strerror(errno));
	for (;;)
		pause();
}

const char *hr_pid1_end_name(enum hr_boot_end end)
{
	static const char *const name[] = { "poweroff", "reboot", "halt", "stay", "shell" };

	return name[end];
}
