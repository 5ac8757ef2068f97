/* Virtual functions (SR-IOV) are evaluated by the registers of their physical function. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/change.h"
#include "pci/topo/fields.h"
#include "pci/topo/groups.h"
#include "pci/topo/source.h"
#include "pci/topo/sysfs.h"
#include "pci/topo/verdict.h"
#include "pci/topo/virtual.h"
#include "pci/topo/explain.h"
#include "tests/fakes/files.h"
#include "tests/harness/evaluate.h"
#include "tests/harness/error.h"

TestSuite(topo_virtual, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static const struct hr_options plain;

#define NVME 0x010802
#define VF_BAR 0xe0010000u

/* SIBLING has two VFs of 16 KiB each. */
static void near_with_vfs(void)
{
	fake_sriov(fake_find(&machine, SIBLING), 2, 1, VF_BAR, 0);
	for (unsigned i = 1; i <= 2; i++) {
		char address[16], text[64];

		snprintf(address, sizeof address, "04:00.%u", i);
		snprintf(text, sizeof text, "\theadrace: bar0_size=16384\n");
		memcpy(fake_virtual(&machine, address, NVME)->text, text, sizeof text);
	}
}

static const struct hr_fn *at(const char *address)
{
	return &model.fn[fake_at(address)];
}

Test(topo_virtual, a_healthy_vf_of_a_disk_is_direct)
{
	struct hr_pair p;

	near_with_vfs();
	for (unsigned i = 1; i <= 2; i++) {
		char address[16];

		snprintf(address, sizeof address, "04:00.%u", i);
		fake_evaluate(address, &plain, &p);
		cr_expect_eq(p.verdict, HR_DIRECT, "%s: %s", address, hr_rules[p.rule].id);
		cr_expect_eq(p.modifiers, 0);
		cr_expect_eq(at(address)->bar[0].base, VF_BAR + (i - 1) * 0x4000);
		cr_expect_eq(hr_get(at(address), HR_F_VENDOR, 0), 0x144du);
		cr_expect_eq(hr_get(at(address), HR_F_DEVICE, 0), 0xa824u);
		cr_expect_eq(hr_get(at(address), HR_F_MPS, 0), 256u);
		cr_expect_eq(at(address)->physfn, fake_at(SIBLING));
	}
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_DIRECT);
	cr_expect_eq(topology.ssds, 4u);
}

/* The addresses of VFs follow from those of their physical function. */
Test(topo_virtual, a_vf_is_readdressed_with_its_physical_function)
{
	struct hr_pair p;

	near_with_vfs();
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_not(at("04:00.1")->readdressed || at("04:00.2")->readdressed);
	model.fn[fake_at("04:00.2")].readdressed = true;
	hr_virtual_complete(&model);
	cr_expect_not(at("04:00.1")->readdressed);
	cr_expect(at("04:00.2")->readdressed, "it stays");
	model.fn[fake_at(SIBLING)].readdressed = true;
	hr_virtual_complete(&model);
	cr_expect(at("04:00.1")->readdressed && at("04:00.2")->readdressed);
}

Test(topo_virtual, a_vf_on_a_bus_that_no_bridge_numbers_is_beside_its_physical_function)
{
	struct hr_pair p;

	fake_put(fake_find(&machine, "00:02.0"), HR_CFG_SUBORDINATE, 1, 6);
	fake_sriov(fake_find(&machine, OTHER), 1, 0x100, 0xe4010000, 0);
	fake_virtual(&machine, "06:00.0", NVME);
	fake_evaluate("06:00.0", &plain, &p);
	cr_expect_eq(p.verdict, HR_RC_UNLISTED, "%s", hr_rules[p.rule].id);
	cr_expect_eq(p.distance, 6);
	cr_expect_str_eq(hr_distance_word(&topology, &p), "PHB");
	cr_expect_eq(at("06:00.0")->parent, fake_at("00:02.0"));
}

Test(topo_virtual, a_vf_of_a_gpu_has_its_part_of_the_large_bar)
{
	struct hr_pair p;
	int32_t vf;

	fake_put(fake_find(&machine, GPU), HR_CFG_BAR0 + 8, 4, 0x380);
	fake_sriov(fake_find(&machine, GPU), 2, 4, 0x38200000000, 1);
	snprintf(fake_virtual(&machine, "03:00.5", 0x030200)->text, 64,
		 "\theadrace: bar1_size=%llu\n", 1ull << 30);
	fake_evaluate(SIBLING, &plain, &p);
	vf = fake_at("03:00.5");
	hr_pair_evaluate(&topology, vf, fake_at(SIBLING), &p);
	cr_expect_eq(p.verdict, HR_DIRECT, "%s", hr_rules[p.rule].id);
	cr_expect_eq(model.fn[vf].bar[1].base, 0x38240000000ull);
	cr_expect_eq(topology.gpus, 2u);
}

/* Rules that must still apply to a VF; each row has one fault. */
Test(topo_virtual, a_vf_with_a_fault_is_blocked_by_the_fault)
{
	static const struct {
		const char *at;
		uint32_t offset;
		unsigned width;
		uint32_t value;
		const char *rule;
		enum hr_verdict verdict;
	} row[] = {
		{ SIBLING, FAKE_SRIOV + HR_SRIOV_CTL, 2, HR_SRIOV_ENABLE, "R5-vf", HR_BLOCKED },
		{ SIBLING, FAKE_SRIOV + HR_SRIOV_BAR0, 4, 0xe2000004, "R3", HR_BLOCKED },
		{ SIBLING, FAKE_SRIOV + HR_SRIOV_BAR0, 4, 4, "R3-bar", HR_BLOCKED },
		{ SIBLING, FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2040, "M1", HR_BLOCKED },
		{ SIBLING, FAKE_EXP + HR_EXP_LNKSTA, 2, 2 << 4 | 4, "H1-width", HR_DIRECT },
		{ "04:00.1", HR_CFG_COMMAND, 2, 0, "R5-bme", HR_BLOCKED },
		{ "04:00.1", FAKE_PM + HR_PM_CTL, 2, 3, "R6", HR_BLOCKED },
		{ "04:00.1", HR_CFG_HEADER, 1, 0x7f, "R6-gone", HR_BLOCKED },
		{ "02:01.0", ACS, 2, HR_ACS_RR, "A1", HR_REDIR_UNLISTED },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		near_with_vfs();
		fake_put(fake_find(&machine, row[i].at), row[i].offset, row[i].width, row[i].value);
		fake_evaluate("04:00.1", &plain, &p);
		cr_expect_eq(p.verdict, row[i].verdict, "row %zu: %u by %s", i, p.verdict,
			     hr_rules[p.rule].id);
		cr_expect(fake_found(&p, row[i].rule), "row %zu: no %s", i, row[i].rule);
		cr_expect_not(fake_found(&p, "R5-mse"), "row %zu", i);
	}
}

Test(topo_virtual, the_remedy_is_at_the_physical_function)
{
	struct hr_finding found = { .fn = HR_NO_FN };
	char fix[256];
	struct hr_pair p;

	near_with_vfs();
	fake_put(fake_find(&machine, SIBLING), FAKE_SRIOV + HR_SRIOV_CTL, 2, HR_SRIOV_ENABLE);
	fake_evaluate("04:00.2", &plain, &p);
	found.fn = fake_at("04:00.2");
	hr_rule_text(&topology, &p, &found, hr_rules[p.rule].fix, fix, sizeof fix);
	cr_expect(strstr(fix, "/0000:04:00.0/sriov_numvfs"), "%s", fix);
}

Test(topo_virtual, without_its_physical_function_a_vf_is_unknown_and_not_gone)
{
	struct hr_pair p;

	fake_virtual(&machine, "04:00.1", NVME);
	fake_evaluate("04:00.1", &plain, &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN, "%s", hr_rules[p.rule].id);
	cr_expect(fake_found(&p, "U7"));
	cr_expect_not(fake_found(&p, "R6-gone"));
	cr_expect_not(fake_found(&p, "R3-bar"));
	/* The SR-IOV capability exists and is off, so there is no VF. */
	near_with_vfs();
	fake_put(fake_find(&machine, SIBLING), FAKE_SRIOV + HR_SRIOV_CTL, 2, 0);
	fake_evaluate("04:00.2", &plain, &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN);
}

Test(topo_virtual, a_function_that_reads_all_ones_is_gone)
{
	struct hr_pair p;

	memset(fake_find(&machine, SIBLING)->config, 0xff, 4096);
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_BLOCKED);
	cr_expect(fake_found(&p, "R6-gone"));
}

/* ---- text */

#define TEXT_VF                                                                            \
	"\tControl: I/O- Mem- BusMaster+\n\tStatus: Cap+ 66MHz-\n"                         \
	"\tRegion 0: Memory at e0010000 (64-bit, non-prefetchable) [virtual] [size=16K]\n" \
	"\tCapabilities: [40] Express (v1) Endpoint, MSI 00\n"                             \
	"\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0\n"                                 \
	"\t\t\tMaxPayload 128 bytes, MaxReadReq 128 bytes\n"                               \
	"\tCapabilities: [100 v1] Advanced Error Reporting\n"
#define TEXT_PF                                                                  \
	"\tControl: I/O- Mem+ BusMaster+\n\tStatus: Cap+ 66MHz-\n"               \
	"\tRegion 0: Memory at e0000000 (64-bit, non-prefetchable) [size=16K]\n" \
	"\tCapabilities: [40] Express (v1) Endpoint, MSI 00\n"                   \
	"\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0\n"                       \
	"\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n"
#define TEXT_SRIOV                                                                           \
	"\tCapabilities: [200 v1] Single Root I/O Virtualization (SR-IOV)\n"                 \
	"\t\tIOVCtl:\tEnable+ Migration- MSE+ ARIHierarchy-\n"                               \
	"\t\tInitial VFs: 8, Total VFs: 8, Number of VFs: 1, Function Dependency Link: 00\n" \
	"\t\tVF offset: 1, stride: 1, Device ID: a824\n"                                     \
	"\t\tRegion 0: Memory at 00000000e0010000 (64-bit, non-prefetchable)\n"

static void as_text(struct fake_fn *f, const char *title, const char *text, const char *more)
{
	f->bytes = 0;
	snprintf(f->title, sizeof f->title, "Non-Volatile memory controller [0108]: %s", title);
	snprintf(f->text, sizeof f->text, "%s%s", text, more);
}

Test(topo_virtual, the_text_of_lspci_has_the_capability_too)
{
	struct hr_pair p;

	as_text(fake_find(&machine, SIBLING), "Disk [144d:a80a]", TEXT_PF, TEXT_SRIOV);
	as_text(fake_virtual(&machine, "04:00.1", NVME), "Disk [144d:a824]", TEXT_VF, "");
	fake_evaluate("04:00.1", &plain, &p);
	cr_expect_eq(p.verdict, HR_DIRECT, "%s", hr_rules[p.rule].id);
	cr_expect_eq(hr_get(at("04:00.1"), HR_F_MPS, 0), 256u);
	/* The regions below SR-IOV are not those of the physical function. */
	cr_expect_eq(at(SIBLING)->bar[0].base, 0xe0000000u);
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_DIRECT, "%s", hr_rules[p.rule].id);
	/* The other function has no SR-IOV capability, so this function is not one of its VFs. */
	as_text(fake_find(&machine, SIBLING), "Disk [144d:a80a]", TEXT_PF,
		"\tCapabilities: [100 v1] Advanced Error Reporting\n");
	fake_evaluate("04:00.1", &plain, &p);
	cr_expect_eq(p.verdict, HR_BLOCKED, "%s", hr_rules[p.rule].id);
}

Test(topo_virtual, text_without_capabilities_leaves_the_decoding_of_a_vf_unknown)
{
	static const char denied[] = "\tCapabilities: <access denied>\n";
	static const char vf[] =
		"\tControl: I/O- Mem- BusMaster+\n\tStatus: Cap+ 66MHz-\n"
		"\tRegion 0: Memory at e0010000 (64-bit, non-prefetchable) [virtual] [size=16K]\n";
	struct hr_pair p;

	as_text(fake_find(&machine, SIBLING), "Disk [144d:a80a]", "", denied);
	as_text(fake_virtual(&machine, "04:00.1", NVME), "Disk [144d:a824]", vf, denied);
	fake_evaluate("04:00.1", &plain, &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN, "%s", hr_rules[p.rule].id);
	cr_expect(fake_found(&p, "U1"));
}

Test(topo_virtual, a_resizable_bar_of_vfs_is_not_that_of_the_physical_function)
{
	struct hr_pair p;

	snprintf(fake_find(&machine, SIBLING)->text, FAKE_TEXT_MAX, "%s",
		 TEXT_PF TEXT_SRIOV "\tCapabilities: [240 v1] Virtual Resizable BAR\n"
				    "\t\tBAR 0: current size: 1MB, supported: 1MB 2MB\n");
	fake_find(&machine, SIBLING)->bytes = 0;
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(at(SIBLING)->bar[0].size, 16u << 10);
	cr_expect_eq(at(SIBLING)->vf_bar[0].size, 1u << 20);
}

/* ---- sysfs */

Test(topo_virtual, sysfs_names_the_physical_function_and_the_size)
{
	const struct fake_fn *vf;
	struct fake_files list = { 0 };
	struct hr_files files;
	struct hr_pair p;

	near_with_vfs();
	vf = fake_find(&machine, "04:00.2");
	fake_evaluate(SIBLING, &plain, &p);
#define VF "sys/bus/pci/devices/0000:04:00.2"
	{
		const struct fake_file file[] = {
			{ .path = VF "/vendor", .text = "0x144d\n" },
			{ .path = VF "/device", .text = "0xa824\n" },
			{ .path = VF "/config", .bytes = vf->config, .size = 4096 },
			{ .path = VF "/physfn", .link = "../0000:04:00.0" },
			{ .path = VF "/resource",
			  .text = "0x00000000e0014000 0x00000000e0017fff 0x0000000000140204\n" },
		};
		struct hr_fn *f = &model.fn[fake_at("04:00.2")];

		list = (struct fake_files){ file, sizeof file / sizeof *file };
		fake_files(&files, &list);
		f->bar[0] = (struct hr_bar){ 0 };
		hr_read_sysfs_function(&model, &files, f, VF);
		cr_assert_eq(hr_model_link(&model), 0);
	}
	cr_assert_eq(hr_topology_init(&topology, &model, &plain), 0);
	hr_pair_evaluate(&topology, fake_at(GPU), fake_at("04:00.2"), &p);
	cr_expect_eq(p.verdict, HR_DIRECT, "%s", hr_rules[p.rule].id);
	cr_expect_eq(at("04:00.2")->bar[0].base, VF_BAR + 0x4000);
	cr_expect_eq(at("04:00.2")->fact[HR_F_PHYSFN].source, HR_SRC_SYSFS);
}

Test(topo_virtual, sysfs_alone_places_a_vf_with_an_unreadable_physical_function)
{
	struct fake_fn *pf = fake_find(&machine, SIBLING);
	struct hr_pair p;

	pf->bytes = 64;
	snprintf(fake_virtual(&machine, "04:00.1", NVME)->text, FAKE_TEXT_MAX,
		 "\theadrace: physical_function=1024\n\theadrace: bar0=e0010000,7\n");
	fake_evaluate("04:00.1", &plain, &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN, "%s", hr_rules[p.rule].id);
	cr_expect_not(fake_found(&p, "R3-bar"));
	cr_expect_not(fake_found(&p, "R5-vf"));
}

/* ---- groups, what-if, hostile numbers */

Test(topo_virtual, a_vf_makes_no_slot_of_several_functions)
{
	struct hr_groups groups;
	struct hr_pair p;

	near_with_vfs();
	fake_put(fake_find(&machine, "02:01.0"), ACS, 2, HR_ACS_ISOLATION);
	fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_ISOLATION);
	for (unsigned i = 0; i < 4; i++)
		fake_put(fake_find(&machine, (const char *[]){ "00:01.0", "00:02.0", "01:00.0",
							       "01:00.0" }[i]),
			 ACS, 2, HR_ACS_ISOLATION);
	fake_evaluate(SIBLING, &plain, &p);
	cr_assert_eq(hr_groups_predict(&model, &groups), 0);
	cr_expect_neq(groups.of[fake_at(SIBLING)], groups.of[fake_at("04:00.1")]);
	cr_expect_neq(groups.of[fake_at("04:00.1")], groups.of[fake_at("04:00.2")]);
}

Test(topo_virtual, a_vf_moves_with_its_card)
{
	struct hr_options opt = { 0 };
	struct hr_pair p;

	fake_put(fake_find(&machine, "00:02.0"), HR_CFG_SUBORDINATE, 1, 6);
	fake_sriov(fake_find(&machine, OTHER), 1, 0x100, 0xe4010000, 0);
	fake_virtual(&machine, "06:00.0", NVME);
	fake_bridge(&machine, "02:02.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 7, 7);
	fake_put(fake_find(&machine, "00:01.0"), HR_CFG_SUBORDINATE, 1, 7);
	fake_put(fake_find(&machine, "01:00.0"), HR_CFG_SUBORDINATE, 1, 7);
	fake_evaluate("06:00.0", &plain, &p);
	cr_assert_eq(hr_change_apply(&model, &opt, "move:05:00.0=02:02.0", test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(hr_model_link(&model), 0);
	cr_assert_eq(hr_change_check(&model, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
	hr_pair_evaluate(&topology, fake_at(GPU), fake_at("06:00.0"), &p);
	cr_expect_eq(p.verdict, HR_DIRECT, "%s", hr_rules[p.rule].id);
}

Test(topo_virtual, numbers_of_a_hostile_capability_end)
{
	static const struct {
		uint32_t offset, value;
	} row[] = {
		{ HR_SRIOV_STRIDE, 0 },	     { HR_SRIOV_STRIDE, 0xffff }, { HR_SRIOV_OFFSET, 0 },
		{ HR_SRIOV_OFFSET, 0xffff }, { HR_SRIOV_VFS, 0xffff },	  { HR_SRIOV_VFS, 0 },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		near_with_vfs();
		fake_put(fake_find(&machine, SIBLING), FAKE_SRIOV + row[i].offset, 2, row[i].value);
		fake_evaluate("04:00.2", &plain, &p);
		cr_expect(p.verdict == HR_UNKNOWN || p.verdict == HR_DIRECT, "row %zu: %s", i,
			  hr_rules[p.rule].id);
	}
	/* A VF cannot be the physical function of a VF. */
	fake_two_ports(&machine);
	near_with_vfs();
	strcat(fake_find(&machine, "04:00.2")->text, "\theadrace: physical_function=1025\n");
	fake_evaluate("04:00.2", &plain, &p);
	cr_expect_eq(at("04:00.2")->physfn, HR_NO_FN);
}
