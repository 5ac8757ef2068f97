/* Parts of `headrace boot` that need no machine of their own. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/module.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/clock.h"
#include "boot/appliance/init.h"
#include "boot/appliance/modules.h"
#include "boot/appliance/notify.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

static char folder[64];

static void set_up(void)
{
	snprintf(folder, sizeof folder, "/tmp/headrace-boot-XXXXXX");
	cr_assert(mkdtemp(folder));
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(boot, .init = set_up, .fini = tear_down, .timeout = 60);

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "we");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

/* ---- kernel command line */

Test(boot, options_of_the_kernel_command_line)
{
	static const struct {
		const char *cmdline, *value; /* NULL: there is no value */
	} row[] = {
		{ "quiet headrace.config=/a.conf rw\n", "/a.conf" },
		{ "headrace.config=/a.conf headrace.config=/b.conf", "/b.conf" },
		{ "headrace.config=\n", NULL },
		{ "headrace.configs=/a.conf xheadrace.config=/a.conf", NULL },
		{ "headrace.config", NULL },
		{ "", NULL },
		{ "headrace.config=/0123456789abcdef", NULL }, /* longer than the buffer */
	};
	char value[16];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *got =
			hr_init_option(row[i].cmdline, "headrace.config", value, sizeof value);

		if (row[i].value)
			cr_expect(got && strcmp(got, row[i].value) == 0, "row %zu: %s", i,
				  got ? got : "none");
		else
			cr_expect_null(got, "row %zu", i);
	}
}

/* ---- modules */

static int collect(void *to, const char *file)
{
	strcat(to, file);
	strcat(to, ";");
	return 0;
}

static int refuse(void *to, const char *file)
{
	++*(int *)to;
	return -EPERM;
}

static const char modules_dep[] =
	"kernel/drivers/vfio/vfio.ko.xz:\n"
	"kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/a/vfio-pci-core.ko kernel/b/vfio.ko\n"
	"kernel/drivers/nvme/host/nvme.ko: kernel/drivers/nvme/host/nvme-core.ko\n";

Test(boot, dependencies_of_a_module_come_first)
{
	char files[256] = "";

	write_file("modules.dep", modules_dep);
	cr_assert_eq(hr_module_files(folder, "vfio_pci", collect, files), 0);
	cr_expect_str_eq(files, "kernel/b/vfio.ko;kernel/a/vfio-pci-core.ko;"
				"kernel/drivers/vfio/pci/vfio-pci.ko.xz;");
	*files = '\0';
	cr_assert_eq(hr_module_files(folder, "vfio", collect, files), 0);
	cr_expect_str_eq(files, "kernel/drivers/vfio/vfio.ko.xz;");
}

Test(boot, a_module_that_depmod_does_not_know_is_not_found)
{
	char files[256] = "";

	write_file("modules.dep", modules_dep);
	cr_expect_eq(hr_module_files(folder, "vfi", collect, files), -ENOENT);
	cr_expect_eq(hr_module_files(folder, "nvme-cor", collect, files), -ENOENT);
	cr_expect_str_eq(files, "");
	cr_expect_eq(hr_module_load(folder, "absent", ""), -ENOENT);
	cr_expect(strstr(fake_log_last(), "module absent: not in"), "%s", fake_log_last());
}

Test(boot, a_module_of_the_kernel_itself_is_there_already)
{
	write_file("modules.dep", modules_dep);
	write_file("modules.builtin", "kernel/fs/ext4/ext4.ko\n");
	cr_expect_eq(hr_module_load(folder, "ext4", ""), 0);
}

Test(boot, a_refused_walk_ends_at_the_refusing_module)
{
	int calls = 0;

	write_file("modules.dep", modules_dep);
	cr_expect_eq(hr_module_files(folder, "vfio-pci", refuse, &calls), -EPERM);
	cr_expect_eq(calls, 1);
}

Test(boot, a_file_that_depmod_has_not_written)
{
	char files[64] = "";

	cr_expect_eq(hr_module_files(folder, "vfio", collect, files), -ENOENT);
	write_file("modules.dep", "no colon here\n");
	cr_expect_eq(hr_module_files(folder, "vfio", collect, files), -EINVAL);
	cr_expect_eq(hr_module_load(folder, "vfio", ""), -EINVAL);
	cr_expect(strstr(fake_log_last(), "'FILE: FILES'"), "%s", fake_log_last());
}

Test(boot, a_module_file_that_is_missing_is_named)
{
	write_file("modules.dep", "nowhere/x.ko:\n");
	cr_expect_eq(hr_module_load(folder, "x", ""), -ENOENT);
	cr_expect(strstr(fake_log_last(), "nowhere/x.ko: No such file"), "%s", fake_log_last());
	cr_expect_eq(hr_module_load(folder, "/nowhere/y.ko", ""), -ENOENT);
	cr_expect(strstr(fake_log_last(), "module /nowhere/y.ko"), "%s", fake_log_last());
}

/* A folder is not a module: the kernel reports its own error, and modules.dep is not the cause. */
Test(boot, a_module_that_the_kernel_refuses_is_the_kernels_error)
{
	char path[96];

	write_file("modules.dep", "x.ko:\n");
	snprintf(path, sizeof path, "%s/x.ko", folder);
	cr_assert_eq(mkdir(path, 0755), 0);
	cr_expect_lt(hr_module_load(folder, "x", ""), 0);
	cr_expect(strstr(fake_log_last(), "x.ko: "), "%s", fake_log_last());
	rmdir(path);
}

/* Replaces libc's function for the call that loads a module. */
static struct {
	bool watches;
	int error; /* 0: the call succeeds */
	long flags;
	char options[32];
} loading;

__attribute__((visibility("hidden"))) long syscall(long number, ...)
{
	va_list list;
	long arg[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(list, long);
	va_end(list);
	if (!loading.watches)
		return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(
			number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	cr_assert_eq(number, SYS_finit_module);
	cr_expect_geq(arg[0], 0);
	snprintf(loading.options, sizeof loading.options, "%.31s", (const char *)arg[1]);
	loading.flags = arg[2];
	errno = loading.error ? loading.error : EIO; /* a call that succeeds may change it, too */
	return loading.error ? -1 : 0;
}

Test(boot, the_kernel_unpacks_a_compressed_module)
{
	static const struct {
		const char *file;
		int error;
		long flags;
		int want;
	} row[] = {
		{ "x.ko", 0, 0, 0 },
		{ "x.ko.xz", 0, MODULE_INIT_COMPRESSED_FILE, 0 },
		{ "x.ko", EEXIST, 0, 0 }, /* it is loaded already */
		{ "x.ko", ENOEXEC, 0, -ENOEXEC },
		{ "x.ko.zst", EPERM, MODULE_INIT_COMPRESSED_FILE, -EPERM },
	};

	loading.watches = true;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char line[64];

		snprintf(line, sizeof line, "%s:\n", row[i].file);
		write_file("modules.dep", line);
		write_file(row[i].file, "");
		loading.error = row[i].error;
		loading.flags = -1;
		cr_expect_eq(hr_module_load(folder, "x", "a=1"), row[i].want, "row %zu", i);
		cr_expect_eq(loading.flags, row[i].flags, "row %zu: %ld", i, loading.flags);
		cr_expect_str_eq(loading.options, "a=1");
	}
}

static int not_there(void *to, const char *file)
{
	++*(unsigned *)to;
	return -ENOENT;
}

Test(boot, a_walk_ends_when_the_callback_returns_nonzero)
{
	unsigned calls = 0;

	write_file("modules.dep", "a/x.ko: a/y.ko\nb/x.ko:\n");
	cr_expect_eq(hr_module_files(folder, "x", not_there, &calls), -ENOENT);
	cr_expect_eq(calls, 1);
}

/* ---- service manager */

static int manager(char *path, size_t bytes)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	snprintf(path, bytes, "%s/notify", folder);
	snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", folder);
	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
	return fd;
}

static const char *heard(int fd)
{
	static char text[256];
	ssize_t n = recv(fd, text, sizeof text - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

Test(boot, a_service_manager_is_notified)
{
	char path[128], pid[16];
	int fd = manager(path, sizeof path);
	struct hr_notify notify;

	snprintf(pid, sizeof pid, "%d", getpid());
	setenv("NOTIFY_SOCKET", path, 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
	setenv("WATCHDOG_PID", pid, 1);
	hr_notify_open(&notify);
	cr_expect_null(getenv("NOTIFY_SOCKET"));
	cr_expect_eq(notify.keepalive_ns, HR_NS_PER_S);
	hr_notify_send(&notify, "READY=1\nSTATUS=%s", "running");
	cr_expect_str_eq(heard(fd), "READY=1\nSTATUS=running");
	hr_notify_alive(&notify, 5 * HR_NS_PER_S);
	cr_expect_str_eq(heard(fd), "WATCHDOG=1");
	hr_notify_alive(&notify, 5 * HR_NS_PER_S + 1);
	cr_expect_str_eq(heard(fd), "", "it is not due yet");
	hr_notify_alive(&notify, 6 * HR_NS_PER_S);
	cr_expect_str_eq(heard(fd), "WATCHDOG=1");
	hr_notify_close(&notify);
	close(fd);
}

/* Fill the socket of the manager; returns the number of messages for which it had room. */
static unsigned fill(const char *path)
{
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	unsigned count = 0;

	strcpy(to.sun_path, path);
	while (sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof to) == 1)
		count++;
	cr_assert_eq(errno, EAGAIN);
	close(fd);
	return count;
}

static void empty(int fd, unsigned count)
{
	while (count--)
		cr_expect_str_eq(heard(fd), "x");
	cr_expect_str_eq(heard(fd), "");
}

static void *empty_late(void *of)
{
	const int *const manager_and_count = of;

	hr_wait_ns(20 * HR_NS_PER_MS);
	for (int i = 0; i < manager_and_count[1]; i++)
		heard(manager_and_count[0]);
	return NULL;
}

/* The kernel keeps few messages for a manager that is busy. */
Test(boot, a_service_manager_that_reads_late_gets_all_lines)
{
	char path[128];
	int fd = manager(path, sizeof path), late[2] = { fd, 0 };
	struct hr_notify notify;
	pthread_t thread;
	unsigned count;

	setenv("NOTIFY_SOCKET", path, 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
	unsetenv("WATCHDOG_PID");
	hr_notify_open(&notify);
	count = fill(path);
	hr_notify_send(&notify, "STATUS=%s", "post");
	hr_notify_send(&notify, "READY=1\nSTATUS=%s", "running");
	hr_notify_alive(&notify, 5 * HR_NS_PER_S);
	empty(fd, count);
	hr_notify_alive(&notify, 5 * HR_NS_PER_S);
	cr_expect_str_eq(heard(fd), "STATUS=post\nREADY=1\nSTATUS=running");
	cr_expect_str_eq(heard(fd), "WATCHDOG=1");
	count = fill(path);
	hr_notify_send(&notify, "READY=1");
	for (unsigned i = 0; i < 1000; i++)
		hr_notify_send(&notify, "STATUS=%u", i);
	empty(fd, count);
	hr_notify_send(&notify, "STATUS=%s", "last");
	cr_expect_eq(strncmp(heard(fd), "READY=1\nSTATUS=", 15), 0);
	cr_expect_str_eq(heard(fd), "STATUS=last");
	late[1] = (int)fill(path);
	hr_notify_send(&notify, "STOPPING=1");
	cr_assert_eq(pthread_create(&thread, NULL, empty_late, late), 0);
	hr_notify_close(&notify);
	pthread_join(thread, NULL);
	cr_expect_str_eq(heard(fd), "STOPPING=1");
	close(fd);
}

Test(boot, the_watchdog_of_another_process_is_not_fed)
{
	char path[128];
	int fd = manager(path, sizeof path);
	struct hr_notify notify;

	setenv("NOTIFY_SOCKET", path, 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	hr_notify_open(&notify);
	cr_expect_eq(notify.keepalive_ns, 0u);
	hr_notify_close(&notify);
	close(fd);
}

/* Values of WATCHDOG_USEC that a service manager may set, for any process. */
Test(boot, a_keepalive_is_half_of_the_watchdog_or_none)
{
	static const struct {
		const char *usec; /* NULL: unset */
		uint64_t want;
	} row[] = { { NULL, 0 },
		    { "", 0 },
		    { "0", 0 },
		    { "2", 1000 },
		    { "3", 1500 },
		    { "2s", 0 },
		    { "18446744073709551", 18446744073709551000ull / 2 },
		    { "18446744073709552", 0 } };
	char path[128];
	int fd = manager(path, sizeof path);

	unsetenv("WATCHDOG_PID");
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_notify notify;

		setenv("NOTIFY_SOCKET", path, 1);
		unsetenv("WATCHDOG_USEC");
		if (row[i].usec)
			setenv("WATCHDOG_USEC", row[i].usec, 1);
		hr_notify_open(&notify);
		cr_expect_eq(notify.keepalive_ns, row[i].want, "row %zu", i);
		hr_notify_close(&notify);
	}
	close(fd);
}

Test(boot, no_message_is_sent_without_a_service_manager)
{
	struct hr_notify notify;

	unsetenv("NOTIFY_SOCKET");
	hr_notify_open(&notify);
	cr_expect_eq(notify.fd, -1);
	hr_notify_send(&notify, "READY=1");
	setenv("NOTIFY_SOCKET", "relative/path", 1);
	hr_notify_open(&notify);
	cr_expect_eq(notify.fd, -1);
	cr_expect(strstr(fake_log_last(), "is not a socket address"), "%s", fake_log_last());
}
