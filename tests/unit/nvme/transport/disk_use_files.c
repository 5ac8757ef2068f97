/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Use of a disk by others, file by file: each user of a disk or of its partition, its neighbours that
 * use another disk, and the text that names it. Files of the kernel come from a folder of the test,
 * in which a file "bMAJOR:MINOR" stands for a block device.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "nvme/transport/disk_use.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define DISK "/sys/class/block/nvme5n1"
#define PART "/sys/class/block/nvme5n1p1"

static char root[64];
static struct {
	bool on;
	const char *path; /* this call fails: open() of a device, or opendir() of a folder */
	int error;
	unsigned opens; /* of devices */
} kernel;

/* The path in the test's folder. */
static const char *rooted(const char *path, char to[PATH_MAX])
{
	if (!kernel.on || path[0] != '/')
		return path;
	snprintf(to, PATH_MAX, "%s%s", root, path);
	return to;
}

#define REAL(type, name) \
	static type;     \
	if (!real)       \
	*(void **)&real = dlsym(RTLD_NEXT, name)

FILE *fopen(const char *path, const char *mode)
{
	char to[PATH_MAX];
	REAL(FILE * (*real)(const char *, const char *), "fopen");

	return real(rooted(path, to), mode);
}

DIR *opendir(const char *path)
{
	char to[PATH_MAX];
	REAL(DIR * (*real)(const char *), "opendir");

	if (kernel.on && kernel.path && strcmp(path, kernel.path) == 0) {
		errno = kernel.error;
		return NULL;
	}
	return real(rooted(path, to));
}

int access(const char *path, int mode)
{
	char to[PATH_MAX];

	return (int)syscall(SYS_access, rooted(path, to), mode);
}

int stat(const char *path, struct stat *st)
{
	char to[PATH_MAX], text[32] = "";
	unsigned major, minor;
	FILE *file;

	if (fstatat(AT_FDCWD, rooted(path, to), st, 0) != 0)
		return -1;
	file = kernel.on && S_ISREG(st->st_mode) ? fopen(path, "re") : NULL;
	if (file && fgets(text, sizeof text, file) && sscanf(text, "b%u:%u", &major, &minor) == 2) {
		st->st_mode = S_IFBLK | 0600;
		st->st_rdev = makedev(major, minor);
	} else if (text[0] == 'r') { /* "rMAJOR:MINOR": another kind of file with that number */
		sscanf(text, "r%u:%u", &major, &minor);
		st->st_rdev = makedev(major, minor);
	}
	if (file)
		fclose(file);
	return 0;
}

int open(const char *path, int flags, ...)
{
	char to[PATH_MAX];
	va_list list;
	int mode;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, int) : 0;
	va_end(list);
	if (kernel.on) {
		cr_expect_eq(flags, O_RDONLY | O_EXCL | O_CLOEXEC);
		kernel.opens++;
	}
	if (kernel.on && kernel.path && strcmp(path, kernel.path) == 0) {
		errno = kernel.error;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, rooted(path, to), flags, mode);
}

/* ---- the test's folder */

static void make_folders(char *path)
{
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		cr_assert(mkdir(path, 0755) == 0 || errno == EEXIST, "%s", path);
		*at = '/';
	}
}

/* A file, or with a path that ends in a slash, a folder. */
static void make(const char *path, const char *text)
{
	char to[PATH_MAX];
	FILE *file;

	snprintf(to, sizeof to, "%s%s", root, path);
	make_folders(to);
	if (path[strlen(path) - 1] == '/')
		return;
	file = fopen(to, "we");
	cr_assert(file && fputs(text, file) >= 0, "%s", to);
	fclose(file);
}

static void start(void)
{
	static const char *const file[][2] = {
		{ DISK "/dev", "259:5\n" },
		{ DISK "/holders/", NULL },
		{ DISK "/nvme5n1p1/partition", "1\n" },
		{ DISK "/queue/depth", "1\n" }, /* no partition */
		{ PART "/dev", "259:6\n" },
		{ PART "/partition", "1\n" },
		{ PART "/holders/", NULL },
		{ "/sys/class/block/sda/dev", "8:0\n" },
		{ "/dev/nvme5n1", "b259:5" },
		{ "/dev/nvme5n1p1", "b259:6" },
		{ "/dev/other", "b8:5" },
		{ "/dev/near", "b259:7" },
		{ "/dev/file", "r259:5" },
		{ "/proc/self/mountinfo", "20 1 8:5 / / rw - ext4 /dev/sda rw\n"
					  "21 1 259:4 / /near rw - ext4 /dev/x rw\n" },
		{ "/proc/swaps", "Filename Type Size\n/dev/other partition 1 0 -2\n"
				 "/dev/near partition 1 0 -2\nnvme5n1 file 1 0 -2\n"
				 "/dev/file file 1 0 -2\n/dev/gone partition 1 0 -2\n" },
		{ "/proc/5/fd/0", "r259:5" },
		{ "/proc/5/fd/1", "b259:7" },
		{ "/proc/5/comm", "init\n" },
		{ "/proc/tty/fd/0", "b259:5" }, /* not a process */
		{ "/proc/-1/fd/0", "b259:5" },
		{ "/proc/:/fd/0", "b259:5" },
		{ "/proc/uptime", "1\n" },
	};

	snprintf(root, sizeof root, "/tmp/headrace-inuse-XXXXXX");
	cr_assert_not_null(mkdtemp(root));
	memset(&kernel, 0, sizeof kernel);
	for (size_t i = 0; i < ROWS(file); i++)
		make(file[i][0], file[i][1]);
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -r %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(inuse_files, .timeout = 60);

static unsigned open_files(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void expect(const char *name, int want, const char *says, size_t row)
{
	const unsigned before = open_files();
	int err;

	kernel.on = true;
	err = hr_disk_check_unused(name, test_error());
	kernel.on = false;
	cr_expect_eq(err, want, "row %zu: %d", row, err);
	cr_expect_str_eq(test_error_text(), says, "row %zu: %s", row, test_error_text());
	cr_expect_eq(test_error_kind(),
		     want == -EMFILE ? HR_ERROR_FAILED
		     : want	     ? HR_ERROR_MISSING
				     : HR_ERROR_NONE,
		     "row %zu", row);
	cr_expect_eq(open_files(), before, "row %zu: files are left open", row);
}

#define TARGET "/sys/kernel/config/nvmet/subsystems/"
#define LOOP "/sys/class/block/"

/* Files that are added, of which the last one decides. */
struct user {
	const char *file[4][2];
	const char *says; /* NULL: nothing uses the disk */
};

Test(inuse_files, each_user_is_found_and_named)
{
	static const struct user row[] = {
		{ { { NULL } }, NULL },
		{ { { DISK "/holders/dm-0", "" } }, "nvme5n1 is part of dm-0" },
		{ { { PART "/holders/md7", "" } }, "nvme5n1p1 is part of md7" },
		{ { { DISK "/holders/.hidden", "" } }, NULL },
		{ { { "/proc/self/mountinfo",
		      "20 1 8:5 / / rw\n21 1 259:5 / /data/a rw - ext4 /dev/x rw\n" } },
		  "nvme5n1 is mounted on /data/a" },
		{ { { "/proc/self/mountinfo", "20 1 259:6 /b /c rw\n" } },
		  "nvme5n1p1 is mounted on /c" },
		{ { { "/proc/self/mountinfo", "20 1 259:5 /b\n20 1 258:5 / /c\n" } }, NULL },
		{ { { "/proc/swaps", "Filename\n/dev/other x\n/dev/nvme5n1p1 partition 1\n" } },
		  "nvme5n1p1 is used as swap" },
		/* loop devices */
		{ { { LOOP "loop0/loop/backing_file", "/dev/other\n" },
		    { LOOP "loop1/loop/backing_file", "/dev/nvme5n1\n" } },
		  "nvme5n1 is part of loop1" },
		{ { { LOOP "loop0/loop/backing_file", "/dev/file\n" },
		    { LOOP "loop1/loop/backing_file", "" },
		    { LOOP "loop2/loop/backing_file", "/dev/near\n" } },
		  NULL },
		/* exports */
		{ { { TARGET "nqn.a/namespaces/1/enable", "1\n" },
		    { TARGET "nqn.a/namespaces/1/device_path", "/dev/other\n" },
		    { TARGET "nqn.b/namespaces/12/enable", "1\n" },
		    { TARGET "nqn.b/namespaces/12/device_path", "/dev/nvme5n1p1\n" } },
		  "nvme5n1p1 is exported by nvmet, in nqn.b" },
		{ { { TARGET "nqn.a/namespaces/1/enable", "0\n" },
		    { TARGET "nqn.a/namespaces/1/device_path", "/dev/nvme5n1\n" },
		    { TARGET "nqn.b/namespaces/2/device_path", "/dev/nvme5n1\n" } },
		  NULL },
		/* processes */
		{ { { "/proc/12/fd/3", "b259:5" }, { "/proc/12/comm", "postgres\n" } },
		  "nvme5n1 is open in process 12 (postgres)" },
		{ { { "/proc/98/fd/10", "b259:6" }, { "/proc/98/fd/9", "b259:7" } },
		  "nvme5n1p1 is open in process 98 (?)" },
		{ { { "/proc/12/fd/3", "b259:5" }, { "/proc/12/comm", "" } },
		  "nvme5n1 is open in process 12 ()" },
		/* the first of several users is named */
		{ { { "/proc/12/fd/3", "b259:5" },
		    { "/proc/swaps", "/dev/nvme5n1 partition\n" },
		    { DISK "/holders/dm-0", "" } },
		  "nvme5n1 is part of dm-0" },
		{ { { "/proc/12/fd/3", "b259:5" },
		    { LOOP "loop1/loop/backing_file", "/dev/nvme5n1" },
		    { "/proc/swaps", "/dev/nvme5n1 partition\n" } },
		  "nvme5n1 is used as swap" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		start();
		for (size_t k = 0; k < 4 && row[i].file[k][0]; k++)
			make(row[i].file[k][0], row[i].file[k][1]);
		expect("nvme5n1", row[i].says ? -EBUSY : 0, row[i].says ? row[i].says : "", i);
		end();
	}
}

/* Partitions come before the disk. */
Test(inuse_files, a_call_that_fails_tells_what_is_unknown)
{
	static const struct {
		const char *path;
		int error, want;
		unsigned opens; /* with that one */
		const char *says;
	} row[] = {
		{ "/dev/nvme5n1", EBUSY, -EBUSY, 2,
		  "/dev/nvme5n1: the kernel uses it (md, dm, a mount of another namespace)" },
		{ "/dev/nvme5n1p1", EBUSY, -EBUSY, 1,
		  "/dev/nvme5n1p1: the kernel uses it (md, dm, a mount of another namespace)" },
		{ "/dev/nvme5n1", ENXIO, 0, 2, "" },
		{ "/dev/nvme5n1", ENOMEDIUM, 0, 2, "" },
		{ "/dev/nvme5n1", EACCES, -EACCES, 2, "/dev/nvme5n1: Permission denied" },
		{ "/dev/nvme5n1", EIO, -EIO, 2, "/dev/nvme5n1: Input/output error" },
		{ "/dev/nvme5n1", EPERM, -EPERM, 2, "/dev/nvme5n1: Operation not permitted" },
		{ DISK "/holders", EMFILE, -EMFILE, 1,
		  "the users of nvme5n1 cannot be listed: Too many open files" },
		{ DISK, EIO, -EIO, 0,
		  "the partitions of nvme5n1 cannot be listed: Input/output error" },
		{ "/sys/class/block", ENOMEM, -ENOMEM, 0,
		  "the users of nvme5n1p1 cannot be listed: Cannot allocate memory" },
		{ "/proc", EMFILE, -EMFILE, 1,
		  "the users of nvme5n1p1 cannot be listed: Too many open files" },
		{ "/proc/5/fd", ENOMEM, -ENOMEM, 1,
		  "nvme5n1p1 may be open in process 5, whose files this user cannot list: Cannot "
		  "allocate memory" },
		{ DISK "/holders", EACCES, -EACCES, 1,
		  "the users of nvme5n1 cannot be listed: run as root" },
		{ PART "/holders", EPERM, -EPERM, 0,
		  "the users of nvme5n1p1 cannot be listed: run as root" },
		{ DISK "/holders", ENOENT, 0, 2, "" },
		{ "/sys/kernel/config/nvmet/subsystems", EACCES, -EACCES, 0,
		  "the users of nvme5n1p1 cannot be listed: run as root" },
		{ "/proc/5/fd", EACCES, -EACCES, 1,
		  "nvme5n1p1 may be open in process 5, whose files this user cannot list: run as "
		  "root" },
		{ "/proc/5/fd", ENOENT, 0, 2, "" }, /* it has ended */
	};

	start();
	for (size_t i = 0; i < ROWS(row); i++) {
		kernel.path = row[i].path;
		kernel.error = row[i].error;
		kernel.opens = 0;
		expect("nvme5n1", row[i].want, row[i].says, i);
		cr_expect_eq(kernel.opens, row[i].opens, "row %zu: %u", i, kernel.opens);
	}
	end();
}

Test(inuse_files, a_device_that_is_not_there_has_unknown_users)
{
	static const struct {
		const char *name, *file, *text;
		int want;
		const char *says;
	} row[] = {
		{ "nvme5n1", "/dev/nvme5n1", "b259:4", -ENODEV,
		  "/dev/nvme5n1 is not there, so the users of the disk cannot be found" },
		{ "nvme5n1", "/dev/nvme5n1", "r259:5", -ENODEV,
		  "/dev/nvme5n1 is not there, so the users of the disk cannot be found" },
		{ "gone", "/sys/class/block/gone/dev", "259:9\n", -ENODEV,
		  "/dev/gone is not there, so the users of the disk cannot be found" },
		{ "nvme5n1", DISK "/dev", "", -ENOENT, "nvme5n1 is not a block device" },
		{ "nvme5n1", DISK "/dev", "259\n", -ENOENT, "nvme5n1 is not a block device" },
		{ "nvme5n1", PART "/dev", "x:1\n", -ENOENT, "nvme5n1p1 is not a block device" },
		{ "absent", "/dev/absent", "b1:1", -ENOENT, "absent is not a block device" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		start();
		make(row[i].file, row[i].text);
		expect(row[i].name, row[i].want, row[i].says, i);
		end();
	}
	start(); /* the kernel replaces slashes in names */
	make("/sys/class/block/cciss!c0!d0/dev", "104:1\n");
	make("/dev/cciss/c0/d0", "b104:1");
	expect("cciss!c0!d0", 0, "", 0);
	cr_expect_eq(kernel.opens, 1u);
	end();
}
