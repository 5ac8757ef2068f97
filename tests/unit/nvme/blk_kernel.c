/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk of the kernel. The disk is a file in memory; the system calls that ask for a block device
 * answer for it here, so that each size, each limit and each error is exact. Other users of a disk are
 * in tests/unit/nvme/transport/disk_use.c; here one disk is mounted, and all others are free.
 */
#include "nvme/blk_kernel.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "nvme/transport/transport.h"
#include "tests/harness/error.h"

#define DISK "/dev/headrace-test"
#define NODE "/dev/nvme7n1" /* the kernel's name of the disk */
#define CLASS "/sys/class/block/nvme7n1/"
#define NUMBER "/sys/dev/block/7:99"
#define PIECE (1u << 20)
#define BYTES (4ull * PIECE)

struct attribute {
	const char *path, *text;
};

static struct {
	int fd; /* of the newest open() */
	uint64_t bytes;
	int block, read_only;
	int fails; /* this request of ioctl() fails */
	bool partition;
	struct attribute attribute[4];
	bool mounted;
	unsigned opens;
	int flags;   /* of the last open() */
	int refusal; /* error of open(), or 0; EROFS: only to write */
	/* transfers */
	size_t most; /* bytes that one call moves */
	unsigned calls, interrupted, synced, durable;
	int error; /* of calls from error_at on */
	unsigned error_at;
} kernel;

int stat(const char *path, struct stat *st)
{
	if (strcmp(path, DISK) != 0 && strcmp(path, NODE) != 0)
		return (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
	memset(st, 0, sizeof *st);
	st->st_mode = S_IFBLK | 0600;
	st->st_rdev = makedev(7, 99);
	return 0;
}

ssize_t readlink(const char *path, char *to, size_t bytes)
{
	static const char target[] = "../../devices/pci0000:00/nvme/nvme7/nvme7n1";

	if (strcmp(path, NUMBER) != 0)
		return syscall(SYS_readlinkat, AT_FDCWD, path, to, bytes);
	memcpy(to, target, sizeof target - 1);
	return sizeof target - 1;
}

int access(const char *path, int mode)
{
	if (strcmp(path, NUMBER "/partition") == 0)
		return kernel.partition ? 0 : -1;
	return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list list;

	va_start(list, flags);
	if (flags & O_CREAT)
		mode = va_arg(list, mode_t);
	va_end(list);
	if (strcmp(path, NODE) == 0)
		return memfd_create("node", MFD_CLOEXEC);
	if (strcmp(path, DISK) != 0)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	if (kernel.refusal && (kernel.refusal != EROFS || (flags & O_ACCMODE) != O_RDONLY)) {
		errno = kernel.refusal;
		return -1;
	}
	kernel.opens++;
	kernel.flags = flags;
	kernel.fd = memfd_create("disk", MFD_CLOEXEC);
	cr_assert_eq(ftruncate(kernel.fd, (off_t)BYTES), 0);
	return kernel.fd;
}

static FILE *text_file(const char *text)
{
	return fmemopen((void *)(uintptr_t)text, strlen(text), "r");
}

FILE *fopen(const char *path, const char *mode)
{
	for (size_t i = 0; i < 4; i++)
		if (kernel.attribute[i].path && strcmp(path, kernel.attribute[i].path) == 0)
			return text_file(kernel.attribute[i].text);
	if (strcmp(path, CLASS "dev") == 0)
		return text_file("7:99\n");
	if (strcmp(path, "/proc/self/mountinfo") == 0)
		return text_file(kernel.mounted ? "36 35 7:99 / /data rw - ext4 x rw\n"
						: "36 35 7:98 / /data rw - ext4 x rw\n");
	errno = ENOENT;
	return NULL;
}

/* No disk beside this one, and no process that has it open. */
DIR *opendir(const char *path)
{
	errno = ENOENT;
	return NULL;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *to;

	va_start(list, request);
	to = va_arg(list, void *);
	va_end(list);
	if (fd != kernel.fd || (int)request == kernel.fails) {
		errno = ENOTTY;
		return -1;
	}
	if (request == BLKGETSIZE64)
		memcpy(to, &kernel.bytes, 8);
	else
		memcpy(to, request == BLKSSZGET ? &kernel.block : &kernel.read_only, 4);
	return 0;
}

/* 0: go on; -1 with errno. */
static int before_move(struct iovec *part, const struct iovec *vec, int count)
{
	cr_assert_eq(count, 1);
	cr_assert_eq((uintptr_t)vec->iov_base % 512, 0u, "O_DIRECT needs aligned memory");
	kernel.calls++;
	if (kernel.interrupted) {
		kernel.interrupted--;
		errno = EINTR;
		return -1;
	}
	if (kernel.error && kernel.calls >= kernel.error_at) {
		errno = kernel.error;
		return -1;
	}
	*part = *vec;
	part->iov_len = vec->iov_len < kernel.most ? vec->iov_len : kernel.most;
	return 0;
}

ssize_t preadv(int fd, const struct iovec *vec, int count, off_t offset)
{
	struct iovec part;

	return before_move(&part, vec, count) ? -1 : pread(fd, part.iov_base, part.iov_len, offset);
}

ssize_t pwritev(int fd, const struct iovec *vec, int count, off_t offset)
{
	struct iovec part;

	return before_move(&part, vec, count) ? -1
					      : pwrite(fd, part.iov_base, part.iov_len, offset);
}

ssize_t pwritev2(int fd, const struct iovec *vec, int count, off_t offset, int flags)
{
	kernel.durable += flags == RWF_DSYNC;
	return pwritev(fd, vec, count, offset);
}

int fdatasync(int fd)
{
	kernel.synced++;
	errno = kernel.error;
	return kernel.error ? -1 : 0;
}

static struct hr_kernel_blk disk;
static uint8_t data[3 * PIECE + 16], back[3 * PIECE + 16];

static void begin(void)
{
	memset(&kernel, 0, sizeof kernel);
	kernel.bytes = BYTES;
	kernel.block = 4096;
	kernel.most = BYTES;
	hr_open_mode_set(HR_OPEN_EXISTING);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i / 4093);
}

TestSuite(blk_kernel, .init = begin, .timeout = 60);

static void open_disk(void)
{
	cr_assert_eq(hr_kernel_blk_open(&disk, DISK, test_error()), 0, "%s", test_error_text());
}

/* ---- opening */

Test(blk_kernel, opening_describes_the_disk)
{
	kernel.attribute[0] = (struct attribute){ CLASS "queue/write_cache", "write back\n" };
	kernel.attribute[1] = (struct attribute){ CLASS "device/serial", "S123  \n" };
	kernel.attribute[2] = (struct attribute){ CLASS "serial", "other\n" };
	kernel.attribute[3] = (struct attribute){ CLASS "queue/zoned", "none\n" };
	open_disk();
	cr_expect_eq(disk.blk.bytes, BYTES);
	cr_expect_eq(disk.blk.block_bytes, 4096u);
	cr_expect(disk.blk.volatile_cache);
	cr_expect_not(disk.blk.read_only);
	cr_expect_str_eq(disk.blk.name, DISK);
	cr_expect_str_eq(disk.serial, "S123");
	cr_expect_eq(kernel.opens, 2u, "to see whether it can be opened, and to use it");
	cr_expect_eq(kernel.flags & (O_ACCMODE | O_DIRECT | O_EXCL), O_RDWR | O_DIRECT | O_EXCL);
	hr_kernel_blk_close(&disk);
	cr_expect_eq(fcntl(kernel.fd, F_GETFD), -1);
	cr_expect_null(disk.blk.ops);
	hr_kernel_blk_close(&disk);
}

Test(blk_kernel, other_attributes_are_other_properties)
{
	kernel.attribute[0] = (struct attribute){ CLASS "queue/write_cache", "write through\n" };
	kernel.attribute[1] = (struct attribute){ CLASS "serial", "virtual\n" };
	kernel.block = 512;
	kernel.read_only = 1;
	open_disk();
	cr_expect_not(disk.blk.volatile_cache);
	cr_expect(disk.blk.read_only);
	cr_expect_eq(disk.blk.block_bytes, 512u);
	cr_expect_str_eq(disk.serial, "virtual");
	cr_expect_eq(disk.blk.ops->write(&disk.blk, 0, data, 512, false, test_error()), -EROFS);
	cr_expect(strstr(test_error_text(), "write of 512 bytes at 0: the disk is read-only"), "%s",
		  test_error_text());
	cr_expect_eq(kernel.calls, 0u);
	hr_kernel_blk_close(&disk);
	begin();
	hr_open_mode_set(HR_OPEN_READ_ONLY);
	open_disk();
	cr_expect(disk.blk.read_only && disk.blk.volatile_cache);
	cr_expect_str_eq(disk.serial, "");
	cr_expect_eq(kernel.flags & O_ACCMODE, O_RDONLY);
	hr_kernel_blk_close(&disk);
}

static void expect_refusal(int want, const char *says)
{
	memset(&disk, 0xff, sizeof disk);
	cr_expect_eq(hr_kernel_blk_open(&disk, DISK, test_error()), want, "%s", says);
	cr_expect(strstr(test_error_text(), says), "%s", test_error_text());
	cr_expect_null(disk.blk.ops, "%s: closing it changes nothing", says);
	if (kernel.opens)
		cr_expect_eq(fcntl(kernel.fd, F_GETFD), -1, "%s", says);
	begin();
}

Test(blk_kernel, disks_of_other_kinds_are_refused)
{
	static const int odd[] = { 0, 511, 513, 1024, 2048, 4095, 4097, 8192 };
	static const unsigned long request[] = { BLKGETSIZE64, BLKSSZGET, BLKROGET };

	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		kernel.block = odd[i];
		expect_refusal(-ENODEV, " bytes; expected 512 or 4096");
	}
	for (size_t i = 0; i < 3; i++) {
		kernel.fails = (int)request[i];
		expect_refusal(-ENODEV, "its size cannot be read: Inappropriate ioctl");
	}
	kernel.attribute[0] = (struct attribute){ CLASS "queue/zoned", "host-managed\n" };
	expect_refusal(-ENODEV, "is a zoned disk (host-managed)");
	kernel.partition = true;
	expect_refusal(-ENODEV, "is a partition");
	kernel.mounted = true;
	expect_refusal(-EBUSY, DISK ": is in use: nvme7n1 is mounted on /data");
}

/* Each error that open() may have, with its remedy at the end of the text. */
Test(blk_kernel, a_disk_that_cannot_be_opened_is_refused_with_the_remedy)
{
	const char *denied = geteuid() == 0
				     ? ": root may not either: the device rules of its control "
				       "group (a container), or a security module, forbid it"
				     : ": run as root";
	const struct {
		int refusal, want;
		const char *remedy;
	} row[] = {
		{ EBUSY, -EBUSY, ": end the processes that use it" },
		{ EACCES, -EACCES, denied },
		{ EPERM, -EACCES, denied },
		{ ENXIO, -ENODEV, "" },
		{ ENOENT, -ENODEV, "" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char want[256];

		kernel.refusal = row[i].refusal;
		snprintf(want, sizeof want, DISK ": %s%s", strerror(row[i].refusal), row[i].remedy);
		cr_expect_eq(hr_kernel_blk_open(&disk, DISK, test_error()), row[i].want, "%s",
			     want);
		cr_expect_str_eq(test_error_text(), want, "%s", test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		begin();
	}
	kernel.refusal = EROFS;
	open_disk();
	cr_expect_eq(kernel.flags & (O_ACCMODE | O_DIRECT | O_EXCL), O_RDONLY | O_DIRECT | O_EXCL);
	hr_kernel_blk_close(&disk);
}

/* ---- transfers */

/* Sizes around the piece that is moved at once. */
Test(blk_kernel, written_data_are_read_back_at_any_size)
{
	static const size_t size[] = { 4096,	  PIECE - 4096,	    PIECE,    PIECE + 4096,
				       2 * PIECE, 2 * PIECE + 4096, 3 * PIECE };
	static const unsigned calls[] = { 1, 1, 1, 2, 2, 3, 3 };

	open_disk();
	for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
		memset(back, 0xee, sizeof back);
		kernel.calls = 0;
		cr_expect_eq(disk.blk.ops->write(&disk.blk, 4096, data + i, size[i], false, NULL),
			     0);
		cr_expect_eq(kernel.calls, calls[i], "%zu", size[i]);
		cr_expect_eq(disk.blk.ops->read(&disk.blk, 4096, back, size[i], NULL), 0);
		cr_expect_eq(kernel.calls, 2 * calls[i], "%zu", size[i]);
		cr_expect_eq(memcmp(back, data + i, size[i]), 0, "%zu", size[i]);
		cr_expect_eq(back[size[i]], 0xee, "%zu", size[i]);
	}
	cr_expect_eq(kernel.durable, 0u);
	hr_kernel_blk_close(&disk);
}

Test(blk_kernel, short_and_interrupted_calls_go_on)
{
	open_disk();
	kernel.most = 300 * 512;
	kernel.interrupted = 2;
	cr_expect_eq(disk.blk.ops->write(&disk.blk, 0, data, PIECE + 4096, true, NULL), 0);
	cr_expect_eq(kernel.calls, 2u + 7 + 1, "seven parts of the first piece");
	cr_expect_eq(kernel.durable, kernel.calls, "each with RWF_DSYNC");
	kernel.interrupted = 1;
	cr_expect_eq(disk.blk.ops->read(&disk.blk, 0, back, PIECE + 4096, NULL), 0);
	cr_expect_eq(memcmp(back, data, PIECE + 4096), 0);
	hr_kernel_blk_close(&disk);
}

Test(blk_kernel, errors_name_the_operation_and_the_place)
{
	open_disk();
	kernel.error = EILSEQ;
	kernel.error_at = 2;
	cr_expect_eq(disk.blk.ops->read(&disk.blk, 8192, back, 2 * PIECE, test_error()), -EIO);
	cr_expect(strstr(test_error_text(), DISK ": read of 1048576 bytes at 1056768: "), "%s",
		  test_error_text());
	cr_expect_eq(kernel.calls, 2u, "the first error ends it");
	kernel.error = ENOMEM;
	kernel.calls = 0;
	kernel.error_at = 1;
	cr_expect_eq(disk.blk.ops->write(&disk.blk, 0, data, 4096, false, test_error()), -ENOMEM);
	cr_expect(strstr(test_error_text(), DISK ": write of 4096 bytes at 0: "), "%s",
		  test_error_text());
	kernel.error = 0;
	kernel.most = 0; /* no progress is no endless loop */
	cr_expect_eq(disk.blk.ops->read(&disk.blk, 0, back, 4096, test_error()), -EIO);
	kernel.error = EIO;
	cr_expect_eq(disk.blk.ops->flush(&disk.blk, test_error()), -EIO);
	cr_expect(strstr(test_error_text(), DISK ": flush: Input/output error"), "%s",
		  test_error_text());
	kernel.error = 0;
	cr_expect_eq(disk.blk.ops->flush(&disk.blk, NULL), 0);
	cr_expect_eq(kernel.synced, 2u);
	kernel.calls = 0;
	cr_expect_eq(disk.blk.ops->read(&disk.blk, BYTES, back, 4096, test_error()), -ERANGE);
	cr_expect_eq(disk.blk.ops->write(&disk.blk, 100, data, 4096, false, test_error()), -EINVAL);
	cr_expect_eq(kernel.calls, 0u);
	hr_kernel_blk_close(&disk);
}
