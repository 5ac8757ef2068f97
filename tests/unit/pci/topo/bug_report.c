/* Sections of bug reports, and files of an sos report in an archive, damaged in many ways. */
#include "pci/topo/bug_report.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/source.h"
#include "tests/harness/archive.h"

#define RULE "____________________________________________\n\n"
#define CARD "01:00.0 3D controller [0302]: NVIDIA Corporation Card [10de:20f1]\n"
#define HOST "00:00.0 Host bridge [0600]: Advanced Micro Devices, Inc. [AMD] Root [1022:1480]\n"

static struct hr_model model;

static void up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_bug_report, .init = up, .fini = down, .timeout = 60);

static int parse(const char *text, size_t size)
{
	hr_model_reset(&model);
	return hr_source_parse(&model, "x", text, size);
}

static const char report[] = RULE
	"Start of NVIDIA bug report log file.\nuname: Linux box 6.8.0-45-generic #1 SMP\n\n" RULE
	"/usr/bin/lspci -nn\n\n" HOST CARD "\n" RULE
	"dmesg:\n\n[    0.000000] Linux version 6.8.0-45-generic (x)\n"
	"[    1.915531] iommu: Default domain type: Translated\n"
	"[    1.915540] pci 0000:01:00.0: Adding to iommu group 3\n"
	"[    1.915541] pci 0000:01:00.0: BAR 1 [mem 0x2000000000-0x2fffffffff 64bit pref]\n"
	"*** /proc/cmdline\nBOOT_IMAGE=/v ro\n\n*** /proc/cpuinfo\nprocessor\t: 0\n"
	"vendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: fpu hypervisor\n\n"
	"*** /proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX Open Kernel Module for "
	"x86_64  570.86.10  Release Build\n\n*** /proc/driver/nvidia/params\n"
	"RegistryDwords: \"RMForceStaticBar1=1;\"\n";

Test(topo_bug_report, each_section_gives_its_facts)
{
	const struct hr_system *sys = &model.sys;

	cr_assert_eq(parse(report, sizeof report - 1), 0, "%s", model.error.text);
	cr_expect_eq(model.count, 2u);
	cr_expect_str_eq(sys->kernel, "6.8.0-45-generic");
	cr_expect_str_eq(sys->cmdline, "BOOT_IMAGE=/v ro");
	cr_expect_str_eq(sys->nvidia, "570.86.10");
	cr_expect_str_eq(sys->nvidia_keys, "RMForceStaticBar1=1;");
	cr_expect_eq(sys->nvidia_open.value, 1u);
	cr_expect_eq(sys->amd.value, 1u);
	cr_expect_eq(sys->family.value, 25u);
	cr_expect_eq(sys->cpus.value, 1u);
	cr_expect_eq(sys->hypervisor.value, 1u);
	cr_expect_eq(sys->iommu.value, (uint32_t)HR_IOMMU_ON);
	cr_expect_eq(model.fn[1].bar[1].base, 0x2000000000u);
	cr_expect_eq(model.fn[1].bar[1].source, HR_SRC_LOG);
}

/* A report may be cut anywhere, and bytes of it may be lost: it is read or refused. */
Test(topo_bug_report, a_damaged_report_is_read_or_refused)
{
	static char text[sizeof report];

	for (size_t n = 0; n < sizeof report; n++) {
		int err = parse(report, n);

		cr_expect(err == 0 || err == -ENODATA, "%zu: %d %s", n, err, model.error.text);
		memcpy(text, report, sizeof report);
		text[n] = (char)(n * 7);
		err = parse(text, sizeof report - 1);
		cr_expect(err <= 0, "%zu: %d", n, err);
	}
}

/* Lines of a log that state no fact, or a wrong one. */
Test(topo_bug_report, malformed_messages_state_nothing)
{
	static const char *const line[] = {
		"[",
		"[    1.0",
		"[    1.915531]",
		"<6>",
		"kern  :",
		"kernel: ",
		"pci 0000:01:00.0: ",
		"pci 0000:01:00.0: [10de",
		"pci 0000:01:20.0: [10de:20f1] type 00 class 0x030200",
		"pci 0000:01:00.0: [ffff:20f1] type 00 class 0x030200",
		"pci 0000:01:00.0: BAR 99999999999999999999 [mem 0x1-0x2]",
		"pci 0000:01:00.0: BAR 0 [mem 0x2-0x1]",
		"pci 0000:01:00.0: BAR 0 [mem size 0x0]",
		"pci 0000:01:00.0: BAR 0 [mem 0xffffffffffffffffff-0x1]",
		"pci 0000:01:00.0: reg 0x11: [mem 0x1000-0x1fff]",
		"pci 0000:01:00.0:   bridge window [mem 0x0-0x1] to [bus 02] add_size 200000",
		"pci 0000:01:00.0: PCI bridge to [bus 100]",
		"pci 0000:01:00.0: Max Payload Size set to 64 (was 128, max 256)",
		"pci 0000:01:00.0: 1 Gb/s available PCIe bandwidth, limited by",
		"pci 0000:01:00.0: 1 Gb/s available PCIe bandwidth (7.0 GT/s PCIe x4 link)",
		"pci 0000:01:00.0: Adding to iommu group 4294967296",
		"pci_bus 0000:01: on NUMA node",
		"pci_bus 0000:01: root bus resource [bus 02-01]",
		"iommu: Adding device 0000:01:00.0 to group",
		"iommu: Default domain type: Other",
		"smpboot: CPU0: AMD (family: 0x)",
	};
	char text[512];

	for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
		snprintf(text, sizeof text, HOST CARD "\n%s\n", line[i]);
		cr_assert_eq(parse(text, strlen(text)), 0, "%s", line[i]);
		cr_expect_eq(model.count, 2u, "%s", line[i]);
		cr_expect_not(hr_known(&model.fn[1], HR_F_MPS), "%s", line[i]);
		cr_expect_not(hr_known(&model.fn[1], HR_F_SECONDARY), "%s", line[i]);
		cr_expect_not(hr_known(&model.fn[1], HR_F_SPEED), "%s", line[i]);
		cr_expect_not(hr_known(&model.fn[1], HR_F_GROUP), "%s", line[i]);
		cr_expect_eq(model.fn[1].bar[0].source, HR_SRC_NONE, "%s", line[i]);
		cr_expect_eq(model.sys.iommu.source, HR_SRC_NONE, "%s", line[i]);
	}
}

/* Another reader sees a title and a tree behind a stamp, and the rest of a console's lspci. */
Test(topo_bug_report, lspci_behind_a_stamp_is_left_to_its_reader)
{
	static const struct {
		const char *line;
		bool bare;
		enum hr_log_line want;
	} row[] = {
		{ "[    1.263328] 00:00.0 Host bridge", false, HR_LOG_NONE },
		{ "[    1.263328] -[0000:00]-+-00.0", false, HR_LOG_NONE },
		{ "[    1.263328] anything else", false, HR_LOG_MARKED },
		{ "[    31.270] Kernel command line: x", false, HR_LOG_NONE },
		{ "Oct 27 08:50:11 box kernel: x", false, HR_LOG_MARKED },
		{ "the kernel: x", false, HR_LOG_NONE },
		{ "iommu: Default domain type: Translated", false, HR_LOG_KNOWN },
		{ "Linux version 6.8.0 (x)", false, HR_LOG_NONE },
		{ "Linux version 6.8.0 (x)", true, HR_LOG_KNOWN },
	};
	struct hr_kernel_log log;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		hr_kernel_log_init(&log, &model);
		cr_expect_eq(hr_kernel_log_line(&log, row[i].line, 1, row[i].bare), row[i].want,
			     "%s", row[i].line);
		hr_kernel_log_fini(&log);
	}
}

/* The files may be below a folder; a file that is missing states nothing. */
Test(topo_bug_report, an_archive_of_an_sos_report_is_read)
{
	static const char *const below[] = { "", "sosreport-box/" };

	for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
		char path[3][100];
		const struct fake_member list[] = {
			{ .path = path[0], .text = HOST CARD },
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
		cr_assert_eq(parse(tar, size), 0, "%s", model.error.text);
		cr_expect_eq(model.count, 2u);
		cr_expect_str_eq(model.sys.kernel, "5.14.0-503.el9.x86_64");
		cr_expect_eq(model.sys.iommu.value, (uint32_t)HR_IOMMU_PT);
		cr_expect_str_eq(model.sys.iommu_reason,
				 "kernel log, line 2: Default domain type: Passthrough");
		free(tar);
	}
}
