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
#include "pci/topo/source.h"
#include "pci/topo/verdict.h"
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

/* ---- pastes */

static const char listing[] =
	"00:00.0 Host bridge [0600]: Host [8086:1234]\n\n"
	"00:01.0 PCI bridge [0604]: Port [8086:1901]\n\tControl: I/O+ Mem+ BusMaster+\n"
	"\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0\n"
	"\tCapabilities: [88] Express (v2) Root Port (Slot+), MSI 00\n"
	"\t\tDevCap:\tMaxPayload 512 bytes\n\n"
	"01:00.0 3D controller [0302]: Card [10de:20b0]\n\tNUMA node: 1\n"
	"\tCapabilities: <access denied>\n\tKernel driver in use: nvidia\n";

/* Put `before` in front of each line; in front of an empty line without its trailing blanks. */
static char *quoted(const char *text, const char *before, const char *head, const char *tail)
{
	size_t size, bare = strlen(before);
	char *to = NULL;
	FILE *out = open_memstream(&to, &size);

	while (bare && before[bare - 1] == ' ')
		bare--;
	fputs(head, out);
	for (const char *line = text; *line;) {
		int n = (int)strcspn(line, "\n");

		fprintf(out, "%.*s%.*s\n", n ? (int)strlen(before) : (int)bare, before, n, line);
		line += n + (line[n] == '\n');
	}
	fputs(tail, out);
	fclose(out);
	return to;
}

static void expect_same_paste(const char *text, const char *what)
{
	char bdf[HR_BDF_MAX];

	cr_assert_eq(parse(text), 0, "%s: %s", what, model.error.text);
	cr_assert_eq(model.count, other.count, "%s: %u functions", what, model.count);
	for (uint32_t i = 0; i < model.count; i++) {
		const struct hr_fn *a = &model.fn[i], *b = &other.fn[i];

		hr_bdf(a, bdf);
		cr_expect_eq(memcmp(a->fact, b->fact, sizeof a->fact), 0, "%s: %s", what, bdf);
		cr_expect_eq(a->parent, b->parent, "%s: %s", what, bdf);
		cr_expect_eq(a->denied, b->denied, "%s: %s", what, bdf);
		cr_expect_eq(a->config_bytes, b->config_bytes, "%s: %s", what, bdf);
		cr_expect_str_eq(a->name, b->name, "%s: %s", what, bdf);
	}
}

static void try_pastes(const char *text)
{
	static const struct {
		const char *before, *head, *tail;
	} row[] = {
		{ "", "", "" },
		{ "> ", "Hello,\n\n", "\nthanks\n" },
		{ ">> ", "", "" },
		{ ">", "> he wrote:\n>\n", "" },
		{ "    ", "Output of lspci:\n\n", "\nbye\n" },
		{ "> > ", "", "" },
		{ "\t", "", "" },
		{ "", "<details>\n<summary>lspci</summary>\n\n```\n", "```\n\n</details>\n" },
		{ "", "<details><summary>lspci</summary><pre>", "</pre></details>\n" },
		{ "  ", "\n\n  ```text\n", "  ```\n" },
	};

	hr_model_reset(&other);
	cr_assert_eq(hr_source_parse(&other, "x", text, strlen(text)), 0, "%s", other.error.text);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char *paste = quoted(text, row[i].before, row[i].head, row[i].tail), what[16];

		snprintf(what, sizeof what, "row %zu", i);
		expect_same_paste(paste, what);
		free(paste);
	}
}

Test(topo_readers, quoted_and_indented_text_is_read_like_the_text)
{
	try_pastes(listing);
}

Test(topo_readers, quoted_and_indented_dumps_are_read_like_the_dump)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	size_t size;
	char *text;

	fake_two_ports(m);
	text = fake_render(m, &size);
	try_pastes(text);
	free(text);
	free(m);
}

Test(topo_readers, escaped_text_of_a_page_is_read)
{
	char text[] = "00:00.0 x\n\tCapabilities: &lt;access denied&gt;\n\n01:00.0 a&amp;b &x;\n";

	cr_assert_eq(parse(text), 0, "%s", model.error.text);
	cr_expect(model.fn[0].denied);
	cr_expect_str_eq(model.fn[1].name, "a&b &x;");
}

/* Text that only looks like a quotation does not become a function. */
Test(topo_readers, text_indented_below_a_function_stays_its_text)
{
	cr_assert_eq(parse("00:00.0 x\n\n  01:00.0 y\n> 02:00.0 z\n"), 0);
	cr_expect_eq(model.count, 1u);
}

/* ---- lspci -t */

static const char tree[] =
	"-+-[0000:80]-+-01.0-[81-85]----00.0-[82-85]--+-00.0-[83]----00.0  NVIDIA Corporation "
	"GA100 [A100 PCIe 40GB]\n"
	" |           |                               +-01.0-[84]----00.0  Samsung Electronics Co "
	"Ltd NVMe SSD Controller PM173X\n"
	" |           |                               \\-02.0-[85]--\n"
	" |           \\-02.0-[86]--+-00.0  NVIDIA Corporation GA106 High Definition Audio "
	"Controller\n"
	" |                        \\-00.1  NVIDIA Corporation GA102 [10de:2204]\n"
	" \\-[0000:00]-+-00.0  Intel Corporation Device 09a2\n"
	"             \\-03.0-[01]----00.0  Advanced Micro Devices, Inc. [AMD/ATI] Navi 31\n";

Test(topo_readers, a_tree_gives_bridges_and_cards)
{
	struct hr_topology topology;
	struct hr_pair p;

	cr_assert_eq(parse(tree), 0, "%s", model.error.text);
	cr_expect_eq(model.count, 13u, "%u", model.count);
	cr_expect_eq(hr_get(at("80:01.0"), HR_F_SECONDARY, 0), 0x81u);
	cr_expect_eq(hr_get(at("80:01.0"), HR_F_SUBORDINATE, 0), 0x85u);
	cr_expect_eq(hr_get(at("82:02.0"), HR_F_SECONDARY, 0), 0x85u);
	cr_expect_eq(hr_get(at("00:03.0"), HR_F_SECONDARY, 0), 0x01u);
	cr_expect_eq(hr_get(at("86:00.1"), HR_F_DEVICE, 0), 0x2204u);
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	cr_expect_eq(topology.gpus, 3u, "%u", topology.gpus);
	cr_assert_eq(topology.ssds, 1u);
	hr_pair_evaluate(&topology, (int32_t)(at("83:00.0") - model.fn), topology.ssd[0], &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN);
	cr_expect_str_eq(hr_distance_word(&topology, &p), "PIX");
}

Test(topo_readers, a_tree_completes_a_list_and_is_checked_against_it)
{
	static const char list[] =
		"00:00.0 Host bridge [0600]: Intel Corporation Host [8086:09a2]\n"
		"00:01.0 PCI bridge [0604]: Intel Corporation Port [8086:347a]\n"
		"01:00.0 3D controller [0302]: NVIDIA Corporation A [10de:20b5] (rev a1)\n\n"
		"$ lspci -t\n";
	char both[1024];

	snprintf(both, sizeof both, "%s%s", list,
		 "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n");
	cr_assert_eq(parse(both), 0, "%s", model.error.text);
	cr_assert_eq(model.count, 3u);
	cr_expect_eq(model.fn[2].parent, 1);
	cr_expect_eq(hr_get(&model.fn[2], HR_F_CLASS, 0), 0x030200u);
	snprintf(both, sizeof both,
		 "%s\n00:01.0 PCI bridge: x\n\tBus: primary=00, secondary=02\n\n%s", list,
		 "-[0000:00]---01.0-[01]----00.0\n");
	cr_expect_eq(parse(both), -EINVAL);
	cr_expect(strstr(model.error.text, "line 10: a second capture begins here"), "%s",
		  model.error.text);
}

/*
 * A branch further to the right than in any tree: nothing below it is found, and the reader
 * continues.
 */
Test(topo_readers, a_tree_that_is_too_wide_is_read_partly)
{
	static const unsigned width[] = { 300, 500, 511, 512, 513, 2000, 60000 };
	static char text[64 << 10];

	for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
		memset(text, '-', sizeof text);
		memcpy(text, "-[0000:00]", 10);
		snprintf(text + width[i], 64, "+-00.0  Intel Device\n");
		parse(text);
		cr_expect_leq(model.count, 1u, "%u columns", width[i]);
	}
}

Test(topo_readers, three_trees_of_one_root_and_of_long_domains)
{
	cr_assert_eq(parse("-[0000:00]-+-00.0\n           +-01.0-[01]--\n           `-02.0\n"), 0);
	cr_expect_eq(model.count, 3u);
	cr_assert_eq(parse("-+-[10000:e0]-+-06.0-[e1]----00.0  Intel NVMe Datacenter SSD\n"
			   " \\-[0000:00]---0e.0  Intel Volume Management Device\n"),
		     0);
	cr_expect_eq(model.count, 3u);
	cr_expect(hr_is_nvme(at("10000:e1:00.0")));
	cr_assert_eq(parse("-[0000:00]---01.0-[01-02]----00.0-[02]----00.0  x\n"), 0);
	cr_expect_eq(model.count, 3u);
	cr_expect_eq(model.fn[2].depth, 2u);
}
