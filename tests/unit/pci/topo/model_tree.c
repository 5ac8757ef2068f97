/* SPDX-License-Identifier: Apache-2.0 */
/* The tree that is made of functions: bridges, root buses, and what is inferred from them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/model.h"

static struct hr_model model;

static void up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_tree, .init = up, .fini = down, .timeout = 60);

static struct hr_fn *add(const char *address)
{
	uint32_t domain, bus, dev, fn;

	cr_assert_eq(hr_bdf_parse(address, &domain, &bus, &dev, &fn), strlen(address));
	return hr_model_add(&model, domain, bus, dev, fn);
}

static struct hr_fn *bridge(const char *address, uint32_t secondary, uint32_t subordinate)
{
	struct hr_fn *f = add(address);

	hr_fn_set(f, HR_F_HEADER, 1, HR_SRC_CONFIG);
	hr_fn_set(f, HR_F_SECONDARY, secondary, HR_SRC_CONFIG);
	hr_fn_set(f, HR_F_SUBORDINATE, subordinate, HR_SRC_CONFIG);
	return f;
}

static const struct hr_fn *at(const char *address)
{
	uint32_t domain, bus, dev, fn;
	int32_t index;

	hr_bdf_parse(address, &domain, &bus, &dev, &fn);
	index = hr_model_find(&model, domain, bus, dev, fn);
	cr_assert_neq(index, HR_NO_FN, "%s", address);
	return &model.fn[index];
}

/* Address of the function with that index, "-" for HR_NO_FN. */
static const char *named(int32_t index)
{
	static char text[4][HR_BDF_MAX];
	static unsigned n;

	return index == HR_NO_FN ? "-" : hr_bdf(&model.fn[index], text[n++ % 4]) + 5;
}

Test(topo_tree, functions_are_sorted_in_each_order_of_their_source)
{
	static const char *const address[] = { "0000:01:00.0", "0000:01:00.1", "0001:00:00.0" };
	static const unsigned order[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					     { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	char text[HR_BDF_MAX];

	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		hr_model_reset(&model);
		for (unsigned j = 0; j < 3; j++)
			add(address[order[i][j]]);
		cr_assert_eq(hr_model_connect(&model), 0);
		for (unsigned j = 0; j < 3; j++) {
			cr_expect_str_eq(hr_bdf(&model.fn[j], text), address[j], "order %zu", i);
			cr_expect_eq(at(address[j]), &model.fn[j], "order %zu", i);
		}
	}
}

Test(topo_tree, a_bridge_is_above_the_functions_of_its_secondary_bus)
{
	static const struct {
		const char *address, *parent, *child, *sibling;
		uint32_t depth;
		int32_t root;
	} row[] = {
		{ "00:01.0", "-", "01:00.0", "-", 0, 0 },
		{ "00:02.0", "-", "ff:00.0", "-", 0, 0 },
		{ "01:00.0", "00:01.0", "02:00.0", "01:00.1", 1, 0 },
		{ "01:00.1", "00:01.0", "-", "-", 1, 0 },
		{ "02:00.0", "01:00.0", "-", "02:01.0", 2, 0 },
		{ "02:01.0", "01:00.0", "-", "-", 2, 0 },
		{ "80:00.0", "-", "-", "-", 0, 1 },
		{ "ff:00.0", "00:02.0", "-", "-", 1, 0 },
		/* The same numbers in another domain are other buses. */
		{ "0001:00:00.0", "-", "03:00.0", "-", 0, 2 },
		{ "0001:03:00.0", "00:00.0", "-", "-", 1, 2 },
	};

	bridge("00:01.0", 1, 2);
	bridge("00:02.0", 0xff, 0xff);
	bridge("01:00.0", 2, 2);
	bridge("0001:00:00.0", 3, 3);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		add(row[i].address);
	add("03:00.0");
	cr_assert_eq(hr_model_connect(&model), 0);
	cr_expect_eq(model.warnings, 0u, "%s", model.warning[0]);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_fn *f = at(row[i].address);

		cr_expect_str_eq(named(f->parent), row[i].parent, "row %zu", i);
		cr_expect_str_eq(named(f->child), row[i].child, "row %zu", i);
		cr_expect_str_eq(named(f->sibling), row[i].sibling, "row %zu", i);
		cr_expect_eq(f->depth, row[i].depth, "row %zu", i);
		cr_expect_not(f->disputed, "row %zu", i);
	}
	/* Bus 03 of domain 0 is no bus of the bridge that follows in domain 1. */
	cr_expect_str_eq(named(at("03:00.0")->parent), "-");
	cr_expect_eq(model.root_buses, 4u);
	cr_expect_eq(model.root_bus[at("ff:00.0")->root_bus].bus, 0);
	cr_expect_eq(model.root_bus[at("80:00.0")->root_bus].bus, 0x80);
	cr_expect_eq(model.root_bus[at("03:00.0")->root_bus].bus, 3);
	cr_expect_eq(model.root_bus[at("0001:03:00.0")->root_bus].domain, 1u);
	cr_expect_eq(model.root_bus[0].first, 0);
	cr_expect_str_eq(named(model.root_bus[1].first), "03:00.0");
}

Test(topo_tree, a_secondary_bus_must_be_above_the_bridge_and_at_most_ff)
{
	static const struct {
		uint32_t secondary;
		bool good;
		const char *warning;
	} row[] = {
		{ 0, false, "" }, /* not numbered: no warning */
		{ 4, false,
		  "0000:05:00.0: secondary bus 04 is not above its own bus or over ff: "
		  "ignored" },
		{ 5, false,
		  "0000:05:00.0: secondary bus 05 is not above its own bus or over ff: "
		  "ignored" },
		{ 6, true, "" },
		{ 255, true, "" },
		{ 256, false,
		  "0000:05:00.0: secondary bus 100 is not above its own bus or over ff: "
		  "ignored" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char below[HR_BDF_MAX];

		snprintf(below, sizeof below, "%02x:00.0", row[i].secondary & 0xff);
		hr_model_reset(&model);
		bridge("05:00.0", row[i].secondary, 0xff);
		if (row[i].secondary & 0xff && row[i].secondary != 5)
			add(below);
		cr_assert_eq(hr_model_connect(&model), 0);
		cr_expect_str_eq(model.warning[0], row[i].warning, "row %zu", i);
		cr_expect_eq(at("05:00.0")->child != HR_NO_FN, row[i].good, "row %zu", i);
	}
}

Test(topo_tree, a_bus_that_two_bridges_claim_is_disputed)
{
	bridge("00:01.0", 2, 2);
	bridge("00:02.0", 2, 2);
	bridge("00:03.0", 3, 3);
	add("02:00.0");
	add("03:00.0");
	cr_assert_eq(hr_model_connect(&model), 0);
	cr_expect_eq(model.warnings, 1u);
	cr_expect_str_eq(model.warning[0], "0000:00:01.0 and 0000:00:02.0 both claim bus 02: the "
					   "path to its functions stays unknown");
	cr_expect_str_eq(named(at("02:00.0")->parent), "00:01.0", "the first one");
	cr_expect(at("02:00.0")->disputed);
	cr_expect_not(at("03:00.0")->disputed);
	cr_expect_not(at("00:02.0")->disputed);
}

Test(topo_tree, a_bus_outside_the_range_of_the_bridge_above_is_disputed)
{
	bridge("00:01.0", 1, 3);
	bridge("01:00.0", 3, 3);
	bridge("01:01.0", 4, 4);
	add("01:02.0");
	cr_assert_eq(hr_model_connect(&model), 0);
	cr_expect_eq(model.warnings, 1u);
	cr_expect_str_eq(model.warning[0], "0000:01:01.0: bus 04 below it is outside the range of "
					   "the bridge above");
	cr_expect(at("01:01.0")->disputed);
	cr_expect_not(at("01:00.0")->disputed);
	cr_expect_not(at("01:02.0")->disputed);
}

Test(topo_tree, a_path_has_at_most_64_bridges)
{
	char address[HR_BDF_MAX];

	for (uint32_t bus = 0; bus <= HR_DEPTH_MAX; bus++) {
		snprintf(address, sizeof address, "%02x:00.0", bus);
		bridge(address, bus + 1, 0xff);
	}
	add("41:00.0");
	cr_assert_eq(hr_model_connect(&model), 0);
	cr_expect_eq(at("40:00.0")->depth, HR_DEPTH_MAX);
	cr_expect_eq(at("40:00.0")->root_bus, 0);
	cr_expect_eq(at("41:00.0")->depth, 0u);
	cr_expect_str_eq(named(at("41:00.0")->parent), "-");
	cr_expect_eq(model.root_bus[at("41:00.0")->root_bus].bus, 0x41);
	cr_expect_eq(model.warnings, 1u);
	cr_expect_str_eq(model.warning[0],
			 "0000:41:00.0: more than 64 bridges above it: treated as "
			 "a function on a root bus");
}

/* Facts as pairs of an identifier and a value; 0, 0: none. */
Test(topo_tree, a_bus_without_a_proof_that_it_is_a_root_bus_is_cut_off)
{
	static const struct {
		const char *address;
		enum hr_fact_id id;
		uint32_t value;
		bool orphan;
	} row[] = {
		{ "05:00.0", HR_F_VENDOR, 0x8086, true },
		{ "00:00.0", HR_F_VENDOR, 0x8086, false },
		{ "05:00.0", HR_F_CLASS, 0x060000, false },
		{ "05:00.0", HR_F_CLASS, 0x060100, true },
		{ "05:00.0", HR_F_PORT, HR_PORT_ROOT, false },
		{ "05:00.0", HR_F_PORT, HR_PORT_RC_ENDPOINT, false },
		{ "05:00.0", HR_F_PORT, HR_PORT_RC_EVENTS, false },
		{ "05:00.0", HR_F_PORT, HR_PORT_ENDPOINT, true },
		{ "05:00.0", HR_F_PORT, HR_PORT_UPSTREAM, true },
		{ "05:00.0", HR_F_EXP, 0, false },
		{ "05:00.0", HR_F_EXP, 0x40, true },
		{ "05:00.0", HR_F_HEADER, 1, false }, /* an unread bridge may be a root port */
		{ "05:00.0", HR_F_HEADER, 0, true },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		hr_model_reset(&model);
		hr_fn_set(add(row[i].address), row[i].id, row[i].value, HR_SRC_CONFIG);
		add("05:01.0");
		cr_assert_eq(hr_model_connect(&model), 0);
		cr_expect_eq(at(row[i].address)->orphan, row[i].orphan, "row %zu", i);
		/* One proof is enough for its bus, and says nothing about others. */
		if (row[i].address[1] == '5')
			cr_expect_eq(at("05:01.0")->orphan, row[i].orphan, "row %zu", i);
		else
			cr_expect(at("05:01.0")->orphan, "row %zu", i);
	}
	hr_model_reset(&model);
	add("05:00.0");
	hr_fn_set(add("05:01.0"), HR_F_PORT, HR_PORT_ROOT, HR_SRC_CONFIG);
	cr_assert_eq(hr_model_connect(&model), 0);
	cr_expect_not(at("05:00.0")->orphan, "the second function is a proof");
	/* A bridge that says what it is, and is no root port, proves nothing. */
	hr_model_reset(&model);
	hr_fn_set(bridge("05:00.0", 6, 6), HR_F_PORT, HR_PORT_DOWNSTREAM, HR_SRC_CONFIG);
	cr_assert_eq(hr_model_connect(&model), 0);
	cr_expect(at("05:00.0")->orphan);
}

Test(topo_tree, a_root_bus_has_the_first_node_that_its_functions_state)
{
	add("00:00.0");
	hr_fn_set(add("00:01.0"), HR_F_NUMA, ~0u, HR_SRC_SYSFS);
	hr_fn_set(add("00:02.0"), HR_F_NUMA, 1, HR_SRC_SYSFS);
	hr_fn_set(add("00:03.0"), HR_F_NUMA, 0, HR_SRC_SYSFS);
	add("80:00.0");
	for (unsigned again = 0; again < 2; again++) {
		cr_assert_eq(hr_model_connect(&model), 0);
		cr_assert_eq(model.root_buses, 2u);
		cr_expect_eq(model.root_bus[0].numa, 1u);
		cr_expect_eq(model.root_bus[1].numa, ~0u);
	}
	hr_model_reset(&model);
	hr_fn_set(add("00:00.0"), HR_F_NUMA, 0, HR_SRC_SYSFS);
	cr_assert_eq(hr_model_connect(&model), 0);
	cr_expect_eq(model.root_bus[0].numa, 0u);
}

Test(topo_tree, the_base_of_a_bar_without_a_size_is_a_limit_of_its_size)
{
	struct hr_fn *f = add("00:00.0");
	const struct hr_fn *got;

	f->bar[0] = (struct hr_bar){ .base = 0xe0300000, .flags = HR_BAR_MEM };
	f->bar[1] = (struct hr_bar){ .base = 0x1000, .flags = 0 };
	f->bar[2] = (struct hr_bar){ .base = 0, .flags = HR_BAR_MEM };
	f->bar[3] = (struct hr_bar){
		.base = 0x3000, .flags = HR_BAR_MEM, .size = 16, .size_source = HR_SRC_TEXT
	};
	f->bar[5] = (struct hr_bar){ .base = 0x3000, .flags = HR_BAR_MEM };
	f->vf_bar[0] = (struct hr_bar){ .base = 0x4000, .flags = HR_BAR_MEM };
	cr_assert_eq(hr_model_connect(&model), 0);
	got = at("00:00.0");
	cr_expect_eq(got->bar[0].size, 0x100000u);
	cr_expect_eq(got->bar[0].size_source, HR_SRC_INFERRED);
	cr_expect_eq(got->bar[1].size_source, HR_SRC_NONE);
	cr_expect_eq(got->bar[2].size_source, HR_SRC_NONE);
	cr_expect_eq(got->bar[3].size, 16u);
	cr_expect_eq(got->bar[5].size, 0x1000u);
	cr_expect_eq(got->vf_bar[0].size_source, HR_SRC_NONE);
}
