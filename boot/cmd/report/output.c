/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/report/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "config/base/error.h"
#include "config/base/log.h"

static int fail_target(const struct hr_target *target, const char *what)
{
	hr_error("%s: %s: %s", target->name, what, strerror(errno));
	return HR_EXIT_FAILED;
}

/* ---- open files of this process */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* True when the loop device shows that file; the kernel reports the file's device and inode. */
static bool is_loop_over(int loop, const struct stat *image)
{
	struct loop_info64 info;
	uint64_t device;

	if (ioctl(loop, LOOP_GET_STATUS64, &info) != 0)
		return false;
	device = makedev((unsigned)(info.lo_device & 0xfff00) >> 8,
			 (unsigned)((info.lo_device & 0xff) | ((info.lo_device >> 12) & 0xfff00)));
	return device == image->st_dev && info.lo_inode == image->st_ino;
}

/*
 * True when the block device holds the file: it is the device, or contains the file system of the
 * file.
 */
static bool is_disk_of(int fd, const struct stat *device, const struct stat *image)
{
	if (S_ISBLK(image->st_mode))
		return device->st_rdev == image->st_rdev;
	return S_ISREG(image->st_mode) &&
	       (device->st_rdev == image->st_dev || is_loop_over(fd, image));
}

static bool is_same(int fd, const struct stat *file, const struct stat *open_file)
{
	if (S_ISBLK(file->st_mode))
		return is_disk_of(fd, file, open_file);
	return S_ISREG(file->st_mode) && same_file(file, open_file);
}

bool hr_target_is_ours(int fd, const struct stat *file)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	bool ours = false;

	while (folder && !ours && (entry = readdir(folder))) {
		const int other = atoi(entry->d_name);
		struct stat st;

		if (other <= STDERR_FILENO || other == fd || other == dirfd(folder))
			continue;
		ours = fstat(other, &st) == 0 && is_same(fd, file, &st);
	}
	if (folder)
		closedir(folder);
	return ours;
}

static int refuse_ours(const struct hr_target *target)
{
	hr_error("%s: is or contains the store that this command reads; expected another file",
		 target->name);
	return HR_EXIT_USAGE;
}

/* ---- opening */

static int open_standard_output(struct hr_target *target)
{
	struct stat st;

	target->name = "standard output";
	target->fd = STDOUT_FILENO;
	if (fstat(STDOUT_FILENO, &st) != 0)
		return fail_target(target, "cannot write");
	return hr_target_is_ours(STDOUT_FILENO, &st) ? refuse_ours(target) : 0;
}

/*
 * A block device is opened exclusively: the kernel refuses a device that is mounted or in use, or
 * that has such a partition.
 */
static int open_in_place(struct hr_target *target, const char *file, const struct stat *st)
{
	const bool block = S_ISBLK(st->st_mode);
	struct stat now;

	if (S_ISDIR(st->st_mode)) {
		errno = EISDIR;
		return fail_target(target, "cannot write");
	}
	if (block && !target->force) {
		hr_error("%s: is a block device; --force overwrites it", target->name);
		return HR_EXIT_FAILED;
	}
	target->fd = open(file, O_WRONLY | O_CLOEXEC | O_NOCTTY | (block ? O_EXCL : 0));
	if (target->fd < 0 || fstat(target->fd, &now) != 0)
		return fail_target(target, "cannot write");
	return hr_target_is_ours(target->fd, &now) ? refuse_ours(target) : 0;
}

/*
 * Set target->path to the file behind all links. For a new file: the folder's path and the file's
 * name.
 */
static int resolve_target(struct hr_target *target, const char *file, bool exists)
{
	const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
	char *folder, *real;
	int n;

	if (!*base) {
		errno = EISDIR;
		return fail_target(target, "cannot create");
	}
	folder = slash ? strndup(file, (size_t)(slash - file) + 1) : strdup(".");
	real = exists ? realpath(file, NULL) : folder ? realpath(folder, NULL) : NULL;
	free(folder);
	if (!real)
		return fail_target(target, "cannot create");
	n = exists ? snprintf(target->path, sizeof target->path, "%s", real)
		   : snprintf(target->path, sizeof target->path, "%s/%s", real, base);
	free(real);
	if (n < 0 || n >= PATH_MAX - 16) {
		errno = ENAMETOOLONG;
		return fail_target(target, "cannot create");
	}
	return 0;
}

static mode_t usual_mode(void)
{
	const mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

/* Cut the name when the folder does not accept it with the suffix. */
static int open_temporary(struct hr_target *target, const struct stat *old)
{
	const char *base = strrchr(target->path, '/') + 1;
	int n = snprintf(target->temporary, sizeof target->temporary, "%.*s.%.200s.XXXXXX",
			 (int)(base - target->path), target->path, base);

	if (n < 0 || (size_t)n >= sizeof target->temporary) {
		errno = ENAMETOOLONG;
		return fail_target(target, "cannot create");
	}
	target->fd = mkostemp(target->temporary, O_CLOEXEC);
	if (target->fd < 0) {
		target->temporary[0] = '\0';
		return fail_target(target, "cannot create a temporary file beside it");
	}
	if (fchmod(target->fd, old ? old->st_mode & 07777 : usual_mode()) != 0)
		return fail_target(target, "cannot set the mode of the file");
	if (old && fchown(target->fd, old->st_uid, old->st_gid) != 0)
		hr_warn("%s: the new file belongs to the user that runs this: %s", target->name,
			strerror(errno));
	return 0;
}

static int open_file(struct hr_target *target, const char *file)
{
	struct stat st, link;
	const bool exists = stat(file, &st) == 0;
	int code;

	if (!exists && errno == ENOENT && lstat(file, &link) == 0) {
		hr_error("%s: is a link to a file that does not exist; remove the link first",
			 target->name);
		return HR_EXIT_FAILED;
	}
	if (!exists && errno != ENOENT)
		return fail_target(target, "cannot create");
	if (exists && !S_ISREG(st.st_mode))
		return open_in_place(target, file, &st);
	if (exists && hr_target_is_ours(-1, &st))
		return refuse_ours(target);
	if (exists && !target->force) {
		hr_error("%s: exists already; --force overwrites it", target->name);
		return HR_EXIT_FAILED;
	}
	code = resolve_target(target, file, exists);
	return code ? code : open_temporary(target, exists ? &st : NULL);
}

int hr_target_open(struct hr_target *target, const char *file, bool force)
{
	int code;

	*target = (struct hr_target){ .name = file, .fd = -1, .force = force };
	code = strcmp(file, "-") == 0 ? open_standard_output(target) : open_file(target, file);
	if (code)
		hr_target_discard(target);
	return code;
}

/* ---- ending */

/*
 * Without force the name must still be free. On a file system without RENAME_NOREPLACE a check
 * before the rename must suffice.
 */
static int rename_target(const struct hr_target *target)
{
	if (target->force)
		return rename(target->temporary, target->path);
	if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (access(target->path, F_OK) == 0) {
		errno = EEXIST;
		return -1;
	}
	return rename(target->temporary, target->path);
}

/* Flush the folder, which holds the new name, if the system allows it. */
static void sync_folder(const struct hr_target *target)
{
	char folder[PATH_MAX];
	int fd;

	snprintf(folder, sizeof folder, "%s", target->path);
	strrchr(folder, '/')[1] = '\0';
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fsync(fd) != 0)
		hr_debug("%s: its folder cannot be flushed: %s", target->name, strerror(errno));
	close(fd);
}

/* Pipes and terminals cannot be flushed and return an error, which is ignored. */
static int flush_target(const struct hr_target *target)
{
	return fsync(target->fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP ? 0
											       : -1;
}

int hr_target_commit(struct hr_target *target)
{
	int code = 0, fd = target->fd;

	if (fd == STDOUT_FILENO)
		return 0;
	if (flush_target(target) != 0)
		code = fail_target(target, "cannot write");
	target->fd = -1;
	if (close(fd) != 0 && !code)
		code = fail_target(target, "cannot write");
	if (!code && target->temporary[0]) {
		if (rename_target(target) != 0)
			code = fail_target(target, "cannot give the file its name");
		else
			target->temporary[0] = '\0';
	}
	if (!code && target->path[0])
		sync_folder(target);
	hr_target_discard(target);
	return code;
}

void hr_target_discard(struct hr_target *target)
{
	if (target->fd > STDERR_FILENO)
		close(target->fd);
	target->fd = -1;
	if (target->temporary[0] && unlink(target->temporary) != 0)
		hr_warn("%s: the temporary file %s stays: %s", target->name, target->temporary,
			strerror(errno));
	target->temporary[0] = '\0';
}

/* ---- JSON on stdout */

#define SCHEMA_VERSION 1u
#define ERRORS_BYTES 16384u

static char errors[ERRORS_BYTES];
static bool begun;

bool hr_report_wants_json(int argc, char **argv)
{
	bool wants = false;

	/* getopt_long() takes a beginning of the name as well */
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
		wants |= strlen(argv[i]) > 2 && strncmp("--json", argv[i], strlen(argv[i])) == 0;
	if (wants)
		hr_log_keep_errors(errors, sizeof errors);
	return wants;
}

void hr_report_begun(void)
{
	begun = true;
}

void hr_report_begin(struct hr_json *report, const char *name)
{
	char schema[64];

	snprintf(schema, sizeof schema, "headrace.%s", name);
	begun = true;
	hr_json_to_file(report, HR_JSON_INDENTED, stdout);
	hr_json_schema(report, schema, SCHEMA_VERSION);
}

int hr_report_end(struct hr_json *report, int code, int unwritten)
{
	const int err = hr_json_done(report);

	if (!err)
		return code;
	hr_error("standard output: cannot write the report: %s", strerror(-err));
	__fpurge(report->out); /* so that the end of the process does not write and fail again */
	clearerr(report->out);
	return unwritten;
}

/* ---- errors as JSON */

/* "FILE:LINE: ..." names a file; an address and its port ("10.0.0.2:4791: ...") do not. */
static void place_json(struct hr_json *out, char *message)
{
	char *colon = strchr(message, ':'), *end;
	const size_t length = colon ? (size_t)(colon - message) : 0;
	unsigned long line;

	if (!length || colon[1] < '1' || colon[1] > '9' || strspn(message, "0123456789.") == length)
		return;
	line = strtoul(colon + 1, &end, 10);
	if (strncmp(end, ": ", 2) != 0)
		return;
	*colon = '\0';
	hr_json_string(out, "file", message);
	*colon = ':';
	hr_json_u64(out, "line", line);
}

static void error_json(struct hr_json *out, char *message)
{
	hr_json_string(out, "message", message);
	place_json(out, message);
}

void hr_report_failed(int code)
{
	static char none[] = "the command has not finished";
	char *rest = errors, *message = strsep(&rest, "\n");
	struct hr_json report;

	if (begun)
		return;
	if (!*message)
		message = none;
	hr_report_begin(&report, "error");
	hr_json_i64(&report, "exit_code", code);
	error_json(&report, message);
	hr_json_array(&report, "errors");
	for (; message && *message; message = strsep(&rest, "\n")) {
		hr_json_object(&report, NULL);
		error_json(&report, message);
		hr_json_close(&report);
	}
	hr_json_close(&report);
	hr_report_end(&report, code, code);
}

/* ---- mistakes on the command line */

int hr_usage_error(const char *command, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	hr_error("%s: %s", command, text);
	fprintf(stderr, "Try 'headrace %s --help'.\n", command);
	return HR_EXIT_USAGE;
}
