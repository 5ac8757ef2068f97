/* Topologies of NCCL and RCCL: all that each element states, and masks of CPUs. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/source.h"
#include "pci/topo/xml.h"
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

TestSuite(topo_nccl, .init = set_up, .fini = tear_down, .timeout = 60);

static char text[2048];

/* The machine, its functions with the bridge above them, and the links of GPUs; or the error. */
static const char *read_elements(const char *elements)
{
	char xml[2048], address[2][HR_BDF_MAX];
	size_t used = 0;

	snprintf(xml, sizeof xml, "<system>%s</system>", elements);
	hr_model_reset(&model);
	hr_error_clear(&model.error);
	if (hr_source_parse(&model, "x", xml, strlen(xml)))
		return model.error.text;
	used += (size_t)snprintf(text, sizeof text, "%s", fake_described_system(&model.sys));
	for (uint32_t i = 0; i < model.count; i++) {
		const struct hr_fn *f = &model.fn[i];

		used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s: %s",
					 used ? "; " : "", hr_bdf(f, address[0]) + 5,
					 f->placed ? " below " : "",
					 f->placed ? hr_address_text(f->under, address[1]) + 5 : "",
					 fake_described(f));
	}
	for (uint32_t i = 0; i < model.gpu_links; i++) {
		const struct hr_gpu_link *l = &model.gpu_link[i];

		used += (size_t)snprintf(text + used, sizeof text - used,
					 "; %u%s%s of %" PRIx64 " to %" PRIx64 "/%u", l->count,
					 l->fabric == HR_XGMI ? "x" : "", l->to_switch ? "s" : "",
					 l->from, l->to, l->source);
	}
	cr_assert_lt(used, sizeof text);
	return text;
}

#define PCI(attributes) "<pci busid='0000:03:00.0' " attributes "/>"
#define GPU(elements) "<pci busid='0000:03:00.0'><gpu>" elements "</gpu></pci>"

static const struct {
	const char *elements, *want;
} elements[] = {
	{ PCI(""), "03:00.0: " },
	{ PCI("vendor='0x10de' device='0x20b5' class='0x030200'"),
	  "03:00.0: vendor=10de/2 device=20b5/2 class=30200/2" },
	{ PCI("vendor='junk' device='' class='1ffffffff'"), "03:00.0: " },
	{ PCI("link_width='16' link_speed='16.0 GT/s PCIe'"),
	  "03:00.0: link_speed_max=4/2 link_width_max=10/2" },
	{ PCI("link_width='0' link_speed='2.5'"), "03:00.0: link_speed_max=1/2" },
	{ PCI("link_width='010' link_speed='5 GT/s'"),
	  "03:00.0: link_speed_max=2/2 link_width_max=a/2" },
	{ PCI("link_width='0x10' link_speed='8.09'"), "03:00.0: link_speed_max=3/2" },
	{ PCI("link_speed='7.91'"), "03:00.0: link_speed_max=3/2" },
	{ PCI("link_speed='8.11'"), "03:00.0: " },
	{ PCI("link_speed='7.89'"), "03:00.0: " },
	{ PCI("link_speed='32'"), "03:00.0: link_speed_max=5/2" },
	{ PCI("link_speed='64'"), "03:00.0: link_speed_max=6/2" },
	{ PCI("link_speed='128'"), "03:00.0: " },
	{ PCI("link_speed='Unknown'"), "03:00.0: " },
	{ "<cpu numaid='1' vendor='AuthenticAMD' familyid='143' affinity='f'>" PCI("")
		  PCI("") "</cpu>",
	  "amd=1/2 family=17/2; 03:00.0: numa_node=1/2 cpus='0-3'" },
	{ "<cpu numaid='-1' vendor='GenuineIntel' familyid='x'>" PCI("") "</cpu>",
	  "amd=0/2; 03:00.0: " },
	{ "<cpu vendor='AuthenticAMDx' affinity='x'>" PCI("") "</cpu>", "amd=0/2; 03:00.0: " },
	{ "<cpu numaid='0' familyid='25'>" PCI("") "</cpu><cpu numaid='2' affinity='1'>"
						   "<pci busid='0000:04:00.0'/></cpu>",
	  "family=19/2; 03:00.0: numa_node=0/2; 04:00.0: numa_node=2/2 cpus='0'" },
	{ "<cpu numaid='3' affinity='3'><pci busid='0000:01:00.0'>"
	  "<pci busid='0000:02:00.0'>" PCI("") "</pci><pci busid='0000:04:00.0'/></pci>"
					       "<pci busid='0000:05:00.0'/></cpu>",
	  "01:00.0: header=1/2 numa_node=3/2 cpus='0-1'; 02:00.0 below 01:00.0: "
	  "header=1/2 numa_node=3/2 cpus='0-1'; 03:00.0 below 02:00.0: "
	  "numa_node=3/2 cpus='0-1'; 04:00.0 below 01:00.0: numa_node=3/2 "
	  "cpus='0-1'; 05:00.0: numa_node=3/2 cpus='0-1'" },
	{ GPU(""), "03:00.0: gpu=1/2" },
	{ "<pci busid='0000:03:00.0'><gpu sm='90'/></pci>", "03:00.0: vendor=10de/1 gpu=1/2" },
	{ "<pci busid='0000:03:00.0'><gpu sm='90' gcn='0'/></pci>",
	  "03:00.0: vendor=10de/1 gpu=1/2" },
	{ "<pci busid='0000:03:00.0'><gpu sm='90' gcn=''/></pci>",
	  "03:00.0: vendor=10de/1 gpu=1/2" },
	{ "<pci busid='0000:03:00.0'><gpu gcn='gfx942'/></pci>", "03:00.0: vendor=1002/1 gpu=1/2" },
	{ "<pci busid='0000:03:00.0' vendor='0x1002'><gpu sm='9'/></pci>",
	  "03:00.0: vendor=1002/2 gpu=1/2" },
	{ GPU("<nvlink target='0000:04:00.0' count='4' tclass='0x030200'/>"),
	  "03:00.0: gpu=1/2; 4 of 300 to 400/2" },
	{ GPU("<nvlink target='0000:04:00.0' count='1' tclass='0x068000'/>"),
	  "03:00.0: gpu=1/2; 1s of 300 to 400/2" },
	{ GPU("<nvlink target='0000:04:00.0' count='1024' tclass='0x0680ff'/>"),
	  "03:00.0: gpu=1/2; 1024s of 300 to 400/2" },
	{ GPU("<nvlink target='0000:04:00.0' count='1025' tclass='0x068000'/>"),
	  "03:00.0: gpu=1/2" },
	{ GPU("<nvlink target='0000:04:00.0' count='0'/>"), "03:00.0: gpu=1/2" },
	{ GPU("<nvlink target='0000:04:00.0'/>"), "03:00.0: gpu=1/2" },
	{ GPU("<nvlink target='junk' count='2' tclass='0x068000'/>"),
	  "03:00.0: gpu=1/2; 2s of 300 to ffffffffffffffff/2" },
	{ GPU("<nvlink count='2' tclass='0x068000'/>"),
	  "03:00.0: gpu=1/2; 2s of 300 to ffffffffffffffff/2" },
	{ GPU("<nvlink count='2' tclass='0x030200'/>"), "03:00.0: gpu=1/2" },
	{ GPU("<nvlink target='junk' count='2'/>"), "03:00.0: gpu=1/2" },
	{ GPU("<xgmi target='0001:04:1f.7' count='3' tclass='0x120000'/>"),
	  "03:00.0: gpu=1/2; 3x of 300 to 104ff/2" },
	{ "<nvlink target='0000:04:00.0' count='4'/>" PCI(""), "03:00.0: " },
	{ "<gpu sm='90'/>" PCI(""), "03:00.0: " },
	{ "<pci busid='0000:03:00.0'><nic><net name='mlx5_0'/><net/><net name='b'/></nic>"
	  "</pci>",
	  "03:00.0: devices='mlx5_0 b'" },
	{ "<pci busid='0000:03:00.0'><pcilink target='0000:05:00.0'/><pcilink/>"
	  "<pcilink target='x'/><pcilink target='06:00.0'/></pci>",
	  "03:00.0: linked=0000:05:00.0 linked=0000:06:00.0" },
	{ "<other/>" PCI(""), "03:00.0: " },
	{ "<pci busid='0000:03:00.0x'/>", "x: line 1: <pci> without a busid like 0000:41:00.0" },
	{ "<pci busid='0000:03:20.0'/>",
	  "x: line 1: no such address, or more functions than one machine can have" },
	{ "<pci busid='03:00.0'/>", "03:00.0: " },
};

Test(topo_nccl, each_element_states_its_facts)
{
	for (size_t i = 0; i < ROWS(elements); i++) {
		const char *got = read_elements(elements[i].elements);

		cr_expect_str_eq(got, elements[i].want, "row %zu: %s", i, got);
	}
}

/* 64 functions may be nested. */
Test(topo_nccl, nested_functions_have_a_limit)
{
	char xml[8192];

	for (unsigned depth = HR_DEPTH_MAX; depth <= HR_DEPTH_MAX + 1; depth++) {
		size_t n = 0;
		int err;

		n += (size_t)snprintf(xml, sizeof xml, "<system>");
		for (unsigned i = 0; i < depth; i++)
			n += (size_t)snprintf(xml + n, sizeof xml - n, "<pci busid='%02x:00.0'>",
					      i + 1);
		for (unsigned i = 0; i < depth; i++)
			n += (size_t)snprintf(xml + n, sizeof xml - n, "</pci>");
		n += (size_t)snprintf(xml + n, sizeof xml - n, "</system>");
		hr_model_reset(&model);
		hr_error_clear(&model.error);
		err = hr_source_parse(&model, "x", xml, n);
		cr_expect_eq(err, depth > HR_DEPTH_MAX ? -EINVAL : 0, "%u: %s", depth,
			     model.error.text);
		cr_expect_str_eq(model.error.text, depth > HR_DEPTH_MAX
							   ? "x: line 1: bridges nested too deeply"
							   : "");
	}
}

/* ---- CPUs and names of devices */

Test(topo_nccl, a_mask_becomes_a_list_of_cpus)
{
	static const struct {
		const char *mask, *want;
	} row[] = {
		{ NULL, "" },
		{ "", "" },
		{ "0", "" },
		{ "1", "0" },
		{ "3", "0-1" },
		{ "5", "0,2" },
		{ "80000000", "31" },
		{ "ffffffff", "0-31" },
		{ "1,80000000", "31-32" },
		{ "1,00000000", "32" },
		{ "0x3", "0-1" },
		{ "100000000", "" },
		{ "1,100000000", "" },
		{ "1,,1", "" },
		{ "g", "" },
		{ "1,g", "" },
		{ "g,1", "" },
		{ "-1", "" },
		{ "8000000f,0000000f,f0f0f0f1", "0,4-7,12-15,20-23,28-35,64-67,95" },
		{ ",1", "0" },
	};
	const char *list;

	for (size_t i = 0; i < ROWS(row); i++) {
		list = hr_xml_cpus(&model, row[i].mask);
		cr_expect_str_eq(list ? list : "", row[i].want, "row %zu: %s", i, list);
	}
}

Test(topo_nccl, long_masks_and_lists_of_devices_are_cut_at_an_element)
{
	char mask[256 * 9 + 20] = "";
	struct hr_fn f = { 0 };
	const char *list;

	/* 256 words: the last one is the lowest. */
	for (unsigned i = 0; i < 256; i++)
		strcat(mask, i ? ",00000000" : "80000000");
	cr_expect_str_eq(hr_xml_cpus(&model, mask), "8191");
	mask[256 * 9 - 2] = '1';
	cr_expect_str_eq(hr_xml_cpus(&model, mask), "0,8191");
	strcat(mask, ",00000002"); /* a word too many: the highest is left out */
	cr_expect_str_eq(hr_xml_cpus(&model, mask), "1,32");
	/* Every second CPU of 8192: the list ends before the text is full. */
	mask[0] = '\0';
	for (unsigned i = 0; i < 256; i++)
		strcat(mask, i ? ",55555555" : "55555555");
	list = hr_xml_cpus(&model, mask);
	cr_expect_eq(strncmp(list, "0,2,4,6,8,10,", 13), 0);
	cr_expect_str_eq(strrchr(list, ','), ",522", "%s", strrchr(list, ','));
	for (unsigned i = 0; i < 100; i++)
		hr_xml_device(&model, &f, "0123456789");
	cr_expect_eq(strlen(f.devices), 10u + 81u * 11u, "%zu", strlen(f.devices));
	f.devices = NULL;
	hr_xml_device(&model, &f, "a");
	hr_xml_device(&model, &f, "b");
	cr_expect_str_eq(f.devices, "a b");
}

/* ---- files that are no XML, or no topology */

Test(topo_nccl, each_error_has_its_line_and_text)
{
	static const struct {
		const char *xml, *want;
	} row[] = {
		{ " \t\r\n<system></system>", "x: no PCI function in it" },
		{ "<", "x: line 1: the file is cut off: it ends inside an element" },
		{ "<system", "x: line 1: the file is cut off: it ends inside an element" },
		{ "<system>", "x: line 1: the file is cut off: it ends inside an element" },
		{ "<system><![CDATA[x",
		  "x: line 1: the file is cut off: it ends inside an element" },
		{ "<system>\n<pci", "x: line 2: the file is cut off: it ends inside an element" },
		{ "<system>\xc3", "x: line 1: the file is cut off: it ends inside an element" },
		{ "<system>\xff</system>", "x: line 1: not well-formed (invalid token)" },
		{ "<system></system>\n<system/>",
		  "x: line 2: a second file begins here, behind the end of the first" },
		{ "<system></system>\n", "x: no PCI function in it" },
		{ "<system><a></b></system>", "x: line 1: mismatched tag" },
		{ "<!DOCTYPE s [\n<!ENTITY % a 'b'>]><system/>",
		  "x: line 2: an entity is declared: no topology has any" },
		{ "<a0123456789012345678901234567890123456789/>",
		  "x: line 1: <a0123456789012345678901234567890> is neither <system> of an "
		  "NCCL topology (NCCL_TOPO_DUMP_FILE) nor <topology> of hwloc (lstopo "
		  "FILE.xml)" },
		{ "<system><pci busid='x'/><pci busid='y'/></system>",
		  "x: line 1: <pci> without a busid like 0000:41:00.0" },
		{ "<topology><object type='Bridge' bridge_type='1-1'/></topology>",
		  "x: line 1: a PCI object without a pci_busid like 0000:41:00.0" },
		{ "<topology><object type='PCIDev' pci_busid='00:20.0'/></topology>",
		  "x: line 1: no such address, or more functions than one machine can have" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		int err;

		hr_model_reset(&model);
		hr_error_clear(&model.error);
		err = hr_source_parse(&model, "x", row[i].xml, strlen(row[i].xml));
		cr_expect_str_eq(model.error.text, row[i].want, "row %zu: %s", i, model.error.text);
		cr_expect_eq(err, strstr(row[i].want, "no PCI") ? -ENODATA : -EINVAL);
	}
}
