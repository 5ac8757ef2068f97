/* Rules that only add a note, or that need more changes than a row of rules.c can hold. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"
#include "pci/topo/verdict.h"
#include "pci/topo/explain.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_notes, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static void poke(const char *at, uint32_t offset, unsigned width, uint32_t value)
{
	fake_put(fake_find(&machine, at), offset, width, value);
}

static enum hr_verdict evaluate(const char *ssd, struct hr_pair *p)
{
	static const struct hr_options opt;

	fake_evaluate(ssd, &opt, p);
	return p->verdict;
}

static bool notes(const char *rule, const char *ssd)
{
	struct hr_pair p;

	evaluate(ssd, &p);
	return fake_found(&p, rule);
}

Test(topo_notes, a_controller_in_raid_mode_hides_its_drives)
{
	struct hr_pair p;

	cr_expect_not(notes("R10-raid", SIBLING));
	poke(SIBLING, HR_CFG_CLASS, 3, 0x010400);
	cr_expect_eq(evaluate(SIBLING, &p), HR_BLOCKED);
	cr_expect_str_eq(hr_rules[p.rule].id, "R10-raid");
}

Test(topo_notes, a_function_that_hides_drives_is_named_without_being_a_peer)
{
	struct fake_fn *f =
		fake_function(&machine, "00:0e.0", 0x010400, 0x8086, 0x28c0, HR_PORT_RC_ENDPOINT);
	struct hr_finding none = { .fn = HR_NO_FN };
	char text[64];

	cr_expect(notes("R10-vmd", SIBLING));
	cr_expect_not(notes("R10-card", SIBLING));
	cr_expect_str_eq(hr_rule_text(&topology, NULL, &none, "{vmd}/{raid}", text, sizeof text),
			 "0000:00:0e.0/");
	/* Its domain is visible, so rule R10 applies to the drives themselves. */
	snprintf(fake_find(&machine, OTHER)->address, 16, "10000:05:00.0");
	cr_expect_not(notes("R10-vmd", SIBLING));
	/* A chipset in RAID mode hides drives when no drive is visible. */
	fake_put(f, HR_CFG_VENDOR, 4, 0x28228086);
	poke(SIBLING, HR_CFG_CLASS, 3, 0x020000);
	poke("10000:05:00.0", HR_CFG_CLASS, 3, 0x020000);
	cr_expect_not(notes("R10-card", SIBLING), "it is said beside no pair");
	cr_expect_str_eq(hr_rule_text(&topology, NULL, &none, "{vmd}/{raid}", text, sizeof text),
			 "/0000:00:0e.0");
}

Test(topo_notes, both_cards_behind_chipset_ports_may_have_peer_decode_off)
{
	poke("00:02.0", HR_CFG_DEVICE, 2, 0x8c10);
	cr_expect_not(notes("R11-peer", OTHER));
	poke("00:01.0", HR_CFG_DEVICE, 2, 0x8c10);
	cr_expect(notes("R11-peer", OTHER));
	cr_expect_not(notes("R11-peer", SIBLING));
}

Test(topo_notes, ports_of_every_chipset_share_its_uplink)
{
	static const struct {
		uint32_t id;
		bool chipset;
	} row[] = {
		{ 0x8c108086, true },  { 0xa1908086, true },  { 0xa1ea8086, true },
		{ 0xa3308086, true },  { 0x06b08086, true },  { 0x43bc8086, true },
		{ 0x7ab88086, true },  { 0x7a388086, true },  { 0x57ad1022, true },
		{ 0x19058086, false }, { 0x7acc8086, false }, { 0x7ab81022, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_pair p;

		poke("00:02.0", HR_CFG_VENDOR, 4, row[i].id);
		evaluate(OTHER, &p);
		cr_expect_eq(fake_found(&p, "R11"), row[i].chipset, "row %zu", i);
		cr_expect_eq(!!(p.modifiers & HR_MOD_PCH), row[i].chipset, "row %zu", i);
	}
}

Test(topo_notes, options_that_the_kernel_knows_are_not_reported_as_unknown)
{
	snprintf(machine.head, sizeof machine.head,
		 "headrace: cmdline=quiet pci=realloc=on,noats,disable_acs_redir=01:00.0;02:00.0 "
		 "pci=pcie_bus_safe, pci=config_acs=x0x00xx@02:00.0 intel_iommu=on xpci=noacs\n");
	cr_expect_not(notes("H7-unknown", SIBLING));
	cr_expect_not(notes("H7-noacs", SIBLING));
	cr_expect_not(notes("H7-on-off", SIBLING));
	snprintf(machine.head, sizeof machine.head, "headrace: cmdline=pci=noacs\n");
	cr_expect_not(notes("H7-unknown", SIBLING));
}

Test(topo_notes, translated_requests_go_direct_when_ports_and_cards_all_allow_it)
{
	struct hr_pair p;

	poke("02:00.0", FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_DT | HR_ACS_RR);
	poke("02:01.0", FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_DT | HR_ACS_RR);
	poke(GPU, FAKE_ATS + HR_ATS_CTL, 2, HR_ATS_ENABLE);
	cr_expect_not(notes("A6", SIBLING));
	poke(SIBLING, FAKE_ATS + HR_ATS_CTL, 2, HR_ATS_ENABLE);
	cr_expect(notes("A6", SIBLING));
	cr_expect_not(notes("A6", OTHER));
	/* A rule that only gives a note: the verdict is that of ACS. */
	cr_expect_eq(evaluate(SIBLING, &p), HR_REDIR_UNLISTED);
}

Test(topo_notes, a_chipset_port_without_acs_isolates_by_a_register_of_its_own)
{
	poke("00:02.0", HR_CFG_DEVICE, 2, 0x8c10);
	cr_expect_not(notes("A8", OTHER), "it has the capability");
	poke("00:02.0", FAKE_AER, 4, HR_ECAP_AER | 1 << 16);
	cr_expect(notes("A8", OTHER));
}

Test(topo_notes, relaxed_ordering_stays_off_below_ports_that_the_kernel_lists)
{
	struct hr_pair p;

	cr_expect_not(notes("M4-ro", OTHER));
	poke("00:02.0", HR_CFG_DEVICE, 2, 0x6f02);
	cr_expect(notes("M4-ro", OTHER));
	cr_expect_neq(evaluate(OTHER, &p), HR_UNKNOWN);
}

/* Parameters whose names begin like pci=, and those that are known. */
Test(topo_notes, other_parameters_are_no_options_of_pci)
{
	static const char *const head[] = {
		"headrace: cmdline=pcie_aspm=off\n",
		"headrace: cmdline=pcie_ports=native pcix=what\n",
		"headrace: cmdline=pci=nomsi,realloc=on,noats\n",
		"headrace: cmdline=pci= pci=,\n",
		"headrace: cmdline=quiet pci\n",
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
		fake_two_ports(&machine);
		snprintf(machine.head, sizeof machine.head, "%s", head[i]);
		fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
		cr_expect_not(fake_found(&p, "H7-unknown"), "%s", head[i]);
		cr_expect_not(fake_found(&p, "H7-noacs"), "%s", head[i]);
	}
}
