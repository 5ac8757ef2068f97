/* Objects of hwloc as whole records, and the facts of the machine around them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/source.h"
#include "tests/harness/described.h"

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

TestSuite(topo_hwloc_records, .init = set_up, .fini = tear_down, .timeout = 60);

static int parse(const char *inside)
{
	char text[2048];
	const int n = snprintf(text, sizeof text, "<topology>%s</topology>", inside);

	cr_assert(n > 0 && n < (int)sizeof text);
	hr_model_reset(&model);
	return hr_source_parse(&model, "x", text, (size_t)n);
}

#define DEVICE(more) "<object type='PCIDev' pci_busid='0001:41:02.3' " more "/>"
#define WITH(inside) "<object type='PCIDev' pci_busid='0001:41:02.3'>" inside "</object>"
#define NVME "<object type='PCIDev' pci_busid='0001:41:02.3' pci_type='0108 [144d:a80a] [0:0] 0'>"
#define INFO(name, value) "<info name='" name "' value='" value "'/>"

Test(topo_hwloc_records, attributes_of_a_device)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ DEVICE(""), "" },
		{ DEVICE("pci_type='0302 [10de:20b5] [10de:1533] a1'"),
		  "vendor=10de/2 device=20b5/2 class=30200/2 revision=a1/2" },
		{ DEVICE("pci_type='ffff [ffff:ffff] [ffff:ffff] ff'"),
		  "vendor=ffff/2 device=ffff/2 class=ffff00/2 revision=ff/2" },
		{ DEVICE("pci_type='0302 [10de:20b5]'"),
		  "vendor=10de/2 device=20b5/2 class=30200/2" },
		{ DEVICE("pci_type='0302 [10de:20b5] [10de:1533] -1'"),
		  "vendor=10de/2 device=20b5/2 class=30200/2" },
		{ DEVICE("pci_type='-302 [10de:20b5] [0:0] a1'"), "" },
		{ DEVICE("pci_type='0302 [-0de:20b5] [0:0] a1'"), "" },
		{ DEVICE("pci_type='0302 [10de:-0b5] [0:0] a1'"), "" },
		{ DEVICE("pci_type='0302 [10de'"), "" },
		/* Nodes: one bit of a mask. */
		{ "<object type='Package' nodeset='0x00000008'>" DEVICE("") "</object>",
		  "numa_node=3/2" },
		{ "<object type='Package' nodeset='0x00000001'>" DEVICE("") "</object>",
		  "numa_node=0/2" },
		{ "<object type='Package' nodeset='0x00000009'>" DEVICE("") "</object>", "" },
		{ "<object type='Package' nodeset='0x0'>" DEVICE("") "</object>", "" },
		{ "<object type='Package' nodeset='0x1,0x0'>" DEVICE("") "</object>", "" },
		{ "<object nodeset='0x2'>" DEVICE("") "</object>", "" }, /* an object of no type */
		/* The innermost object counts, and ends with its element. */
		{ "<object type='Package' nodeset='0x1'><object type='NUMANode' nodeset='0x2'/>" DEVICE(
			  "") "</object>",
		  "numa_node=0/2" },
		{ "<object type='Package' nodeset='0x1'/>" DEVICE(""), "" },
		{ "<object type='Package' cpuset='0x0000000f'>" DEVICE("") "</object>",
		  "cpus='0-3'" },
		/* Names. */
		{ WITH(INFO("PCIVendor", "Maker") INFO("PCIDevice", "Card")), "name='Maker Card'" },
		{ WITH(INFO("PCIDevice", "Card")), "name='Card'" },
		{ WITH(INFO("PCISlot", "7")), "pci_slot='7'" },
		{ WITH(INFO("Other", "7") "<info name='PCISlot'/><info value='8'/>"), "" },
		{ NVME "<object type='OSDev' name='nvme0n1'/></object>",
		  "vendor=144d/2 device=a80a/2 class=10800/2 revision=0/2 devices='nvme0n1'" },
		{ NVME "<object type='OSDev'/><object type='Misc' name='x'/></object>",
		  "vendor=144d/2 device=a80a/2 class=10800/2 revision=0/2" },
		{ WITH("<object type='OSDev' name='card0'/>"),
		  "" }, /* of a device of no such kind */
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_assert_eq(parse(row[i].text), 0, "row %zu: %s", i, model.error.text);
		cr_assert_eq(model.count, 1u, "row %zu", i);
		cr_expect_str_eq(fake_described(&model.fn[0]), row[i].want, "row %zu: %s", i,
				 fake_described(&model.fn[0]));
		cr_expect(model.fn[0].domain == 1 && model.fn[0].bus == 0x41 &&
			  model.fn[0].dev == 2 && model.fn[0].fn == 3 && !model.fn[0].placed);
		cr_expect_str_eq(model.input, "hwloc topology");
	}
}

Test(topo_hwloc_records, bridges_are_above_what_is_inside_them)
{
	static const struct {
		const char *buses, *want;
	} row[] = {
		{ "bridge_pci='0000:[02-05]'",
		  "header=1/2 primary=1/2 secondary=2/2 subordinate=5/2" },
		{ "bridge_pci='0000:[ff-ff]'",
		  "header=1/2 primary=1/2 secondary=ff/2 subordinate=ff/2" },
		{ "bridge_pci='0000:[-2-05]'", "header=1/2 primary=1/2" },
		{ "bridge_pci='0000:[02--5]'", "header=1/2 primary=1/2" },
		{ "bridge_pci='0000:[02'", "header=1/2 primary=1/2" },
		{ "", "header=1/2 primary=1/2" },
	};
	char text[512];

	for (size_t i = 0; i < ROWS(row); i++) {
		snprintf(text, sizeof text,
			 "<object type='Bridge' bridge_type='0-1' nodeset='0x4'>"
			 "<object type='Bridge' bridge_type='1-1' pci_busid='0000:01:00.0' %s>"
			 "<object type='PCIDev' pci_busid='0000:02:00.0'/></object></object>"
			 "<object type='Bridge' pci_busid='0000:09:00.0'/>"
			 "<object type='PCIDev' pci_busid='0000:0a:00.0'/>",
			 row[i].buses);
		cr_assert_eq(parse(text), 0, "row %zu: %s", i, model.error.text);
		cr_assert_eq(model.count, 3u, "row %zu", i);
		snprintf(text, sizeof text, "%s numa_node=2/2", row[i].want);
		cr_expect_str_eq(fake_described(&model.fn[0]), text, "row %zu: %s", i,
				 fake_described(&model.fn[0]));
		cr_expect_str_eq(fake_described(&model.fn[1]), "numa_node=2/2");
		cr_expect_eq(model.fn[1].parent, 0);
		cr_expect_eq(model.fn[0].parent, HR_NO_FN);
		cr_expect_eq(model.fn[2].parent, HR_NO_FN);
		cr_expect_str_eq(fake_described(&model.fn[2]), "");
	}
}

Test(topo_hwloc_records, infos_describe_the_machine)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ INFO("OSRelease", "6.1") INFO("CPUVendor", "AuthenticAMD")
			  INFO("CPUFamilyNumber", "25"),
		  "amd=1/2 family=19/2 kernel='6.1'" },
		{ INFO("CPUVendor", "GenuineIntel") INFO("CPUFamilyNumber", "6"),
		  "amd=0/2 family=6/2" },
		{ INFO("CPUFamilyNumber", "19h") INFO("PCIVendor", "x") INFO("PCISlot", "y"), "" },
	};
	char text[512];

	for (size_t i = 0; i < ROWS(row); i++) {
		snprintf(text, sizeof text, "<object type='Machine'>%s%s</object>", row[i].text,
			 DEVICE(""));
		cr_assert_eq(parse(text), 0, "row %zu: %s", i, model.error.text);
		cr_expect_str_eq(fake_described_system(&model.sys), row[i].want, "row %zu: %s", i,
				 fake_described_system(&model.sys));
		cr_expect_str_eq(fake_described(&model.fn[0]), "");
	}
}

Test(topo_hwloc_records, objects_that_cannot_be_are_refused)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "<object type='PCIDev'/>", "a PCI object without a pci_busid like 0000:41:00.0" },
		{ "<object type='PCIDev' pci_busid=''/>",
		  "a PCI object without a pci_busid like 0000:41:00.0" },
		{ "<object type='PCIDev' pci_busid='0000:41:00.0x'/>",
		  "a PCI object without a pci_busid like 0000:41:00.0" },
		{ "<object type='Bridge' bridge_type='1-1'/>",
		  "a PCI object without a pci_busid like 0000:41:00.0" },
		{ "<object type='PCIDev' pci_busid='0000:41:20.0'/>",
		  "no such address, or more functions than one machine can have" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(parse(row[i].text), -EINVAL, "row %zu", i);
		cr_expect_not_null(strstr(model.error.text, row[i].want), "row %zu: %s", i,
				   model.error.text);
		cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
	}
}
