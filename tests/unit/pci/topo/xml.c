/* Topologies as XML: of NCCL, RCCL and hwloc. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/peers.h"
#include "pci/topo/source.h"

static struct hr_model model;
static struct hr_topology topology;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_xml, .init = set_up, .fini = tear_down, .timeout = 60);

static int parse(const char *text)
{
	hr_model_reset(&model);
	return hr_source_parse(&model, "x", text, strlen(text));
}

static const struct hr_fn *at(const char *address)
{
	uint32_t domain, bus, dev, fn;
	int32_t index;

	cr_assert_neq(hr_bdf_parse(address, &domain, &bus, &dev, &fn), 0);
	index = hr_model_find(&model, domain, bus, dev, fn);
	cr_assert_neq(index, HR_NO_FN, "%s is missing", address);
	return &model.fn[index];
}

static const char *word(const char *gpu, const char *ssd)
{
	struct hr_pair p;

	hr_pair_evaluate(&topology, (int32_t)(at(gpu) - model.fn), (int32_t)(at(ssd) - model.fn),
			 &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN); /* none of these files contains registers */
	return hr_distance_word(&topology, &p);
}

static void evaluate(uint32_t gpus, uint32_t ssds)
{
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	cr_expect_eq(topology.gpus, gpus, "%u GPUs", topology.gpus);
	cr_expect_eq(topology.ssds, ssds, "%u SSDs", topology.ssds);
}

Test(topo_xml, a_broken_file_is_refused_with_its_line)
{
	static const struct {
		const char *text;
		int want;
		const char *say;
	} row[] = {
		{ "<system></system>", -ENODATA, "no PCI function" },
		{ "<?xml version=\"1.0\"?>\n<!DOCTYPE x>\n<system></system>", -ENODATA, "no PCI" },
		{ "<!-- licence -->\n<system></system>", -ENODATA, "no PCI function" },
		{ "<system>\n<pci busid=\"0000:01:00.0\"/>\n", -EINVAL, "line 3: the file is cut" },
		{ "<system>\n<pci busid=\"0000:01:0", -EINVAL, "line 2: the file is cut off" },
		{ "<system/></cpu>", -EINVAL, "line 1" },
		{ "<system>\n</pci></system>", -EINVAL, "line 2: mismatched tag" },
		{ "<system><pci\n busid=\"junk\"/></system>", -EINVAL, "line 1: <pci> without" },
		{ "<system><pci busid=''/></system>", -EINVAL, "without a busid" },
		{ "<system><pci busid='0000:01:20.0'/></system>", -EINVAL, "no such address" },
		{ "<system><pci/></system>", -EINVAL, "without a busid" },
		{ "<system><pci busid='00:01.0'/></system>\n<system/>", -EINVAL,
		  "line 2: a second" },
		{ "<graphs version='1'/>", -EINVAL, "<graphs> is neither" },
		{ "<!DOCTYPE system [\n<!ENTITY a 'b'>\n]><system>&a;</system>", -EINVAL,
		  "line 2: an entity" },
		{ "<topology>\n<object type='PCIDev' pci_busid='x'/></topology>", -EINVAL,
		  "line 2" },
		{ "<topology><object type='PCIDev'/></topology>", -EINVAL, "without a pci_busid" },
		{ "<topology version='2.0'/>", -ENODATA, "no PCI function" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		int err = parse(row[i].text);

		cr_expect_eq(err, row[i].want, "row %zu: %d (%s)", i, err, model.error.text);
		cr_expect(strstr(model.error.text, row[i].say) != NULL, "row %zu: '%s'", i,
			  model.error.text);
	}
}

Test(topo_xml, nesting_has_a_limit)
{
	char *text = calloc(1, 200000), *end = text;

	end += sprintf(end, "<system>");
	for (unsigned i = 0; i < 1000; i++)
		end += sprintf(end, "<a>");
	for (unsigned i = 0; i < 1000; i++)
		end += sprintf(end, "</a>");
	sprintf(end, "</system>");
	cr_expect_eq(parse(text), -EINVAL);
	cr_expect(strstr(model.error.text, "nested too deeply") != NULL, "%s", model.error.text);
	end = text + sprintf(text, "<system>");
	for (unsigned i = 0; i < HR_DEPTH_MAX + 1; i++)
		end += sprintf(end, "<pci busid='00:%02x.%x'>", i >> 3, i & 7);
	for (unsigned i = 0; i < HR_DEPTH_MAX + 1; i++)
		end += sprintf(end, "</pci>");
	sprintf(end, "</system>");
	cr_expect_eq(parse(text), -EINVAL);
	cr_expect(strstr(model.error.text, "nested too deeply") != NULL, "%s", model.error.text);
	free(text);
}

/* ---- NCCL and RCCL */

Test(topo_xml, nccl_gives_the_shape_and_only_unknown_verdicts)
{
	static const char xml[] =
		"<system version=\"1\">\n <cpu numaid=\"1\" vendor=\"AuthenticAMD\" "
		"familyid=\"143\" affinity=\"0000ffff,00000000,ff000001\">\n"
		"  <pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" "
		"link_width=\"16\">\n"
		"   <pci busid=\"0000:12:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
		"link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>\n"
		"   <pci busid=\"0000:15:00.0\" class=\"0x010802\" link_width=\"4\"/>\n"
		"  </pci>\n </cpu>\n</system>\n";

	cr_assert_eq(parse(xml), 0, "%s", model.error.text);
	cr_assert_eq(model.count, 3u);
	cr_expect_eq(at("12:00.0")->parent, 0);
	cr_expect_eq(at("15:00.0")->parent, 0);
	cr_expect_eq(hr_get(at("12:00.0"), HR_F_SPEED_MAX, 0), 5u);
	cr_expect_eq(hr_get(at("12:00.0"), HR_F_NUMA, 0), 1u);
	cr_expect_str_eq(at("12:00.0")->cpus, "0,24-31,64-79");
	evaluate(1, 1);
	cr_expect_str_eq(word("12:00.0", "15:00.0"), "PIX");
}

/* Functions of class 0380, and old files without a vendor. */
Test(topo_xml, a_gpu_element_of_nccl_is_a_gpu)
{
	static const char xml[] =
		"<system version='1'><cpu numaid='0'>\n"
		"<pci busid='0000:10:00.0' class='0x060400'>\n"
		" <pci busid='0000:11:00.0' class='0x038000'><gpu dev='0' sm='90' rank='0'>\n"
		"  <nvlink target='0000:07:00.0' count='6' tclass='0x068000'/>\n"
		"  <nvlink target='fffffff:ffff:ff' count='12' tclass='0x068000'/></gpu></pci>\n"
		" <pci busid='0000:12:00.0' class='0x030000'><gpu dev='1' sm='86' rank='1'>\n"
		"  <nvlink target='0000:11:00.0' count='4' tclass='0x038000'/>\n"
		"  <nvlink target='0000:11:00.0' tclass='0x038000'/></gpu></pci>\n"
		" <pci busid='0000:13:00.0' class='0x030000'/>\n"
		" <pci busid='0000:14:00.0' class='0x020700'><nic><net name='mlx5_0'/>"
		"<net name='mlx5_1'/></nic></pci>\n"
		" <pci busid='0000:15:00.0' class='0x010802'/>\n"
		"</pci></cpu></system>";
	enum hr_fabric fabric;
	bool through;

	cr_assert_eq(parse(xml), 0, "%s", model.error.text);
	evaluate(2, 1);
	cr_expect_str_eq(word("11:00.0", "15:00.0"), "PIX");
	cr_expect_eq(hr_get(at("11:00.0"), HR_F_VENDOR, 0), 0x10deu);
	cr_expect_str_eq(at("14:00.0")->devices, "mlx5_0 mlx5_1");
	cr_expect_eq(hr_gpu_links(&model, 0x1100, 0x1200, &fabric, &through), 4u);
	cr_expect_eq(model.gpu_links, 3u);
}

Test(topo_xml, rccl_names_amd_gpus_and_their_links)
{
	static const char xml[] =
		"<system version='2'>\n<cpu host_hash='0x1' numaid='1' vendor='AuthenticAMD' "
		"familyid='175'>\n<pci busid='0000:80:01.0' class='0x060400'>\n"
		" <pci busid='0000:83:00.0' class='0x120000'><gpu dev='0' sm='94' gcn='gfx942' "
		"arch='38911' rank='0' gdr='1'><xgmi target='0000:c3:00.0' count='1' "
		"tclass='0x120000'/></gpu></pci>\n</pci>\n"
		"<pci busid='0000:c0:01.0' class='0x060400'>\n"
		" <pci busid='0000:c3:00.0' class='0x038000'><gpu dev='1' sm='90' gcn='910' "
		"rank='1'/></pci>\n"
		" <pci busid='0000:c4:00.0' class='0x010802'/>\n</pci></cpu></system>";
	struct hr_topo_peers peers;
	struct hr_peer_pair p;
	char text[16];

	cr_assert_eq(parse(xml), 0, "%s", model.error.text);
	evaluate(2, 1);
	cr_expect_eq(hr_get(at("c3:00.0"), HR_F_VENDOR, 0), 0x1002u);
	cr_expect_str_eq(word("c3:00.0", "c4:00.0"), "PIX");
	cr_assert_eq(hr_peers_init(&peers, &topology, &model, 7), 0);
	hr_peers_evaluate(&peers, 0, 1, &p);
	cr_expect_str_eq(hr_peer_distance(&peers, &p, text), "XGMI1");
}

/* ---- hwloc */

Test(topo_xml, hwloc_2_gives_bridges_nodes_and_names)
{
	static const char xml[] =
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
		"<object type=\"Machine\" os_index=\"0\" cpuset=\"0x0000ffff\" "
		"nodeset=\"0x00000003\">\n<info name=\"OSRelease\" value=\"5.14.0\"/>\n"
		"<object type=\"Package\" cpuset=\"0x0000ff00\" nodeset=\"0x00000002\">\n"
		"<info name=\"CPUVendor\" value=\"GenuineIntel\"/>\n"
		"<object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x0000ff00\" "
		"nodeset=\"0x00000002\"/>\n"
		"<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" "
		"bridge_pci=\"0000:[80-8f]\">\n"
		" <object type=\"Bridge\" bridge_type=\"1-1\" depth=\"1\" "
		"bridge_pci=\"0000:[81-85]\" pci_busid=\"0000:80:01.0\" "
		"pci_type=\"0604 [8086:347a] [8086:0000] 04\" pci_link_speed=\"31.507692\">\n"
		"  <object type=\"Bridge\" bridge_type=\"1-1\" depth=\"2\" "
		"bridge_pci=\"0000:[82-85]\" pci_busid=\"0000:81:00.0\" "
		"pci_type=\"0604 [1000:c010] [1000:a064] b0\">\n"
		"   <object type=\"PCIDev\" pci_busid=\"0000:84:00.0\" "
		"pci_type=\"0302 [10de:20b5] [10de:1533] a1\">\n"
		"    <info name=\"PCIVendor\" value=\"NVIDIA Corporation\"/>\n"
		"    <info name=\"PCIDevice\" value=\"GA100 [A100 PCIe 80GB]\"/>\n"
		"    <object type=\"OSDev\" name=\"cuda0\" osdev_type=\"5\"/></object>\n"
		"   <object type=\"PCIDev\" pci_busid=\"0000:85:00.0\" "
		"pci_type=\"0108 [144d:a824] [1028:2197] 00\"><info name=\"PCISlot\" "
		"value=\"7\"/>\n"
		"    <object type=\"OSDev\" name=\"nvme0n1\" osdev_type=\"0\"/></object>\n"
		"  </object></object>\n"
		" <object type=\"PCIDev\" pci_busid=\"0000:80:02.0\" "
		"pci_type=\"0200 [15b3:1017] [15b3:0001] 00\"><object type=\"OSDev\" "
		"name=\"ens3\" osdev_type=\"2\"/><object type=\"OSDev\" name=\"mlx5_2\" "
		"osdev_type=\"3\"/></object>\n"
		"</object></object></object></topology>\n";

	cr_assert_eq(parse(xml), 0, "%s", model.error.text);
	cr_assert_eq(model.count, 5u);
	evaluate(1, 1);
	cr_expect_str_eq(word("84:00.0", "85:00.0"), "PIX");
	cr_expect_eq(hr_get(at("84:00.0"), HR_F_NUMA, 99), 1u);
	cr_expect_str_eq(at("84:00.0")->cpus, "8-15");
	cr_expect_str_eq(at("84:00.0")->name, "NVIDIA Corporation GA100 [A100 PCIe 80GB]");
	cr_expect_null(at("84:00.0")->devices);
	cr_expect_str_eq(at("85:00.0")->devices, "nvme0n1");
	cr_expect_str_eq(at("85:00.0")->pci_slot, "7");
	cr_expect_str_eq(at("80:02.0")->devices, "ens3 mlx5_2");
	cr_expect_eq(hr_get(at("81:00.0"), HR_F_SUBORDINATE, 0), 0x85u);
	cr_expect_str_eq(model.sys.kernel, "5.14.0");
	cr_expect_eq(model.sys.amd.value, 0u);
	cr_expect_str_eq(model.input, "hwloc topology");
}

/* Version 1: nodes enclose packages, and ports in between are omitted. */
Test(topo_xml, hwloc_1_with_bridges_left_out_keeps_the_nesting)
{
	static const char xml[] =
		"<topology>\n<object type='Machine' cpuset='0xf...f'>\n"
		"<object type='NUMANode' os_index='0' cpuset='0x1,0x00000000' nodeset='0x1'>\n"
		"<object type='Bridge' bridge_type='0-1' bridge_pci='0000:[00-0a]'>\n"
		"<object type='Bridge' bridge_type='1-1' bridge_pci='0000:[02-0a]' "
		"pci_busid='0000:00:03.0' pci_type='0604 [8086:3408] [0000:0000] 22'>\n"
		"<object type='PCIDev' pci_busid='0000:05:00.0' name='x' "
		"pci_type='0300 [10de:06d8] [10de:076f] a3'/>\n"
		"<object type='PCIDev' pci_busid='0000:09:00.0' "
		"pci_type='0108 [8086:0953] [8086:3702] 01'/>\n"
		"</object>\n<object type='PCIDev' pci_busid='0000:00:1f.2' "
		"pci_type='0106 [8086:3a22] [8086:3a22] "
		"00'/></object></object></object></topology>";

	cr_assert_eq(parse(xml), 0, "%s", model.error.text);
	evaluate(1, 1);
	cr_expect_str_eq(word("05:00.0", "09:00.0"), "PIX");
	cr_expect_eq(at("05:00.0")->parent, (int32_t)(at("00:03.0") - model.fn));
	cr_expect_str_eq(at("05:00.0")->cpus, "32");
	cr_expect_eq(hr_get(at("09:00.0"), HR_F_NUMA, 99), 0u);
}
