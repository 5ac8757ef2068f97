/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/blk_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config/base/process.h"
#include "config/base/seam.h"
#include "nvme/transport/disk_use.h"
#include "nvme/transport/transport.h"

#define PIECE ((size_t)1 << 20)

/* ---- input and output */

/* The kernel may move fewer bytes than requested. Moving 0 bytes is an error. */
static int transfer_pieces(struct hr_kernel_blk *disk, bool write, uint64_t offset, size_t bytes,
			   bool fua, struct hr_error *e)
{
	const char *what = write ? "write" : "read";

	for (size_t done = 0; done < bytes;) {
		const struct iovec vec = { disk->piece + done, bytes - done };
		const uint64_t at = offset + done;
		const ssize_t n = write ? hr_file_write(disk->fd, &vec, 1, at, fua ? RWF_DSYNC : 0)
					: hr_file_read(disk->fd, &vec, 1, at);

		if (n == -EINTR)
			continue;
		if (n <= 0) {
			const int err = n < 0 ? (int)n : -EIO;

			return hr_fail(e, err == -ENOMEM ? HR_ERROR_MISSING : HR_ERROR_DEVICE,
				       err == -ENOMEM ? err : -EIO,
				       "%s: %s of %zu bytes at %" PRIu64 ": %s", disk->blk.name,
				       what, bytes, offset, strerror(-err));
		}
		done += (size_t)n;
	}
	return 0;
}

static int kernel_read(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		       struct hr_error *e)
{
	struct hr_kernel_blk *disk = blk->impl;
	int err = hr_blk_check(blk, "read", offset, bytes, e);

	for (size_t at = 0; !err && at < bytes; at += PIECE) {
		const size_t n = bytes - at < PIECE ? bytes - at : PIECE;

		err = transfer_pieces(disk, false, offset + at, n, false, e);
		if (!err)
			memcpy((uint8_t *)data + at, disk->piece, n);
	}
	return err;
}

static int kernel_write(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes,
			bool fua, struct hr_error *e)
{
	struct hr_kernel_blk *disk = blk->impl;
	int err = hr_blk_check(blk, "write", offset, bytes, e);

	if (!err && blk->read_only)
		err = hr_fail(e, HR_ERROR_MISSING, -EROFS,
			      "%s: write of %zu bytes at %" PRIu64 ": the disk is read-only",
			      blk->name, bytes, offset);
	for (size_t at = 0; !err && at < bytes; at += PIECE) {
		const size_t n = bytes - at < PIECE ? bytes - at : PIECE;

		memcpy(disk->piece, (const uint8_t *)data + at, n);
		err = transfer_pieces(disk, true, offset + at, n, fua, e);
	}
	return err;
}

static int kernel_flush(struct hr_blk *blk, struct hr_error *e)
{
	const struct hr_kernel_blk *disk = blk->impl;
	const int err = hr_file_sync(disk->fd);

	return err ? hr_fail(e, HR_ERROR_DEVICE, -EIO, "%s: flush: %s", blk->name, strerror(-err))
		   : 0;
}

static const struct hr_blk_ops kernel_ops = {
	.read = kernel_read,
	.write = kernel_write,
	.flush = kernel_flush,
};

/* ---- opening */

/* Name of the block device in sysfs; its folder has that name, with '!' for '/'. */
static int find_name(const char *path, char name[64], struct hr_error *e)
{
	char link[64], target[PATH_MAX], partition[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (stat(path, &st) != 0) {
		const int err = -errno;

		return hr_fail(e, HR_ERROR_MISSING, err == -ENOTDIR ? -ENOENT : err, "%s: %s", path,
			       strerror(-err));
	}
	snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(st.st_rdev), minor(st.st_rdev));
	n = S_ISBLK(st.st_mode) ? readlink(link, target, sizeof target - 1) : -1;
	if (n < 0)
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV, "%s: is not a block device", path);
	target[n] = '\0';
	snprintf(name, 64, "%.63s", strrchr(target, '/') ? strrchr(target, '/') + 1 : target);
	snprintf(partition, sizeof partition, "%s/partition", link);
	if (access(partition, F_OK) == 0)
		return hr_fail(
			e, HR_ERROR_MISSING, -ENODEV,
			"%s: is a partition; a store takes a whole disk, as pci: and vfio: do",
			path);
	return 0;
}

/* First line of an attribute, without blanks at its end; "" when there is no such attribute. */
static void read_attribute(const char *name, const char *attribute, char *to, size_t capacity)
{
	char path[PATH_MAX];
	FILE *file;
	size_t n;

	snprintf(path, sizeof path, "/sys/class/block/%s/%s", name, attribute);
	*to = '\0';
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(to, (int)capacity, file))
		*to = '\0';
	fclose(file);
	for (n = strlen(to); n && (to[n - 1] == '\n' || to[n - 1] == ' '); n--)
		to[n - 1] = '\0';
}

static int read_shape(struct hr_kernel_blk *disk, const char *name, struct hr_error *e)
{
	char cache[32], zones[32];
	uint64_t bytes = 0;
	int block = 0, read_only = 0;

	if (ioctl(disk->fd, BLKGETSIZE64, &bytes) || ioctl(disk->fd, BLKSSZGET, &block) ||
	    ioctl(disk->fd, BLKROGET, &read_only))
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV, "%s: its size cannot be read: %s",
			       disk->path, strerror(errno));
	if (block != 512 && block != 4096)
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
			       "%s: blocks of %d bytes; expected 512 or 4096", disk->path, block);
	read_attribute(name, "queue/zoned", zones, sizeof zones);
	if (zones[0] && strcmp(zones, "none") != 0)
		return hr_fail(
			e, HR_ERROR_MISSING, -ENODEV,
			"%s: is a zoned disk (%s); disks without zones are supported; nothing was "
			"written",
			disk->path, zones);
	read_attribute(name, "queue/write_cache", cache, sizeof cache);
	read_attribute(name, "device/serial", disk->serial, sizeof disk->serial);
	if (!disk->serial[0])
		read_attribute(name, "serial", disk->serial, sizeof disk->serial);
	disk->blk = (struct hr_blk){ .ops = &kernel_ops,
				     .name = disk->path,
				     .bytes = bytes,
				     .block_bytes = (uint32_t)block,
				     .volatile_cache = strcmp(cache, "write through") != 0,
				     .read_only = read_only || hr_open_mode() == HR_OPEN_READ_ONLY,
				     .impl = disk };
	return 0;
}

static const char *open_remedy(int err)
{
	if (err == EBUSY)
		return ": end the processes that use it";
	if (err != EACCES && err != EPERM)
		return "";
	return geteuid() == 0 ? ": root may not either: the device rules of its control group (a "
				"container), or a security module, forbid it"
			      : ": run as root";
}

static int open_file(struct hr_kernel_blk *disk, struct hr_error *e)
{
	const bool write = hr_open_mode() != HR_OPEN_READ_ONLY;
	int err;

	disk->fd = open(disk->path, (write ? O_RDWR : O_RDONLY) | O_DIRECT | O_EXCL | O_CLOEXEC);
	if (disk->fd < 0 && errno == EROFS)
		disk->fd = open(disk->path, O_RDONLY | O_DIRECT | O_EXCL | O_CLOEXEC);
	if (disk->fd >= 0)
		return 0;
	err = errno;
	return hr_fail(e, HR_ERROR_MISSING,
		       err == EBUSY		       ? -EBUSY
		       : err == EACCES || err == EPERM ? -EACCES
						       : -ENODEV,
		       "%s: %s%s", disk->path, strerror(err), open_remedy(err));
}

int hr_kernel_blk_open(struct hr_kernel_blk *disk, const char *path, struct hr_error *e)
{
	char name[64];
	int err;

	memset(disk, 0, sizeof *disk);
	if (strlen(path) >= sizeof disk->path)
		return hr_fail(e, HR_ERROR_MISSING, -ENOENT, "%.100s...: the path is too long",
			       path);
	memcpy(disk->path, path, strlen(path) + 1);
	err = find_name(path, name, e);
	if (err)
		return err;
	err = open_file(disk, e);
	if (err == -EACCES)
		return err;
	if (!err)
		close(disk->fd); /* the open succeeds; next, look for other users */
	else
		hr_error_clear(e);
	err = hr_disk_check_unused(name, e);
	if (err) {
		hr_error_context(e, "%s: is in use", path);
		return err;
	}
	err = open_file(disk, e);
	if (err)
		return err;
	err = read_shape(disk, name, e);
	disk->piece = err ? NULL : hr_not_dumped(aligned_alloc(HR_PAGE, PIECE), PIECE);
	if (!err && !disk->piece)
		err = hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "%s: out of memory", path);
	if (err) {
		close(disk->fd);
		memset(disk, 0, sizeof *disk);
	}
	return err;
}

void hr_kernel_blk_close(struct hr_kernel_blk *disk)
{
	if (!disk->blk.ops)
		return;
	close(disk->fd);
	free(disk->piece);
	memset(disk, 0, sizeof *disk);
}
