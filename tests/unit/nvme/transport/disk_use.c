/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Use of a disk by others: the disks of a controller, their holders, and unknown cases. Real
 * mounts, swap and open files are in tests/lab.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "config/base/log.h"
#include "nvme/blk_kernel.h"
#include "nvme/transport/disk_use.h"
#include "nvme/transport/hardware.h"
#include "pci/bind.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

#define SSD "0000:03:00.0"
#define OTHER "0000:04:00.0"

TestSuite(inuse, .timeout = 60);

/* Replaces the kernel's answers to requests for this disk. */
static struct {
	bool refuses;
	int error[2]; /* of the first and of the second request */
	int mode[2];
	unsigned requests;
} kernel;

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list list;

	va_start(list, flags);
	if (flags & O_CREAT)
		mode = va_arg(list, mode_t);
	va_end(list);
	if (kernel.refuses && strcmp(path, "/dev/nvme5n1") == 0 && kernel.requests < 2) {
		kernel.mode[kernel.requests] = flags & O_ACCMODE;
		errno = kernel.error[kernel.requests++];
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static struct fake_tree tree;

static void folder(const char *format, const char *name)
{
	char path[256];

	snprintf(path, sizeof path, format, tree.root, name);
	if (mkdir(path, 0755))
		_exit(90);
}

static void file(const char *format, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof path, format, tree.root, name);
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0)
		_exit(91);
	fclose(f);
}

static void link_to(const char *format, const char *name, const char *target)
{
	char path[256];

	snprintf(path, sizeof path, format, tree.root, name);
	if (symlink(target, path))
		_exit(92);
}

/* A class/block folder like in sysfs, below a root that stands for /sys. */
static void make_block(const char *name, const char *parent)
{
	char target[256];

	snprintf(target, sizeof target, "../../%s/%s", parent, name);
	link_to("%s/sys/class/block/%s", name, target);
	snprintf(target, sizeof target, "%%s/sys/%s/%%s", parent);
	folder(target, name);
}

static void make_sys(void)
{
	static const char *const folders[] = { "sys",
					       "sys/class",
					       "sys/class/block",
					       "sys/devices",
					       "sys/devices/" SSD,
					       "sys/devices/" SSD "/nvme",
					       "sys/devices/" SSD "/nvme/nvme5",
					       "sys/devices/virtual",
					       "sys/devices/virtual/nvme-subsystem",
					       "sys/devices/virtual/nvme-subsystem/nvme-subsys5" };

	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
		folder("%s/%s", folders[i]);
}

static void enter_sys(void)
{
	char path[128];

	snprintf(path, sizeof path, "%s/sys", tree.root);
	if (mount(path, "/sys", NULL, MS_BIND, NULL))
		_exit(FAKE_TREE_SKIPPED);
}

/* A number that no block device of this machine has. */
#define NUMBER "4095:1048575\n"
#define PLAIN "devices/" SSD "/nvme/nvme5"
#define SUBSYSTEM "devices/virtual/nvme-subsystem/nvme-subsys5"

static int plain_disk(void *arg)
{
	struct hr_function_state state = { .bdf = SSD, .driver = "nvme" };
	struct hr_binding binding;

	enter_sys();
	if (hr_disks_check_unused(OTHER, test_error()) != 0)
		return 1;
	if (hr_disks_check_unused(SSD, test_error()) != -EBUSY ||
	    !strstr(test_error_text(), "nvme5n1p1 is part of md7"))
		return 2;
	hr_transport_allow_bind();
	memset(&binding, 0xff, sizeof binding);
	if (hr_nvme_bind(&binding, &state, NULL, test_error()) != -EBUSY || binding.bdf[0] ||
	    !strstr(test_error_text(), SSD ": its disk is in use: nvme5n1p1 is part of md7"))
		return 3;
	return 0;
}

Test(inuse, a_partition_used_by_another_layer_keeps_the_disk)
{
	int step;

	fake_tree_make(&tree);
	make_sys();
	make_block("nvme5n1", PLAIN);
	file("%s/sys/" PLAIN "/%s", "nvme5n1/dev", NUMBER);
	make_block("nvme5n1p1", PLAIN "/nvme5n1");
	file("%s/sys/" PLAIN "/nvme5n1/%s", "nvme5n1p1/dev", NUMBER);
	file("%s/sys/" PLAIN "/nvme5n1/%s", "nvme5n1p1/partition", "1\n");
	folder("%s/sys/" PLAIN "/nvme5n1/%s", "nvme5n1p1/holders");
	folder("%s/sys/" PLAIN "/nvme5n1/%s", "nvme5n1p1/holders/md7");
	step = fake_tree_run(&tree, plain_disk, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

static int multipath_disk(void *arg)
{
	enter_sys();
	if (hr_disks_check_unused(OTHER, test_error()) != 0)
		return 1;
	/* The device node is missing, so the use of the disk is unknown. */
	if (hr_disks_check_unused(SSD, test_error()) != -ENODEV ||
	    !strstr(test_error_text(), "/dev/nvme5n9 is not there"))
		return 2;
	return 0;
}

Test(inuse, a_multipath_disk_belongs_to_its_controllers)
{
	int step;

	fake_tree_make(&tree);
	make_sys();
	make_block("nvme5n9", SUBSYSTEM);
	file("%s/sys/" SUBSYSTEM "/%s", "nvme5n9/dev", NUMBER);
	link_to("%s/sys/" SUBSYSTEM "/%s", "nvme5", "../../../" SSD "/nvme/nvme5");
	make_block("nvme5c5n9", PLAIN); /* the disk of the path is hidden and has no number */
	step = fake_tree_run(&tree, multipath_disk, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

/*
 * ---- a node whose number belongs to no driver: open() fails, and the search for open files works
 */

static void make_node(const char *loop)
{
	fake_tree_make(&tree);
	make_sys();
	folder("%s/%s", "sys/devices/virtual/block");
	folder("%s/%s", "sys/dev");
	folder("%s/%s", "sys/dev/block");
	link_to("%s/%s", "sys/dev/block/4095:1048575", "../../" PLAIN "/nvme5n1");
	make_block("nvme5n1", PLAIN);
	file("%s/sys/" PLAIN "/%s", "nvme5n1/dev", NUMBER);
	if (!loop)
		return;
	make_block(loop, "devices/virtual/block");
	folder("%s/sys/devices/virtual/block/%s", "loop5/loop");
	file("%s/sys/devices/virtual/block/%s", "loop5/loop/backing_file", "/dev/nvme5n1\n");
}

static void enter_dev(void)
{
	enter_sys();
	if (mount("tmpfs", "/dev", "tmpfs", 0, NULL) ||
	    mknod("/dev/nvme5n1", S_IFBLK | 0666, makedev(4095, 1048575)))
		_exit(FAKE_TREE_SKIPPED);
}

static int nobody(void *arg)
{
	enter_dev();
	if (hr_disk_check_unused("nvme5n1", test_error()) != 0 ||
	    hr_disks_check_unused(SSD, test_error()) != 0)
		return 1;
	if (setuid(65534))
		return 2;
	if (hr_disk_check_unused("nvme5n1", test_error()) != -EACCES ||
	    !strstr(test_error_text(), "run as root"))
		return 3;
	return 0;
}

Test(inuse, without_access_to_all_processes_the_use_is_unknown)
{
	int step;

	make_node(NULL);
	cr_assert_eq(chmod(tree.root, 0755), 0);
	step = fake_tree_run(&tree, nobody, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

#define SWAPS "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n"

#define TARGET "sys/kernel/config/nvmet/subsystems/nqn.2026-01.org.example:a"

/* Open the disk like `headrace store` does. */
static int open_in_use(void *arg)
{
	struct hr_kernel_blk disk;

	enter_dev();
	if (hr_kernel_blk_open(&disk, "/dev/nvme5n1", test_error()) != -EBUSY ||
	    !strstr(test_error_text(), "/dev/nvme5n1: is in use: nvme5n1 is part of loop5"))
		return 1;
	if (unlink("/sys/devices/virtual/block/loop5/loop/backing_file") ||
	    hr_kernel_blk_open(&disk, "/dev/nvme5n1", test_error()) != -ENODEV ||
	    !strstr(test_error_text(), "/dev/nvme5n1: No such device"))
		return 2;
	if (mkdir("/sys/" PLAIN "/nvme5n1/partition", 0755) ||
	    hr_kernel_blk_open(&disk, "/dev/nvme5n1", test_error()) != -ENODEV ||
	    !strstr(test_error_text(), "is a partition; a store takes a whole disk"))
		return 3;
	if (rmdir("/sys/" PLAIN "/nvme5n1/partition") || chmod("/dev/nvme5n1", 0600) ||
	    setuid(65534) || hr_kernel_blk_open(&disk, "/dev/nvme5n1", test_error()) != -EACCES ||
	    !strstr(test_error_text(), "run as root"))
		return 4;
	hr_kernel_blk_close(&disk);
	return 0;
}

Test(inuse, the_reason_why_a_disk_cannot_be_opened_is_reported)
{
	int step;

	make_node("loop5");
	cr_assert_eq(chmod(tree.root, 0755), 0);
	step = fake_tree_run(&tree, open_in_use, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

/* Open the disk for this access while the kernel returns these errors. */
static int refused(enum hr_open_mode access, int first, int second)
{
	struct hr_kernel_blk disk;

	memset(&kernel, 0, sizeof kernel);
	kernel.refuses = true;
	kernel.error[0] = first;
	kernel.error[1] = second;
	hr_open_mode_set(access);
	return hr_kernel_blk_open(&disk, "/dev/nvme5n1", test_error());
}

/* Root inside the namespace: the cause is not a missing right of the user. */
static int refuse_root(void *arg)
{
	(void)arg;
	enter_dev();
	if (geteuid() != 0 || refused(HR_OPEN_EXISTING, EPERM, 0) != -EACCES ||
	    !strstr(test_error_text(),
		    "/dev/nvme5n1: Operation not permitted: root may not either") ||
	    !strstr(test_error_text(), "control group") || strstr(test_error_text(), "run as root"))
		return 1;
	return kernel.requests == 1 && kernel.mode[0] == O_RDWR ? 0 : 2;
}

/*
 * `ls`, `get` and `verify` do not request write access. A disk that is read-only for all is opened
 * read-only.
 */
static int open_read_only(void *arg)
{
	(void)arg;
	enter_dev();
	if (refused(HR_OPEN_READ_ONLY, EACCES, 0) != -EACCES || kernel.requests != 1 ||
	    kernel.mode[0] != O_RDONLY)
		return 1;
	if (refused(HR_OPEN_EXISTING, EROFS, EACCES) != -EACCES || kernel.requests != 2 ||
	    kernel.mode[0] != O_RDWR || kernel.mode[1] != O_RDONLY)
		return 2;
	return 0;
}

static void in_tree(int (*inside)(void *arg))
{
	int step;

	make_node("loop5");
	step = fake_tree_run(&tree, inside, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

Test(inuse, root_gets_other_possible_reasons_of_a_refused_disk)
{
	in_tree(refuse_root);
}

Test(inuse, a_disk_that_is_only_read_is_opened_read_only)
{
	in_tree(open_read_only);
}

Test(inuse, a_file_that_is_no_disk_is_refused)
{
	struct hr_kernel_blk disk;
	char path[100];

	cr_expect_eq(hr_disk_check_unused("nvme77n77", test_error()), -ENOENT);
	cr_expect(strstr(test_error_text(), "nvme77n77 is not a block device"), "%s",
		  test_error_text());
	cr_expect_eq(hr_kernel_blk_open(&disk, "/dev/null", test_error()), -ENODEV);
	cr_expect_str_eq(test_error_text(), "/dev/null: is not a block device");
	cr_expect_eq(hr_kernel_blk_open(&disk, "/dev/nvme77n77", test_error()), -ENOENT);
	cr_expect_eq(hr_kernel_blk_open(&disk, "/dev/null/x", test_error()), -ENOENT);
	cr_expect_eq(hr_kernel_blk_open(&disk, "/dev", test_error()), -ENODEV);
	memset(path, '/', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	cr_expect_eq(hr_kernel_blk_open(&disk, path, test_error()), -ENOENT);
	hr_kernel_blk_close(&disk); /* not open, so this does nothing */
}
