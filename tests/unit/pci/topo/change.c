/* Groups, remedies and what-if: the results of a change. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pci/topo/change.h"
#include "pci/topo/fields.h"
#include "pci/topo/groups.h"
#include "pci/path.h"
#include "pci/topo/source.h"
#include "tests/harness/box.h"
#include "tests/harness/machine.h"
#include "tests/harness/error.h"
#include "pci/topo/explain.h"

#define ACS (FAKE_ACS + HR_ACS_CTL)
#define ISOLATED 0x1du

static struct fake_machine machine;
static struct hr_model model;
static struct hr_topology topology;
static struct hr_options opt;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	fake_two_ports(&machine);
	memset(&opt, 0, sizeof opt);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

/* The tests must work as any user. */
uid_t geteuid(void)
{
	return 0;
}

TestSuite(topo_change, .init = set_up, .fini = tear_down, .timeout = 60);

static void load(void)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
}

static int32_t at(const char *address)
{
	uint32_t domain, bus, dev, fn;

	cr_assert_neq(hr_bdf_parse(address, &domain, &bus, &dev, &fn), 0);
	return hr_model_find(&model, domain, bus, dev, fn);
}

static void set_acs(const char *address, uint32_t value)
{
	fake_put(fake_find(&machine, address), ACS, 2, value);
}

static void isolate_all(void)
{
	static const char *const ports[] = { "00:01.0", "00:02.0", "02:00.0", "02:01.0" };

	for (unsigned i = 0; i < 4; i++)
		set_acs(ports[i], ISOLATED);
}

/* One letter per function in address order; a new group gets a new letter. */
static void groups_text(char *text)
{
	struct hr_groups g;

	cr_assert_eq(hr_groups_predict(&model, &g), 0);
	for (uint32_t i = 0; i < model.count; i++)
		text[i] = (char)('a' + g.of[i]);
	text[model.count] = '\0';
}

Test(topo_change, groups_follow_the_kernel)
{
	/*
	 * order of the functions: 00:00.0 00:01.0 00:02.0 01:00.0 02:00.0 02:01.0 03:00.0 04:00.0
	 * 05:00.0
	 */
	static const struct {
		const char *clear; /* port whose ACS is set back to this value */
		uint32_t value;
		const char *want;
		const char *why;
	} row[] = {
		{ NULL, 0, "abcdefghi", "everything isolated" },
		{ "02:00.0", 0x19, "abcdefehi", "RR missing: the GPU joins its port" },
		{ "02:00.0", 0x15, "abcdefehi", "CR missing" },
		{ "02:00.0", 0x1c, "abcdefehi", "SV missing" },
		{ "02:00.0", 0x0d, "abcdefehi", "UF missing" },
		{ "02:00.0", 0x3d, "abcdefghi", "EC does not count" },
		{ "00:01.0", 0, "abcbbbbbd", "root port open: all below is one group" },
		{ "00:02.0", 0, "abcdefghc", "only the second port's disk joins it" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char text[FAKE_FUNCTIONS_MAX + 1];
		char want[16];
		unsigned next = 0;
		char map[32] = { 0 };

		fake_two_ports(&machine);
		isolate_all();
		if (row[i].clear)
			set_acs(row[i].clear, row[i].value);
		load();
		groups_text(text);
		/* Renumber both in the order of first appearance. */
		for (unsigned k = 0; row[i].want[k]; k++) {
			char *slot = &map[row[i].want[k] - 'a'];

			if (!*slot)
				*slot = (char)('a' + next++);
			want[k] = *slot;
			want[k + 1] = '\0';
		}
		char seen[32] = { 0 };

		next = 0;
		for (unsigned k = 0; text[k]; k++) {
			char *slot = &seen[text[k] - 'a'];

			if (!*slot)
				*slot = (char)('a' + next++);
			text[k] = *slot;
		}
		cr_expect_str_eq(text, want, "row %zu (%s): %s, not %s", i, row[i].why, text, want);
	}
}

Test(topo_change, bits_that_a_port_does_not_have_count_as_satisfied)
{
	struct hr_groups g;

	isolate_all();
	fake_put(fake_find(&machine, "02:00.0"), FAKE_ACS + HR_ACS_CAP, 2, HR_ACS_SV | HR_ACS_UF);
	set_acs("02:00.0", HR_ACS_SV | HR_ACS_UF);
	load();
	cr_assert_eq(hr_groups_predict(&model, &g), 0);
	cr_expect_neq(g.of[at("03:00.0")], g.of[at("02:00.0")]);
}

Test(topo_change, functions_of_a_card_without_acs_are_one_group)
{
	struct hr_groups g;

	isolate_all();
	fake_put(fake_find(&machine, "03:00.0"), HR_CFG_HEADER, 1, HR_HEADER_MULTI);
	fake_function(&machine, "03:00.1", 0x040300, 0x10de, 0x1aef, HR_PORT_ENDPOINT);
	load();
	cr_assert_eq(hr_groups_predict(&model, &g), 0);
	cr_expect_eq(g.of[at("03:00.0")], g.of[at("03:00.1")]);
	cr_expect_neq(g.of[at("03:00.0")], g.of[at("02:00.0")]);
}

Test(topo_change, real_groups_that_differ_are_counted)
{
	struct hr_groups g;

	isolate_all();
	strcat(fake_find(&machine, "03:00.0")->text, "\tIOMMU group: 5\n");
	strcat(fake_find(&machine, "04:00.0")->text, "\tIOMMU group: 6\n");
	load();
	cr_assert_eq(hr_groups_predict(&model, &g), 0);
	cr_expect_eq(g.mismatches, 0);
	set_acs("00:01.0", 0);
	load();
	cr_assert_eq(hr_groups_predict(&model, &g), 0);
	cr_expect_eq(g.mismatches, 1);
}

Test(topo_change, the_driver_that_keeps_vfio_out_is_named)
{
	struct hr_groups g;

	strcat(fake_find(&machine, "03:00.0")->text, "\tKernel driver in use: nvidia\n");
	strcat(fake_find(&machine, "04:00.0")->text, "\tKernel driver in use: vfio-pci\n");
	load();
	cr_assert_eq(hr_groups_predict(&model, &g), 0);
	cr_expect_eq(hr_groups_blocker(&model, &g, at("04:00.0"), false), at("03:00.0"));
	isolate_all();
	load();
	cr_assert_eq(hr_groups_predict(&model, &g), 0);
	cr_expect_eq(hr_groups_blocker(&model, &g, at("04:00.0"), false), HR_NO_FN);
}

/* ---- the fix */

Test(topo_change, the_fix_touches_only_ports_that_redirect_wanted_pairs)
{
	struct hr_fix fix;
	struct hr_pair p;

	isolate_all(); /* root ports redirect too, without an effect below one switch */
	load();
	cr_assert_eq(hr_fix_plan(&topology, NULL, NULL, &fix), 0);
	cr_assert_eq(fix.count, 2u);
	cr_expect_eq(fix.pairs, 1u);
	for (unsigned i = 0; i < fix.count; i++) {
		cr_expect(fix.write[i].fn == at("02:00.0") || fix.write[i].fn == at("02:01.0"));
		cr_expect_eq(fix.write[i].offset, ACS);
		cr_expect_eq(fix.write[i].before, ISOLATED);
		cr_expect_eq(fix.write[i].after, HR_ACS_SV | HR_ACS_UF);
	}
	hr_fix_assume(&model, &fix);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
	hr_pair_evaluate(&topology, at("03:00.0"), at("04:00.0"), &p);
	cr_expect_eq(p.verdict, HR_DIRECT);
	cr_assert_eq(hr_fix_plan(&topology, NULL, NULL, &fix), 0);
	cr_expect_eq(fix.count, 0, "a fixed machine needs no fix");
}

/*
 * Emulators have no other port with ACS, so their switches have ports of the type root port. A real
 * root port is on a root bus.
 */
Test(topo_change, ports_below_a_bridge_are_not_root_ports)
{
	static const char *const ports[] = { "02:00.0", "02:01.0" };
	struct hr_fix fix;
	struct hr_pair p;

	isolate_all();
	for (unsigned i = 0; i < 2; i++)
		fake_put(fake_find(&machine, ports[i]), FAKE_EXP + HR_EXP_FLAGS, 2,
			 2 | HR_PORT_ROOT << 4);
	load();
	hr_pair_evaluate(&topology, at("03:00.0"), at("04:00.0"), &p);
	cr_expect(p.any_redirect);
	cr_assert_eq(hr_fix_plan(&topology, NULL, NULL, &fix), 0);
	cr_expect_eq(fix.count, 2u);
}

Test(topo_change, a_fix_of_a_wide_register_writes_at_the_address_of_the_register)
{
	struct hr_fix fix;

	fake_put(fake_find(&machine, "02:00.0"), HR_CFG_VENDOR, 4, 0x9d108086);
	fake_put(fake_find(&machine, "02:00.0"), FAKE_ACS + 8, 4, HR_ACS_RR);
	load();
	cr_assert_eq(hr_fix_plan(&topology, NULL, NULL, &fix), 0);
	cr_assert_eq(fix.count, 1u);
	cr_expect_eq(fix.write[0].offset, FAKE_ACS + 8u);
	cr_expect_eq(fix.write[0].width, 4u);
}

Test(topo_change, a_useless_or_dangerous_fix_is_refused)
{
	static const struct {
		bool redirect, live;
		const char *head, *disk;
		const char *say; /* NULL: the fix is not refused */
	} row[] = {
		{ false, true, "", "", "nothing to fix" },
		{ true, false, "", "", "capture" },
		{ true, true, "headrace: lockdown=integrity\n", "", "lockdown" },
		{ true, true, "", "\theadrace: mounted=1\n", "mounted" },
		{ true, true, "headrace: lockdown=none\n", "", NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fix fix;
		bool refused;

		fake_two_ports(&machine);
		set_acs("02:00.0", row[i].redirect ? HR_ACS_RR : 0);
		snprintf(machine.head, sizeof machine.head, "%s", row[i].head);
		strcat(fake_find(&machine, "04:00.0")->text, row[i].disk);
		load();
		model.sys.live = row[i].live;
		cr_assert_eq(hr_fix_plan(&topology, NULL, NULL, &fix), 0);
		refused = hr_fix_refused(&topology, &fix, test_error());
		if (row[i].say)
			cr_expect(refused && strstr(test_error_text(), row[i].say), "row %zu: '%s'",
				  i, test_error_text());
		else
			cr_expect_not(refused, "row %zu: '%s'", i, test_error_text());
	}
}

/* Of two switches with a GPU and two disks each, the second one redirects. */
Test(topo_change, a_mounted_disk_of_each_place_refuses_the_fix)
{
	for (unsigned on = 0; on < 2; on++)
		for (unsigned disk = 0; disk < 2; disk++) {
			struct hr_fix fix;
			bool refused;

			memset(&machine, 0, sizeof machine);
			fake_box(&machine, 2, 1, 2);
			fake_put(fake_box_port(&machine, 1, 0), ACS, 2, HR_ACS_RR);
			strcat(fake_box_card(&machine, on, 1 + disk)->text,
			       "\theadrace: mounted=1\n");
			load();
			model.sys.live = true;
			cr_assert_eq(hr_fix_plan(&topology, NULL, NULL, &fix), 0);
			refused = hr_fix_refused(&topology, &fix, test_error());
			cr_expect_eq(refused, on == 1, "switch %u, disk %u: '%s'", on, disk,
				     test_error_text());
		}
}

Test(topo_change, a_fix_counts_ports_with_unread_acs)
{
	struct hr_fix fix;
	struct hr_pair p;

	fake_find(&machine, "02:00.0")->bytes = 256;
	load();
	cr_assert_eq(hr_fix_plan(&topology, NULL, NULL, &fix), 0);
	cr_expect_eq(fix.count, 0u);
	cr_expect_eq(fix.unread, 1u);
	cr_expect(hr_fix_refused(&topology, &fix, test_error()) &&
			  strstr(test_error_text(), "not read"),
		  "%s", test_error_text());
	hr_pair_evaluate(&topology, at("03:00.0"), at("04:00.0"), &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN);
}

/* ---- what-if */

/* One slot below the GPU's switch, and a root port. */
static void with_free_slots(void)
{
	fake_two_ports(&machine);
	fake_put(fake_find(&machine, "00:01.0"), HR_CFG_SUBORDINATE, 1, 0x20);
	fake_put(fake_find(&machine, "01:00.0"), HR_CFG_SUBORDINATE, 1, 0x20);
	fake_slot(fake_bridge(&machine, "02:02.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 0x20, 0x20));
	fake_slot(fake_bridge(&machine, "00:03.0", 0x8086, 0x1909, HR_PORT_ROOT, 0x21, 0x21));
}

Test(topo_change, what_if_changes_verdicts_according_to_the_change)
{
	static const struct {
		const char *change, *ssd;
		enum hr_verdict before, after;
	} row[] = {
		{ "acs:02:00.0=set", "04:00.0", HR_DIRECT, HR_REDIR_UNLISTED },
		{ "acs:02:01.0=04", "04:00.0", HR_DIRECT, HR_REDIR_UNLISTED },
		{ "acs:all=clear", "04:00.0", HR_DIRECT, HR_DIRECT },
		{ "iommu=on", "05:00.0", HR_RC_UNLISTED, HR_SILENT_LOSS },
		{ "iommu=pt", "05:00.0", HR_RC_UNLISTED, HR_RC_UNLISTED },
		{ "mps:03:00.0=128", "04:00.0", HR_DIRECT, HR_BLOCKED },
		{ "mps:all=128", "04:00.0", HR_DIRECT, HR_DIRECT },
		{ "move:05:00.0=02:02.0", "05:00.0", HR_RC_UNLISTED, HR_DIRECT },
		{ "move:04:00.0=00:03.0", "04:00.0", HR_DIRECT, HR_RC_UNLISTED },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_pair p;

		memset(&opt, 0, sizeof opt);
		with_free_slots();
		load();
		hr_pair_evaluate(&topology, at("03:00.0"), at(row[i].ssd), &p);
		cr_expect_eq(p.verdict, row[i].before, "row %zu before: %u", i, p.verdict);
		cr_assert_eq(hr_change_apply(&model, &opt, row[i].change, test_error()), 0,
			     "row %zu: %s", i, test_error_text());
		cr_assert_eq(hr_model_link(&model), 0);
		cr_expect_eq(hr_change_check(&model, test_error()), 0, "row %zu: %s", i,
			     test_error_text());
		cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
		hr_pair_evaluate(&topology, at("03:00.0"), at(row[i].ssd), &p);
		cr_expect_eq(p.verdict, row[i].after, "row %zu after: %u, rule %s", i, p.verdict,
			     hr_rules[p.rule].id);
	}
}

Test(topo_change, an_impossible_change_is_refused)
{
	static const char *const bad[] = { "",
					   "acs",
					   "acs:02:00.0",
					   "acs:02:00.0=maybe",
					   "acs:02:00.0=80",
					   "acs:03:00.0=clear",
					   "acs:77:00.0=clear",
					   "mps:03:00.0=100",
					   "mps:03:00.0=512",
					   "iommu=maybe",
					   "link:03:00.0=half",
					   "move:03:00.0=04:00.0",
					   "move:02:00.0=02:00.0",
					   "move:01:00.0=02:00.0",
					   "move:05:00.0=01:00.0",
					   "colour:03:00.0=red" };

	load();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {

		cr_expect_eq(hr_change_apply(&model, &opt, bad[i], test_error()), -EINVAL, "%s",
			     bad[i]);
		cr_expect(test_error_text()[0], "%s: no reason given", bad[i]);
	}
}

Test(topo_change, a_slot_holds_one_card)
{
	static const struct {
		const char *change[2];
		const char *say; /* NULL: the card fits */
	} row[] = {
		{ { "move:05:00.0=02:01.0" }, "0000:02:01.0, which holds 0000:04:00.0" },
		{ { "move:05:00.0=00:01.0" }, "0000:00:01.0, which holds 0000:01:00.0" },
		{ { "move:05:00.0=02:02.0" }, NULL },
		{ { "move:05:00.0=00:02.0" }, NULL }, /* the present place of the card */
		{ { "move:05:00.0=02:01.0", "move:04:00.0=00:02.0" }, NULL },
		{ { "move:05:00.0=02:02.0", "move:04:00.0=02:02.0" }, "which holds" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		int err;

		with_free_slots();
		load();
		for (unsigned k = 0; k < 2 && row[i].change[k]; k++)
			cr_assert_eq(hr_change_apply(&model, &opt, row[i].change[k], test_error()),
				     0, "%s", test_error_text());
		cr_assert_eq(hr_model_link(&model), 0);
		err = hr_change_check(&model, test_error());
		cr_expect_eq(err, row[i].say ? -EINVAL : 0, "row %zu: %d %s", i, err,
			     test_error_text());
		cr_expect(!row[i].say || strstr(test_error_text(), row[i].say), "row %zu: %s", i,
			  test_error_text());
	}
}

Test(topo_change, the_remedy_names_free_slots_of_the_switch)
{
	struct hr_finding f = { .fn = HR_NO_FN };
	struct hr_pair p;
	char fix[512];

	for (unsigned have = 0; have < 2; have++) {
		if (have)
			with_free_slots();
		load();
		hr_pair_evaluate(&topology, at("03:00.0"), at("05:00.0"), &p);
		cr_assert_str_eq(hr_rules[p.rule].id, "R2");
		hr_rule_text(&topology, &p, &f, hr_rules[p.rule].fix, fix, sizeof fix);
		cr_expect_eq(strstr(fix, "; free slots of the GPU's switch: 0000:02:02.0") != NULL,
			     have == 1, "%s", fix);
	}
}

/* ---- direct or bounce */

Test(topo_change, only_listed_paths_are_direct)
{
	static const struct {
		const char *ssd;
		uint16_t host; /* device number of the host bridge */
		uint32_t acs;  /* of the GPU's port */
		bool direct;
		const char *rule;
	} row[] = {
		{ "04:00.0", 0x1234, 0, true, "R1" },
		{ "05:00.0", 0x1234, 0, false, "R2" },
		{ "05:00.0", 0x09a2, 0, true, "R2-listed" },
		{ "04:00.0", 0x1234, HR_ACS_RR, false, "A1" },
		{ "04:00.0", 0x09a2, HR_ACS_RR, true, "A1-listed" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_path_choice choice;

		fake_two_ports(&machine);
		fake_put(fake_find(&machine, "00:00.0"), HR_CFG_DEVICE, 2, row[i].host);
		set_acs("02:00.0", row[i].acs);
		load();
		hr_path_evaluate(&topology, at("03:00.0"), at(row[i].ssd), &choice);
		cr_expect_eq(choice.direct, row[i].direct, "row %zu: %s", i, choice.verdict_text);
		cr_expect_str_eq(choice.rule, row[i].rule, "row %zu", i);
		cr_expect(choice.why[0] && !strchr(choice.why, '{'), "row %zu: '%s'", i,
			  choice.why);
	}
	/* A rule on a function names the function. */
	fake_put(fake_find(&machine, "03:00.0"), FAKE_PM + HR_PM_CTL, 2, 3);
	load();

	struct hr_path_choice choice;

	hr_path_evaluate(&topology, at("03:00.0"), at("04:00.0"), &choice);
	cr_expect_str_eq(choice.verdict_text, "BLOCKED(D3)");
	cr_expect_str_eq(choice.why, "0000:03:00.0: in power state D3");
	cr_expect_eq(hr_path_choose("nonsense", "04:00.0", HR_MODE_GPU, &choice), -EINVAL);
}

/* ---- windows that decode nothing */

Test(topo_change, closed_windows_overlap_no_other_window)
{
	static const struct {
		uint32_t command, base; /* of the SSD's port, over the GPU's window */
		bool overlaps;
	} row[] = {
		{ HR_COMMAND_MSE | HR_COMMAND_BME, 0xe000, true },
		{ HR_COMMAND_BME, 0xe000, false },		    /* decoding is off */
		{ HR_COMMAND_MSE | HR_COMMAND_BME, 0x0000, false }, /* the window is left at zero */
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_fn *port;

		fake_two_ports(&machine);
		port = fake_find(&machine, "02:01.0");
		fake_put(port, HR_CFG_COMMAND, 2, row[i].command);
		fake_put(port, HR_CFG_MEM_BASE, 2, row[i].base);
		fake_put(port, HR_CFG_MEM_LIMIT, 2, 0xe2f0);
		load();
		cr_expect_eq(topology.derived[at("02:00.0")].overlaps, row[i].overlaps, "row %zu",
			     i);
	}
}

/* ---- modes of the IOMMU */

Test(topo_change, the_initiators_group_decides_whether_addresses_are_translated)
{
	static const struct {
		const char *head, *gpu, *ssd;
		const char *flows; /* S silent loss, U unknown, u through the root complex */
	} row[] = {
		{ "", "", "", "uuuu" },
		{ "", "\theadrace: iommu_group=1\n", "", "UUUU" },
		{ "headrace: cmdline=iommu=pt\n", "\theadrace: iommu_group=1\n", "", "uuuu" },
		/* The kernel uses the last of two options. */
		{ "headrace: cmdline=iommu=pt iommu=nopt\n", "\theadrace: iommu_group=1\n", "",
		  "SSSS" },
		{ "headrace: cmdline=iommu.passthrough=0 iommu=pt\n", "\theadrace: iommu_group=1\n",
		  "", "uuuu" },
		{ "headrace: iommu=3\n", "", "", "SSSS" },
		{ "headrace: iommu=3\n", "\theadrace: iommu_type=2\n", "", "uSSu" },
		{ "headrace: iommu=3\n", "", "\theadrace: iommu_type=2\n", "SuuS" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char flows[HR_FLOWS + 1] = "";
		struct hr_pair p;

		fake_two_ports(&machine);
		snprintf(machine.head, sizeof machine.head, "%s", row[i].head);
		strcat(fake_find(&machine, "03:00.0")->text, row[i].gpu);
		strcat(fake_find(&machine, "05:00.0")->text, row[i].ssd);
		load();
		hr_pair_evaluate(&topology, at("03:00.0"), at("05:00.0"), &p);
		for (unsigned f = 0; f < HR_FLOWS; f++)
			flows[f] = "DlRurwUVBS"[p.flow[f]];
		cr_expect_str_eq(flows, row[i].flows, "row %zu: %s, not %s", i, flows,
				 row[i].flows);
	}
}
