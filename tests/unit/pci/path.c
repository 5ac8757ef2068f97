/* What is to blame when a way does not work that the topology had nothing against. */
#include <criterion/criterion.h>

#include "pci/path.h"
#include "tests/harness/judge.h"

static struct hr_path_choice choice;

TestSuite(topo_suspect, .init = fake_judge_up, .fini = fake_judge_down, .timeout = 60);

static void judge(const char *ssd, const struct hr_options *opt)
{
	struct hr_pair p;

	fake_judge(ssd, opt, &p);
	hr_path_judge(&engine, fake_at(GPU), fake_at(ssd), &choice);
}

/* Another rule than the one that said yes. */
Test(topo_suspect, what_speaks_against_a_direct_way_is_named)
{
	static const struct {
		const char *ssd;
		bool listed;
		enum hr_mode mode;
		enum hr_iommu iommu;
		const char *rule, *suspect, *why;
	} row[] = {
		{ NEAR, false, HR_MODE_GPU, HR_IOMMU_OFF, "R1", "", "" },
		{ NEAR, true, HR_MODE_VFIO, HR_IOMMU_ON, "I5-listed", "", "" },
		{ NEAR, false, HR_MODE_HOST, HR_IOMMU_OFF, "R1", "M4",
		  "data goes sideways, the completion entry up: they may arrive in either order" },
		{ FAR, true, HR_MODE_GPU, HR_IOMMU_OFF, "R2-listed", "", "" },
		{ FAR, true, HR_MODE_GPU, HR_IOMMU_UNKNOWN, "R2-listed", "I1",
		  "the IOMMU's mode is not in the capture: off or passthrough is assumed" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_options opt = { .mode = row[i].mode, .iommu = row[i].iommu };

		fake_two_ports(&machine);
		fake_put(fake_find(&machine, "00:00.0"), HR_CFG_DEVICE, 2,
			 row[i].listed ? 0x09a2 : 0x1234);
		judge(row[i].ssd, &opt);
		cr_expect(choice.direct, "row %zu: %s", i, choice.verdict_text);
		cr_expect_str_eq(choice.rule, row[i].rule, "row %zu: %s", i, choice.rule);
		cr_expect_str_eq(choice.suspect, row[i].suspect, "row %zu: %s", i, choice.suspect);
		cr_expect_str_eq(choice.suspect_why, row[i].why, "row %zu: %s", i,
				 choice.suspect_why);
	}
}

/* A rule of one function names that one; what has a verdict, if only for a flow that the mode does
 * not use, comes before what has none, and a defect before what always holds. */
Test(topo_suspect, the_worst_of_several_suspects_is_named)
{
	const struct hr_options opt = { .mode = HR_MODE_HOST, .iommu = HR_IOMMU_OFF };

	fake_put(fake_find(&machine, "00:00.0"), HR_CFG_DEVICE, 2, 0x09a2);
	fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_RR);
	judge(NEAR, &opt);
	cr_expect_str_eq(choice.rule, "A1-listed");
	cr_expect_str_eq(choice.suspect, "A1-port");
	cr_expect_str_eq(choice.suspect_why,
			 "0000:02:00.0: ACSCtl 0x0004 redirects (RR, CR or EC)");
	fake_put(fake_find(&machine, GPU), FAKE_AER + HR_AER_UESTA, 4, HR_UE_CMPLT_TIMEOUT);
	judge(NEAR, &opt);
	cr_expect(choice.direct);
	cr_expect_str_eq(choice.suspect, "H3-to");
}

Test(topo_suspect, doubts_are_of_rules_without_a_verdict)
{
	for (unsigned i = 0; i < hr_rules_count; i++) {
		const struct hr_rule *r = &hr_rules[i];

		cr_expect(!r->doubt || r->verdict == HR_VERDICTS, "%s", r->id);
		cr_expect(!r->recalled || r->doubt < 2, "%s", r->id);
	}
}
