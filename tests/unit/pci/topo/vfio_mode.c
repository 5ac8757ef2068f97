/*
 * Modes with mapped addresses: functions that prevent VFIO from opening a group, and flows that go
 * to the IOMMU.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/change.h"
#include "tests/harness/evaluate.h"
#include "tests/harness/error.h"
#include "pci/topo/explain.h"

TestSuite(topo_vfio, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

#define ISOLATED 0x1du

static void text(const char *address, const char *lines)
{
	struct fake_fn *f = fake_find(&machine, address);

	strncat(f->text, lines, sizeof f->text - strlen(f->text) - 1);
}

static void isolate_all(void)
{
	static const char *const ports[] = { "00:01.0", "00:02.0", "02:00.0", "02:01.0" };

	for (unsigned i = 0; i < 4; i++)
		fake_put(fake_find(&machine, ports[i]), ACS, 2, ISOLATED);
}

static const struct hr_options vfio = { .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_PT };

/* ---- groups */

Test(topo_vfio, any_member_of_the_group_blocks_vfio_not_only_the_gpu)
{
	static const struct {
		const char *group, *driver; /* of a network card behind the second root port */
		enum hr_verdict verdict;
	} row[] = {
		{ "7", "mlx5_core", HR_VFIO_CONFLICT },
		{ "7", "vfio-pci", HR_RC_UNLISTED },
		{ "8", "mlx5_core", HR_RC_UNLISTED },
	};
	char lines[96];
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		fake_function(&machine, "05:00.1", 0x020000, 0x15b3, 0x1017, HR_PORT_ENDPOINT);
		text(OTHER, "\tIOMMU group: 7\n");
		text(GPU, "\tIOMMU group: 3\n\tKernel driver in use: nvidia\n");
		snprintf(lines, sizeof lines, "\tIOMMU group: %s\n\tKernel driver in use: %s\n",
			 row[i].group, row[i].driver);
		text("05:00.1", lines);
		fake_evaluate(OTHER, &vfio, &p);
		cr_expect_eq(p.verdict, row[i].verdict, "row %zu: %u (rule %s)", i, p.verdict,
			     hr_rules[p.rule].id);
	}
}

Test(topo_vfio, the_rule_names_the_function_that_blocks_the_group)
{
	struct hr_finding f;
	struct hr_pair p;
	char why[256];

	fake_function(&machine, "05:00.1", 0x020000, 0x15b3, 0x1017, HR_PORT_ENDPOINT);
	text(OTHER, "\tIOMMU group: 7\n");
	text("05:00.1", "\tIOMMU group: 7\n\tKernel driver in use: mlx5_core\n");
	fake_evaluate(OTHER, &vfio, &p);
	f = (struct hr_finding){ p.rule, HR_NO_FN, HR_FLOW_ALL };
	hr_rule_text(&topology, &p, &f, hr_rules[p.rule].why, why, sizeof why);
	cr_expect_str_eq(why, "0000:05:00.1 (driver mlx5_core) is in the SSD's IOMMU group 7: VFIO "
			      "cannot open it");
}

Test(topo_vfio, without_real_groups_the_predicted_ones_count)
{
	struct hr_pair p;

	/* Without ACS at the root port Linux puts all functions below it into one group. */
	fake_put(fake_find(&machine, "00:01.0"), FAKE_AER + 2, 2, 1);
	text(GPU, "\tKernel driver in use: nvidia\n");
	fake_evaluate(SIBLING, &vfio, &p);
	cr_expect_eq(p.verdict, HR_VFIO_CONFLICT, "%u", p.verdict);
	cr_expect(fake_found(&p, "I7"));
	fake_evaluate(SIBLING, &(struct hr_options){ .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_OFF },
		      &p);
	cr_expect_eq(p.verdict, HR_DIRECT, "without an IOMMU there are no groups: %u", p.verdict);
	/*
	 * With ACS the functions are in different groups after a boot, whatever the registers are
	 * now.
	 */
	fake_two_ports(&machine);
	text(GPU, "\tKernel driver in use: nvidia\n");
	fake_evaluate(SIBLING, &vfio, &p);
	cr_expect_eq(p.verdict, HR_REDIR_UNLISTED, "%u", p.verdict);
}

Test(topo_vfio, a_group_predicted_without_acs_is_not_known)
{
	struct hr_pair p;

	isolate_all();
	text(GPU, "\tKernel driver in use: nvidia\n");
	fake_find(&machine, "00:01.0")->bytes = 256;
	fake_evaluate(SIBLING, &vfio, &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN, "%u", p.verdict);
	cr_expect(fake_found(&p, "I7-unread"));
}

Test(topo_vfio, a_change_of_acs_makes_other_groups)
{
	struct hr_options opt = vfio;
	struct hr_pair p;

	isolate_all();
	text(GPU, "\tIOMMU group: 3\n\tKernel driver in use: nvidia\n");
	text(SIBLING, "\tIOMMU group: 7\n");
	fake_evaluate(SIBLING, &opt, &p);
	cr_expect_eq(p.verdict, HR_REDIR_UNLISTED, "%u", p.verdict);
	cr_assert_eq(hr_change_apply(&model, &opt, "acs:all=clear", test_error()), 0);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
	hr_pair_evaluate(&topology, fake_at(GPU), fake_at(SIBLING), &p);
	cr_expect_eq(p.verdict, HR_VFIO_CONFLICT, "%u", p.verdict);
}

/* ---- translation */

Test(topo_vfio, a_container_translates_in_every_mode_of_the_iommu)
{
	static const struct {
		const char *lines;
		enum hr_iommu iommu;
		enum hr_verdict verdict;
	} row[] = {
		{ "\tIOMMU group: 7\n", HR_IOMMU_UNKNOWN, HR_REDIR_UNLISTED },
		{ "\tIOMMU group: 7\n", HR_IOMMU_PT, HR_REDIR_UNLISTED },
		{ "\tIOMMU group: 7\n", HR_IOMMU_ON, HR_REDIR_UNLISTED },
		{ "", HR_IOMMU_UNKNOWN, HR_REDIR_UNLISTED },
		{ "", HR_IOMMU_OFF, HR_DIRECT },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		text(SIBLING, row[i].lines);
		fake_evaluate(SIBLING,
			      &(struct hr_options){ .mode = HR_MODE_VFIO, .iommu = row[i].iommu },
			      &p);
		cr_expect_eq(p.verdict, row[i].verdict, "row %zu: %u (rule %s)", i, p.verdict,
			     hr_rules[p.rule].id);
	}
}

static const char *decided(const char *ssd, const struct hr_options *opt, char *why, char *fix)
{
	struct hr_finding f = { .fn = HR_NO_FN };
	struct hr_pair p;

	fake_evaluate(ssd, opt, &p);
	hr_rule_text(&topology, &p, &f, hr_rules[p.rule].why, why, 256);
	hr_rule_text(&topology, &p, &f, hr_rules[p.rule].fix ? hr_rules[p.rule].fix : "", fix, 512);
	return hr_rules[p.rule].id;
}

Test(topo_vfio, requests_routed_upstream_for_translation_are_not_redirected_by_acs)
{
	char why[256], fix[512];

	for (unsigned redirect = 0; redirect < 2; redirect++) {
		fake_put(fake_find(&machine, "02:00.0"), ACS, 2, redirect ? HR_ACS_RR : 0);
		cr_expect_str_eq(decided(SIBLING, &vfio, why, fix), "I5");
		cr_expect(strstr(why, "IOVAs climb") && !strstr(why, "ACS"), "%s", why);
		cr_expect(strstr(fix, "only bus addresses go direct: iommu=pt and "
				      "pci=disable_acs_redir="),
			  "%s", fix);
	}
}

Test(topo_vfio, the_kernel_maps_peers_below_one_switch_with_bus_addresses)
{
	static const struct {
		const char *ssd;
		uint32_t acs; /* at the GPU's port */
		enum hr_iommu iommu;
		enum hr_verdict verdict;
		const char *rule;
	} row[] = {
		{ SIBLING, 0, HR_IOMMU_ON, HR_DIRECT, "R1" },
		{ SIBLING, 0, HR_IOMMU_PT, HR_DIRECT, "R1" },
		{ SIBLING, HR_ACS_RR, HR_IOMMU_ON, HR_REDIR_UNLISTED, "I5" },
		{ SIBLING, HR_ACS_RR, HR_IOMMU_PT, HR_REDIR_UNLISTED, "A1" },
		{ OTHER, 0, HR_IOMMU_ON, HR_RC_UNLISTED, "R2" },
	};
	char why[256], fix[512];
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_options opt = { .mode = HR_MODE_KERNEL, .iommu = row[i].iommu };

		fake_put(fake_find(&machine, "02:00.0"), ACS, 2, row[i].acs);
		fake_evaluate(row[i].ssd, &opt, &p);
		cr_expect_eq(p.verdict, row[i].verdict, "row %zu: %u", i, p.verdict);
		cr_expect_str_eq(decided(row[i].ssd, &opt, why, fix), row[i].rule, "row %zu", i);
	}
}
