/*
 * The first process of a machine before its engine: file systems, the console, modules, huge pages. The
 * test plays the kernel: each system call is noted, and fails when a row says so.
 */
#include "boot/appliance/init.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(init_first, .timeout = 60);

static bool plays;	    /* the test is the kernel */
static const char *mounted; /* folders with a file system, with a space after each */
static const char *fails;   /* mounts of these folders fail with EPERM */
static const char *absent;  /* files that open() does not find; with a space after each */
static bool has_console;
static int next_fd;
static pid_t own_pid;

static bool lists(const char *list, const char *path)
{
	char word[128];

	snprintf(word, sizeof word, "%s ", path);
	return list && strstr(list, word);
}

pid_t getpid(void)
{
	return plays ? own_pid : (pid_t)syscall(SYS_getpid);
}

int mkdir(const char *path, mode_t mode)
{
	if (!plays)
		return (int)syscall(SYS_mkdir, path, mode);
	calls_note("mkdir %s %o; ", path, (unsigned)mode);
	errno = EEXIST;
	return -1;
}

int stat(const char *restrict path, struct stat *restrict st)
{
	if (!plays)
		return (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
	if (lists(absent, path)) {
		errno = ENOENT;
		return -1;
	}
	memset(st, 0, sizeof *st);
	st->st_dev = lists(mounted, path) ? 2 : 1;
	return 0;
}

int mount(const char *from, const char *at, const char *type, unsigned long flags, const void *data)
{
	calls_note("mount %s %s %s %lu %s; ", from, at, type, flags,
		   data ? (const char *)data : "-");
	errno = EPERM;
	return lists(fails, at) ? -1 : 0;
}

int fcntl(int fd, int command, ...)
{
	va_list args;
	long argument;

	va_start(args, command);
	argument = va_arg(args, long);
	va_end(args);
	if (!plays)
		return (int)syscall(SYS_fcntl, fd, command, argument);
	calls_note("fcntl %d %d; ", fd, command);
	errno = EBADF;
	return has_console ? 0 : -1;
}

int open(const char *path, int flags, ...)
{
	va_list args;
	unsigned mode;

	va_start(args, flags);
	mode = va_arg(args, unsigned);
	va_end(args);
	if (!plays)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	calls_note("open %s %x; ", path, (unsigned)flags);
	errno = ENOENT;
	return lists(absent, path) ? -1 : next_fd;
}

int dup2(int from, int to)
{
	if (!plays)
		return (int)syscall(SYS_dup2, from, to);
	calls_note("dup2 %d %d; ", from, to);
	return to;
}

int close(int fd)
{
	if (!plays)
		return (int)syscall(SYS_close, fd);
	calls_note("close %d; ", fd);
	return 0;
}

/* The test calls it, too, for what it does not play. */
long syscall(long number, ...)
{
	long (*real)(long number, ...);
	long arg[6];
	va_list args;

	va_start(args, number);
	for (unsigned i = 0; i < ROWS(arg); i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (plays && number == SYS_finit_module) {
		calls_note("load %ld %s %ld; ", arg[0], (const char *)arg[1], arg[2]);
		return 0;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

static void begin_calls(void)
{
	calls_take();
	plays = true;
}

Test(init_first, the_first_process_has_the_number_one)
{
	static const struct {
		pid_t pid;
		bool first;
	} row[] = { { 1, true }, { 2, false }, { 0, false } };

	cr_expect_not(hr_init_is());
	for (size_t i = 0; i < ROWS(row); i++) {
		bool is;

		own_pid = row[i].pid;
		plays = true;
		is = hr_init_is();
		plays = false;
		cr_expect_eq(is, row[i].first, "row %zu", i);
	}
}

#define DEV "mkdir /dev 755; "
#define MOUNT_DEV "mount devtmpfs /dev devtmpfs 2 mode=0755; "
#define SEES "fcntl 2 1; "
#define PROC "mkdir /proc 755; "
#define MOUNT_PROC "mount proc /proc proc 14 -; "
#define SYS "mkdir /sys 755; "
#define MOUNT_SYS "mount sysfs /sys sysfs 14 -; "
#define RUN "mkdir /run 755; "
#define MOUNT_RUN "mount tmpfs /run tmpfs 6 mode=0755; "
#define REST PROC MOUNT_PROC SYS MOUNT_SYS RUN MOUNT_RUN
#define CONSOLE "open /dev/console 102; "
#define EACH(fd) "dup2 " fd " 0; dup2 " fd " 1; dup2 " fd " 2; close " fd "; "

/* Nothing is logged before the console is open. */
Test(init_first, file_systems_and_the_console)
{
	static const struct {
		const char *mounted, *fails, *absent;
		bool console;
		int fd;
		const char *calls;
		unsigned warnings;
		const char *last;
	} row[] = {
		{ "", "", "", true, 0, DEV MOUNT_DEV SEES REST, 0, "" },
		{ "/dev /proc /sys /run ", "", "", true, 0, DEV SEES PROC SYS RUN, 0, "" },
		{ "/proc /run ", "", "", true, 0, DEV MOUNT_DEV SEES PROC SYS MOUNT_SYS RUN, 0,
		  "" },
		{ "", "", "/run ", true, 0, DEV MOUNT_DEV SEES REST, 0, "" },
		{ "/run ", "", "/ ", true, 0, DEV MOUNT_DEV SEES REST, 0, "" },
		{ "", "/proc ", "", true, 0, DEV MOUNT_DEV SEES REST, 1,
		  "/proc cannot be mounted: Operation not permitted" },
		{ "", "/dev /proc /sys /run ", "", true, 0, DEV MOUNT_DEV SEES REST, 4,
		  "/run cannot be mounted: Operation not permitted" },
		{ "", "", "", false, 0, DEV MOUNT_DEV SEES CONSOLE "dup2 0 1; dup2 0 2; " REST, 0,
		  "" },
		{ "", "", "", false, 2, DEV MOUNT_DEV SEES CONSOLE "dup2 2 0; dup2 2 1; " REST, 0,
		  "" },
		{ "", "", "", false, 3, DEV MOUNT_DEV SEES CONSOLE EACH("3") REST, 0, "" },
		{ "", "", "/dev/console ", false, 4,
		  DEV MOUNT_DEV SEES CONSOLE "open /dev/null 2; " EACH("4") REST, 0, "" },
		{ "", "", "/dev/console /dev/null ", false, 4,
		  DEV MOUNT_DEV SEES CONSOLE "open /dev/null 2; " REST, 0, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const unsigned before = fake_log_count();

		hr_log(HR_LOG_WARN, "%s", "");
		mounted = row[i].mounted;
		fails = row[i].fails;
		absent = row[i].absent;
		has_console = row[i].console;
		next_fd = row[i].fd;
		begin_calls();
		hr_init_mount();
		plays = false;
		cr_expect_str_eq(calls_text(), row[i].calls, "row %zu: %s", i, calls_text());
		cr_expect_eq(fake_log_count() - before - 1, row[i].warnings, "row %zu", i);
		cr_expect_eq(fake_log_count(), fake_log_count_of(HR_LOG_WARN));
		cr_expect_str_eq(fake_log_last(), row[i].last, "row %zu: %s", i, fake_log_last());
	}
}

/* ---- modules and huge pages */

static struct {
	int open_error;
	const char *refuses; /* EINVAL for these numbers */
	const char *answer;  /* what the file has then; NULL: what was written */
	char number[64], seen[64];
	size_t at;
} pages;

static ssize_t write_pages(void *cookie, const char *data, size_t bytes)
{
	snprintf(pages.number, sizeof pages.number, "%.*s", (int)bytes, data);
	snprintf(pages.seen, sizeof pages.seen, "%s", pages.number);
	errno = EINVAL;
	return pages.refuses && strcmp(pages.refuses, pages.number) == 0 ? 0 : (ssize_t)bytes;
}

static ssize_t read_pages(void *cookie, char *data, size_t bytes)
{
	const char *from = (pages.answer ? pages.answer : pages.number) + pages.at;
	const size_t n = strlen(from) < bytes ? strlen(from) : bytes;

	memcpy(data, from, n);
	pages.at += n;
	return (ssize_t)n;
}

static int seek_pages(void *cookie, off64_t *offset, int whence)
{
	cr_expect_eq(*offset, 0);
	pages.at = 0;
	return 0;
}

static int close_pages(void *cookie)
{
	calls_note("close; ");
	return 0;
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	static const cookie_io_functions_t file = {
		.read = read_pages, .write = write_pages, .seek = seek_pages, .close = close_pages
	};
	FILE *(*real)(const char *path, const char *mode);

	if (strcmp(path, "/proc/sys/vm/nr_hugepages") != 0) {
		*(void **)&real = dlsym(RTLD_NEXT, "fopen");
		return real(path, mode);
	}
	calls_note("open %s; ", mode);
	errno = pages.open_error;
	return pages.open_error ? NULL : fopencookie(NULL, "r+", file);
}

#define TEXT "/proc/sys/vm/nr_hugepages: "
#define MIB (1ull << 20)

static const struct huge {
	uint64_t bytes;
	int open_error;
	const char *refuses, *answer;
	const char *written, *calls;
	int want;
	const char *text;
} huge[] = {
	{ 2 * MIB, 0, NULL, NULL, "1\n", "open r+e; close; ", 0, "" },
	{ 2 * MIB + 1, 0, NULL, NULL, "2\n", "open r+e; close; ", 0, "" },
	{ 1, 0, NULL, NULL, "1\n", "open r+e; close; ", 0, "" },
	{ 64 * MIB, 0, NULL, "33\n", "32\n", "open r+e; close; ", 0, "" },
	{ 64 * MIB, 0, NULL, "31\n", "32\n", "open r+e; close; ", -ENOMEM,
	  TEXT "the kernel reserved 31 huge pages of 2 MiB, expected 32" },
	{ 64 * MIB, 0, NULL, "none\n", "32\n", "open r+e; close; ", -EIO,
	  TEXT "Input/output error" },
	{ 64 * MIB, 0, NULL, "", "32\n", "open r+e; close; ", -EIO, TEXT "Input/output error" },
	{ 64 * MIB, 0, "32\n", NULL, "32\n", "open r+e; close; ", -EINVAL,
	  TEXT "Invalid argument" },
	{ 64 * MIB, EACCES, NULL, NULL, "", "open r+e; ", -EACCES, TEXT "Permission denied" },
};

static void set_pages(const struct huge *row)
{
	memset(&pages, 0, sizeof pages);
	pages.open_error = row->open_error;
	pages.refuses = row->refuses;
	pages.answer = row->answer;
	calls_take();
}

Test(init_first, huge_pages)
{
	for (size_t i = 0; i < ROWS(huge); i++) {
		const unsigned before = fake_log_count();

		set_pages(&huge[i]);
		cr_expect_eq(hr_init_hugepages(huge[i].bytes), huge[i].want, "row %zu", i);
		cr_expect_str_eq(pages.seen, huge[i].written, "row %zu: %s", i, pages.seen);
		cr_expect_str_eq(calls_text(), huge[i].calls, "row %zu: %s", i, calls_text());
		cr_expect_eq(fake_log_count() - before, huge[i].want ? 1u : 0u, "row %zu", i);
		if (huge[i].want)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), huge[i].text,
					 "row %zu: %s", i, fake_log_last());
	}
}

/* The folder of modules of a kernel that no machine has. */
int uname(struct utsname *name)
{
	memset(name, 0, sizeof *name);
	strcpy(name->release, "no-such-kernel");
	return 0;
}

Test(init_first, the_first_error_is_returned_and_all_is_tried)
{
	static const struct {
		const char *module[3];
		const struct huge *pages; /* NULL: none */
		const char *calls;
		int want;
		unsigned errors, loaded;
		const char *last; /* of the modules that are loaded */
	} row[] = {
		{ { NULL }, NULL, "", 0, 0, 0, "" },
		{ { NULL }, &huge[0], "open r+e; close; ", 0, 0, 0, "" },
		{ { NULL }, &huge[4], "open r+e; close; ", -ENOMEM, 1, 0, "" },
		{ { "none" }, NULL, "", -ENOENT, 1, 0, "" },
		{ { "/a.ko" },
		  NULL,
		  "open /a.ko 80000; load 7 o0 0; close 7; ",
		  0,
		  0,
		  1,
		  "module /a.ko loaded" },
		{ { "/a.ko", "none", "/b.ko" },
		  &huge[4],
		  "open /a.ko 80000; load 7 o0 0; close 7; open /b.ko 80000; load 7 o2 0; close 7; "
		  "open r+e; close; ",
		  -ENOENT,
		  2,
		  2,
		  "module /b.ko loaded" },
		{ { "none", "/absent.ko" },
		  &huge[0],
		  "open /absent.ko 80000; open r+e; close; ",
		  -ENOENT,
		  2,
		  0,
		  "" },
		{ { "/a.ko" },
		  &huge[4],
		  "open /a.ko 80000; load 7 o0 0; close 7; open r+e; close; ",
		  -ENOMEM,
		  1,
		  1,
		  "module /a.ko loaded" },
	};

	next_fd = 7;
	absent = "/absent.ko ";
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_config_boot boot = { .modules = 0 };
		const unsigned errors = fake_log_count_of(HR_LOG_ERROR),
			       loaded = fake_log_count_of(HR_LOG_INFO);
		int err;

		for (; boot.modules < 3 && row[i].module[boot.modules]; boot.modules++) {
			struct hr_config_module *m = &boot.module[boot.modules];

			strcpy(m->name, row[i].module[boot.modules]);
			snprintf(m->options, sizeof m->options, "o%u", boot.modules);
		}
		if (row[i].pages) {
			set_pages(row[i].pages);
			boot.hugepage_bytes = row[i].pages->bytes;
		}
		begin_calls();
		err = hr_init_prepare(&boot);
		plays = false;
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		cr_expect_str_eq(calls_text(), row[i].calls, "row %zu: %s", i, calls_text());
		cr_expect_eq(fake_log_count_of(HR_LOG_ERROR) - errors, row[i].errors, "row %zu: %s",
			     i, fake_log_last());
		cr_expect_eq(fake_log_count_of(HR_LOG_INFO) - loaded, row[i].loaded, "row %zu", i);
		if (row[i].loaded)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), row[i].last, "row %zu", i);
	}
}
