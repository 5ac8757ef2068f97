/* SPDX-License-Identifier: Apache-2.0 */
/* Whole records of sysfs and procfs: all that a set of files says, and nothing else. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/sysfs/sysfs.h"
#include "pci/topo/sysfs/parts.h"
#include "tests/fakes/files.h"
#include "tests/harness/described.h"

/* A file with a text, a link. */
#define F(at, content)                      \
	{                                   \
		.path = at, .text = content \
	}
#define L(at, target)                      \
	{                                  \
		.path = at, .link = target \
	}
#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_model model;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_sysfs_records, .init = set_up, .fini = tear_down, .timeout = 60);

/* A function whose facts of the class are known, with these files in the folder "d". */
static const char *function_with(uint32_t class, uint32_t vendor, const struct fake_file *file,
				 unsigned count)
{
	const struct fake_files list = { file, count };
	struct hr_files files;
	struct hr_fn *f;

	hr_model_reset(&model);
	fake_files(&files, &list);
	f = hr_model_add(&model, 0, 1, 2, 3);
	cr_assert_not_null(f);
	if (class)
		hr_fn_set(f, HR_F_CLASS, class, HR_SRC_CONFIG);
	if (vendor)
		hr_fn_set(f, HR_F_VENDOR, vendor, HR_SRC_CONFIG);
	hr_read_sysfs_function(&model, &files, f, "d");
	return fake_described(f);
}

#define LINE(start, end, flags) "0x" start " 0x" end " 0x" flags "\n"
#define NO_BAR LINE("0", "0", "0")

Test(topo_sysfs_records, all_files_of_a_function)
{
	static const struct fake_file file[] = {
		F("d/vendor", "0x144d\n"),
		F("d/device", "0xa80a\n"),
		F("d/class", "0x010802\n"),
		F("d/numa_node", "-1\n"),
		F("d/current_link_speed", "8.0 GT/s PCIe\n"),
		F("d/max_link_speed", "16.0 GT/s PCIe\n"),
		F("d/current_link_width", "2\n"),
		F("d/max_link_width", "4\n"),
		{ .path = "d/resource",
		  .text = LINE("e0000000", "e0003fff", "140204")
			  NO_BAR LINE("e0010000", "e0010fff", "42208") },
		L("d/iommu_group", "../../../../kernel/iommu_groups/77"),
		F("sys/kernel/iommu_groups/77/type", "identity\n"),
		F("d/power_state", "D2\n"),
		L("d/physfn", "../0000:40:1f.7"),
		L("d/driver", "../../../bus/pci/drivers/nvme"),
		F("d/label", "Slot 4\n"),
		F("d/local_cpulist", "0-3,8\nmore"),
		F("d/nvme/nvme3/nvme3n1/size", "1\n"),
		F("d/nvme/nvme3/nvme5c3n2/size", "1\n"),
		F("d/nvme/nvme3/nvme5c3n2x/size", "1\n"),
		F("d/nvme/nvme3/nvme3n1p1/size", "1\n"),
		F("d/nvme/nvme3/hwmon3/name", "nvme\n"),
		F("d/nvme/nvme4/model", "x\n"),
		F("d/nvme/nvme6/nvme6n1/size", "1\n"),
		F("d/infiniband/mlx5_0/x", ""),
		F("d/net/eth0/x", ""),
		F("d/aer_dev_correctable", "RxErr 3\nTOTAL_ERR_COR 5\n"),
		F("d/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 6\n"),
		F("d/aer_dev_fatal", "TOTAL_ERR_FATAL 7\n"),
		F("d/aer_rootport_total_err_cor", "8\n"),
		F("d/aer_rootport_total_err_nonfatal", "9\n"),
		F("d/aer_rootport_total_err_fatal", "10\n"),
	};

	cr_expect_str_eq(
		function_with(0, 0, file, ROWS(file)),
		"vendor=144d/4 device=a80a/4 class=10802/4 link_speed_max=4/4 link_width_max=4/4 "
		"link_speed=3/4 link_width=2/4 pm_state=2/4 physical_function=40ff/4 "
		"aer_correctable=5/4 aer_nonfatal=6/4 aer_fatal=7/4 aer_root_correctable=8/4 "
		"aer_root_nonfatal=9/4 aer_root_fatal=a/4 numa_node=ffffffff/4 iommu_group=4d/4 "
		"iommu_type=2/4 bar0=e0000000+4000 f3 4,4 bar2=e0010000+1000 f5 4,4 driver='nvme' "
		"pci_slot='Slot 4' cpus='0-3,8' devices='nvme3n1 nvme5n2 nvme4 nvme6n1'");
}

static const struct {
	uint32_t class, vendor;
	struct fake_file file[4];
	unsigned count;
	const char *want;
} few[] = {
	/* The folder of a driver that is not bound has no link. */
	{ 0, 0, { F("e/vendor", "0x10de\n") }, 1, "driver=''" },
	{ 0x10802, 0, { F("e/x", "") }, 1, "class=10802/5 driver=''" },
	{ 0x20000, 0, { F("e/x", "") }, 1, "class=20000/5 rdma=0/4 driver=''" },
	{ 0x30200, 0x10de, { F("e/x", "") }, 1, "vendor=10de/5 class=30200/5 driver=''" },
	/* Empty files. */
	{ 0,
	  0,
	  { F("d/vendor", ""), F("d/resource", ""), F("d/label", "\n"), F("d/power_state", "D") },
	  4,
	  "driver=''" },
	{ 0x10802,
	  0,
	  { F("d/local_cpulist", ""), F("d/label", ""), F("d/current_link_speed", ""),
	    F("d/nvme/", "") },
	  4,
	  "class=10802/5 driver=''" },
	/* Numbers at their limits. */
	{ 0,
	  0,
	  { F("d/numa_node", "4294967295\n"), F("d/device", "0x0"),
	    F("d/current_link_width", "-2\n"), F("d/max_link_width", "4294967296\n") },
	  4,
	  "device=0/4 numa_node=ffffffff/4 driver=''" },
	{ 0,
	  0,
	  { F("d/power_state", "D3cold\n"), F("d/current_link_speed", "2.4 GT/s\n"),
	    F("d/max_link_speed", "31.95 GT/s\n") },
	  3,
	  "link_speed_max=5/4 pm_state=4/4 driver=''" },
	{ 0,
	  0,
	  { F("d/power_state", "D0\n"), F("d/current_link_speed", "64.05 GT/s\n"),
	    F("d/max_link_speed", "64.2 GT/s\n") },
	  3,
	  "link_speed=6/4 pm_state=0/4 driver=''" },
	/* Only some kinds have names and CPUs. */
	{ 0x60400,
	  0,
	  { F("d/local_cpulist", "1\n"), F("d/nvme/nvme0/x", ""), F("d/net/eth0/x", "") },
	  3,
	  "class=60400/5 driver=''" },
	{ 0x30200,
	  0x10de,
	  { F("d/local_cpulist", "1\n"), F("d/nvme/nvme0/x", ""), F("d/net/eth0/x", "") },
	  3,
	  "vendor=10de/5 class=30200/5 driver='' cpus='1'" },
	{ 0x20000,
	  0,
	  { F("d/local_cpulist", "2-3\n"), F("d/nvme/nvme0/x", ""), F("d/net/eth0/x", "") },
	  3,
	  "class=20000/5 rdma=0/4 driver='' cpus='2-3' devices='eth0'" },
	{ 0x20000,
	  0,
	  { F("d/infiniband/mlx5_1/x", ""), F("d/net/eth0/x", ""), F("d/net/eth1/x", "") },
	  3,
	  "class=20000/5 rdma=1/4 driver='' devices='mlx5_1 eth0 eth1'" },
	/* Types of groups, and names that are no numbers. */
	{ 0,
	  0,
	  { L("d/iommu_group", "../0"), F("sys/kernel/iommu_groups/0/type", "DMA-FQ\n") },
	  2,
	  "iommu_group=0/4 iommu_type=3/4 driver=''" },
	{ 0,
	  0,
	  { L("d/iommu_group", "../0"), F("sys/kernel/iommu_groups/0/type", "DM\n") },
	  2,
	  "iommu_group=0/4 driver=''" },
	{ 0, 0, { L("d/iommu_group", "5") }, 1, "iommu_group=5/4 driver=''" },
	{ 0,
	  0,
	  { L("d/iommu_group", "../5x"), L("d/physfn", "../0000:40:00.00") },
	  2,
	  "driver=''" },
	/* The first counter decides whether there are counters. */
	{ 0,
	  0,
	  { F("d/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 6\n"),
	    F("d/aer_rootport_total_err_cor", "8\n") },
	  2,
	  "driver=''" },
	{ 0,
	  0,
	  { F("d/aer_dev_correctable", "TOTAL_ERR_COR 4294967295\n"),
	    F("d/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL \n"),
	    F("d/aer_dev_fatal", "TOTAL_ERR_FATAL 4294967294\n"),
	    F("d/aer_rootport_total_err_cor", "\n") },
	  4,
	  "aer_correctable=ffffffff/4 aer_fatal=fffffffe/4 driver=''" },
};

Test(topo_sysfs_records, files_that_are_missing_or_say_nothing)
{
	for (size_t i = 0; i < ROWS(few); i++)
		cr_expect_str_eq(
			function_with(few[i].class, few[i].vendor, few[i].file, few[i].count),
			few[i].want, "row %zu: %s", i,
			function_with(few[i].class, few[i].vendor, few[i].file, few[i].count));
}

/* Names of a network card that fill their room of 512 bytes; one longer than 64 bytes is left out. */
Test(topo_sysfs_records, names_that_do_not_fit_are_left_out)
{
	static char path[12][128];
	struct fake_file file[12];
	const char *devices;

	for (unsigned i = 0; i < 12; i++) {
		snprintf(path[i], sizeof path[i], "d/net/%0*u/x",
			 i == 3	   ? 65
			 : i == 11 ? 47
				   : 64,
			 i);
		file[i] = (struct fake_file){ .path = path[i], .text = "" };
	}
	function_with(0x20000, 0, file, 8); /* 7 names of 64 bytes, with spaces */
	devices = model.fn[0].devices;
	cr_expect_eq(strlen(devices), 7 * 65 - 1u, "%zu", strlen(devices));
	cr_expect_null(strstr(devices, "3 "));
	function_with(0x20000, 0, file, 11); /* 454 bytes, and none more of 64 */
	cr_expect_eq(strlen(model.fn[0].devices), 7 * 65 - 1u);
	for (unsigned n = 55; n <= 58; n++) { /* 511 bytes and a NUL fit: 454 + 1 + 56 */
		snprintf(path[11], sizeof path[11], "d/net/%0*u/x", (int)n, 11u);
		function_with(0x20000, 0, file, 12);
		cr_expect_eq(strlen(model.fn[0].devices), n <= 56 ? 7 * 65 + n : 7 * 65 - 1,
			     "%u: %zu", n, strlen(model.fn[0].devices));
	}
}

/* ---- BARs beside configuration space */

Test(topo_sysfs_records, a_bar_of_configuration_space_gets_only_its_size)
{
	static const struct {
		struct hr_bar has;
		const char *lines, *want;
	} row[] = {
		{ { 0x1000, 0, HR_BAR_MEM, HR_SRC_CONFIG, HR_SRC_NONE, 0, 0 },
		  LINE("e0000000", "e0003fff", "200"),
		  "bar0=1000+4000 f1 5,4 driver=''" },
		{ { 0x1000, 64, HR_BAR_MEM, HR_SRC_CONFIG, HR_SRC_CONFIG, 0, 0 },
		  LINE("e0000000", "e0003fff", "200"),
		  "bar0=1000+40 f1 5,5 driver=''" },
		{ { 0x1000, 64, HR_BAR_MEM, HR_SRC_CONFIG, HR_SRC_SYSFS, 0, 0 },
		  LINE("e0000000", "e0003fff", "200"),
		  "bar0=1000+4000 f1 5,4 driver=''" },
		{ { 0x1000, 64, HR_BAR_MEM, HR_SRC_SYSFS, HR_SRC_TEXT, 0, 0 },
		  LINE("e0000000", "e0003fff", "200"),
		  "bar0=e0000000+4000 f1 4,4 driver=''" },
		/* The register reads zero, and the kernel has an address. */
		{ { 0, 0, 0, HR_SRC_CONFIG, HR_SRC_NONE, 0, 0 },
		  LINE("e0000000", "e0003fff", "102200"),
		  "bar0=0+4000 ff 4,4 driver=''" },
		{ { 0, 0, 0, 0, 0, 0, 0 },
		  LINE("e0000000", "e0003fff", "20100200"),
		  "bar0=e0000000+4000 fb 4,4 driver=''" },
		{ { 0, 0, 0, 0, 0, 0, 0 }, LINE("e0000000", "dfffffff", "200"), "driver=''" },
		{ { 0, 0, 0, 0, 0, 0, 0 },
		  LINE("e0000000", "e0000000", "200"),
		  "bar0=e0000000+1 f1 4,4 driver=''" },
		{ { 0, 0, 0, 0, 0, 0, 0 }, LINE("e0000000", "e00000ff", "101"), "driver=''" },
		/* More on a line, a line that is cut, seven lines. */
		{ { 0, 0, 0, 0, 0, 0, 0 },
		  "0x1000 0x10ff 0x200 x y\n0x2000 0x2fff 0x200",
		  "bar0=1000+100 f1 4,4 bar1=2000+1000 f1 4,4 driver=''" },
		{ { 0, 0, 0, 0, 0, 0, 0 },
		  NO_BAR NO_BAR NO_BAR NO_BAR NO_BAR LINE("1000", "1fff", "200")
			  LINE("2000", "2fff", "200"),
		  "bar5=1000+1000 f1 4,4 driver=''" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct fake_file file = { .path = "d/resource", .text = row[i].lines };
		const struct fake_files list = { &file, 1 };
		struct hr_files files;
		struct hr_fn *f;

		hr_model_reset(&model);
		fake_files(&files, &list);
		f = hr_model_add(&model, 0, 1, 2, 3);
		f->bar[0] = row[i].has;
		hr_read_sysfs_function(&model, &files, f, "d");
		cr_expect_str_eq(fake_described(f), row[i].want, "row %zu: %s", i,
				 fake_described(f));
	}
}

/* ---- the machine */

static const char *system_with(const struct fake_file *file, unsigned count)
{
	const struct fake_files list = { file, count };
	struct hr_files files;

	memset(&model.sys, 0, sizeof model.sys);
	fake_files(&files, &list);
	hr_read_sysfs_system(&model, &files);
	return fake_described_system(&model.sys);
}

#define KEYS "proc/driver/nvidia/params"
#define VERSION "proc/driver/nvidia/version"

Test(topo_sysfs_records, all_files_of_a_machine)
{
	static const struct fake_file file[] = {
		F("proc/sys/kernel/osrelease", "6.8.0-1\n"),
		F("proc/cmdline", "ro quiet\nx"),
		F("proc/cpuinfo",
		  "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: fpu "
		  "hypervisor\n"),
		F("sys/kernel/iommu_groups/", ""),
		F("sys/class/iommu/", ""),
		F("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
		F(VERSION,
		  "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release\n"
		  "GCC version: 12.2\n"),
		F(KEYS, "RegistryDwordsPerDevice: \"a=1\"\nRegistryDwords: \"b=2;c=3\"\nx: 1\n"),
		F("sys/module/nvidia_fs/version", "2.17\nx"),
		F("sys/module/nvme_core/parameters/multipath", "Y\n"),
		F("boot/config-6.8.0-1", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n"),
		F("sys/devices/system/cpu/cpu0/online", "1\n"),
		F("sys/devices/system/cpu/cpu1/online", "1\n"),
		F("sys/devices/system/cpu/cpuidle/x", "1\n"),
		F("sys/devices/system/cpu/xpu2/x", "1\n"),
	};

	cr_expect_str_eq(system_with(file, ROWS(file)),
			 "amd=1/4 family=19/4 cpus=2/4 hypervisor=1/4 iommu=1/4 p2pdma=1/4 "
			 "nvidia_open=1/4 multipath=1/4 kernel='6.8.0-1' cmdline='ro quiet' "
			 "lockdown='integrity' nvidia='570.86.10' nvidia_keys='b=2;c=3' "
			 "nvidia_fs='2.17'");
}

Test(topo_sysfs_records, files_of_the_machine_one_by_one)
{
	static const struct {
		struct fake_file file[3];
		unsigned count;
		const char *want;
	} row[] = {
		{ { F("x", "") }, 1, "" },
		{ { F("proc/cpuinfo", "") }, 1, "" },
		{ { F("proc/cpuinfo", "vendor_id: AuthenticAMd\ncpu family: 23") },
		  1,
		  "amd=0/4 family=17/4" },
		{ { F("proc/cpuinfo", "flags: a hypervisor9\ncpu family 23\nx: 1") },
		  1,
		  "hypervisor=0/4" },
		{ { F("sys/kernel/security/lockdown", "none\n") }, 1, "" },
		{ { F("sys/kernel/security/lockdown", "[none") }, 1, "lockdown='none'" },
		/* No IOMMU: both folders are there, and both are empty. */
		{ { F("sys/kernel/iommu_groups/", "") }, 1, "" },
		{ { F("sys/class/iommu/", "") }, 1, "" },
		{ { F("sys/kernel/iommu_groups/", ""), F("sys/class/iommu/dmar0/x", "") }, 2, "" },
		{ { F("sys/kernel/iommu_groups/0/x", ""), F("sys/class/iommu/", "") }, 2, "" },
		/* NVIDIA's driver: the first word that is a version. */
		{ { F(VERSION, "NVRM 7 x86_64 0.5 Module 535.129.03 12.2") },
		  1,
		  "nvidia_open=0/4 nvidia='535.129.03'" },
		{ { F(VERSION, "none\n535.1\n") }, 1, "" },
		{ { F(KEYS, "RegistryDwords: \"\"\n") }, 1, "nvidia_keys='-'" },
		{ { F(KEYS, "RegistryDwords:a=1") }, 1, "nvidia_keys='a=1'" },
		{ { F(KEYS, "xRegistryDwords: \"a\"\n") }, 1, "" },
		{ { F(KEYS, "x\nRegistryDwords:\t a=1\nb") }, 1, "nvidia_keys='a=1'" },
		/* The module nvidia-fs, with and without a version. */
		{ { F("sys/module/nvidia_fs/x", "") }, 1, "nvidia_fs='loaded'" },
		{ { F("sys/module/nvidia/x", "") }, 1, "nvidia_fs='not loaded'" },
		{ { F("sys/module/", "") }, 1, "" },
		{ { F("sys/module/nvme_core/parameters/multipath", "N\n") },
		  1,
		  "multipath=0/4 nvidia_fs='not loaded'" },
		{ { F("sys/module/nvme_core/parameters/multipath", "1") },
		  1,
		  "multipath=1/4 nvidia_fs='not loaded'" },
		/* The kernel's configuration counts when it is one. */
		{ { F("proc/sys/kernel/osrelease", "6.1"),
		    F("boot/config-6.1", "# CONFIG_PCI_P2PDMA=y\nCONFIG_PCI=y\n") },
		  2,
		  "p2pdma=0/4 kernel='6.1'" },
		{ { F("proc/sys/kernel/osrelease", "6.1"),
		    F("boot/config-6.1", "\nCONFIG_PCI_P2PDMA=y\n") },
		  2,
		  "kernel='6.1'" },
		{ { F("proc/sys/kernel/osrelease", "a/b"),
		    F("boot/config-a/b", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n") },
		  2,
		  "kernel='a/b'" },
		{ { F("boot/config-", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n") }, 1, "" },
		{ { F("sys/devices/system/cpu/cpufreq/x", "") }, 1, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_str_eq(system_with(row[i].file, row[i].count), row[i].want, "row %zu: %s",
				 i, system_with(row[i].file, row[i].count));
}

/* The highest mode of all functions counts; modes that differ make it an inference. */
Test(topo_sysfs_records, groups_of_several_functions_give_one_mode)
{
	static const struct {
		uint32_t type[3];
		const char *want;
	} row[] = {
		{ { 0, 0, 0 }, "" },
		{ { HR_IOMMU_PT, 0, 0 }, "iommu=2/4" },
		{ { 0, 0, HR_IOMMU_ON }, "iommu=3/4" },
		{ { HR_IOMMU_PT, HR_IOMMU_PT, HR_IOMMU_PT }, "iommu=2/4" },
		{ { HR_IOMMU_ON, 0, HR_IOMMU_ON }, "iommu=3/4" },
		{ { HR_IOMMU_PT, 0, HR_IOMMU_ON }, "iommu=3/1" },
		{ { HR_IOMMU_ON, HR_IOMMU_PT, 0 }, "iommu=3/1" },
		{ { HR_IOMMU_ON, HR_IOMMU_PT, HR_IOMMU_ON }, "iommu=3/1" },
	};
	const struct fake_file none = F("x", "");

	for (size_t i = 0; i < ROWS(row); i++) {
		hr_model_reset(&model);
		for (unsigned k = 0; k < 3; k++) {
			struct hr_fn *f = hr_model_add(&model, 0, k, 0, 0);

			if (row[i].type[k])
				hr_fn_set(f, HR_F_GROUP_TYPE, row[i].type[k], HR_SRC_SYSFS);
		}
		cr_expect_str_eq(system_with(&none, 1), row[i].want, "row %zu", i);
	}
}

/* ---- links of AMD's GPUs, and of switches */

#define NODE "sys/devices/virtual/kfd/kfd/topology/nodes/"
#define LINKS "sys/kernel/pci_switch_link/virtual_switch_links/"

Test(topo_sysfs_records, links_between_gpus_and_between_switches)
{
	static const struct fake_file file[] = {
		F(NODE "0/properties", "location_id 0\n"),
		F(NODE "0/io_links/0/properties", "type 11\nnode_to 1\n"),
		F(NODE "1/properties", "xlocation_id 9\nlocation_id 768\ndomain 1\n"),
		F(NODE "1/io_links/0/properties", "type 2\nnode_to 2\n"),
		F(NODE "1/io_links/1/properties", "type 11\nnode_to 2\n"),
		F(NODE "1/io_links/2/properties", "type 11\nxnode_to 2\n"),
		F(NODE "1/io_links/3/properties", "type 11\nnode_to 9\n"),
		F(NODE "1/io_links/4/properties", ""),
		F(NODE "1/io_links/5/properties", "node_to 2\n"),
		F(NODE "1/io_links/6/properties", "type 11\nnode_to 4\n"),
		F(NODE "2/properties", "location_id 65535\n"),
		F(NODE "3/properties", "location_id 65536\n"),
		F(NODE "3/io_links/0/properties", "type 11\nnode_to 1\n"),
		F(NODE "4/properties", "location_id 1\ndomain 16777215\n"),
		F(NODE "5/properties", "location_id 1\ndomain 16777216\n"),
		F(NODE "5/io_links/0/properties", "type 11\nnode_to 1\n"),
		F(LINKS "0000:8b:00.0/0000:ad:00.0", ""),
		F(LINKS "0000:8b:00.0/junk", ""),
		F(LINKS "0000:8c:00.0/0000:ad:00.0", ""),
		F(LINKS "0000:8b:00.0x/0000:ae:00.0", ""),
		F(LINKS "8d:00.0/0000:af:00.0", ""),
	};
	static const struct {
		uint64_t from, to;
	} want[] = { { 0x10300, 0xffff }, { 0x10300, 0xffffff0001 } };

	cr_assert_not_null(hr_model_add(&model, 0, 0x8b, 0, 0));
	cr_assert_not_null(hr_model_add(&model, 0, 0x8d, 0, 0));
	system_with(file, ROWS(file));
	cr_assert_eq(model.gpu_links, ROWS(want));
	for (size_t i = 0; i < ROWS(want); i++) {
		const struct hr_gpu_link *link = &model.gpu_link[i];

		cr_expect(link->from == want[i].from && link->to == want[i].to, "%zu: %llx %llx", i,
			  (unsigned long long)link->from, (unsigned long long)link->to);
		cr_expect(link->count == 1 && link->fabric == HR_XGMI && !link->to_switch &&
			  link->source == HR_SRC_SYSFS);
	}
	cr_expect_str_eq(fake_described(&model.fn[0]), "linked=0000:ad:00.0");
	cr_expect_str_eq(fake_described(&model.fn[1]), "linked=0000:af:00.0");
}

/* ---- a tree of files */

static int read_tree(const struct fake_file *file, unsigned count)
{
	const struct fake_files list = { file, count };
	struct hr_files files;

	hr_model_reset(&model);
	fake_files(&files, &list);
	return hr_read_sysfs(&model, &files);
}

Test(topo_sysfs_records, a_tree_is_found_in_the_first_folder_with_functions)
{
	static const struct {
		struct fake_file file[2];
		uint32_t bus;
	} row[] = {
		{ { F("sys/bus/pci/devices/0000:01:00.0/class", "0x10802\n"),
		    F("bus/pci/devices/0000:02:00.0/class", "0x10802\n") },
		  1 },
		{ { F("bus/pci/devices/0000:02:00.0/class", "0x10802\n"),
		    F("devices/0000:03:00.0/class", "0x10802\n") },
		  2 },
		{ { F("devices/0000:03:00.0/class", "0x10802\n"),
		    F("./0000:04:00.0/class", "0x10802\n") },
		  3 },
		{ { F("./0000:04:00.0/class", "0x10802\n"),
		    F("./0000:05:00.0x/class", "0x10802\n") },
		  4 },
		{ { F("devices/none/class", "0x10802\n"), F("./0000:04:00.0/class", "0x10802\n") },
		  4 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(read_tree(row[i].file, 2), 0, "row %zu", i);
		cr_assert_eq(model.count, 1u, "row %zu", i);
		cr_expect_eq(model.fn[0].bus, row[i].bus, "row %zu", i);
		cr_expect_str_eq(fake_described(&model.fn[0]), "class=10802/4 driver='' denied");
		cr_expect_str_eq(model.input, "sysfs tree");
	}
}

Test(topo_sysfs_records, a_tree_without_functions_or_with_impossible_ones_is_refused)
{
	static const struct fake_file none = F("sys/bus/pci/devices/x/class", "1"), wrong[] = {
		F("sys/bus/pci/devices/0000:01:20.0/class", "0x10802\n"),
		F("sys/bus/pci/devices/0000:02:00.0/class", "0x10802\n"),
	};

	cr_expect_eq(read_tree(&none, 1), -ENODATA);
	cr_expect_str_eq(model.error.text, "no PCI function under sys/bus/pci/devices");
	cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
	hr_error_clear(&model.error);
	cr_expect_eq(read_tree(wrong, 2), -EINVAL);
	cr_expect_str_eq(model.error.text,
			 "0000:01:20.0: no such address, or more functions than one "
			 "machine can have");
	cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
	cr_expect_eq(model.count, 0u);
}

/* Registers: all, a part, and 64 bytes that tar fills with zeros; links into sys/devices. */
Test(topo_sysfs_records, registers_of_a_tree_end_where_they_end)
{
	static const struct {
		bool has_list;
		unsigned size, nonzero, want;
	} row[] = {
		{ true, 256, 0, 64 },	    { true, 256, 64, 256 },   { true, 256, 255, 256 },
		{ true, 65, 0, 64 },	    { true, 65, 64, 65 },     { true, 64, 0, 64 },
		{ true, 63, 0, 63 },	    { false, 256, 0, 256 },   { false, 64, 0, 64 },
		{ true, 4096, 4095, 4096 }, { true, 4200, 4150, 64 },
	};
	static uint8_t config[4200];

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct fake_file file[] = {
			{ .path = "sys/bus/pci/devices/0000:01:00.0",
			  .link = i % 2 ? "../../../devices/pci0/0000:01:00.0"
					: "../../devices/x" },
			{ .path = i % 2 ? "sys/devices/pci0/0000:01:00.0/config"
					: "sys/bus/pci/devices/0000:01:00.0/config",
			  .bytes = config,
			  .size = row[i].size },
			{ .path = i % 2 ? "sys/bus/pci/devices/0000:01:00.0/x"
					: "sys/devices/pci0/0000:01:00.0/config",
			  .text = "" },
		};

		memset(config, 0, sizeof config);
		config[HR_CFG_VENDOR] = 0x4d;
		config[HR_CFG_STATUS] = row[i].has_list ? HR_STATUS_CAPS : 0;
		if (row[i].nonzero)
			config[row[i].nonzero] = 1;
		cr_expect_eq(read_tree(file, 3), 0, "row %zu: %s", i, model.error.text);
		cr_assert_eq(model.count, 1u);
		cr_expect_eq(model.fn[0].config_bytes, row[i].want, "row %zu: %u", i,
			     model.fn[0].config_bytes);
		cr_expect(memcmp(model.fn[0].config, config, row[i].want) == 0, "row %zu", i);
		cr_expect_eq(hr_get(&model.fn[0], HR_F_VENDOR, 0), row[i].want < 64 ? 0u : 0x4du,
			     "row %zu", i);
	}
}
