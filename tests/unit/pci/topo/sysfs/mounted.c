/* SPDX-License-Identifier: Apache-2.0 */
/* Disks with a mounted file system or swap: all that is found below each mount, and what is asked. */
#include "pci/topo/sysfs/parts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/fakes/files.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define FILES_MAX 8

static struct hr_model model;

static void up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_mounted, .init = up, .fini = down, .timeout = 60);

#define DEV(n) "sys/dev/block/" n
#define CLASS(n) "sys/class/block/" n
#define DISK(address, name) "../../devices/pci0000:00/0000:" address "/nvme/nvme0/" name
#define MOUNT(n) "22 1 " n " / / rw,noatime - ext4 /dev/x rw\n"
#define ONE                                                    \
	{                                                      \
		DEV("259:1"), NULL, DISK("41:00.0", "nvme0n1") \
	}

/* Functions 41:00.0, 42:00.0 and 43:00.1; those that are in use, with "s" when stacked. */
static const char *in_use(const struct fake_file *file, const char *mounts, const char *swaps)
{
	static char text[512];
	struct fake_file all[FILES_MAX + 2];
	struct fake_files list = { all, 0 };
	struct hr_files files;
	size_t used = 0;

	hr_model_reset(&model);
	hr_model_add(&model, 0, 0x41, 0, 0);
	hr_model_add(&model, 0, 0x42, 0, 0);
	hr_model_add(&model, 0, 0x43, 0, 1);
	while (list.count < FILES_MAX && file[list.count].path) {
		all[list.count] = file[list.count];
		list.count++;
	}
	if (mounts)
		all[list.count++] =
			(struct fake_file){ .path = "proc/self/mountinfo", .text = mounts };
	if (swaps)
		all[list.count++] = (struct fake_file){ .path = "proc/swaps", .text = swaps };
	fake_files(&files, &list);
	hr_read_mounted(&model, &files);
	text[0] = '\0';
	for (uint32_t i = 0; i < model.count; i++) {
		const struct hr_fn *f = &model.fn[i];

		if (!hr_known(f, HR_F_MOUNTED)) {
			cr_expect_null(f->fs);
			cr_expect_not(hr_known(f, HR_F_STACKED));
			continue;
		}
		cr_expect_eq(hr_get(f, HR_F_MOUNTED, 0), 1u);
		cr_expect_eq(f->fact[HR_F_MOUNTED].source, HR_SRC_SYSFS);
		used += (size_t)snprintf(text + used, sizeof text - used, "%x%s:%s; ", f->bus,
					 hr_get(f, HR_F_STACKED, 0) ? "s" : "", f->fs);
	}
	return text;
}

Test(topo_mounted, each_line_of_mounts_is_read)
{
	static const struct {
		const char *mounts, *want;
	} row[] = {
		{ "22 1 259:1 / / rw - ext4 /dev/x rw\n", "41:ext4; " },
		{ "22 1 259:1 / / rw shared:1 - xfs /dev/x rw", "41:xfs; " },
		{ "22 1 259:1 / / rw - ext4 /dev/x rw,data=journal\n", "41:ext4 data=journal; " },
		{ "22 1 259:1 / / rw - ext4 /dev/x rw,data=writeback\n",
		  "41:ext4 data=writeback; " },
		{ "22 1 259:1 / / rw - ext4 /dev/x rw,data=ordered\n", "41:ext4; " },
		{ "22 1 259:1 / / rw - zfs\n", "41:zfs; " },
		{ "22 1 259:1 / / rw\n", "41:?; " },
		{ "22 1 259:1 / / rw - ext4 a b\n23 1 259:1 / /x rw - xfs a b\n", "41:ext4,xfs; " },
		{ "22 1 259:1 / / rw - xfs a b\n23 1 259:1 / /x rw - xfs a b\n", "41:xfs; " },
		{ "22 1 259:2 / / rw - xfs a b\n23 1 259:1 / /x rw - ext4 a b\n", "41:ext4; " },
		{ "22 1 0:1 / / rw - xfs a b\n", "" },
		{ "22 1 1:1 / / rw - xfs a b\n", "42:xfs; " },
		{ "22 1 259.1 / / rw - xfs a b\n", "" },
		{ "22 1 259:1/ / rw - xfs a b\n", "" },
		{ "22 259:1 / / rw - xfs a b\n", "" },
		{ "x 1 259:1 / / rw - xfs a b\n", "" },
		{ "22 x 259:1 / / rw - xfs a b\n", "" },
		{ "22 1 x:1 / / rw - xfs a b\n", "" },
		{ "22 1 259:x / / rw - xfs a b\n", "" },
		{ "22 1 259:1 / / rw - zfs", "41:zfs; " },
		{ "", "" },
	};
	static const struct fake_file files[FILES_MAX] = {
		{ .path = DEV("259:1"), .link = DISK("41:00.0", "nvme0n1") },
		{ .path = DEV("0:1"), .link = DISK("42:00.0", "nvme0n1") },
		{ .path = DEV("1:1"), .link = DISK("42:00.0", "nvme0n1") },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const char *got = in_use(files, row[i].mounts, NULL);

		cr_expect_str_eq(got, row[i].want, "row %zu: %s", i, got);
	}
}

Test(topo_mounted, each_line_of_swaps_is_read)
{
	static const struct {
		const char *mounts, *swaps, *want;
	} row[] = {
		{ NULL, "/dev/nvme0n1 partition 1 0 -2\n", "41:swap; " },
		{ NULL, "Filename\tType\n/dev/nvme0n1\tpartition 1 0 -2\n/swapfile file 1\n",
		  "41:swap; " },
		{ NULL, "/dev/nvme0n1\n/dev/nvme1n1", "41:swap; 43:swap; " },
		{ MOUNT("259:1"), "/dev/nvme0n1 x\n", "41:ext4,swap; " },
		{ NULL, "x/dev/nvme0n1 x\n", "" },
		{ NULL, "/devnvme0n1 x\n", "" },
		{ NULL, "/dev/ x\n", "" },
		{ NULL, NULL, "" },
	};
	static const struct fake_file files[FILES_MAX] = {
		{ .path = DEV("259:1"), .link = DISK("41:00.0", "nvme0n1") },
		{ .path = CLASS("nvme0n1"), .link = DISK("41:00.0", "nvme0n1") },
		{ .path = CLASS("nvme1n1"), .link = DISK("43:00.1", "nvme1n1") },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const char *got = in_use(files, row[i].mounts, row[i].swaps);

		cr_expect_str_eq(got, row[i].want, "row %zu: %s", i, got);
	}
}

#define SUB "../../devices/virtual/nvme-subsystem/nvme-subsys0"
#define SUB_FILE "sys/devices/virtual/nvme-subsystem/nvme-subsys0"
#define VIRTUAL "../../devices/virtual/block/"

/* From the device that is mounted down to the controllers. */
Test(topo_mounted, the_disk_below_a_mounted_device_is_found)
{
	static const struct {
		struct fake_file file[FILES_MAX];
		const char *want;
	} row[] = {
		/* The last address in the path that is in the model. */
		{ { { .path = DEV("259:1"),
		      .link = "../../devices/pci0/0000:42:00.0/0000:41:00.0/nvme/nvme0/n" } },
		  "41:ext4; " },
		{ { { .path = DEV("259:1"),
		      .link = "../../devices/pci0/0000:42:00.0/0000:55:00.0/nvme/nvme0/n" } },
		  "42:ext4; " },
		{ { { .path = DEV("259:1"), .link = "0000:43:00.1" } }, "43:ext4; " },
		{ { { .path = DEV("259:1"), .link = "../x/y" } }, "" },
		/* Several paths to one disk. */
		{ { { .path = DEV("259:1"), .link = SUB "/nvme0n1" },
		    { .path = SUB_FILE "/nvm2", .link = "../a/0000:42:00.0/nvme/nvme2" },
		    { .path = SUB_FILE "/nvme0", .link = "../a/0000:41:00.0/nvme/nvme0" },
		    { .path = SUB_FILE "/nvme1", .link = "../a/0000:43:00.1/nvme/nvme1" } },
		  "41:ext4; 43:ext4; " },
		/* A link that names no place below devices. */
		{ { { .path = DEV("259:1"), .link = "nvme-subsystem/nvme0n1" },
		    { .path = "sys(null)/nvme0", .link = "../a/0000:41:00.0/nvme/nvme0" } },
		  "" },
		/* md and dm count as stacks, a partition or another device does not. */
		{ { { .path = DEV("259:1"), .link = VIRTUAL "md0" },
		    { .path = DEV("259:1/slaves/nvme0n1"), .text = "" },
		    { .path = DEV("259:1/slaves/nvme1n1"), .text = "" },
		    { .path = CLASS("nvme0n1"), .link = DISK("41:00.0", "nvme0n1") },
		    { .path = CLASS("nvme1n1"), .link = DISK("42:00.0", "nvme1n1") } },
		  "41s:ext4; 42s:ext4; " },
		{ { { .path = DEV("259:1"), .link = VIRTUAL "dm-0" },
		    { .path = DEV("259:1/slaves/nvme0n1"), .text = "" },
		    { .path = CLASS("nvme0n1"), .link = DISK("41:00.0", "nvme0n1") } },
		  "41s:ext4; " },
		{ { { .path = DEV("259:1"), .link = VIRTUAL "bcache0" },
		    { .path = DEV("259:1/slaves/nvme0n1"), .text = "" },
		    { .path = CLASS("nvme0n1"), .link = DISK("41:00.0", "nvme0n1") } },
		  "41:ext4; " },
		/* dm over md over a disk of several paths. */
		{ { { .path = DEV("259:1"), .link = VIRTUAL "dm-0" },
		    { .path = DEV("259:1/slaves/md0"), .text = "" },
		    { .path = CLASS("md0"), .link = VIRTUAL "x" },
		    { .path = CLASS("md0/slaves/nvme0n1"), .text = "" },
		    { .path = CLASS("nvme0n1"), .link = SUB "/nvme0n1" },
		    { .path = SUB_FILE "/nvme0", .link = "../a/0000:41:00.0/nvme/nvme0" } },
		  "41s:ext4; " },
		/* A device above itself. */
		{ { { .path = DEV("259:1"), .link = VIRTUAL "dm-0" },
		    { .path = DEV("259:1/slaves/a"), .text = "" },
		    { .path = CLASS("a"), .link = VIRTUAL "dm-1" },
		    { .path = CLASS("a/slaves/a"), .text = "" } },
		  "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const char *got = in_use(row[i].file, MOUNT("259:1"), NULL);

		cr_expect_str_eq(got, row[i].want, "row %zu: %s", i, got);
	}
}

Test(topo_mounted, four_devices_may_be_above_the_disk)
{
	static const char *const link[] = { VIRTUAL "a", VIRTUAL "b", VIRTUAL "c", VIRTUAL "d",
					    VIRTUAL "e" };
	const char *path[] = { DEV("259:1"), CLASS("b"), CLASS("c"), CLASS("d"), CLASS("e") };
	const char *slave[] = { DEV("259:1/slaves/b"), CLASS("b/slaves/c"), CLASS("c/slaves/d"),
				CLASS("d/slaves/e"), CLASS("e/slaves/f") };

	for (unsigned i = 2; i <= 11; i++) {
		const unsigned above = i / 2;
		const bool swap = i % 2;
		struct fake_file file[13] = { 0 };
		struct fake_files list = { file, 0 };
		struct hr_files files;
		char name[32];

		path[0] = swap ? CLASS("a") : DEV("259:1");
		slave[0] = swap ? CLASS("a/slaves/b") : DEV("259:1/slaves/b");
		for (unsigned k = 0; k < above; k++) {
			file[list.count++] = (struct fake_file){ .path = path[k], .link = link[k] };
			file[list.count++] = (struct fake_file){ .path = slave[k], .text = "" };
		}
		snprintf(name, sizeof name, CLASS("%c"), 'a' + (int)above);
		file[list.count++] =
			(struct fake_file){ .path = name, .link = DISK("41:00.0", "nvme0n1") };
		/* A mounted device, or swap on it by its name. */
		file[list.count].path = swap ? "proc/swaps" : "proc/self/mountinfo";
		file[list.count++].text = swap ? "/dev/a x\n" : MOUNT("259:1");
		hr_model_reset(&model);
		hr_model_add(&model, 0, 0x41, 0, 0);
		fake_files(&files, &list);
		hr_read_mounted(&model, &files);
		cr_expect_eq(hr_known(&model.fn[0], HR_F_MOUNTED), above <= 4, "%u", above);
	}
}
