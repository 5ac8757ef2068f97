/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a function and of the machine in files of sysfs and procfs, one file at a time. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/source/source.h"
#include "tests/harness/archive.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define FN "sys/bus/pci/devices/0000:41:00.0/"
#define UNKNOWN 0xfffffffeu
#define ANY_CPU "vendor_id\t: GenuineIntel\ncpu family\t: 6\n"

static struct hr_model model;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_sysfs, .init = set_up, .fini = tear_down, .timeout = 60);

/* A machine with one function, and one or two more files. */
static const struct hr_fn *read_with(const struct fake_member *more, size_t n)
{
	struct fake_member list[4] = { { .path = FN "class", .text = "0x010802\n" } };
	size_t size;
	char *tar;

	memcpy(list + 1, more, n * sizeof *more);
	tar = fake_archive(list, n + 1, &size);
	hr_model_reset(&model);
	cr_assert_eq(hr_source_parse(&model, "x.tar", tar, size), 0, "%s", model.error.text);
	free(tar);
	for (uint32_t i = 0; i < model.count; i++)
		if (model.fn[i].bus == 0x41 && hr_is_nvme(&model.fn[i]))
			return &model.fn[i];
	cr_assert(false, "the function is missing");
	return NULL;
}

/* A disk of an NVMe subsystem: the links in the folder of the subsystem lead to its controllers. */
Test(topo_sysfs, a_disk_with_several_paths_marks_each_controller)
{
#define SUBSYSTEM "sys/devices/virtual/nvme-subsystem/nvme-subsys0"
	static const struct fake_member list[] = {
		{ .path = FN "class", .text = "0x010802\n" },
		{ .path = "sys/bus/pci/devices/0000:42:00.0/class", .text = "0x010802\n" },
		{ .path = "sys/bus/pci/devices/0000:43:00.0/class", .text = "0x010802\n" },
		{ .path = "sys/dev/block/259:1",
		  .link = "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1" },
		{ .path = SUBSYSTEM "/nvme0", .link = "../../../pci0/0000:41:00.0/nvme/nvme0" },
		{ .path = SUBSYSTEM "/nvme1", .link = "../../../pci0/0000:42:00.0/nvme/nvme1" },
		{ .path = SUBSYSTEM "/other", .link = "../../../pci0/0000:43:00.0/nvme/nvme2" },
		{ .path = "proc/self/mountinfo",
		  .text = "22 1 259:1 / / rw - ext4 /dev/nvme0n1 rw,data=journal\n"
			  "23 22 0:5 / /dev rw - devtmpfs udev rw\n" },
	};
	unsigned mounted = 0;
	size_t size;
	char *tar = fake_archive(list, ROWS(list), &size);

	cr_assert_eq(hr_source_parse(&model, "x.tar", tar, size), 0, "%s", model.error.text);
	free(tar);
	for (uint32_t i = 0; i < model.count; i++) {
		const struct hr_fn *f = &model.fn[i];

		if (!hr_is_nvme(f))
			continue;
		mounted += hr_get(f, HR_F_MOUNTED, 0);
		cr_expect_eq(hr_get(f, HR_F_MOUNTED, 0), f->bus != 0x43, "bus %x", f->bus);
		cr_expect_eq(hr_get(f, HR_F_STACKED, 0), 0u);
		if (f->bus != 0x43)
			cr_expect_str_eq(f->fs, "ext4 data=journal");
	}
	cr_expect_eq(mounted, 2u);
}

Test(topo_sysfs, swap_on_a_stack_of_devices_marks_the_disk_below)
{
	static const struct fake_member list[] = {
		{ .path = FN "class", .text = "0x010802\n" },
		{ .path = "proc/swaps",
		  .text = "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-3 partition 1 0 -2\n"
			  "/swapfile file 1 0 -3\n" },
		{ .path = "sys/class/block/dm-3", .link = "../../devices/virtual/block/dm-3" },
		{ .path = "sys/class/block/dm-3/slaves/nvme0n1p2", .text = "" },
		{ .path = "sys/class/block/nvme0n1p2",
		  .link = "../../devices/pci0/0000:41:00.0/nvme/nvme0/nvme0n1/nvme0n1p2" },
	};
	size_t size;
	char *tar = fake_archive(list, ROWS(list), &size);

	cr_assert_eq(hr_source_parse(&model, "x.tar", tar, size), 0, "%s", model.error.text);
	free(tar);
	for (uint32_t i = 0; i < model.count; i++)
		if (hr_is_nvme(&model.fn[i])) {
			cr_expect_eq(hr_get(&model.fn[i], HR_F_MOUNTED, 0), 1u);
			cr_expect_eq(hr_get(&model.fn[i], HR_F_STACKED, 0), 1u);
			cr_expect_str_eq(model.fn[i].fs, "swap");
		}
}

static const struct hr_fn *read_text(const char *path, const char *text)
{
	const struct fake_member member = { .path = path, .text = text };

	return read_with(&member, 1);
}

static const struct hr_fn *read_link(const char *path, const char *target)
{
	const struct fake_member member = { .path = path, .link = target };

	return read_with(&member, 1);
}

Test(topo_sysfs, sysfs_gives_the_numbers_of_a_function)
{
	static const struct {
		const char *path, *text;
		enum hr_fact_id id;
		uint32_t want;
	} row[] = {
		{ FN "vendor", "0x144d\n", HR_F_VENDOR, 0x144d },
		{ FN "device", "0xa80a\n", HR_F_DEVICE, 0xa80a },
		{ FN "numa_node", "1\n", HR_F_NUMA, 1 },
		{ FN "numa_node", "10\n", HR_F_NUMA, 10 },
		{ FN "numa_node", "-1\n", HR_F_NUMA, UINT32_MAX },
		{ FN "numa_node", "near\n", HR_F_NUMA, UNKNOWN },
		{ FN "current_link_width", "16\n", HR_F_WIDTH, 16 },
		{ FN "max_link_width", "8\n", HR_F_WIDTH_MAX, 8 },
		{ FN "current_link_speed", "2.5 GT/s PCIe\n", HR_F_SPEED, 1 },
		{ FN "current_link_speed", "5.0 GT/s PCIe\n", HR_F_SPEED, 2 },
		{ FN "current_link_speed", "5 GT/s\n", HR_F_SPEED, 2 },
		{ FN "current_link_speed", "8.0 GT/s PCIe\n", HR_F_SPEED, 3 },
		{ FN "current_link_speed", "16.0 GT/s PCIe\n", HR_F_SPEED, 4 },
		{ FN "current_link_speed", "32.0 GT/s PCIe\n", HR_F_SPEED, 5 },
		{ FN "current_link_speed", "64.0 GT/s PCIe\n", HR_F_SPEED, 6 },
		{ FN "current_link_speed", "128.0 GT/s PCIe\n", HR_F_SPEED, UNKNOWN },
		{ FN "current_link_speed", "2.7 GT/s PCIe\n", HR_F_SPEED, UNKNOWN },
		{ FN "current_link_speed", "4.8 GT/s PCIe\n", HR_F_SPEED, UNKNOWN },
		{ FN "current_link_speed", "Unknown\n", HR_F_SPEED, UNKNOWN },
		{ FN "max_link_speed", "32.0 GT/s PCIe\n", HR_F_SPEED_MAX, 5 },
		{ FN "max_link_speed", "Unknown\n", HR_F_SPEED_MAX, UNKNOWN },
		{ FN "power_state", "D0\n", HR_F_PM, 0 },
		{ FN "power_state", "D1\n", HR_F_PM, 1 },
		{ FN "power_state", "D3hot\n", HR_F_PM, 3 },
		{ FN "power_state", "D3cold\n", HR_F_PM, 4 },
		{ FN "power_state", "D4\n", HR_F_PM, UNKNOWN },
		{ FN "power_state", "unknown\n", HR_F_PM, UNKNOWN },
		{ FN "power_state", "error\n", HR_F_PM, UNKNOWN },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_fn *f = read_text(row[i].path, row[i].text);

		cr_expect_eq(hr_get(f, row[i].id, UNKNOWN), row[i].want, "%s '%s': %u", row[i].path,
			     row[i].text, hr_get(f, row[i].id, UNKNOWN));
	}
}

Test(topo_sysfs, sysfs_names_the_physical_function_of_a_vf)
{
	static const struct {
		const char *target;
		uint32_t want;
	} row[] = {
		{ "../0000:40:00.0", 0x4000 },	{ "../0000:40:03.5", 0x4000 | 3 << 3 | 5 },
		{ "../0000:40:1f.7", 0x40ff },	{ "../0000:40:20.0", UNKNOWN },
		{ "../0000:40:1f.8", UNKNOWN }, { "../0000:40:00.0x", UNKNOWN },
		{ "../nothing", UNKNOWN },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(hr_get(read_link(FN "physfn", row[i].target), HR_F_PHYSFN, UNKNOWN),
			     row[i].want, "%s", row[i].target);
}

Test(topo_sysfs, sysfs_names_driver_and_slot)
{
	cr_expect_str_eq(read_link(FN "driver", "../../../drivers/vfio-pci")->driver, "vfio-pci");
	cr_expect_str_eq(read_text(FN "enable", "1\n")->driver, "");
	cr_expect_str_eq(read_text(FN "label", "Slot 4\n")->pci_slot, "Slot 4");
}

Test(topo_sysfs, sysfs_gives_bars_that_configuration_space_does_not_hold)
{
	static const char none[] = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
	static const struct {
		const char *line;
		uint64_t base, size;
		unsigned flags; /* 0: not memory */
	} row[] = {
		{ "0x00000000e0000000 0x00000000e0003fff 0x0000000000040200\n", 0xe0000000, 0x4000,
		  HR_BAR_MEM },
		{ "0x00000000e0000000 0x00000000e0003fff 0x0000000000140204\n", 0xe0000000, 0x4000,
		  HR_BAR_MEM | HR_BAR_64 },
		{ "0x0000380000000000 0x0000381fffffffff 0x000000000014220c\n", 0x380000000000,
		  0x2000000000, HR_BAR_MEM | HR_BAR_64 | HR_BAR_PREF },
		{ "0x00000000e0000000 0x00000000e0003fff 0x0000000020040200\n", 0xe0000000, 0x4000,
		  HR_BAR_MEM | HR_BAR_UNASSIGNED },
		{ "0x0000000000000000 0x0000000000003fff 0x0000000000040200\n", 0, 0x4000,
		  HR_BAR_MEM | HR_BAR_UNASSIGNED },
		{ "0x0000000000006000 0x0000000000006000 0x0000000000040200\n", 0x6000, 1,
		  HR_BAR_MEM },
		{ "0x0000000000006000 0x000000000000607f 0x0000000000040101\n", 0, 0, 0 }, /* I/O */
		{ "0x0000000000006000 0x0000000000005fff 0x0000000000040200\n", 0, 0, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		for (unsigned at = 0; at < HR_BARS_MAX; at++) {
			char text[1024] = "";
			const struct hr_fn *f;

			for (unsigned j = 0; j < HR_BARS_MAX; j++)
				strcat(text, j == at ? row[i].line : none);
			f = read_text(FN "resource", text);
			for (unsigned j = 0; j < HR_BARS_MAX; j++) {
				const struct hr_bar *bar = &f->bar[j];

				cr_expect_eq(bar->flags, j == at ? row[i].flags : 0,
					     "row %zu, BAR %u: %x", i, j, bar->flags);
				cr_expect_eq(bar->base, j == at ? row[i].base : 0, "row %zu", i);
				cr_expect_eq(bar->size, j == at ? row[i].size : 0, "row %zu", i);
			}
		}
	}
}

/* The group of the function, and the mode of the machine's IOMMU. */
Test(topo_sysfs, the_type_of_a_group_gives_the_mode_of_the_iommu)
{
	static const struct {
		const char *type;
		uint32_t group, machine;
	} row[] = {
		{ "DMA\n", HR_IOMMU_ON, HR_IOMMU_ON },
		{ "DMA-FQ\n", HR_IOMMU_ON, HR_IOMMU_ON },
		{ "identity\n", HR_IOMMU_PT, HR_IOMMU_PT },
		{ "blocked\n", UNKNOWN, UNKNOWN },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct fake_member list[] = {
			{ .path = FN "iommu_group", .link = "../../../../kernel/iommu_groups/12" },
			{ .path = "sys/kernel/iommu_groups/12/type", .text = row[i].type },
		};
		const struct hr_fn *f = read_with(list, 2);

		cr_expect_eq(hr_get(f, HR_F_GROUP, UNKNOWN), 12u);
		cr_expect_eq(hr_get(f, HR_F_GROUP_TYPE, UNKNOWN), row[i].group, "%s", row[i].type);
		cr_expect_eq(model.sys.iommu.source ? model.sys.iommu.value : UNKNOWN,
			     row[i].machine, "%s", row[i].type);
	}
	cr_expect_eq(hr_get(read_link(FN "iommu_group", "../groups/x"), HR_F_GROUP, UNKNOWN),
		     UNKNOWN);
}

Test(topo_sysfs, cpuinfo_gives_the_processor)
{
	static const struct {
		const char *text;
		uint32_t amd, family, hypervisor;
	} row[] = {
		{ ANY_CPU "flags\t\t: fpu sse2\n", 0, 6, 0 },
		{ ANY_CPU "flags\t\t: fpu hypervisor sse2\n", 0, 6, 1 },
		{ ANY_CPU "flags\t\t: fpu hypervisor\n", 0, 6, 1 },
		{ ANY_CPU "flags\t\t: fpu hypervisors\n", 0, 6, 0 },
		{ "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nflags\t: x\n", 1, 26, 0 },
		{ "processor\t: 0\n", UNKNOWN, UNKNOWN, UNKNOWN },
		{ "cpu family\t: 4294967302\n", UNKNOWN, UNKNOWN, UNKNOWN },
		{ "cpu family\t: 99999999999999999999999\n", UNKNOWN, UNKNOWN, UNKNOWN },
		{ "cpu family\t: 25x\n", UNKNOWN, UNKNOWN, UNKNOWN },
		{ "cpu family\t: -1\n", UNKNOWN, UNKNOWN, UNKNOWN },
		{ "cpu family\t:\nmodel\t: 7\n", UNKNOWN, UNKNOWN, UNKNOWN },
		{ "cpu family\nmodel\t: 7\n", UNKNOWN, UNKNOWN, UNKNOWN },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_system *sys = &model.sys;

		read_text("proc/cpuinfo", row[i].text);
		cr_expect_eq(sys->amd.source ? sys->amd.value : UNKNOWN, row[i].amd, "row %zu", i);
		cr_expect_eq(sys->family.source ? sys->family.value : UNKNOWN, row[i].family,
			     "row %zu", i);
		cr_expect_eq(sys->hypervisor.source ? sys->hypervisor.value : UNKNOWN,
			     row[i].hypervisor, "row %zu", i);
	}
}

Test(topo_sysfs, lockdown_and_number_of_processors_are_read)
{
	static const struct fake_member cpu[] = {
		{ .path = "sys/devices/system/cpu/cpu0/online", .text = "1\n" },
		{ .path = "sys/devices/system/cpu/cpu12/online", .text = "1\n" },
		{ .path = "sys/devices/system/cpu/cpufreq/x", .text = "1\n" },
	};

	read_text("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
	cr_expect_str_eq(model.sys.lockdown, "confidentiality");
	read_text("sys/kernel/security/lockdown", "none\n");
	cr_expect_str_eq(model.sys.lockdown, "");
	read_with(cpu, 3);
	cr_expect_eq(model.sys.cpus.value, 2u);
}
