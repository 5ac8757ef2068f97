#include "nvme/inuse.h"

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

#include "config/log.h"

#define BLOCK "/sys/class/block"
#define TARGETS "/sys/kernel/config/nvmet/subsystems"
#define NAME_BYTES 64u

static bool is_number(const char *name)
{
	return *name >= '0' && *name <= '9';
}

/* Call fn for each entry of a folder, until fn returns a value other than 0. -EACCES: the folder
 * cannot be read. */
static int each_entry(const char *folder, int (*fn)(void *to, const char *name), void *to)
{
	struct dirent *entry;
	DIR *dir = opendir(folder);
	int result = 0;

	if (!dir)
		return errno == EACCES || errno == EPERM ? -EACCES : 0;
	while (!result && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			result = fn(to, entry->d_name);
	closedir(dir);
	return result;
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

/* mountinfo: column 3 is the device, column 5 the mount point. */
static int find_mount(const struct device *d)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096], where[256];
	int err = 0;

	while (file && !err && fgets(line, sizeof line, file)) {
		unsigned major, minor;

		if (sscanf(line, "%*u %*u %u:%u %*s %255s", &major, &minor, where) == 3 &&
		    makedev(major, minor) == d->number) {
			err = hr_fail(d->e, HR_ERROR_MISSING, -EBUSY, "%s is mounted on %s",
				      d->name, where);
		}
	}
	if (file)
		fclose(file);
	return err;
}

static int find_swap(const struct device *d)
{
	FILE *file = fopen("/proc/swaps", "re");
	char line[4096], path[256];
	int err = 0;

	while (file && !err && fgets(line, sizeof line, file)) {
		struct stat st;

		if (sscanf(line, "%255s", path) == 1 && path[0] == '/' && stat(path, &st) == 0 &&
		    S_ISBLK(st.st_mode) && st.st_rdev == d->number) {
			err = hr_fail(d->e, HR_ERROR_MISSING, -EBUSY, "%s is used as swap",
				      d->name);
		}
	}
	if (file)
		fclose(file);
	return err;
}

/* First line of a file of sysfs or configfs; "" when there is none. */
static void first_line(const char *path, char *line, int bytes)
{
	FILE *file = fopen(path, "re");

	if (!file || !fgets(line, bytes, file))
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (file)
		fclose(file);
}

/* True when the first line of the file names the device. */
static bool names_it(const struct device *d, const char *path)
{
	char name[PATH_MAX];
	struct stat st;

	first_line(path, name, sizeof name);
	return stat(name, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == d->number;
}

/* Loop devices and NVMe over Fabrics exports open a device without claiming it, and no process
 * has the file open. */
static int one_loop(void *to, const char *name)
{
	const struct device *d = to;
	char path[PATH_MAX];

	snprintf(path, sizeof path, BLOCK "/%.200s/loop/backing_file", name);
	if (!names_it(d, path))
		return 0;
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

	snprintf(path, sizeof path, TARGETS "/%.300s/namespaces/%.20s/enable", t->name, name);
	first_line(path, enabled, sizeof enabled);
	snprintf(path, sizeof path, TARGETS "/%.300s/namespaces/%.20s/device_path", t->name, name);
	if (enabled[0] != '1' || !names_it(t->device, path))
		return 0;
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
	return hr_fail(d->e, HR_ERROR_MISSING, errno == EBUSY ? -EBUSY : -EACCES, "%s: %s", path,
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

static int one_process(void *to, const char *pid)
{
	struct process p = { to, pid };
	char path[NAME_BYTES];
	int err;

	if (!is_number(pid))
		return 0;
	snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
	err = each_entry(path, one_file, &p);
	if (err == -EACCES)
		hr_fail(p.device->e, HR_ERROR_MISSING, err,
			"%s may be open in process %.20s, whose files this user cannot list: run "
			"as root",
			p.device->name, pid);
	return err;
}

static int device_unused(const char *name, struct hr_error *e)
{
	struct device d = { name, 0, e };
	char path[PATH_MAX], text[32] = "";
	unsigned major, minor;
	FILE *file;
	int err;

	snprintf(path, sizeof path, BLOCK "/%s/dev", name);
	file = fopen(path, "re");
	if (!file || !fgets(text, sizeof text, file) ||
	    sscanf(text, "%u:%u", &major, &minor) != 2) {
		if (file)
			fclose(file);
		return hr_fail(e, HR_ERROR_MISSING, -ENOENT, "%s is not a block device", name);
	}
	fclose(file);
	d.number = makedev(major, minor);
	snprintf(path, sizeof path, BLOCK "/%s/holders", name);
	err = each_entry(path, one_holder, &d);
	if (!err)
		err = find_mount(&d);
	if (!err)
		err = find_swap(&d);
	if (!err)
		err = each_entry(BLOCK, one_loop, &d);
	if (!err)
		err = each_entry(TARGETS, one_target, &d);
	if (!err)
		err = claim(&d);
	if (!err)
		err = each_entry("/proc", one_process, &d);
	return err ? hr_fail(e, HR_ERROR_MISSING, err,
			     "the users of %s cannot be listed: run as root", name)
		   : 0;
}

/* ---- a disk with its partitions */

struct disk {
	const char *name;
	struct hr_error *e;
};

static int one_partition(void *to, const char *name)
{
	const struct disk *disk = to;
	char path[PATH_MAX];

	snprintf(path, sizeof path, BLOCK "/%s/%.200s/partition", disk->name, name);
	return access(path, F_OK) == 0 ? device_unused(name, disk->e) : 0;
}

int hr_disk_unused(const char *name, struct hr_error *e)
{
	struct disk disk = { name, e };
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof path, BLOCK "/%.200s", name);
	err = each_entry(path, one_partition, &disk);
	return err ? err : device_unused(name, e);
}

/* ---- the disks of a controller */

struct controller {
	const char *bdf;
	struct hr_error *e;
};

/* True when the link in sysfs leads through the folder of the function. */
static bool leads_to(const char *path, const char *bdf)
{
	char target[PATH_MAX], part[32];
	const ssize_t n = readlink(path, target, sizeof target - 1);

	if (n < 0)
		return false;
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
	return strncmp(name, "nvme", 4) == 0 && leads_to(path, s->bdf);
}

/* With multipath the disk belongs to a subsystem, whose folder has links to its controllers. */
static bool belongs(const char *name, const char *bdf)
{
	char path[PATH_MAX], real[PATH_MAX], *last;
	struct subsystem s = { real, bdf };

	snprintf(path, sizeof path, BLOCK "/%.200s", name);
	if (leads_to(path, bdf))
		return true;
	if (!realpath(path, real) || !strstr(real, "/nvme-subsystem/"))
		return false;
	last = strrchr(real, '/');
	*last = '\0';
	return each_entry(real, one_path, &s) != 0;
}

static int one_disk(void *to, const char *name)
{
	const struct controller *c = to;
	char path[PATH_MAX];

	snprintf(path, sizeof path, BLOCK "/%.200s/partition", name);
	if (access(path, F_OK) == 0 || !belongs(name, c->bdf))
		return 0;
	/* A path of a multipath disk has no device node. Its disk has one, and is in the same
	 * list. */
	snprintf(path, sizeof path, BLOCK "/%.200s/dev", name);
	return access(path, F_OK) == 0 ? hr_disk_unused(name, c->e) : 0;
}

int hr_controller_unused(const char *bdf, struct hr_error *e)
{
	struct controller c = { bdf, e };

	return each_entry(BLOCK, one_disk, &c);
}
