/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures as users send them: archives with a leading folder, parts of /sys, pasted text, trees.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pci/topo/fields.h"
#include "pci/topo/source/source.h"
#include "pci/topo/rules/verdict.h"
#include "tests/harness/archive.h"
#include "tests/harness/folder.h"
#include "tests/harness/machine.h"

static struct hr_model model, other;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	cr_assert_eq(hr_model_init(&other), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
	hr_model_fini(&other);
}

TestSuite(topo_readers, .init = set_up, .fini = tear_down, .timeout = 60);

static const struct hr_fn *at(const char *address)
{
	uint32_t domain, bus, dev, fn;
	int32_t index;

	cr_assert_neq(hr_bdf_parse(address, &domain, &bus, &dev, &fn), 0);
	index = hr_model_find(&model, domain, bus, dev, fn);
	cr_assert_neq(index, HR_NO_FN, "%s is missing", address);
	return &model.fn[index];
}

/* ---- archives */

#define CLASS_GPU "0x030200\n"
#define CLASS_SSD "0x010802\n"

static int read_archive(const struct fake_member *list, size_t n)
{
	size_t size;
	char *tar = fake_archive(list, n, &size);
	int err;

	hr_model_reset(&model);
	err = hr_source_parse(&model, "x.tar", tar, size);
	free(tar);
	return err;
}

Test(topo_readers, an_archive_may_have_folders_in_front)
{
	static const char *const before[] = { "", "machine/", "tmp/dump.1/machine-7/" };
	static const char *const name[] = {
		"%ssys/bus/pci/devices/0000:41:00.0/class",
		"%ssys/bus/pci/devices/0000:41:00.0/numa_node",
		"%sproc/sys/kernel/osrelease",
		"%ssys/kernel/iommu_groups/5/type",
		"%sREADME",
	};
	static const char *const text[] = { CLASS_SSD, "1\n", "6.1.0\n", "DMA\n", "hello\n" };
	char path[5][100];
	struct fake_member list[6];

	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		for (size_t j = 0; j < 5; j++) {
			snprintf(path[j], sizeof path[j], name[j], before[i]);
			list[j] = (struct fake_member){ .path = path[j], .text = text[j] };
		}
		list[5] = (struct fake_member){ .path = "other/file", .text = "x" };
		cr_assert_eq(read_archive(list, 6), 0, "%s: %s", before[i], model.error.text);
		cr_expect_eq(model.count, 1u);
		cr_expect_eq(hr_get(at("41:00.0"), HR_F_NUMA, 0), 1u);
		cr_expect_str_eq(model.sys.kernel, "6.1.0");
	}
}

Test(topo_readers, two_machines_in_one_archive_are_refused)
{
	static const struct fake_member list[] = {
		{ .path = "one/sys/bus/pci/devices/0000:41:00.0/class", .text = CLASS_SSD },
		{ .path = "two/sys/bus/pci/devices/0000:41:00.0/class", .text = CLASS_GPU },
	};

	cr_expect_eq(read_archive(list, 2), -EINVAL);
	cr_expect(strstr(model.error.text, "one/") && strstr(model.error.text, "two/"), "%s",
		  model.error.text);
}

/*
 * tar pads files that a user cannot read completely with zeros: 64 bytes are readable, the size is
 * 4096.
 */
Test(topo_readers, zeros_in_place_of_registers_are_not_registers)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	struct fake_member list[1] = { { .path = "sys/bus/pci/devices/0000:03:00.0/config" } };
	struct fake_fn *gpu;

	fake_two_ports(m);
	gpu = fake_find(m, "03:00.0");
	memset(gpu->config + 64, 0, sizeof gpu->config - 64);
	list[0].bytes = gpu->config;
	list[0].size = sizeof gpu->config;
	cr_assert_eq(read_archive(list, 1), 0, "%s", model.error.text);
	cr_expect(model.fn[0].denied);
	cr_expect(!hr_known(&model.fn[0], HR_F_ACS));
	cr_expect(!hr_known(&model.fn[0], HR_F_EXP));
	free(m);
}

/* Names over 100 bytes: GNU tar and POSIX tar put them before the header. */
#define LONG_FOLDER "captures/of-a-machine-that-has-a-very-long-name/"
#define LONG_PATH LONG_FOLDER LONG_FOLDER "sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0"
#define LONG_LINK "../../../devices/pci0000:40/0000:40:01.0/0000:41:00.0"
#define LONG_DEVICES LONG_FOLDER LONG_FOLDER "sys/bus/pci/devices/"

static void expect_long(const struct fake_member *list, size_t n)
{
	cr_assert_eq(read_archive(list, n), 0, "%s", model.error.text);
	cr_assert_eq(model.count, 1u);
	cr_expect(hr_is_nvme(at("41:00.0")));
	cr_expect_eq(hr_get(at("41:00.0"), HR_F_NUMA, 0), 1u);
}

Test(topo_readers, long_names_of_gnu_tar_are_read)
{
	static const struct fake_member list[] = {
		{ .path = "@LongLink", .type = 'L', .text = LONG_PATH "/class" },
		{ .path = "cut", .text = CLASS_SSD },
		{ .path = "@LongLink", .type = 'K', .text = LONG_LINK },
		{ .path = "@LongLink", .type = 'L', .text = LONG_DEVICES "0000:41:00.0" },
		{ .path = "cut", .link = "cut" },
		{ .path = "@LongLink", .type = 'L', .text = LONG_PATH "/numa_node" },
		{ .path = "cut", .text = "1\n" },
	};

	expect_long(list, sizeof list / sizeof *list);
}

/* A record "27 path=sys/...\n" counts its own length. */
static void pax_record(char *text, const char *key, const char *value)
{
	size_t size = strlen(key) + strlen(value) + 3;

	size += (size_t)snprintf(NULL, 0, "%zu", size + 2);
	sprintf(text + strlen(text), "%zu %s=%s\n", size, key, value);
}

Test(topo_readers, long_names_of_pax_are_read)
{
	char class[512] = "", link[512] = "", node[512] = "";
	const struct fake_member list[] = {
		{ .path = "PaxHeaders/1", .type = 'x', .text = class },
		{ .path = "cut", .text = CLASS_SSD },
		{ .path = "PaxHeaders/2", .type = 'x', .text = link },
		{ .path = "cut", .link = "cut" },
		{ .path = "PaxHeaders/3", .type = 'x', .text = node },
		{ .path = "cut", .text = "1\n" },
	};

	pax_record(class, "mtime", "1700000000.123456789");
	pax_record(class, "comment", "path=wrong");
	pax_record(class, "path", LONG_PATH "/class");
	pax_record(link, "linkpath", LONG_LINK);
	pax_record(link, "path", LONG_DEVICES "0000:41:00.0");
	pax_record(node, "path", LONG_PATH "/numa_node");
	expect_long(list, sizeof list / sizeof *list);
}

/* The header sum of names beyond ASCII needs all its digits. */
Test(topo_readers, a_header_with_a_large_sum_is_not_damaged)
{
	char path[98], link[100];
	const struct fake_member list[] = {
		{ .path = "sys/bus/pci/devices/0000:41:00.0/class", .text = CLASS_SSD },
		{ .path = path, .link = link },
	};

	memset(path, 0xfe, sizeof path - 1);
	memset(link, 0xfe, sizeof link - 1);
	path[sizeof path - 1] = link[sizeof link - 1] = '\0';
	cr_expect_eq(read_archive(list, 2), 0, "%s", model.error.text);
	cr_expect_eq(model.count, 1u);
}

/* Records with a wrong length: the name in the header stays, and following records are ignored. */
Test(topo_readers, pax_records_of_wrong_length_are_ignored)
{
	static const char *const text[] = {
		"",
		"path=x\n",
		"0 path=x\n",
		"2 path=x\n",
		"3 path=x\n",
		"6 path=x\n",
		"7 path=x\n",
		"99 path=x\n",
		"12 path=x\n",
		"7 path=",
		"11 linkpath=x\n",
		"18446744073709551615 path=x\n",
		"-1 path=x\n",
	};

	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		const struct fake_member list[] = {
			{ .path = "PaxHeaders/1", .type = 'x', .text = text[i] },
			{ .path = "sys/bus/pci/devices/0000:41:00.0/class", .text = CLASS_SSD },
		};

		cr_assert_eq(read_archive(list, 2), 0, "'%s': %s", text[i], model.error.text);
		cr_assert_eq(model.count, 1u, "'%s'", text[i]);
		cr_expect(hr_is_nvme(at("41:00.0")), "'%s'", text[i]);
	}
}

/* ---- a part of the tree */

static void make_tree(const char *root, const char *before)
{
	static const char *const file[][2] = {
		{ "sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/class", CLASS_SSD },
		{ "sys/devices/pci0000:40/0000:40:01.0/class", "0x060400\n" },
		{ "sys/bus/pci/drivers/nvme/x", "" },
		{ "sys/kernel/security/lockdown", "[none] integrity\n" },
		{ "sys/devices/system/cpu/cpu0/x", "" },
		{ "proc/sys/kernel/osrelease", "6.1.0\n" },
	};
	char path[256];

	for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
		snprintf(path, sizeof path, "%s%s", before, file[i][0]);
		folder_put(root, path, file[i][1]);
	}
	snprintf(path, sizeof path, "%ssys/bus/pci/devices/x", before);
	folder_put(root, path, "");
	snprintf(path, sizeof path, "%s/%ssys/bus/pci/devices/0000:41:00.0", root, before);
	cr_assert_eq(symlink("../../../devices/pci0000:40/0000:40:01.0/0000:41:00.0", path), 0);
	snprintf(path, sizeof path, "%s/%ssys/bus/pci/devices/0000:40:01.0", root, before);
	cr_assert_eq(symlink("../../../devices/pci0000:40/0000:40:01.0", path), 0);
}

static void same_tree(const char *root, const char *part)
{
	char path[256];

	snprintf(path, sizeof path, "%s%s", root, part);
	hr_model_reset(&model);
	cr_assert_eq(hr_source_open(&model, path), 0, "%s", model.error.text);
	cr_expect_eq(model.count, 2u, "%s: %u", part, model.count);
	cr_expect(hr_is_nvme(at("41:00.0")), "%s", part);
	cr_expect_str_eq(model.sys.kernel, "6.1.0", "%s: '%s'", part, model.sys.kernel);
	cr_expect_str_eq(model.sys.lockdown, "none", "%s", part);
	cr_expect_eq(model.sys.cpus.value, 1u, "%s", part);
}

Test(topo_readers, any_part_of_a_tree_gives_the_whole_tree)
{
	static const char *const part[] = {
		"", "/", "/sys", "/sys/", "/sys/bus/pci", "/sys/bus/pci/devices", "/sys/devices"
	};
	char root[] = "/tmp/topo_readers.XXXXXX", moved[64];

	cr_assert_not_null(mkdtemp(root));
	make_tree(root, "");
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		same_tree(root, part[i]);
	/* Under another name, and one folder deeper. */
	make_tree(root, "machine/");
	snprintf(moved, sizeof moved, "%s/sys", root);
	folder_remove(moved);
	same_tree(root, "");
	make_tree(root, "other/");
	hr_model_reset(&model);
	cr_expect_eq(hr_source_open(&model, root), -EINVAL);
	cr_expect(strstr(model.error.text, "machine") && strstr(model.error.text, "other"), "%s",
		  model.error.text);
	folder_remove(root);
}

/* The files may be below a folder; a file that is missing states nothing. */
Test(topo_readers, an_archive_of_an_sos_report_is_read)
{
	static const char *const below[] = { "", "sosreport-box/" };

	for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
		char path[3][100];
		const struct fake_member list[] = {
			{ .path = path[0],
			  .text = "00:00.0 Host bridge [0600]: AMD Root [1022:1480]\n"
				  "01:00.0 3D controller [0302]: NVIDIA Card [10de:20f1]\n" },
			{ .path = path[1],
			  .text = "[    1.9] x\n[    1.915531] iommu: Default domain "
				  "type: Passthrough\n" },
			{ .path = path[2], .text = "Linux box 5.14.0-503.el9.x86_64 #1 SMP\n" },
		};
		size_t size;
		char *tar;

		snprintf(path[0], 100, "%ssos_commands/pci/lspci_-nnvv", below[i]);
		snprintf(path[1], 100, "%ssos_commands/kernel/dmesg", below[i]);
		snprintf(path[2], 100, "%ssos_commands/kernel/uname_-a", below[i]);
		tar = fake_archive(list, 3, &size);
		hr_model_reset(&model);
		cr_assert_eq(hr_source_parse(&model, "x", tar, size), 0, "%s", model.error.text);
		cr_expect_eq(model.count, 2u);
		cr_expect_str_eq(model.sys.kernel, "5.14.0-503.el9.x86_64");
		cr_expect_eq(model.sys.iommu.value, (uint32_t)HR_IOMMU_PT);
		cr_expect_str_eq(model.sys.iommu_reason,
				 "kernel log, line 2: Default domain type: Passthrough");
		free(tar);
	}
}
