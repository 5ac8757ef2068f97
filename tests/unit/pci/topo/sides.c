/* Each rule from both sides of a pair, at its limits, and in cases where it must not match. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/change.h"
#include "pci/topo/fields.h"
#include "tests/harness/evaluate.h"
#include "tests/harness/error.h"
#include "pci/topo/explain.h"

TestSuite(topo_sides, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

#define F1 1u
#define F2 2u
#define F3 4u
#define F4 8u
#define ALL HR_FLOW_ALL
#define UP1 "00:01.0" /* above the GPU's switch */
#define UP2 "00:02.0" /* above OTHER */
#define SWITCH "01:00.0"
#define PORT1 "02:00.0" /* above the GPU */
#define PORT2 "02:01.0" /* above SIBLING */
#define DEVCTL (FAKE_EXP + HR_EXP_DEVCTL)
#define MPS128 0x2000u
#define MPS256 0x2020u
#define MPS512 0x2040u

struct poke {
	const char *at;
	uint32_t offset;
	unsigned width;
	uint32_t value;
};

struct text {
	const char *at, *lines; /* "": the head of the dump */
};

struct row {
	const char *rule, *ssd;
	uint8_t flows; /* flows for which the rule is found; 0: not found */
	struct poke poke[6];
	struct text text[3];
	struct hr_options opt;
};

static uint8_t flows_of(const struct hr_pair *p, const char *rule)
{
	struct hr_finding list[64];
	unsigned n = hr_findings(&topology, p, list, 64);
	uint8_t flows = 0;

	for (unsigned i = 0; i < n && i < 64; i++)
		if (strcmp(hr_rules[list[i].rule].id, rule) == 0)
			flows |= list[i].flows;
	return flows;
}

static void add_text(const struct text *t)
{
	char *to = t->at[0] ? fake_find(&machine, t->at)->text : machine.head;

	strncat(to, t->lines, FAKE_TEXT_MAX - strlen(to) - 1);
}

static void check(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct row *r = &rows[i];
		struct hr_pair p;
		uint8_t flows;

		fake_two_ports(&machine);
		for (unsigned k = 0; k < 6 && r->poke[k].at; k++)
			fake_put(fake_find(&machine, r->poke[k].at), r->poke[k].offset,
				 r->poke[k].width, r->poke[k].value);
		for (unsigned k = 0; k < 3 && r->text[k].at; k++)
			add_text(&r->text[k]);
		fake_evaluate(r->ssd, &r->opt, &p);
		flows = flows_of(&p, r->rule);
		cr_expect_eq(flows, r->flows, "row %zu: %s is found for flows %x, not %x", i,
			     r->rule, flows, r->flows);
	}
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof *(rows))

/* ---- windows */

/* The memory window of a bridge, in the form of its two registers. */
#define MEM(port, base, limit)                                   \
	{                                                        \
		port, HR_CFG_MEM_BASE, 4, (limit) << 16 | (base) \
	}
#define PREF(port, base, limit)                                               \
	{                                                                     \
		port, HR_CFG_PREF_BASE, 4, ((limit) | 1u) << 16 | (base) | 1u \
	}
#define PREF_UPPER(port, base, limit)                   \
	{ port, HR_CFG_PREF_BASE_UPPER, 4, base },      \
	{                                               \
		port, HR_CFG_PREF_LIMIT_UPPER, 4, limit \
	}
#define TOP 0x383u /* upper half of the last address of the GPU's BAR */

Test(topo_sides, a_window_that_misses_a_bar_stops_the_flows_to_that_card)
{
	static const struct row rows[] = {
		{ "R3", OTHER, F2 | F3, .poke = { { UP1, HR_CFG_PREF_LIMIT_UPPER, 4, TOP - 1 } } },
		{ "R3", OTHER, 0, .poke = { { UP1, HR_CFG_PREF_LIMIT_UPPER, 4, TOP } } },
		{ "R3", OTHER, F1 | F4, .poke = { MEM(UP2, 0xe410u, 0xe4f0u) } },
		{ "R3", OTHER, 0, .poke = { MEM(UP2, 0xe400u, 0xe400u) } },
		{ "R3", SIBLING, F1 | F4, .poke = { MEM(PORT2, 0xe010u, 0xe0f0u) } },
		/* At the common bridge: only for flows that go up. */
		{ "R3", SIBLING, 0, .poke = { MEM(SWITCH, 0xe010u, 0xe2f0u) } },
		{ "R3", SIBLING, F1 | F4,
		  .poke = { MEM(SWITCH, 0xe010u, 0xe2f0u), { PORT1, ACS, 2, HR_ACS_RR } } },
		{ "R3", SIBLING, 0,
		  .poke = { MEM(SWITCH, 0xe010u, 0xe2f0u), { PORT2, ACS, 2, HR_ACS_RR } } },
	};

	CHECK(rows);
}

/* A bridge with a title and without registers in the dump. */
static void without_windows(const char *at)
{
	struct fake_fn *f = fake_find(&machine, at);

	f->bytes = 0;
	snprintf(f->title, sizeof f->title, "PCI bridge [0604]: Device [8086:1905]");
	snprintf(f->text, sizeof f->text,
		 "\tControl: I/O- Mem+ BusMaster+\n\tBus: primary=00, secondary=%s, "
		 "subordinate=%s, sec-latency=0\n",
		 at[4] == '1' ? "01" : "05", at[4] == '1' ? "04" : "05");
}

Test(topo_sides, windows_that_are_not_known_leave_the_flows_to_that_card_open)
{
	struct hr_pair p;

	fake_evaluate(OTHER, &(struct hr_options){ 0 }, &p);
	cr_expect_eq(flows_of(&p, "U5"), 0);
	without_windows(UP1);
	fake_evaluate(OTHER, &(struct hr_options){ 0 }, &p);
	cr_expect_eq(flows_of(&p, "U5"), F2 | F3, "%x", flows_of(&p, "U5"));
	fake_two_ports(&machine);
	without_windows(UP2);
	fake_evaluate(OTHER, &(struct hr_options){ 0 }, &p);
	cr_expect_eq(flows_of(&p, "U5"), F1 | F4, "%x", flows_of(&p, "U5"));
}

Test(topo_sides, a_window_above_the_initiator_that_holds_the_target_swallows_requests)
{
	static const struct row rows[] = {
		{ "R4", OTHER, F1 | F4, .poke = { MEM(PORT1, 0xe400u, 0xe4f0u) } },
		{ "R4", OTHER, F1 | F4,
		  .poke = { PREF(PORT1, 0xe400u, 0xe4f0u), PREF_UPPER(PORT1, 0, 0) } },
		{ "R4", OTHER, F2 | F3,
		  .poke = { PREF(UP2, 0u, 0xfff0u), PREF_UPPER(UP2, 0x380, TOP) } },
		/* First and last megabyte of the GPU's BAR, and the megabytes next to it. */
		{ "R4", OTHER, F2 | F3,
		  .poke = { PREF(UP2, 0u, 0u), PREF_UPPER(UP2, 0x380, 0x380) } },
		{ "R4", OTHER, F2 | F3,
		  .poke = { PREF(UP2, 0xfff0u, 0xfff0u), PREF_UPPER(UP2, TOP, TOP) } },
		{ "R4", OTHER, 0,
		  .poke = { PREF(UP2, 0xfff0u, 0xfff0u), PREF_UPPER(UP2, 0x37f, 0x37f) } },
		{ "R4", OTHER, 0, .poke = { PREF(UP2, 0u, 0u), PREF_UPPER(UP2, 0x384, 0x384) } },
		/* A closed window contains nothing, wherever its limits are. */
		{ "R4", OTHER, 0, .poke = { PREF(UP2, 0xfff0u, 0u), PREF_UPPER(UP2, TOP, 0x381) } },
		{ "R4", OTHER, 0, .poke = { MEM(PORT1, 0xe500u, 0xe400u) } },
		/* Windows above the common bridge do not matter. */
		{ "R4", SIBLING, 0, .poke = { MEM(SWITCH, 0xe000u, 0xe2f0u) } },
	};

	CHECK(rows);
}

/* A window that ends exactly at a BAR: the BAR is larger than the granularity of windows. */
Test(topo_sides, a_window_that_ends_where_a_bar_begins_or_ends_touches_it)
{
	static const struct {
		uint64_t base;
		unsigned size; /* size of SIBLING's BAR */
		uint32_t window;
		uint8_t flows;
	} row[] = {
		{ 0xe4100000, 0x100000, 0xe410, F1 | F4 },
		{ 0xe4100000, 0x100000, 0xe400, 0 },
		{ 0xe4100000, 0x100000, 0xe420, 0 },
		{ 0xe41fffff & ~0xfull, 16, 0xe410, F1 | F4 },
		{ 0xe4100000, 0, 0xe410, F1 | F4 }, /* of unknown size */
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_fn *disk;
		struct hr_pair p;

		fake_two_ports(&machine);
		disk = fake_find(&machine, OTHER);
		fake_put(disk, HR_CFG_BAR0, 4, (uint32_t)row[i].base | 4);
		disk->text[0] = '\0';
		if (row[i].size)
			snprintf(disk->text, sizeof disk->text, "\theadrace: bar0_size=%u\n",
				 row[i].size);
		fake_put(fake_find(&machine, PORT1), HR_CFG_MEM_BASE, 4,
			 row[i].window << 16 | row[i].window);
		fake_evaluate(OTHER, &(struct hr_options){ 0 }, &p);
		cr_expect_eq(flows_of(&p, "R4"), row[i].flows, "row %zu: %x", i,
			     flows_of(&p, "R4"));
	}
}

/* The firmware assigns other addresses to a moved card and to the bridges above it. */
Test(topo_sides, present_windows_do_not_matter_for_a_moved_card)
{
	static const char *const moves[] = { "move:03:00.0=00:03.0", "move:05:00.0=00:03.0" };

	for (unsigned i = 0; i < 2; i++) {
		struct hr_options opt = { 0 };
		struct hr_pair p;

		fake_two_ports(&machine);
		fake_windows(fake_bridge(&machine, "00:03.0", 0x8086, 0x1909, HR_PORT_ROOT, 6, 6),
			     0xe4000000, 0xe4ffffff, 0x38000000000, 0x380ffffffff);
		fake_evaluate(OTHER, &opt, &p);
		cr_assert_eq(hr_change_apply(&model, &opt, moves[i], test_error()), 0, "%s",
			     test_error_text());
		cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
		hr_pair_evaluate(&topology, fake_at(GPU), fake_at(OTHER), &p);
		cr_expect_eq(flows_of(&p, "R4"), 0, "%s: %x", moves[i], flows_of(&p, "R4"));
	}
}

/* ---- ACS */

#define NUMBER(port, n)                                  \
	{                                                \
		port, FAKE_EXP + HR_EXP_LNKCAP + 3, 1, n \
	}
#define VECTOR(port)                                   \
	{                                              \
		port, FAKE_ACS + HR_ACS_CAP, 2, 0x087f \
	}
#define EGRESS(port, ctl, bits)                         \
	{ port, ACS, 2, ctl },                          \
	{                                               \
		port, FAKE_ACS + HR_ACS_EGRESS, 4, bits \
	}

Test(topo_sides, egress_control_blocks_the_functions_of_its_vector)
{
	static const struct row rows[] = {
		{ "A4", SIBLING, F1 | F4,
		  .poke = { VECTOR(PORT1), EGRESS(PORT1, HR_ACS_EC, 1u << 1) } },
		{ "A4", SIBLING, 0, .poke = { VECTOR(PORT1), EGRESS(PORT1, HR_ACS_EC, 1u << 2) } },
		/* With request redirect the flows go up instead. */
		{ "A4", SIBLING, 0,
		  .poke = { VECTOR(PORT1), EGRESS(PORT1, HR_ACS_EC | HR_ACS_RR, 1u << 1) } },
		{ "A4", SIBLING, 0, .poke = { VECTOR(PORT1), EGRESS(PORT1, HR_ACS_CR, 1u << 1) } },
		/* From the SSD: the GPU's port has number 0. */
		{ "A4", SIBLING, F2 | F3, .poke = { VECTOR(PORT2), EGRESS(PORT2, HR_ACS_EC, 1u) } },
		{ "A4", SIBLING, 0, .poke = { VECTOR(PORT2), EGRESS(PORT2, HR_ACS_EC, 2u) } },
		{ "A4-unread", SIBLING, 0,
		  .poke = { VECTOR(PORT2), EGRESS(PORT2, HR_ACS_EC, 2u) } },
		{ "A4-unread", SIBLING, F2 | F3, .poke = { { PORT2, ACS, 2, HR_ACS_EC } } },
		{ "A4-unread", SIBLING, F1 | F4, .poke = { { PORT1, ACS, 2, HR_ACS_EC } } },
		{ "A4-unread", SIBLING, 0, .poke = { { PORT1, ACS, 2, HR_ACS_EC | HR_ACS_RR } } },
		/* The vector has 32 bits here; ports with higher numbers are not in it. */
		{ "A4", SIBLING, F1 | F4,
		  .poke = { VECTOR(PORT1), EGRESS(PORT1, HR_ACS_EC, 1u << 31),
			    NUMBER(PORT2, 31) } },
		{ "A4-unread", SIBLING, 0,
		  .poke = { VECTOR(PORT1), EGRESS(PORT1, HR_ACS_EC, 1u << 31),
			    NUMBER(PORT2, 31) } },
		{ "A4", SIBLING, 0,
		  .poke = { VECTOR(PORT1), EGRESS(PORT1, HR_ACS_EC, ~0u), NUMBER(PORT2, 32) } },
		{ "A4-unread", SIBLING, F1 | F4,
		  .poke = { VECTOR(PORT1), EGRESS(PORT1, HR_ACS_EC, ~0u), NUMBER(PORT2, 32) } },
		{ "A4", OTHER, 0, .poke = { { UP1, ACS, 2, HR_ACS_EC } } },
	};

	CHECK(rows);
}

/* ---- groups and modes */

#define GROUP(n) "\tIOMMU group: " n "\n"
#define DRIVER(name) "\tKernel driver in use: " name "\n"

Test(topo_sides, a_gpu_with_its_driver_in_the_ssds_group_is_reported_without_vfio)
{
	static const struct row rows[] = {
		{ "I7-note", SIBLING, ALL,
		  .text = { { GPU, GROUP("7") DRIVER("nvidia") }, { SIBLING, GROUP("7") } } },
		{ "I7-note", SIBLING, 0,
		  .text = { { GPU, GROUP("6") DRIVER("nvidia") }, { SIBLING, GROUP("7") } } },
		{ "I7-note", SIBLING, 0,
		  .text = { { GPU, GROUP("7") DRIVER("vfio-pci") }, { SIBLING, GROUP("7") } } },
		{ "I7-note", SIBLING, 0, .text = { { GPU, GROUP("7") }, { SIBLING, GROUP("7") } } },
		{ "I7-note", SIBLING, 0,
		  .text = { { GPU, GROUP("0") DRIVER("nvidia") }, { SIBLING, "" } } },
		{ "I7-note", SIBLING, 0,
		  .text = { { GPU, DRIVER("nvidia") }, { SIBLING, GROUP("0") } } },
		{ "I7-note", SIBLING, 0,
		  .text = { { GPU, GROUP("7") DRIVER("nvidia") }, { SIBLING, GROUP("7") } },
		  .opt = { .mode = HR_MODE_VFIO } },
	};

	CHECK(rows);
}

Test(topo_sides, the_mode_of_the_initiators_group_decides)
{
#define TYPE(n) GROUP("7") "\theadrace: iommu_type=" n "\n"
	static const struct row rows[] = {
		{ "I2", OTHER, ALL, .opt = { .iommu = HR_IOMMU_ON } },
		{ "I2", OTHER, F1 | F4, .text = { { GPU, TYPE("3") }, { OTHER, TYPE("2") } } },
		{ "I2", OTHER, F2 | F3, .text = { { GPU, TYPE("2") }, { OTHER, TYPE("3") } } },
		{ "I2", OTHER, 0, .text = { { GPU, TYPE("2") }, { OTHER, TYPE("2") } } },
		/* An option overrides the groups. */
		{ "I2", OTHER, 0, .text = { { GPU, TYPE("3") }, { OTHER, TYPE("3") } },
		  .opt = { .iommu = HR_IOMMU_PT } },
		{ "I2", OTHER, ALL, .text = { { GPU, TYPE("2") }, { OTHER, TYPE("2") } },
		  .opt = { .iommu = HR_IOMMU_ON } },
		{ "I2-unread", OTHER, F1 | F4,
		  .text = { { GPU, GROUP("6") }, { OTHER, TYPE("2") } } },
		{ "I2-unread", OTHER, F2 | F3,
		  .text = { { GPU, TYPE("2") }, { OTHER, GROUP("6") } } },
	};

	CHECK(rows);
}

/* ---- payload */

#define MPS(at, code)               \
	{                           \
		at, DEVCTL, 2, code \
	}

Test(topo_sides, a_payload_size_above_the_limit_of_the_path_is_malformed)
{
	static const struct row rows[] = {
		{ "M1", SIBLING, F2, .poke = { MPS(SIBLING, MPS512) } },
		{ "M1", SIBLING, F3, .poke = { MPS(GPU, MPS512) } },
		{ "M1", SIBLING, 0, .poke = { MPS(SIBLING, MPS256), MPS(GPU, MPS256) } },
		{ "M1", SIBLING, F2, .poke = { MPS(GPU, MPS128) } },
		{ "M1", SIBLING, F3, .poke = { MPS(SIBLING, MPS128) } },
		{ "M1", SIBLING, F2 | F3, .poke = { MPS(PORT2, MPS128) } },
		/* The switch and the ports above it count for flows that go up. */
		{ "M1", SIBLING, 0, .poke = { MPS(UP1, MPS128) } },
		{ "M1", SIBLING, F3, .poke = { MPS(UP1, MPS128), { PORT1, ACS, 2, HR_ACS_CR } } },
		{ "M1", SIBLING, 0, .poke = { MPS(UP1, MPS128), { PORT1, ACS, 2, HR_ACS_RR } } },
		{ "M1", SIBLING, F2 | F3,
		  .poke = { MPS(UP1, MPS128), { PORT2, ACS, 2, HR_ACS_RR } } },
		/* Across root ports each side counts alone. */
		{ "M1", OTHER, 0, .poke = { MPS(UP2, MPS512), MPS(OTHER, MPS512) } },
		{ "M1", OTHER, F2, .poke = { MPS(OTHER, MPS512) } },
		{ "M1", OTHER, F3, .poke = { MPS(GPU, MPS512) } },
		{ "M1-rc", OTHER, F2, .poke = { MPS(UP2, MPS512), MPS(OTHER, MPS512) } },
		{ "M1-rc", OTHER, F2 | F3, .poke = { MPS(UP1, MPS128), MPS(UP2, MPS128) } },
		{ "M1-rc", OTHER, F2, .poke = { MPS(UP1, MPS128) } },
		{ "M1-rc", OTHER, F3, .poke = { MPS(UP2, MPS128) } },
		{ "M1-rc", OTHER, F3, .poke = { MPS(OTHER, MPS128) } },
		{ "M1-rc", OTHER, F2, .poke = { MPS(GPU, MPS128) } },
		{ "M1-rc", OTHER, 0, .poke = { MPS(OTHER, MPS256) } },
		{ "M1-rc", SIBLING, 0, .poke = { MPS(SIBLING, MPS512) } },
	};

	CHECK(rows);
}

/* ---- sockets */

#define NODE(n) "\tNUMA node: " n "\n"

Test(topo_sides, nodes_differ_when_both_are_known)
{
	static const struct row rows[] = {
		{ "H5", OTHER, ALL, .text = { { GPU, NODE("0") }, { OTHER, NODE("1") } } },
		{ "H5", OTHER, ALL, .text = { { GPU, NODE("1") }, { OTHER, NODE("0") } } },
		{ "H5", OTHER, 0, .text = { { GPU, NODE("1") }, { OTHER, NODE("1") } } },
		{ "H5", OTHER, 0, .text = { { GPU, NODE("1") } } },
		{ "H5", OTHER, 0, .text = { { OTHER, NODE("1") } } },
		{ "H5-unread", OTHER, 0, .text = { { GPU, NODE("1") } } }, /* one root complex */
	};

	CHECK(rows);
}

/* An SSD below its own root complex; a card's node is "" when unknown. */
static void two_sockets(const char *gpu, const char *ssd, struct hr_pair *p)
{
	fake_two_ports(&machine);
	fake_function(&machine, "80:00.0", 0x060000, 0x8086, 0x3c00, HR_PORT_RC_ENDPOINT);
	fake_windows(fake_bridge(&machine, "80:02.0", 0x8086, 0x3c04, HR_PORT_ROOT, 0x81, 0x81),
		     0xe6000000, 0xe6ffffff, 0xfff00000, 0);
	fake_nvme(&machine, "81:00.0", 0xe6000000);
	add_text(&(struct text){ GPU, gpu });
	add_text(&(struct text){ "81:00.0", ssd });
	fake_evaluate("81:00.0", &(struct hr_options){ 0 }, p);
}

Test(topo_sides, nodes_that_are_not_known_are_reported_between_root_complexes)
{
	struct hr_pair p;

	two_sockets("", "", &p);
	cr_expect_eq(flows_of(&p, "H5-unread"), ALL);
	two_sockets(NODE("0"), "", &p);
	cr_expect_eq(flows_of(&p, "H5-unread"), ALL);
	cr_expect_eq(flows_of(&p, "H5"), 0);
	two_sockets("", NODE("1"), &p);
	cr_expect_eq(flows_of(&p, "H5-unread"), ALL);
	cr_expect_eq(flows_of(&p, "H5"), 0);
	two_sockets(NODE("0"), NODE("1"), &p);
	cr_expect_eq(flows_of(&p, "H5-unread"), 0);
	cr_expect_eq(flows_of(&p, "H5"), ALL);
}

Test(topo_sides, nodes_are_not_missed_below_one_root_complex_nor_where_bridges_are_missing)
{
	struct fake_machine cut = { .count = 0 };
	struct hr_pair p;

	fake_evaluate(OTHER, &(struct hr_options){ 0 }, &p);
	cr_expect_eq(flows_of(&p, "H5-unread"), 0);
	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	cr_expect_str_eq(hr_distance_word(&topology, &p), "PIX");
	cut.fn[cut.count++] = *fake_find(&machine, GPU);
	cut.fn[cut.count++] = *fake_find(&machine, SIBLING);
	machine = cut;
	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	cr_assert(p.cut);
	cr_expect_eq(flows_of(&p, "H5-unread"), 0);
	cr_expect_str_eq(hr_distance_word(&topology, &p), "?");
}

/* ---- single functions */

#define UESTA(at, bits)                              \
	{                                            \
		at, FAKE_AER + HR_AER_UESTA, 4, bits \
	}
#define CESTA(at, bits)                              \
	{                                            \
		at, FAKE_AER + HR_AER_CESTA, 4, bits \
	}

Test(topo_sides, each_power_state_but_d0_sleeps)
{
	struct row rows[4];

	for (uint32_t d = 0; d < 4; d++)
		rows[d] = (struct row){ "R6", SIBLING, d ? ALL : 0,
					.poke = { { GPU, FAKE_PM + HR_PM_CTL, 2, d } } };
	CHECK(rows);
}

Test(topo_sides, only_errors_of_transfers_are_reported)
{
	const uint32_t uncorrectable = HR_UE_CMPLT_TIMEOUT | HR_UE_CMPLT_ABORT | HR_UE_MALFORMED |
				       HR_UE_UNSUPPORTED | HR_UE_ACS_VIOLATION;

	for (uint32_t bit = 0; bit < 32; bit++) {
		const struct row rows[] = {
			{ "H3-ue", SIBLING, uncorrectable >> bit & 1 ? ALL : 0,
			  .poke = { UESTA(GPU, 1u << bit) } },
			{ "H3-ue", SIBLING, uncorrectable >> bit & 1 ? ALL : 0,
			  .poke = { UESTA(PORT2, 1u << bit) } },
			/* Receiver, bad TLP, bad DLLP, rollover, replay timer: PCIe 7.8.4.5. */
			{ "H3-ce", SIBLING, 0x11c1u >> bit & 1 ? ALL : 0,
			  .poke = { CESTA(GPU, 1u << bit) } },
		};

		CHECK(rows);
	}
}

Test(topo_sides, acs_bits_without_redirect_are_harmless)
{
	for (uint32_t bit = 0; bit < 7; bit++) {
		const bool harmless = (HR_ACS_SV | HR_ACS_TB | HR_ACS_UF) >> bit & 1;
		const struct row rows[] = {
			{ "A3", SIBLING, harmless ? ALL : 0,
			  .poke = { { PORT1, ACS, 2, 1u << bit } } },
			{ "A3", SIBLING, 0, .poke = { { PORT1, ACS, 2, 1u << bit | HR_ACS_RR } } },
			{ "A3", SIBLING, 0, .poke = { { PORT1, ACS, 2, 1u << bit | HR_ACS_CR } } },
		};

		CHECK(rows);
	}
}

/* ---- the machine */

#define HEAD(lines) .text = { { "", lines } }
#define LINE(words) HEAD("headrace: cmdline=" words "\n")

Test(topo_sides, words_of_the_command_line_are_whole_words)
{
	static const struct row rows[] = {
		{ "H7-vendor", SIBLING, ALL,
		  HEAD("headrace: cpu_amd=1\nheadrace: cmdline=intel_iommu=on\n") },
		{ "H7-vendor", SIBLING, 0,
		  HEAD("headrace: cpu_amd=1\nheadrace: cmdline=my_intel_iommu=on\n") },
		{ "H7-vendor", SIBLING, ALL,
		  HEAD("headrace: cpu_amd=0\nheadrace: cmdline=amd_iommu=off\n") },
		{ "H7-vendor", SIBLING, 0,
		  HEAD("headrace: cpu_amd=0\nheadrace: cmdline=intel_iommu=off\n") },
		{ "H7-two", SIBLING, ALL, LINE("iommu=pt iommu=off") },
		{ "H7-two", SIBLING, ALL, LINE("quiet iommu=nopt iommu=pt") },
		{ "H7-two", SIBLING, ALL, LINE("iommu.passthrough=0 iommu=pt") },
		{ "H7-two", SIBLING, 0, LINE("iommu=ptx iommu=off") },
		{ "H7-two", SIBLING, 0, LINE("iommu=pt iommu=offline") },
		{ "H7-two", SIBLING, 0, LINE("x.iommu=pt iommu=off") },
		{ "H7-two", SIBLING, 0, LINE("iommu=pt x.iommu=off") },
		{ "H7-two", SIBLING, 0, LINE("iommu=pt iommu=pt") },
		{ "H7-on-off", SIBLING, ALL, LINE("amd_iommu=off amd_iommu=force_enable") },
		{ "H7-on-off", SIBLING, 0, LINE("amd_iommu=off intel_iommu=on") },
		/* The request for an IOMMU: of each option the last value counts. */
		{ "I2-unread", OTHER, ALL, LINE("intel_iommu=sm_on,on") },
		{ "I2-unread", OTHER, 0, LINE("intel_iommu=sm_on,onward") },
		{ "I2-unread", OTHER, 0, LINE("intel_iommu=only") },
		{ "I2-unread", OTHER, 0, LINE("intel_iommu=on quiet intel_iommu=sm_on") },
		{ "I2-unread", OTHER, ALL, LINE("intel_iommu=on amd_iommu=off") },
	};

	CHECK(rows);
}

Test(topo_sides, more_than_255_cpus_need_interrupt_remapping)
{
	static const struct row rows[] = {
		{ "I3", SIBLING, ALL, HEAD("headrace: cpus=256\n") },
		{ "I3", SIBLING, 0, HEAD("headrace: cpus=255\n") },
		{ "I3", SIBLING, 0, HEAD("") },
	};

	CHECK(rows);
}

Test(topo_sides, zen_begins_with_family_17h)
{
	static const struct row rows[] = {
		{ "R2-listed", OTHER, ALL, HEAD("headrace: cpu_amd=1\nheadrace: cpu_family=23\n") },
		{ "R2-listed", OTHER, ALL, HEAD("headrace: cpu_amd=1\nheadrace: cpu_family=26\n") },
		{ "R2-listed", OTHER, ALL, HEAD("headrace: cpu_amd=1\n") },
		{ "R2-listed", OTHER, 0, HEAD("headrace: cpu_amd=1\nheadrace: cpu_family=22\n") },
		{ "R2-listed", OTHER, 0, HEAD("headrace: cpu_amd=0\nheadrace: cpu_family=25\n") },
		{ "R2-listed", OTHER, 0, HEAD("headrace: cpu_amd=0\n") },
	};

	CHECK(rows);
}

/* ---- ACS that is not known */

Test(topo_sides, a_port_without_any_capability_has_no_acs)
{
	static const struct row rows[] = {
		{ "U3", SIBLING, 0, .poke = { { PORT1, HR_CFG_STATUS, 2, 0 } } },
		{ "U3", SIBLING, 0,
		  .poke = { { PORT1, FAKE_AER + 2, 2, 1 } } }, /* the list is complete */
	};
	struct hr_pair p;

	CHECK(rows);
	/*
	 * The list of capabilities ends before it is complete, so the missing part may contain ACS.
	 */
	fake_two_ports(&machine);
	fake_find(&machine, PORT1)->bytes = 256;
	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	cr_expect_eq(flows_of(&p, "U3"), ALL);
	fake_put(fake_find(&machine, PORT1), HR_CFG_STATUS, 2, 0);
	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	cr_expect_eq(flows_of(&p, "U3"), 0);
	/* The capability is known, its control register is not. */
	fake_two_ports(&machine);
	fake_find(&machine, PORT1)->bytes = 256;
	add_text(&(struct text){ PORT1, "\tCapabilities: [150 v1] Access Control Services\n" });
	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	cr_expect_eq(flows_of(&p, "U3"), ALL);
}
