/*
 * Predicted IOMMU groups against real ones, and the functions that prevent VFIO from opening a
 * group.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/groups.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_groups, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

#define ISOLATED 0x1du
#define GROUP(n) "\tIOMMU group: " n "\n"
#define DRIVER(name) "\tKernel driver in use: " name "\n"

static struct hr_groups groups;

static void text(const char *address, const char *lines)
{
	struct fake_fn *f = fake_find(&machine, address);

	strncat(f->text, lines, sizeof f->text - strlen(f->text) - 1);
}

/* All bridges isolate; the upstream port has no ACS and is a single function. */
static void isolate(void)
{
	static const char *const ports[] = { "00:01.0", "00:02.0", "02:00.0", "02:01.0" };

	fake_two_ports(&machine);
	fake_put(fake_find(&machine, "01:00.0"), FAKE_AER + 2, 2, 1);
	for (unsigned i = 0; i < 4; i++)
		fake_put(fake_find(&machine, ports[i]), ACS, 2, ISOLATED);
}

static void predict(void)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_groups_predict(&model, &groups), 0);
}

static bool together(const char *a, const char *b)
{
	return groups.of[fake_at(a)] == groups.of[fake_at(b)];
}

/* ---- members of a group */

Test(topo_groups, only_another_member_of_the_group_blocks_vfio)
{
	static const struct {
		const char *ssd, *gpu, *far; /* text lines of the three cards */
		bool by_gpu; /* the GPU prevents VFIO from opening SIBLING's group */
	} row[] = {
		/* The SSD itself is bound to nvme; VFIO gets it later. */
		{ GROUP("7") DRIVER("nvme"), GROUP("3") DRIVER("nvidia"), GROUP("9") DRIVER("nvme"),
		  false },
		{ DRIVER("nvme"), DRIVER("nvidia"), DRIVER("nvme"), false },
		{ GROUP("7") DRIVER("nvme"), GROUP("7") DRIVER("nvidia"), GROUP("9") DRIVER("nvme"),
		  true },
		{ GROUP("7"), GROUP("7") DRIVER("nvidia"), GROUP("9") DRIVER("nvme"), true },
		{ GROUP("7") DRIVER("nvme"), GROUP("7") DRIVER("vfio-pci"), GROUP("9"), false },
		/* VFIO accepts other drivers in a group. */
		{ GROUP("7"), GROUP("7") DRIVER("nvgrace_gpu_vfio_pci"), "", false },
		{ GROUP("7"), GROUP("7") DRIVER("pci-stub"), "", false },
		{ GROUP("7"), GROUP("7") DRIVER("shpchp"), "", false },
		{ GROUP("7"), GROUP("7") "\theadrace: driver=\n", "", false },
		{ GROUP("7"), GROUP("7"), "", false }, /* driver unknown */
		{ GROUP("7"), GROUP("7") DRIVER("pci-stub2"), "", true },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		int32_t list[16];

		isolate();
		text(SIBLING, row[i].ssd);
		text(GPU, row[i].gpu);
		text(OTHER, row[i].far);
		text("02:01.0", GROUP("7") DRIVER("portdrv")); /* a bridge prevents nothing */
		predict();
		cr_assert_eq(hr_groups_blockers(&model, &groups, list), 0);
		cr_expect_eq(list[fake_at(SIBLING)], row[i].by_gpu ? fake_at(GPU) : HR_NO_FN,
			     "row %zu: %d", i, list[fake_at(SIBLING)]);
		if (!strstr(row[i].ssd, "group"))
			continue;
		cr_expect_eq(hr_groups_blocker(&model, &groups, fake_at(SIBLING), true),
			     row[i].by_gpu ? fake_at(GPU) : HR_NO_FN, "row %zu", i);
	}
}

Test(topo_groups, a_predicted_group_of_one_is_not_closed_by_itself)
{
	int32_t list[16];

	isolate();
	text(SIBLING, DRIVER("nvme"));
	text(GPU, DRIVER("nvidia"));
	predict();
	cr_assert_eq(hr_groups_blockers(&model, &groups, list), 0);
	cr_expect_eq(list[fake_at(SIBLING)], HR_NO_FN);
	cr_expect_eq(hr_groups_blocker(&model, &groups, fake_at(SIBLING), false), HR_NO_FN);
	fake_put(fake_find(&machine, "00:01.0"), ACS, 2, 0);
	predict();
	cr_assert_eq(hr_groups_blockers(&model, &groups, list), 0);
	cr_expect_eq(list[fake_at(SIBLING)], fake_at(GPU));
	cr_expect_eq(list[fake_at(GPU)], fake_at(SIBLING));
	cr_expect_eq(hr_groups_blocker(&model, &groups, fake_at(SIBLING), false), fake_at(GPU));
}

/* ---- slots */

/* Add a function without ACS; `multi` sets the multi-function bit of its header. */
static void add(const char *address, bool multi)
{
	struct fake_fn *f =
		fake_function(&machine, address, 0x020000, 0x15b3, 0x1017, HR_PORT_ENDPOINT);

	fake_put(f, HR_CFG_HEADER, 1, multi ? HR_HEADER_MULTI : 0);
}

Test(topo_groups, functions_of_one_slot_share_a_group_and_others_do_not)
{
	static const struct {
		const char *a, *b;
		bool multi, want;
	} row[] = {
		{ "05:00.1", "05:00.2", false, true },
		{ "00:00.0", "00:00.1", true, true },
		{ "05:00.0", "05:00.1", false, true }, /* including function 0 without the bit */
		{ "05:00.0", "05:00.1", true, true },
		{ "05:01.0", "05:01.1", true, true },
		{ "05:01.0", "05:02.0", true, false }, /* another device */
		{ "05:01.0", "05:02.1", true, false },
		{ "05:00.0", "06:00.1", true, false }, /* another bus */
		{ "80:1f.0", "81:1f.0", true, false },
		{ "0001:80:1f.0", "0002:80:1f.0", true, false },
		{ "05:01.0", "05:02.0", false, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		isolate();
		fake_put(fake_find(&machine, "00:02.0"), HR_CFG_SUBORDINATE, 1, 6);
		for (unsigned k = 0; k < 2; k++) {
			const char *at = k ? row[i].b : row[i].a;

			if (fake_find(&machine, at))
				fake_put(fake_find(&machine, at), HR_CFG_HEADER, 1,
					 row[i].multi ? HR_HEADER_MULTI : 0);
			else
				add(at, row[i].multi);
		}
		predict();
		cr_expect_eq(together(row[i].a, row[i].b), row[i].want, "row %zu", i);
	}
}

Test(topo_groups, a_function_that_isolates_is_apart_from_those_of_its_slot)
{
	static const struct {
		uint32_t acs[3]; /* of three functions of a slot; ~0: no ACS capability */
		bool want[3];	 /* same group: 0 with 1, 1 with 2, 0 with 2 */
	} row[] = {
		{ { 0, 0, 0 }, { true, true, true } },
		{ { 0, ISOLATED, 0 }, { false, false, true } },
		{ { ISOLATED, 0, 0 }, { false, true, false } },
		{ { ISOLATED, ISOLATED, ISOLATED }, { false, false, false } },
		{ { ~0u, ~0u, ISOLATED }, { true, false, false } },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		isolate();
		machine.count--; /* removes OTHER, which is last in the list */
		for (unsigned k = 0; k < 3; k++) {
			char address[16];
			struct fake_fn *f;

			snprintf(address, sizeof address, "05:00.%u", k);
			add(address, true);
			f = fake_find(&machine, address);
			if (row[i].acs[k] == ~0u)
				continue;
			fake_put(f, FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | FAKE_ACS << 20);
			fake_put(f, FAKE_ACS, 4, HR_ECAP_ACS | 1 << 16);
			fake_put(f, FAKE_ACS + HR_ACS_CAP, 2, 0x5f);
			fake_put(f, ACS, 2, row[i].acs[k]);
		}
		predict();
		cr_expect_eq(together("05:00.0", "05:00.1"), row[i].want[0], "row %zu", i);
		cr_expect_eq(together("05:00.1", "05:00.2"), row[i].want[1], "row %zu", i);
		cr_expect_eq(together("05:00.0", "05:00.2"), row[i].want[2], "row %zu", i);
	}
}

Test(topo_groups, a_virtual_function_does_not_make_its_slot_one_of_several)
{
	isolate();
	fake_sriov(fake_find(&machine, OTHER), 2, 1, 0xe4010000, 0);
	fake_virtual(&machine, "05:00.1", 0x010802);
	fake_virtual(&machine, "05:00.2", 0x010802);
	predict();
	cr_expect_not(together(OTHER, "05:00.1"));
	cr_expect_not(together("05:00.1", "05:00.2"));
}

/* ---- ports */

Test(topo_groups, ports_on_the_kernels_list_isolate_without_the_capability)
{
	static const struct {
		uint32_t id;
		bool acs; /* the port has the capability with all bits off */
		bool apart;
	} row[] = {
		{ 0x19018086, false, false }, { 0x9d108086, false, true },
		{ 0x9d108086, true, false },  { 0xa000177d, false, true },
		{ 0xa000177d, true, false },  { 0x9d0f8086, false, false },
		{ 0x9d1b8086, false, true },  { 0x9d1c8086, false, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_fn *port;

		isolate();
		port = fake_find(&machine, "00:01.0");
		fake_put(port, HR_CFG_VENDOR, 4, row[i].id);
		fake_put(port, ACS, 2, 0);
		if (!row[i].acs)
			fake_put(port, FAKE_AER + 2, 2, 1);
		predict();
		cr_expect_eq(!together(GPU, SIBLING), row[i].apart, "row %zu", i);
		cr_expect_eq(!together("00:01.0", "01:00.0"), row[i].apart, "row %zu", i);
	}
}

Test(topo_groups, ports_to_or_from_conventional_pci_do_not_isolate)
{
	static const unsigned types[] = { HR_PORT_TO_PCI, HR_PORT_FROM_PCI };

	isolate();
	predict();
	cr_expect_not(together("01:00.0", GPU));
	for (unsigned i = 0; i < 2; i++) {
		fake_put(fake_find(&machine, "01:00.0"), FAKE_EXP + HR_EXP_FLAGS, 2,
			 2 | types[i] << 4);
		predict();
		cr_expect(together("01:00.0", GPU), "type %u", types[i]);
	}
}

Test(topo_groups, groups_that_depend_on_unknown_acs_are_unsure)
{
	struct fake_fn *port;

	isolate();
	predict();
	cr_expect_not(groups.unsure[fake_at(GPU)]);
	/* The capability is known, its control register is not: possible in text of lspci. */
	port = fake_find(&machine, "00:01.0");
	port->bytes = 256;
	snprintf(port->text, sizeof port->text,
		 "\tCapabilities: [150 v1] Access Control Services\n");
	predict();
	cr_assert(hr_get(&model.fn[fake_at("00:01.0")], HR_F_ACS, 0));
	cr_assert_not(hr_known(&model.fn[fake_at("00:01.0")], HR_F_ACS_CTL));
	cr_expect(groups.unsure[fake_at("00:01.0")]);
	cr_expect(groups.unsure[fake_at(GPU)]);
	cr_expect_not(groups.unsure[fake_at(OTHER)]);
}

/* The header has the multi-function bit, but the capture lacks the other functions. */
Test(topo_groups, an_upstream_port_with_more_functions_isolates_by_acs_only)
{
	for (unsigned multi = 0; multi < 2; multi++) {
		isolate();
		fake_put(fake_find(&machine, "01:00.0"), HR_CFG_HEADER, 1,
			 multi ? HR_HEADER_MULTI | 1 : 1);
		predict();
		cr_expect_eq(together(GPU, SIBLING), multi, "header %u", multi);
	}
}

/* ---- against the real ones */

Test(topo_groups, members_outside_of_the_predicted_group_are_counted)
{
	static const struct {
		const char *gpu, *near, *far, *upper; /* text lines; upper: of the switch */
		uint32_t root;			      /* ACS of the root port above the switch */
		uint32_t mismatches;
		const char *first;
	} row[] = {
		{ GROUP("1"), GROUP("2"), GROUP("3"), GROUP("4"), ISOLATED, 0, NULL },
		{ "", "", "", "", ISOLATED, 0, NULL },
		{ "", "", "", "", 0, 0, NULL },
		{ GROUP("0"), "", GROUP("3"), "", ISOLATED, 0, NULL },
		/* Predicted in one group, really in several: all but the first are mismatches. */
		{ GROUP("1"), GROUP("1"), GROUP("3"), GROUP("1"), 0, 0, NULL },
		{ GROUP("2"), GROUP("3"), GROUP("9"), GROUP("1"), 0, 2, GPU },
		{ GROUP("1"), GROUP("2"), GROUP("9"), GROUP("1"), 0, 1, SIBLING },
		{ GROUP("0"), GROUP("0"), GROUP("0"), "", 0, 0, NULL },
		/* Predicted in several groups, really in one with a bridge above. */
		{ GROUP("4"), GROUP("2"), GROUP("3"), GROUP("4"), ISOLATED, 1, GPU },
		{ GROUP("4"), GROUP("4"), GROUP("3"), GROUP("4"), ISOLATED, 2, GPU },
		{ GROUP("2"), GROUP("4"), GROUP("4"), GROUP("4"), ISOLATED, 1, SIBLING },
		{ "", GROUP("0"), "", "", ISOLATED, 0, NULL },
		{ "", "", "", GROUP("0"), ISOLATED, 0, NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		isolate();
		fake_put(fake_find(&machine, "00:01.0"), ACS, 2, row[i].root);
		text(GPU, row[i].gpu);
		text(SIBLING, row[i].near);
		text(OTHER, row[i].far);
		text("01:00.0", row[i].upper);
		predict();
		cr_expect_eq(groups.mismatches, row[i].mismatches, "row %zu: %u", i,
			     groups.mismatches);
		cr_expect_eq(groups.first_mismatch, row[i].first ? fake_at(row[i].first) : HR_NO_FN,
			     "row %zu: %d", i, groups.first_mismatch);
	}
}

/* ---- all functions at once */

/*
 * The group of each function in the order of the model, "?" behind it when it is unsure; then the
 * functions that keep groups closed.
 */
static const char *numbers(void)
{
	static char line[512];
	int32_t list[FAKE_FUNCTIONS_MAX];
	size_t used = 0;

	for (uint32_t i = 0; i < model.count; i++)
		used += (size_t)snprintf(line + used, sizeof line - used, "%u%s ", groups.of[i],
					 groups.unsure[i] ? "?" : "");
	cr_assert_eq(hr_groups_blockers(&model, &groups, list), 0);
	used += (size_t)snprintf(line + used, sizeof line - used, "/%u", groups.count);
	for (uint32_t i = 0; i < model.count; i++)
		used += (size_t)snprintf(line + used, sizeof line - used, " %d", list[i]);
	cr_assert_eq(hr_groups_blockers(&model, NULL, list), 0);
	used += (size_t)snprintf(line + used, sizeof line - used, " /");
	for (uint32_t i = 0; i < model.count; i++)
		used += (size_t)snprintf(line + used, sizeof line - used, " %d", list[i]);
	cr_assert_lt(used, sizeof line);
	return line;
}

/* Functions 0 to 8: host, two root ports, switch, its two ports, GPU, SIBLING, OTHER. */
static const struct {
	struct {
		const char *at;
		uint32_t offset, value; /* 16 bits */
	} poke[4];
	struct {
		const char *at, *lines;
	} text[4];
	const char *short_at; /* a function of which the dump has 64 bytes */
	const char *want;
} machines[] = {
	{ .want = "0 1 2 3 5 6 7 8 4 /9 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "02:00.0", ACS, 0 } },
	  .want = "0 1 2 3 5 6 5 7 4 /8 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "02:01.0", ACS, 0x1c } },
	  .want = "0 1 2 3 5 6 7 6 4 /8 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	/* Bits that the port does not have are not needed. */
	{ { { "02:01.0", ACS, 0x1c }, { "02:01.0", FAKE_ACS + HR_ACS_CAP, 0x5e } },
	  .want = "0 1 2 3 5 6 7 8 4 /9 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "00:01.0", ACS, 0 } },
	  .want = "0 1 2 1 1 1 1 1 3 /4 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "00:00.0", FAKE_EXP + HR_EXP_FLAGS, 2 } },
	  .want = "0 1 2 3 5 6 7 8 4 /9 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "00:00.0", HR_CFG_STATUS, 0 } },
	  .want = "0 1 2 3 5 6 7 8 4 /9 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "00:00.0", HR_CFG_HEADER, HR_HEADER_MULTI } },
	  .want = "0 1 2 3 5 6 7 8 4 /9 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "00:02.0", FAKE_EXP + HR_EXP_FLAGS, 2 | HR_PORT_TO_PCI << 4 } },
	  .want = "0 1 2 3 4 5 6 7 2 /8 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ .short_at = "02:00.0",
	  .want = "0 1 2 3 5? 6 5? 7 4 /8 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ .short_at = SIBLING,
	  .want = "0 1 2 3 5 6 7 8? 4 /9 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ .short_at = "00:01.0",
	  .want = "0 1? 2 1? 1? 1? 1? 1? 3 /4 -1 -1 -1 -1 -1 -1 -1 -1 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "00:01.0", ACS, 0 } },
	  { { GPU, DRIVER("nvidia") }, { SIBLING, DRIVER("nvme") } },
	  .want = "0 1 2 1 1 1 1 1 3 /4 -1 6 -1 6 6 6 7 6 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "00:01.0", ACS, 0 } },
	  { { GPU, DRIVER("nvidia") }, { SIBLING, DRIVER("vfio-pci") } },
	  .want = "0 1 2 1 1 1 1 1 3 /4 -1 6 -1 6 6 6 -1 6 -1"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 -1" },
	{ { { "00:01.0", ACS, 0 } },
	  { { GPU, GROUP("3") DRIVER("nvidia") },
	    { SIBLING, GROUP("3") DRIVER("nvme") },
	    { OTHER, GROUP("3") DRIVER("nvme") } },
	  .want = "0 1 2 1 1 1 1 1 3 /4 -1 6 -1 6 6 6 7 6 6"
		  " / -1 -1 -1 -1 -1 -1 7 6 6" },
	{ { { "00:01.0", ACS, 0 } },
	  { { GPU, GROUP("3") DRIVER("nvidia") },
	    { SIBLING, GROUP("2") DRIVER("nvme") },
	    { OTHER, GROUP("2") DRIVER("nvme") } },
	  .want = "0 1 2 1 1 1 1 1 3 /4 -1 6 -1 6 6 6 -1 8 7"
		  " / -1 -1 -1 -1 -1 -1 -1 8 7" },
	{ { { "00:01.0", ACS, 0 } },
	  { { GPU, GROUP("0") DRIVER("nvidia") }, { OTHER, GROUP("0") } },
	  .want = "0 1 2 1 1 1 1 1 3 /4 -1 6 -1 6 6 6 -1 6 6"
		  " / -1 -1 -1 -1 -1 -1 -1 -1 6" },
};

Test(topo_groups, each_function_has_its_group_and_what_keeps_it_closed)
{
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		isolate();
		for (unsigned k = 0; k < 4 && machines[i].poke[k].at; k++)
			fake_put(fake_find(&machine, machines[i].poke[k].at),
				 machines[i].poke[k].offset, 2, machines[i].poke[k].value);
		for (unsigned k = 0; k < 4 && machines[i].text[k].at; k++)
			text(machines[i].text[k].at, machines[i].text[k].lines);
		if (machines[i].short_at)
			fake_find(&machine, machines[i].short_at)->bytes = 64;
		predict();
		cr_expect_str_eq(numbers(), machines[i].want, "row %zu: %s", i, numbers());
	}
}

Test(topo_groups, without_memory_nothing_is_predicted)
{
	const size_t reserved = model.reserved;
	size_t used, enough;

	isolate();
	predict();
	used = model.used;
	cr_assert_eq(hr_groups_predict(&model, &groups), 0);
	enough = model.used;
	for (model.reserved = used; model.reserved < enough; model.reserved += 8) {
		model.used = used;
		cr_expect_eq(hr_groups_predict(&model, &groups), -ENOMEM, "%zu bytes",
			     model.reserved - used);
	}
	model.used = used;
	cr_expect_eq(hr_groups_predict(&model, &groups), 0);
	cr_expect_eq(hr_groups_blockers(&model, NULL, &(int32_t){ 0 }), -ENOMEM);
	model.reserved = reserved;
}
