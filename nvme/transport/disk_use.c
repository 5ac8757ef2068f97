/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/transport/disk_use.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "config/base/log.h"

#define BLOCK "/sys/class/block"
#define TARGETS "/sys/kernel/config/nvmet/subsystems"
#define NAME_BYTES 64u

static bool is_number(const char *name)
{
	return *name >= '0' && *name <= '9';
}

/* True for errors that say that something is not there. All others leave the users unknown. */
static bool is_absent(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ESRCH;
}

/* Call fn for each entry of a folder, until fn returns a value other than 0. A folder that is not
 * there has no entries. -errno: the folder cannot be read. */
static int each_entry(const char *folder, int (*fn)(void *to, const char *name), void *to)
{
	struct dirent *entry;
	DIR *dir = opendir(folder);
	int result = 0, error = 0;

	if (!dir)
		return is_absent(errno) ? 0 : -errno;
	while (!result) {
		errno = 0;
		entry = readdir(dir);
		if (!entry)
			break;
		if (entry->d_name[0] != '.')
			result = fn(to, entry->d_name);
	}
	error = result ? 0 : errno;
	closedir(dir);
	return error && !is_absent(error) ? -error : result;
}

/* The same for a folder of the kernel that is always there. */
static int each_known(const char *folder, int (*fn)(void *to, const char *name), void *to)
{
	return access(folder, F_OK) == 0 ? each_entry(folder, fn, to) : -errno;
}

/* ---- one block device, a disk or a partition */

struct device {
	const char *name;
	dev_t number;
	struct hr_error *e;
};

static int one_holder(void *to, const char *name)
{
	const struct device *d = to;

	return hr_fail(d->e, HR_ERROR_MISSING, -EBUSY, "%s is part of %s", d->name, name);
}

/* Call fn for each line of a file, as each_entry(). */
static int each_line(const char *path, int (*fn)(void *to, const char *line), void *to)
{
	FILE *file = fopen(path, "re");
	char line[4096];
	int result = 0, error;

	if (!file)
		return -errno;
	errno = 0;
	while (!result && fgets(line, sizeof line, file))
		result = fn(to, line);
	error = ferror(file) ? errno : 0;
	fclose(file);
	return result ? result : -error;
}

/* mountinfo: column 3 is the device, column 5 the mount point. */
static int one_mount(void *to, const char *line)
{
	const struct device *d = to;
	unsigned major, minor;
	char where[256];

	if (sscanf(line, "%*u %*u %u:%u %*s %255s", &major, &minor, where) != 3 ||
	    makedev(major, minor) != d->number)
		return 0;
	return hr_fail(d->e, HR_ERROR_MISSING, -EBUSY, "%s is mounted on %s", d->name, where);
}

/* 1: the path leads to the device; 0: it does not; -errno: unknown. */
static int is_device(const struct device *d, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return is_absent(errno) ? 0 : -errno;
	return S_ISBLK(st.st_mode) && st.st_rdev == d->number;
}

static int one_swap(void *to, const char *line)
{
	const struct device *d = to;
	char path[256];
	int is;

	if (sscanf(line, "%255s", path) != 1 || path[0] != '/')
		return 0;
	is = is_device(d, path);
	return is <= 0 ? is
		       : hr_fail(d->e, HR_ERROR_MISSING, -EBUSY, "%s is used as swap", d->name);
}

/* A kernel without swap has no such file. */
static int find_swap(struct device *d)
{
	const int err = each_line("/proc/swaps", one_swap, d);

	return is_absent(-err) ? 0 : err;
}

/* First line of a file of sysfs or configfs; "" when there is no such file. 0, or -errno. */
static int first_line(const char *path, char *line, int bytes)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	line[0] = '\0';
	if (!file)
		return is_absent(errno) ? 0 : -errno;
	errno = 0;
	if (!fgets(line, bytes, file)) {
		err = ferror(file) && !is_absent(errno) ? -errno : 0;
		line[0] = '\0';
	}
	line[strcspn(line, "\n")] = '\0';
	fclose(file);
	return err;
}

/* 1 when the first line of the file names the device, 0, or -errno. */
static int names_it(const struct device *d, const char *path)
{
	char name[PATH_MAX];
	const int err = first_line(path, name, sizeof name);

	return err ? err : *name ? is_device(d, name) : 0;
}

/* Loop devices and NVMe over Fabrics exports open a device without claiming it, and no process
 * has the file open. */
static int one_loop(void *to, const char *name)
{
	const struct device *d = to;
	char path[PATH_MAX];

	int is;

	snprintf(path, sizeof path, BLOCK "/%.200s/loop/backing_file", name);
	is = names_it(d, path);
	if (is <= 0)
		return is;
	return hr_fail(d->e, HR_ERROR_MISSING, -EBUSY, "%s is part of %.200s", d->name, name);
}

struct target {
	const struct device *device;
	const char *name;
};

static int one_export(void *to, const char *name)
{
	const struct target *t = to;
	char path[PATH_MAX], enabled[8];
	int is;

	snprintf(path, sizeof path, TARGETS "/%.300s/namespaces/%.20s/enable", t->name, name);
	is = first_line(path, enabled, sizeof enabled);
	if (is || enabled[0] != '1')
		return is;
	snprintf(path, sizeof path, TARGETS "/%.300s/namespaces/%.20s/device_path", t->name, name);
	is = names_it(t->device, path);
	if (is <= 0)
		return is;
	return hr_fail(t->device->e, HR_ERROR_MISSING, -EBUSY, "%s is exported by nvmet, in %.300s",
		       t->device->name, t->name);
}

static int one_target(void *to, const char *name)
{
	struct target t = { to, name };
	char path[PATH_MAX];

	snprintf(path, sizeof path, TARGETS "/%.300s/namespaces", name);
	return each_entry(path, one_export, &t);
}

/* An exclusive open fails while the kernel has claimed the device for any use, in any mount
 * namespace. */
static int claim(const struct device *d)
{
	char path[NAME_BYTES + 8];
	struct stat st;
	int fd;

	snprintf(path, sizeof path, "/dev/%s", d->name);
	for (char *at = path + 5; *at; at++)
		*at = *at == '!' ? '/' : *at; /* the kernel replaces slashes in names */
	if (stat(path, &st) != 0 || !S_ISBLK(st.st_mode) || st.st_rdev != d->number)
		return hr_fail(d->e, HR_ERROR_MISSING, -ENODEV,
			       "%s is not there, so the users of the disk cannot be found", path);
	fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (fd >= 0)
		return close(fd), 0;
	if (errno == ENXIO || errno == ENOMEDIUM) /* removed meanwhile, or without medium */
		return 0;
	return hr_fail(d->e, HR_ERROR_MISSING, -errno, "%s: %s", path,
		       errno == EBUSY ? "the kernel uses it (md, dm, a mount of another namespace)"
				      : strerror(errno));
}

struct process {
	const struct device *device;
	const char *pid;
};

static int one_file(void *to, const char *fd)
{
	const struct process *p = to;
	char path[NAME_BYTES], name[32] = "?";
	struct stat st;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%.20s/fd/%.20s", p->pid, fd);
	if (stat(path, &st) != 0 || !S_ISBLK(st.st_mode) || st.st_rdev != p->device->number)
		return 0;
	snprintf(path, sizeof path, "/proc/%.20s/comm", p->pid);
	file = fopen(path, "re");
	if (file) {
		if (!fgets(name, sizeof name, file))
			name[0] = '\0';
		name[strcspn(name, "\n")] = '\0';
		fclose(file);
	}
	return hr_fail(p->device->e, HR_ERROR_MISSING, -EBUSY, "%s is open in process %.20s (%s)",
		       p->device->name, p->pid, name);
}

static const char *reason(int err)
{
	return err == -EACCES || err == -EPERM ? "run as root" : strerror(-err);
}

static int one_process(void *to, const char *pid)
{
	struct process p = { to, pid };
	char path[NAME_BYTES];
	int err;

	if (!is_number(pid))
		return 0;
	snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
	err = each_entry(path, one_file, &p);
	if (err)
		hr_fail(p.device->e, HR_ERROR_MISSING, err,
			"%s may be open in process %.20s, whose files this user cannot list: %s",
			p.device->name, pid, reason(err));
	return err;
}

/* 0, or an error that names the users or the unknown state. */
static int check_disk_unused(struct device *d)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof path, BLOCK "/%s/holders", d->name);
	err = each_entry(path, one_holder, d);
	if (!err)
		err = each_line("/proc/self/mountinfo", one_mount, d);
	if (!err)
		err = find_swap(d);
	if (!err)
		err = each_known(BLOCK, one_loop, d);
	if (!err)
		err = each_entry(TARGETS, one_target, d);
	if (!err)
		err = claim(d);
	return err ? err : each_known("/proc", one_process, d);
}

static int device_unused(const char *name, struct hr_error *e)
{
	struct device d = { name, 0, e };
	char path[PATH_MAX], text[32] = "";
	unsigned major, minor;
	int err;

	snprintf(path, sizeof path, BLOCK "/%s/dev", name);
	err = first_line(path, text, sizeof text);
	if (!err && sscanf(text, "%u:%u", &major, &minor) != 2)
		return hr_fail(e, HR_ERROR_MISSING, -ENOENT, "%s is not a block device", name);
	if (!err) {
		d.number = makedev(major, minor);
		err = check_disk_unused(&d);
	}
	return err ? hr_fail(e, HR_ERROR_MISSING, err, "the users of %s cannot be listed: %s", name,
			     reason(err))
		   : 0;
}

/* ---- a disk with its partitions */

struct disk {
	const char *name;
	struct hr_error *e;
};

/* 1: there is such a file; 0: there is none; -errno. */
static int exists(const char *path)
{
	return access(path, F_OK) == 0 ? 1 : is_absent(errno) ? 0 : -errno;
}

static int one_partition(void *to, const char *name)
{
	const struct disk *disk = to;
	char path[PATH_MAX];
	int is;

	snprintf(path, sizeof path, BLOCK "/%s/%.200s/partition", disk->name, name);
	is = exists(path);
	return is == 1 ? device_unused(name, disk->e) : is;
}

int hr_disk_check_unused(const char *name, struct hr_error *e)
{
	struct disk disk = { name, e };
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof path, BLOCK "/%.200s", name);
	err = each_entry(path, one_partition, &disk);
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err,
			       "the partitions of %s cannot be listed: %s", name, reason(err));
	return device_unused(name, e);
}

/* ---- the disks of a controller */

struct controller {
	const char *bdf;
	struct hr_error *e;
};

/* 1: the link in sysfs leads through the folder of the function; 0: it does not, or there is no such
 * link; -errno. */
static int leads_to(const char *path, const char *bdf)
{
	char target[PATH_MAX], part[32];
	const ssize_t n = readlink(path, target, sizeof target - 1);

	if (n < 0)
		return is_absent(errno) || errno == EINVAL ? 0 : -errno;
	target[n] = '\0';
	snprintf(part, sizeof part, "/%s/", bdf);
	return strstr(target, part) != NULL;
}

struct subsystem {
	const char *folder, *bdf;
};

static int one_path(void *to, const char *name)
{
	const struct subsystem *s = to;
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%.3000s/%.200s", s->folder, name);
	return strncmp(name, "nvme", 4) == 0 ? leads_to(path, s->bdf) : 0;
}

/* 1, 0 or -errno. With multipath the disk belongs to a subsystem, whose folder has links to its
 * controllers. */
static int belongs(const char *name, const char *bdf)
{
	char path[PATH_MAX], real[PATH_MAX], *last;
	struct subsystem s = { real, bdf };
	int is;

	snprintf(path, sizeof path, BLOCK "/%.200s", name);
	is = leads_to(path, bdf);
	if (is)
		return is;
	if (!realpath(path, real))
		return is_absent(errno) ? 0 : -errno;
	if (!strstr(real, "/nvme-subsystem/"))
		return 0;
	last = strrchr(real, '/');
	*last = '\0';
	return each_entry(real, one_path, &s);
}

static int one_disk(void *to, const char *name)
{
	const struct controller *c = to;
	char path[PATH_MAX];
	int is;

	snprintf(path, sizeof path, BLOCK "/%.200s/partition", name);
	is = exists(path);
	if (is)
		return is < 0 ? is : 0;
	is = belongs(name, c->bdf);
	if (is <= 0)
		return is;
	/* A path of a multipath disk has no device node. Its disk has one, and is in the same
	 * list. */
	snprintf(path, sizeof path, BLOCK "/%.200s/dev", name);
	is = exists(path);
	return is == 1 ? hr_disk_check_unused(name, c->e) : is;
}

/* A kernel without block devices has no users of one. */
int hr_disks_check_unused(const char *bdf, struct hr_error *e)
{
	struct controller c = { bdf, e };
	const int err = each_entry(BLOCK, one_disk, &c);

	return err ? hr_fail(e, HR_ERROR_MISSING, err,
			     "the kernel's disks of %s cannot be listed: %s", bdf, reason(err))
		   : 0;
}
