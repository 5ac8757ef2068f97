/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a machine: memory, addresses, kinds of functions, links of GPUs. */
#include "pci/topo/model.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"

static struct hr_model model;

static void up(void)
{
	memset(&model, 0xa5, sizeof model); /* hr_model_init() must not read what was there */
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_model, .init = up, .fini = down, .timeout = 60);

/* A function 00:0.0 with these identifiers; 0: not known. */
static struct hr_fn kind(uint32_t class, uint32_t vendor, uint32_t device)
{
	struct hr_fn f = { .name = "" };

	if (class)
		hr_fn_set(&f, HR_F_CLASS, class, HR_SRC_CONFIG);
	if (vendor)
		hr_fn_set(&f, HR_F_VENDOR, vendor, HR_SRC_CONFIG);
	if (device)
		hr_fn_set(&f, HR_F_DEVICE, device, HR_SRC_CONFIG);
	return f;
}

Test(topo_model, a_class_and_a_vendor_make_the_kind_of_a_function)
{
	static const struct {
		uint32_t class, vendor, device;
		uint8_t bus;
		const char *name;
		bool nvme, gpu, nic, rdma, integrated;
	} row[] = {
		{ 0x010802, 0x144d, 0xa80a, 1, "", .nvme = true },
		{ 0x010803, 0, 0, 1, "", .nvme = true },
		{ 0x010700, 0x144d, 0, 1, "", .nvme = false },
		{ 0x010900, 0x144d, 0, 1, "", .nvme = false },
		{ 0x120000, 0x1002, 0x74a1, 1, "", .gpu = true },
		{ 0x120000, 0x8086, 0, 1, "", .gpu = true },
		{ 0x120000, 0x8086, 0x643e, 0, "", .nvme = false }, /* NPU */
		{ 0x110000, 0x1002, 0, 1, "", .nvme = false },
		{ 0x030000, 0x10de, 0x2230, 1, "", .gpu = true },
		{ 0x030200, 0x10de, 0x2330, 1, "", .gpu = true },
		{ 0x038000, 0x1002, 0x7408, 1, "", .gpu = true },
		{ 0x030100, 0x10de, 0x2330, 1, "", .nvme = false },
		{ 0x037f00, 0x10de, 0x2330, 1, "", .nvme = false },
		{ 0x030000, 0x1a03, 0x2000, 1, "", .nvme = false }, /* a management display */
		{ 0x030200, 0x1a03, 0x2000, 1, "", .nvme = false },
		{ 0x030200, 0, 0, 1, "", .gpu = true },
		{ 0x030000, 0, 0, 1, "", .nvme = false },
		{ 0x038000, 0, 0, 1, "", .nvme = false },
		{ 0x038000, 0x8086, 0x0bd5, 1, "", .gpu = true },
		{ 0x030000, 0x8086, 0x3e92, 0, "", .integrated = true },
		{ 0x020000, 0x8086, 0, 0, "", .nic = true },
		{ 0x020700, 0x15b3, 0, 1, "", .nic = true, .rdma = true },
		{ 0x020800, 0x15b3, 0, 1, "", .nic = true },
		{ 0x020600, 0x15b3, 0, 1, "", .nvme = false },
		{ 0x030000, 0x1002, 0x1638, 6, "", .gpu = true, .integrated = true },
		{ 0x030000, 0x1002, 0x73bf, 6, "Cezanne", .gpu = true },
		{ 0x030000, 0x1002, 0, 6, "Cezanne", .gpu = true, .integrated = true },
		{ 0x030000, 0x1002, 0, 6, "Navi 21", .gpu = true },
		{ 0x030000, 0x10de, 0, 6, "Cezanne", .gpu = true },
		{ 0x040000, 0x1002, 0x1638, 6, "Cezanne", .nvme = false },
		{ 0x020000, 0x1002, 0x1638, 6, "Cezanne", .nic = true },
		{ 0, 0x10de, 0x2330, 1, "", .nvme = false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fn f = kind(row[i].class, row[i].vendor, row[i].device);

		f.bus = row[i].bus;
		f.name = row[i].name;
		cr_expect_eq(hr_is_nvme(&f), row[i].nvme, "row %zu", i);
		cr_expect_eq(hr_is_gpu(&f), row[i].gpu, "row %zu", i);
		cr_expect_eq(hr_is_nic(&f), row[i].nic, "row %zu", i);
		cr_expect_eq(hr_is_rdma(&f), row[i].rdma, "row %zu", i);
		cr_expect_eq(hr_is_integrated(&f), row[i].integrated, "row %zu", i);
		/* RDMA devices make a network card one of RDMA, and no other function. */
		hr_fn_set(&f, HR_F_RDMA, 1, HR_SRC_SYSFS);
		cr_expect_eq(hr_is_rdma(&f), row[i].nic, "row %zu", i);
		/* What the source calls a GPU is one. */
		hr_fn_set(&f, HR_F_GPU, 0, HR_SRC_XML);
		cr_expect_eq(hr_is_gpu(&f), row[i].gpu, "row %zu", i);
		hr_fn_set(&f, HR_F_GPU, 1, HR_SRC_XML);
		cr_expect(hr_is_gpu(&f), "row %zu", i);
	}
}

Test(topo_model, a_header_of_type_1_is_that_of_a_bridge)
{
	static const struct {
		uint32_t header;
		bool bridge;
	} row[] = { { 0, false }, { 1, true }, { 2, false }, { 0x80, false }, { 0x81, true } };
	struct hr_fn f = { .name = "" };

	f.fact[HR_F_HEADER].value = 1;
	cr_expect_not(hr_is_bridge(&f), "no source states the header");
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		hr_fn_set(&f, HR_F_HEADER, row[i].header, HR_SRC_CONFIG);
		cr_expect_eq(hr_is_bridge(&f), row[i].bridge, "header %x", row[i].header);
	}
}

/* BARs as "flags,size" for each index; behind the last are those of virtual functions. */
Test(topo_model, peers_reach_a_function_by_its_large_bar)
{
	enum { MEM = HR_BAR_MEM, PREF = HR_BAR_MEM | HR_BAR_PREF, UPPER = HR_BAR_UPPER };
	static const struct {
		uint32_t class, vendor;
		uint8_t flags[HR_BARS_MAX + 1];
		uint64_t size[HR_BARS_MAX + 1];
		int want;
	} row[] = {
		{ 0x010802, 0x144d, { MEM, 0, PREF }, { 1, 0, 9 }, 0 },
		{ 0x010802, 0x144d, { 0, 0, PREF }, { 1, 0, 9 }, -1 },
		{ 0x030200, 0x10de, { MEM, PREF, 0, PREF }, { 1, 0, 0, 9 }, 1 },
		{ 0x030200, 0x10de, { MEM, 0, 0, PREF }, { 1, 0, 0, 9 }, 3 },
		{ 0x030200, 0x10df, { MEM, PREF, 0, PREF }, { 1, 0, 0, 9 }, 3 },
		{ 0x030200, 0x1002, { PREF, 0, PREF }, { 1, 0, 9 }, 0 },
		{ 0x030200, 0x1002, { 0, 0, PREF }, { 1, 0, 9 }, 2 },
		{ 0x030200, 0x1003, { PREF, 0, PREF }, { 1, 0, 9 }, 2 },
		{ 0x020000, 0x15b3, { 0 }, { 0 }, -1 },
		{ 0x020000, 0x15b3, { 0, 0, 0, 0, 0, 0, MEM }, { [6] = 9 }, -1 },
		{ 0x020000, 0x15b3, { 0, 0, 0, 0, 0, MEM, MEM }, { [5] = 1, 9 }, 5 },
		{ 0x020000, 0x15b3, { MEM, 0, MEM }, { 8, 0, 8 }, 0 },
		{ 0x020000, 0x15b3, { MEM, 0, PREF }, { 8, 0, 8 }, 2 },
		{ 0x020000, 0x15b3, { PREF, 0, PREF }, { 8, 0, 8 }, 0 },
		{ 0x020000, 0x15b3, { PREF, 0, MEM }, { 8, 0, 8 }, 0 },
		{ 0x020000, 0x15b3, { MEM, 0, PREF }, { 9, 0, 8 }, 0 },
		{ 0x020000, 0x15b3, { PREF, 0, MEM }, { 8, 0, 9 }, 2 },
		{ 0x020000, 0x15b3, { MEM, MEM | UPPER }, { 8, 9 }, 0 },
		{ 0x020000, 0x15b3, { 0, PREF & ~MEM, MEM }, { 9, 9, 8 }, 2 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fn f = kind(row[i].class, row[i].vendor, 0);

		for (unsigned b = 0; b <= HR_BARS_MAX; b++) {
			struct hr_bar *bar = b < HR_BARS_MAX ? &f.bar[b] : &f.vf_bar[0];

			bar->flags = row[i].flags[b];
			bar->size = row[i].size[b];
		}
		cr_expect_eq(hr_peer_bar(&f), row[i].want, "row %zu: BAR %d", i, hr_peer_bar(&f));
	}
}

Test(topo_model, an_address_is_read_to_its_end)
{
	static const struct {
		const char *text;
		size_t used;
		uint32_t domain, bus, dev, fn;
	} row[] = {
		{ "41:02.3", 7, 0, 0x41, 2, 3 },
		{ "0001:41:02.3", 12, 1, 0x41, 2, 3 },
		{ "10000:e1:1f.7 x", 13, 0x10000, 0xe1, 0x1f, 7 },
		{ "ffffff:FF:1F.7", 14, 0xffffff, 0xff, 0x1f, 7 },
		{ "aAfF:bB:0c.d", 12, 0xaaff, 0xbb, 0x0c, 0xd },
		{ "1000000:00:00.0", 0, 0, 0, 0, 0 },
		{ "001:41:02.3", 0, 0, 0, 0, 0 },
		{ "1:02.3", 0, 0, 0, 0, 0 },
		{ ":02.3", 0, 0, 0, 0, 0 },
		{ "41-02.3", 0, 0, 0, 0, 0 },
		{ "41:2.3", 0, 0, 0, 0, 0 },
		{ "41:02:3", 0, 0, 0, 0, 0 },
		{ "41:02.g", 0, 0, 0, 0, 0 },
		{ "41:02.:", 0, 0, 0, 0, 0 },
		{ "4/:02.3", 0, 0, 0, 0, 0 },
		{ "4@:02.3", 0, 0, 0, 0, 0 },
		{ "4`:02.3", 0, 0, 0, 0, 0 },
		{ "4g:02.3", 0, 0, 0, 0, 0 },
		{ "0000:1:02.3", 0, 0, 0, 0, 0 },
		{ "0000:41-02.3", 0, 0, 0, 0, 0 },
		{ "0000:41", 0, 0, 0, 0, 0 },
		{ "", 0, 0, 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint32_t domain = 77, bus = 77, dev = 77, fn = 77;
		const size_t used = hr_bdf_parse(row[i].text, &domain, &bus, &dev, &fn);

		cr_expect_eq(used, row[i].used, "%s: %zu", row[i].text, used);
		if (used && used == row[i].used)
			cr_expect(domain == row[i].domain && bus == row[i].bus &&
					  dev == row[i].dev && fn == row[i].fn,
				  "%s: %x %x %x %x", row[i].text, domain, bus, dev, fn);
	}
}

Test(topo_model, an_address_has_a_number_and_a_text)
{
	static const struct {
		const char *text, *full;
		uint64_t address;
	} row[] = {
		{ "41:02.3", "0000:41:02.3", 0x4113 },
		{ "ffffff:ff:1f.7", "ffffff:ff:1f.7", 0xffffffffff },
		{ "0001:00:00.0", "0001:00:00.0", 0x10000 },
		{ "41:1f.0", "0000:41:1f.0", 0x41f8 },
		{ "41:20.0", NULL, HR_NO_ADDRESS },
		{ "41:02.8", NULL, HR_NO_ADDRESS },
		{ "41:02.3 ", NULL, HR_NO_ADDRESS },
		{ "", NULL, HR_NO_ADDRESS },
	};
	char text[HR_BDF_MAX];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint64_t got = hr_address_parse(row[i].text);

		cr_expect_eq(got, row[i].address, "%s: %llx", row[i].text, (unsigned long long)got);
		if (row[i].full)
			cr_expect_str_eq(hr_address_text(row[i].address, text), row[i].full);
	}
}

Test(topo_model, a_better_source_wins)
{
	for (unsigned had = HR_SRC_INFERRED; had <= HR_SRC_USER; had++)
		for (unsigned says = HR_SRC_INFERRED; says <= HR_SRC_USER; says++) {
			struct hr_fact fact = { 0 };

			hr_fact_set(&fact, 1, (enum hr_src)had);
			hr_fact_set(&fact, 2, (enum hr_src)says);
			cr_expect_eq(fact.value, says >= had ? 2u : 1u, "%u %u", had, says);
			cr_expect_eq(fact.source, says >= had ? says : had, "%u %u", had, says);
		}
}

Test(topo_model, facts_and_sources_have_names)
{
	static const char *const source[] = { "unknown",    "inferred", "xml",	  "kernel-log",
					      "lspci-text", "sysfs",	"config", "user" };

	for (unsigned i = HR_SRC_NONE; i <= HR_SRC_USER; i++)
		cr_expect_str_eq(hr_src_name((enum hr_src)i), source[i]);
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++) {
		const char *name = hr_fact_name((enum hr_fact_id)i);
		char longer[64];

		snprintf(longer, sizeof longer, "%s!", name);
		cr_expect_eq(hr_fact_by_name(longer, strlen(name)), i, "%s", name);
		cr_expect_eq(hr_fact_by_name(longer, strlen(longer)), HR_FACTS_COUNT, "%s", name);
		cr_expect_neq(hr_fact_by_name(name, strlen(name) - 1), i, "%s", name);
	}
	cr_expect(hr_fact_is_hex(HR_F_VENDOR));
	cr_expect_not(hr_fact_is_hex(HR_F_MPS));
}

Test(topo_model, a_switch_keeps_eight_links_of_others)
{
	struct hr_fn *f = hr_model_add(&model, 0, 1, 0, 0);

	hr_fn_add_switch_link(f, hr_address(f));
	cr_expect_eq(f->links, 0u, "a link with itself");
	hr_fn_add_switch_link(f, 0);
	cr_assert_eq(f->links, 1u, "the first address of all");
	f->links = 0;
	for (uint64_t i = 0; i < HR_SWITCH_LINKS_MAX + 1; i++)
		for (unsigned again = 0; again < 2; again++)
			hr_fn_add_switch_link(f, 0x1000 + i);
	cr_expect_eq(f->links, HR_SWITCH_LINKS_MAX);
	for (uint64_t i = 0; i < HR_SWITCH_LINKS_MAX; i++)
		cr_expect_eq(f->linked[i], 0x1000 + i);
}

Test(topo_model, memory_is_aligned_zero_and_limited)
{
	const size_t left = model.reserved - model.used, before = model.used;
	uint8_t *first = hr_model_alloc(&model, 1), *second = hr_model_alloc(&model, 9), *third;

	cr_assert(first && second);
	cr_expect_eq((uintptr_t)first % 8, 0u);
	cr_expect_eq(second - first, 8);
	memset(first, 0xff, 24);
	hr_model_release(&model, before + 8);
	third = hr_model_alloc(&model, 16);
	cr_expect_eq(third, second);
	cr_expect_eq(first[7], 0xff, "what stays is not zeroed");
	for (unsigned i = 0; i < 16; i++)
		cr_expect_eq(third[i], 0, "byte %u", i);
	hr_model_release(&model, before);
	cr_expect_null(hr_model_alloc(&model, SIZE_MAX));
	cr_expect_null(hr_model_alloc(&model, left + 1));
	cr_expect_eq(model.used, before);
	cr_expect_not_null(hr_model_alloc(&model, left));
	cr_expect_null(hr_model_alloc(&model, 1));
	cr_expect_str_eq(hr_model_word(&model, "x", 1), "");
	cr_expect_null(hr_model_text(&model, "x", 1));
	hr_model_reset(&model);
	cr_expect_eq(model.used, before);
	cr_expect_not_null(hr_model_add(&model, 0, 0, 0, 0));
	hr_model_fini(&model);
	cr_expect_null(model.memory);
}

Test(topo_model, a_text_of_a_function_has_at_most_1023_bytes)
{
	char text[1030];
	const char *copy;

	memset(text, 'x', sizeof text);
	text[2] = '\x1b';
	cr_expect_null(hr_model_text(&model, text, 0));
	copy = hr_model_text(&model, text, 8);
	memset(hr_model_alloc(&model, 8), 'y', 8);
	cr_expect_str_eq(copy, "xx?xxxxx");
	cr_expect_eq(strlen(hr_model_text(&model, text, 1022)), 1022u);
	cr_expect_eq(strlen(hr_model_text(&model, text, 1023)), 1023u);
	cr_expect_eq(strlen(hr_model_text(&model, text, 1024)), 1023u);
	cr_expect_eq(strlen(hr_model_word(&model, text, HR_WORD_MAX - 1)), HR_WORD_MAX - 1);
	cr_expect_eq(strlen(hr_model_word(&model, text, HR_WORD_MAX)), HR_WORD_MAX - 1);
}

Test(topo_model, the_first_eight_warnings_are_kept)
{
	char want[16];

	for (unsigned i = 0; i < HR_WARNINGS_KEPT + 2; i++)
		hr_model_warn(&model, "warning %u", i);
	cr_expect_eq(model.warnings, HR_WARNINGS_KEPT + 2);
	for (unsigned i = 0; i < HR_WARNINGS_KEPT; i++) {
		snprintf(want, sizeof want, "warning %u", i);
		cr_expect_str_eq(model.warning[i], want);
	}
}

Test(topo_model, an_address_out_of_range_is_no_function)
{
	struct hr_fn *first;

	cr_expect_null(hr_model_add(&model, 0x1000000, 0, 0, 0));
	cr_expect_null(hr_model_add(&model, 0, 256, 0, 0));
	cr_expect_null(hr_model_add(&model, 0, 0, 32, 0));
	cr_expect_null(hr_model_add(&model, 0, 0, 0, 8));
	cr_expect_eq(model.count, 0u);
	first = hr_model_add(&model, 0xffffff, 255, 31, 7);
	cr_assert_not_null(first);
	cr_expect(first->domain == 0xffffff && first->bus == 255 && first->dev == 31 &&
		  first->fn == 7);
	cr_expect_str_eq(first->name, "");
	cr_expect_eq(hr_model_add(&model, 0xffffff, 255, 31, 7), first, "not added again");
	cr_expect_eq(model.count, 1u);
	cr_expect_eq(hr_model_find(&model, 0xffffff, 255, 31, 7), 0);
	cr_expect_eq(hr_model_find(&model, 0xffffff, 255, 31, 6), HR_NO_FN);
}

/* ---- links of GPUs */

static struct hr_gpu_link link_of(uint64_t from, uint64_t to, uint16_t count, bool to_switch)
{
	return (struct hr_gpu_link){ from, to, count, .to_switch = to_switch,
				     .source = HR_SRC_SYSFS };
}

Test(topo_model, functions_are_sorted_and_found_by_their_addresses)
{
	static const uint8_t bus[][4] = { { 1, 2, 3, 4 }, { 4, 1, 3, 2 }, { 2, 1, 3, 4 } };

	for (size_t i = 0; i < sizeof bus / sizeof *bus; i++) {
		hr_model_reset(&model);
		for (unsigned k = 0; k < 4; k++)
			cr_assert_not_null(hr_model_add(&model, 0, bus[i][k], 0, 0));
		cr_assert_eq(hr_model_connect(&model), 0);
		cr_assert_eq(hr_model_connect(&model), 0);
		for (int32_t b = 1; b <= 4; b++) {
			cr_expect_eq(hr_model_find(&model, 0, (uint32_t)b, 0, 0), b - 1,
				     "row %zu: bus %d", i, b);
			cr_expect_eq(model.fn[b - 1].bus, b, "row %zu", i);
		}
		cr_expect_eq(hr_model_find(&model, 0, 5, 0, 0), HR_NO_FN, "row %zu", i);
	}
}

Test(topo_model, a_second_statement_about_the_same_ends_replaces_the_first)
{
	struct hr_gpu_link one = link_of(1, 2, 4, false), other;
	static const struct {
		uint64_t from, to;
		uint8_t fabric;
		bool to_switch;
	} row[] = { { 3, 2, HR_NVLINK, false },
		    { 1, 3, HR_NVLINK, false },
		    { 1, 2, HR_XGMI, false },
		    { 1, 2, HR_NVLINK, true } };

	uint8_t *behind;

	other = link_of(0, 0, 1, false);
	cr_assert_eq(hr_model_add_link(&model, &other), 0);
	cr_assert_eq(model.gpu_links, 1u, "an end with the number 0");
	model.gpu_links = 0;
	behind = hr_model_alloc(&model, 8);
	cr_assert_eq(hr_model_add_link(&model, &one), 0);
	one.count = 5;
	cr_assert_eq(hr_model_add_link(&model, &one), 0);
	cr_expect_eq(model.gpu_link[0].count, 5u, "the same source: the later one");
	one.count = 6;
	one.source = HR_SRC_XML;
	cr_assert_eq(hr_model_add_link(&model, &one), 0);
	cr_expect_eq(model.gpu_link[0].count, 5u, "a source of lower rank");
	cr_expect_eq(model.gpu_links, 1u);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		other = link_of(row[i].from, row[i].to, 1, row[i].to_switch);
		other.fabric = row[i].fabric;
		cr_assert_eq(hr_model_add_link(&model, &other), 0);
		cr_expect_eq(model.gpu_links, i + 2, "row %zu: other ends", i);
	}
	for (uint32_t i = model.gpu_links; i < HR_GPU_LINKS_MAX; i++) {
		other = link_of(100 + i, 1, 1, false);
		cr_assert_eq(hr_model_add_link(&model, &other), 0);
	}
	other.from++;
	cr_expect_eq(hr_model_add_link(&model, &other), -E2BIG);
	other.from--;
	cr_expect_eq(hr_model_add_link(&model, &other), 0, "it has a place");
	for (unsigned i = 0; i < 8; i++)
		cr_expect_eq(behind[i], 0, "memory behind the links");
	cr_expect_eq(model.gpu_links, HR_GPU_LINKS_MAX);
}

Test(topo_model, links_without_memory_are_refused)
{
	const struct hr_gpu_link one = link_of(1, 2, 4, false);

	cr_assert_not_null(hr_model_alloc(&model, model.reserved - model.used));
	cr_expect_eq(hr_model_add_link(&model, &one), -ENOMEM);
	cr_expect_eq(model.gpu_links, 0u);
}

Test(topo_model, two_gpus_have_their_direct_links_or_those_through_switches)
{
	static const struct {
		uint64_t a, b;
		unsigned want;
		enum hr_fabric fabric;
		bool through;
	} row[] = {
		{ 1, 2, 4, HR_XGMI, false },   { 2, 1, 4, HR_XGMI, false },
		{ 1, 3, 5, HR_NVLINK, true },  { 3, 1, 5, HR_NVLINK, true },
		{ 2, 3, 0, HR_NVLINK, false }, { 3, 4, 2, HR_XGMI, false },
	};
	struct hr_gpu_link link[] = {
		link_of(1, 2, 3, false), link_of(2, 1, 4, false), link_of(1, 90, 2, true),
		link_of(1, 91, 3, true), link_of(3, 90, 6, true), link_of(4, 3, 2, false),
	};

	link[0].fabric = link[1].fabric = link[5].fabric = HR_XGMI;
	/* Each link is once the first one. */
	for (size_t first = 0; first < sizeof link / sizeof *link; first++) {
		hr_model_reset(&model);
		for (size_t i = 0; i < sizeof link / sizeof *link; i++)
			cr_assert_eq(hr_model_add_link(&model, &link[(first + i) % 6]), 0);
		for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
			enum hr_fabric fabric = row[i].want ? 1 - row[i].fabric : row[i].fabric;
			bool through = !row[i].through;
			const unsigned n =
				hr_gpu_links(&model, row[i].a, row[i].b, &fabric, &through);

			cr_expect_eq(n, row[i].want, "row %zu: %u", i, n);
			cr_expect_eq(through, row[i].through, "row %zu", i);
			cr_expect_eq(fabric, row[i].fabric, "row %zu", i);
		}
	}
}
