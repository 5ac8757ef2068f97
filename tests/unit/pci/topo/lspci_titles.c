/* Titles of functions in lists and trees of lspci: all that each of them states. */
#include "pci/topo/lspci_title.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/described.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_model model;

static void up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_titles, .init = up, .fini = down, .timeout = 60);

/* Facts, without the name, which is the title. */
static const char *facts_of(const char *title, void (*take)(struct hr_model *m, struct hr_fn *f,
							    const char *title, size_t length))
{
	static char text[512];
	struct hr_fn f = { .name = "" };

	take(&model, &f, title, strlen(title));
	cr_expect_str_eq(f.name, title);
	f.name = "";
	snprintf(text, sizeof text, "%s", fake_described(&f));
	return text;
}

Test(topo_titles, a_title_of_a_list_states_its_facts)
{
	static const struct {
		const char *title, *want;
	} row[] = {
		{ "", "" },
		{ "VGA compatible controller: NVIDIA Corporation X",
		  "vendor=10de/1 class=30000/3" },
		{ "3D controller [0302]: NVIDIA Corporation GA100 [A100] [10de:20b5] (rev a1)",
		  "vendor=10de/3 device=20b5/3 class=30200/3" },
		{ "3D controller [0302]: NVIDIA Corporation GA100 [10de:20b5] (rev ff)",
		  "vendor=10de/3 device=20b5/3 class=30200/3 gone=1/3" },
		{ "Non-Volatile memory controller: Samsung Electronics Co Ltd X",
		  "vendor=144d/1 class=10800/3" },
		{ "Non-Volatile memory controller [0108]: X [144d:a80a]",
		  "vendor=144d/3 device=a80a/3 class=10800/3" },
		{ "Display controller: Advanced Micro Devices, Inc. [AMD/ATI] X",
		  "vendor=1002/1 class=38000/3" },
		{ "Processing accelerators: X", "class=120000/3" },
		{ "PCI bridge: X", "class=60400/3 header=1/1" },
		{ "PCI bridge [0604]: Intel Corporation X [8086:1901] (rev 05)",
		  "vendor=8086/3 device=1901/3 class=60400/3 header=1/1" },
		{ "Host bridge: Intel Corporation Sky Lake-E DMI3 Registers (rev 04)",
		  "vendor=8086/1 device=2020/1 class=60000/3" },
		{ "Host bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse Root Complex",
		  "vendor=1022/1 device=1480/1 class=60000/3" },
		{ "ISA bridge: X", "class=60100/3" },
		{ "RAID bus controller: X", "class=10400/3" },
		{ "SATA controller: X", "class=10600/3" },
		{ "Ethernet controller: X", "class=20000/3" },
		{ "Class 0302: Device 10de:20b5 (rev a1)",
		  "vendor=10de/3 device=20b5/3 class=30200/3" },
		{ "Class 0302: 10de:20b5", "vendor=10de/3 device=20b5/3 class=30200/3" },
		{ "Class 302: 10de:20b5", "vendor=10de/3 device=20b5/3" },
		{ "Class 03020: X", "" },
		{ "Class [0302]: X", "class=30200/3" },
		{ "Unassigned class [ff00]: X [1234:5678]",
		  "vendor=1234/3 device=5678/3 class=ff0000/3" },
		{ "Unassigned class [ff0]: X [1234:567]", "class=ff0000/3" },
		{ "Unassigned class [ff000]: X [123:5678]", "class=ff0000/3" },
		{ "System peripheral: X", "class=88000/3" },
		{ "0302: 10de:20b5 (rev a1)", "vendor=10de/3 device=20b5/3 class=30200/3" },
		{ "0604: 1022:14b8 (rev 01)",
		  "vendor=1022/3 device=14b8/3 class=60400/3 header=1/1" },
		{ "0302: 10de:20b", "class=30200/3" },
		{ "302: 10de:20b5", "vendor=10de/3 device=20b5/3" },
		{ "0302 10de:20b5", "" },
		{ "03020: X", "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const char *got = facts_of(row[i].title, hr_text_title);

		cr_expect_str_eq(got, row[i].want, "row %zu: %s", i, got);
	}
}

Test(topo_titles, a_title_of_a_list_states_numbers_and_vendors)
{
	static const struct {
		const char *title, *want;
	} row[] = {
		{ "VGA compatible controller: NVIDIA Corporation Device 2b85 (rev a1)",
		  "vendor=10de/1 device=2b85/3 class=30000/3" },
		{ "VGA compatible controller: NVIDIA Corporation Unknown device 0193",
		  "vendor=10de/1 device=193/3 class=30000/3" },
		{ "VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2b85]",
		  "vendor=10de/3 device=2b85/3 class=30000/3" },
		{ "Host bridge: Advanced Micro Devices, Inc. [AMD] Device 14a4",
		  "vendor=1022/1 device=14a4/3 class=60000/3" },
		{ "Host bridge: Advanced Micro Devices, Inc. [AMD] Data Fabric: Device 18h; F",
		  "vendor=1022/1 class=60000/3" },
		{ "Host bridge: Advanced Micro Devices, Inc. [AMD] Device 14a40",
		  "vendor=1022/1 class=60000/3" },
		{ "USB Controller: X Device 1234", "class=c0300/3" },
		{ "Ethernet controller: Red Hat, Inc. Virtio network device",
		  "vendor=1af4/1 class=20000/3" },
		{ "PCI bridge: Red Hat, Inc. Device 000c",
		  "vendor=1b36/1 device=c/3 class=60400/3 header=1/1" },
		{ "SCSI storage controller: Red Hat, Inc. Device 1048",
		  "vendor=1af4/1 device=1048/3 class=10000/3" },
		{ "PCI bridge: Broadcom / LSI Device c030 (rev b0)",
		  "vendor=1000/1 device=c030/3 class=60400/3 header=1/1" },
		{ "PCI bridge: Intelligent X", "class=60400/3 header=1/1" },
		{ "Network controller: MEDIATEK Corp. Device ffff", "vendor=14c3/1 class=28000/3" },
		{ "Audio device: ASPEED Technology, Inc. X", "vendor=1a03/1 class=40300/3" },
		{ "Audio device: Matrox Electronics Systems Ltd. X",
		  "vendor=102b/1 class=40300/3" },
		{ "Audio device: Hygon X", "vendor=1d94/1 class=40300/3" },
		{ "Non-VGA unclassified device: Intel Corporation X", "vendor=8086/1 class=0/3" },
		{ "Bridge: NVIDIA [x] [10de:1ad7] [10de:1111]",
		  "vendor=10de/3 device=1111/3 class=68000/3" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const char *got = facts_of(row[i].title, hr_text_title);

		cr_expect_str_eq(got, row[i].want, "row %zu: %s", i, got);
	}
}

Test(topo_titles, a_title_of_a_tree_states_its_facts)
{
	static const struct {
		const char *title, *want;
	} row[] = {
		{ "", "" },
		{ "NVIDIA Corporation GA100 [A100 PCIe 80GB]", "vendor=10de/1 class=30000/1" },
		{ "NVIDIA Corporation TU102 USB 3.1 Host Controller", "vendor=10de/1" },
		{ "NVIDIA Corporation TU102 High Definition Audio Controller", "vendor=10de/1" },
		{ "NVIDIA Corporation TU102 USB Type-C UCSI Controller", "vendor=10de/1" },
		{ "NVIDIA Corporation I2C X", "vendor=10de/1" },
		{ "NVIDIA Corporation X Bridge", "vendor=10de/1" },
		{ "NVIDIA Corporation X bridge", "vendor=10de/1" },
		{ "NVIDIA Corporation X Switch", "vendor=10de/1" },
		{ "NVIDIA Corporation X Ethernet", "vendor=10de/1" },
		{ "NVIDIA Corporation BlueField X", "vendor=10de/1" },
		{ "NVIDIA Corporation ConnectX X", "vendor=10de/1" },
		{ "Advanced Micro Devices, Inc. [AMD/ATI] Navi 31", "vendor=1002/1 class=30000/1" },
		{ "Advanced Micro Devices, Inc. [AMD] X", "vendor=1022/1" },
		{ "Samsung Electronics Co Ltd NVMe SSD Controller PM9A1",
		  "vendor=144d/1 class=10802/1" },
		{ "X Non-Volatile Y", "class=10802/1" },
		{ "X SSD Y", "class=10802/1" },
		{ "X NVMe Y", "class=10802/1" },
		{ "X SATA SSD", "" },
		{ "Intel Corporation X", "vendor=8086/1" },
		{ "Device [1002:7448]", "vendor=1002/3 device=7448/3 class=30000/1" },
		{ "NVIDIA Corporation Device 2b85", "vendor=10de/1 device=2b85/3 class=30000/1" },
		{ "10de:2b85", "vendor=10de/3 device=2b85/3" },
		{ "Device 10de:2330", "vendor=10de/3 device=2330/3 class=30000/1" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const char *got = facts_of(row[i].title, hr_text_tree_title);

		cr_expect_str_eq(got, row[i].want, "row %zu: %s", i, got);
	}
}

/* The first name stays; a length of 0 states nothing. */
Test(topo_titles, a_name_that_is_known_stays)
{
	struct hr_fn f = { .name = "first" };

	hr_text_title(&model, &f, "PCI bridge: X", 13);
	cr_expect_str_eq(f.name, "first");
	cr_expect_eq(hr_get(&f, HR_F_CLASS, 0), 0x060400u);
	f = (struct hr_fn){ .name = "" };
	hr_text_title(&model, &f, "PCI bridge: X (rev 01) (prog-if 00 [Normal decode])", 51);
	cr_expect_str_eq(f.name, "PCI bridge: X (rev 01)");
	f = (struct hr_fn){ .name = "first" };
	hr_text_tree_title(&model, &f, "X SSD", 5);
	cr_expect_str_eq(f.name, "first");
	cr_expect_eq(hr_get(&f, HR_F_CLASS, 0), 0x010802u);
	f = (struct hr_fn){ .name = "" };
	hr_text_title(&model, &f, "PCI bridge: X", 0);
	hr_text_tree_title(&model, &f, "X SSD", 0);
	cr_expect_str_eq(fake_described(&f), "");
	cr_expect_str_eq(f.name, "");
}
