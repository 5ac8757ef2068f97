/* SPDX-License-Identifier: Apache-2.0 */
/* The suspect rule when a direct path that the topology allowed does not work. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/path.h"
#include "tests/harness/evaluate.h"

static struct hr_path_choice choice;

TestSuite(topo_suspect, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static void evaluate(const char *ssd, const struct hr_topo_options *opt)
{
	struct hr_pair p;

	fake_evaluate(ssd, opt, &p);
	hr_path_evaluate(&topology, fake_at(GPU), fake_at(ssd), &choice);
}

/* The suspect rule is not the rule that decides. */
Test(topo_suspect, a_rule_against_a_direct_path_is_named)
{
	static const struct {
		const char *ssd;
		bool listed;
		enum hr_mode mode;
		enum hr_iommu iommu;
		const char *rule, *suspect, *why;
	} row[] = {
		{ SIBLING, false, HR_MODE_GPU, HR_IOMMU_OFF, "R1", "", "" },
		{ SIBLING, true, HR_MODE_VFIO, HR_IOMMU_ON, "I5-listed", "", "" },
		{ SIBLING, false, HR_MODE_HOST, HR_IOMMU_OFF, "R1", "M4",
		  "data goes to the peer, the completion entry to host memory: the order of arrival "
		  "is not defined" },
		{ OTHER, true, HR_MODE_GPU, HR_IOMMU_OFF, "R2-listed", "", "" },
		{ OTHER, true, HR_MODE_GPU, HR_IOMMU_UNKNOWN, "R2-listed", "I1",
		  "the IOMMU's mode is not in the capture: off or passthrough is assumed" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_topo_options opt = { .mode = row[i].mode, .iommu = row[i].iommu };

		fake_two_ports(&machine);
		fake_put(fake_find(&machine, "00:00.0"), HR_CFG_DEVICE, 2,
			 row[i].listed ? 0x09a2 : 0x1234);
		evaluate(row[i].ssd, &opt);
		cr_expect(choice.direct, "row %zu: %s", i, choice.verdict_text);
		cr_expect_str_eq(choice.rule, row[i].rule, "row %zu: %s", i, choice.rule);
		cr_expect_str_eq(choice.suspect, row[i].suspect, "row %zu: %s", i, choice.suspect);
		cr_expect_str_eq(choice.suspect_why, row[i].why, "row %zu: %s", i,
				 choice.suspect_why);
	}
}

/*
 * A rule on one function names that function. A rule with a verdict, even for a flow that the mode
 * does not use, comes before a rule without one, and a defect comes before a permanent property.
 */
Test(topo_suspect, the_worst_of_several_suspects_is_named)
{
	const struct hr_topo_options opt = { .mode = HR_MODE_HOST, .iommu = HR_IOMMU_OFF };

	fake_put(fake_find(&machine, "00:00.0"), HR_CFG_DEVICE, 2, 0x09a2);
	fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_RR);
	evaluate(SIBLING, &opt);
	cr_expect_str_eq(choice.rule, "A1-listed");
	cr_expect_str_eq(choice.suspect, "A1-port");
	cr_expect_str_eq(choice.suspect_why,
			 "0000:02:00.0: ACSCtl 0x0004 redirects (RR, CR or EC)");
	fake_put(fake_find(&machine, GPU), FAKE_AER + HR_AER_UESTA, 4, HR_UE_CMPLT_TIMEOUT);
	evaluate(SIBLING, &opt);
	cr_expect(choice.direct);
	cr_expect_str_eq(choice.suspect, "H3-to");
}

/* Of rules with equal weight the first of the table is named, and of its functions the first. */
Test(topo_suspect, the_first_of_equal_suspects_is_named)
{
	static const struct {
		const char *errors, *more_errors, *redirects, *named;
	} row[] = {
		{ SIBLING, NULL, "02:00.0", SIBLING },
		{ GPU, NULL, "02:01.0", GPU },
		{ GPU, SIBLING, "02:00.0", GPU },
	};
	const struct hr_topo_options opt = { .mode = HR_MODE_GPU, .iommu = HR_IOMMU_OFF };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		fake_put(fake_find(&machine, "00:00.0"), HR_CFG_DEVICE, 2, 0x09a2);
		fake_put(fake_find(&machine, row[i].redirects), ACS, 2, HR_ACS_RR);
		fake_put(fake_find(&machine, row[i].errors), FAKE_AER + HR_AER_UESTA, 4,
			 HR_UE_MALFORMED);
		if (row[i].more_errors)
			fake_put(fake_find(&machine, row[i].more_errors), FAKE_AER + HR_AER_UESTA,
				 4, HR_UE_MALFORMED);
		evaluate(SIBLING, &opt);
		cr_expect_str_eq(choice.suspect, "H3-ue", "row %zu: %s", i, choice.suspect);
		cr_expect(strstr(choice.suspect_why, row[i].named), "row %zu: %s", i,
			  choice.suspect_why);
	}
}

/* One switch, then `levels` switches behind each other, then the GPU, at the address that is returned.
 * The SSD fe:00.0 is behind the first switch. Each port on the way to the GPU has an error, and
 * downstream ports redirect. */
static const char *make_chain(unsigned levels)
{
	static char address[16];
	const unsigned last = 3 + 2 * levels;
	const uint64_t bar = 0x38000000000;

	memset(&machine, 0, sizeof machine);
	fake_function(&machine, "00:00.0", 0x060000, 0x8086, 0x09a2, HR_PORT_RC_ENDPOINT);
	fake_bridge(&machine, "00:01.0", 0x8086, 0x1901, HR_PORT_ROOT, 1, 0xfe);
	fake_bridge(&machine, "01:00.0", 0x10b5, 0x8796, HR_PORT_UPSTREAM, 2, 0xfe);
	for (unsigned bus = 2; bus < last; bus++) {
		struct fake_fn *f;

		snprintf(address, sizeof address, "%02x:00.0", bus);
		f = fake_bridge(&machine, address, 0x10b5, 0x8796,
				bus & 1 ? HR_PORT_UPSTREAM : HR_PORT_DOWNSTREAM, bus + 1, last);
		fake_put(f, FAKE_AER + HR_AER_UESTA, 4, HR_UE_MALFORMED);
		fake_put(f, ACS, 2, bus & 1 ? 0 : HR_ACS_RR);
	}
	for (unsigned i = 1; i < machine.count; i++)
		fake_windows(&machine.fn[i], i > 2 ? 0xe2000000 : 0xe0000000, 0xe2ffffff, bar,
			     bar + (16ull << 30) - 1);
	fake_bridge(&machine, "02:01.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 0xfe, 0xfe);
	fake_windows(fake_find(&machine, "02:01.0"), 0xe0000000, 0xe0ffffff, 0xfff00000, 0);
	snprintf(address, sizeof address, "%02x:00.0", last);
	fake_gpu(&machine, address, bar, 34);
	fake_nvme(&machine, "fe:00.0", 0xe0000000);
	return address;
}

Test(topo_suspect, all_recorded_errors_are_named)
{
	const struct hr_topo_options opt = { .mode = HR_MODE_GPU, .iommu = HR_IOMMU_OFF };
	static const struct {
		uint32_t bits;
		const char *says;
	} row[] = {
		{ HR_UE_UNSUPPORTED, "(0x100000: unsupported request: window or decode)" },
		{ HR_UE_ACS_VIOLATION, "(0x200000: ACS violation: TB, SV or EC)" },
		{ HR_UE_MALFORMED, "(0x40000: malformed TLP: payload size)" },
		{ HR_UE_CMPLT_ABORT, "(0x8000: completer abort)" },
		{ HR_UE_UNSUPPORTED | HR_UE_ACS_VIOLATION | HR_UE_MALFORMED | HR_UE_CMPLT_ABORT,
		  "(0x348000: unsupported request: window or decode; ACS violation: TB, SV or EC; "
		  "malformed TLP: payload size; completer abort)" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		fake_put(fake_find(&machine, "00:00.0"), HR_CFG_DEVICE, 2, 0x09a2);
		fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_RR);
		fake_put(fake_find(&machine, GPU), FAKE_AER + HR_AER_UESTA, 4, row[i].bits);
		evaluate(SIBLING, &opt);
		cr_expect(strstr(choice.suspect_why, row[i].says), "row %zu: %s", i,
			  choice.suspect_why);
	}
}

/* 64 findings are kept; the finding that decided is the last of all. */
Test(topo_suspect, the_finding_that_decided_is_named_after_many_others)
{
	const struct hr_topo_options opt = { .mode = HR_MODE_GPU, .iommu = HR_IOMMU_OFF };

	for (unsigned levels = 1; levels <= 30; levels++) {
		const char *gpu = make_chain(levels);

		fake_put(fake_find(&machine, "fe:00.0"), HR_CFG_COMMAND, 2, HR_COMMAND_MSE);
		cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
		cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
		hr_path_evaluate(&topology, fake_at(gpu), fake_at("fe:00.0"), &choice);
		cr_expect_str_eq(choice.rule, "R5-bme", "%u levels: %s", levels, choice.rule);
		cr_expect_str_eq(choice.why, "0000:fe:00.0: bus mastering is off (COMMAND 0x0002)",
				 "%u levels: %s", levels, choice.why);
		cr_expect_str_eq(choice.suspect, "H3-ue", "%u levels: %s", levels, choice.suspect);
	}
}

Test(topo_suspect, rules_without_a_verdict_are_doubts)
{
	for (unsigned i = 0; i < hr_rules_count; i++) {
		const struct hr_rule *r = &hr_rules[i];

		cr_expect(!r->doubt || r->verdict == HR_VERDICTS, "%s", r->id);
		cr_expect(!r->recalled || r->doubt < 2, "%s", r->id);
	}
}
