/* Each condition on one function, and on the machine, by the facts at its boundary. */
#include "pci/topo/rules.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "tests/harness/evaluate.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(topo_conditions, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

typedef bool condition(const struct hr_topology *e, const struct hr_fn *f);

static void load(void)
{
	static const struct hr_options none;

	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &none), 0);
}

/* ---- facts of one function */

#define PORT "02:00.0"	 /* a downstream port, with the GPU below */
#define ROOT "00:01.0"	 /* a root port, with a switch below */
#define EMPTY "02:02.0"	 /* a downstream port without a card */
#define NONE 0x5eed0000u /* the fact is not known */

struct fact {
	enum hr_fact_id id;
	uint32_t value;
};

struct row {
	condition *holds;
	const char *at;
	struct fact fact[3]; /* of the function; the first with an empty entry ends the list */
	bool want;
};

/* clang-format off */
static const struct row rows[] = {
#define F(id, value) { HR_F_##id, value }
	{ hr_fn_unread, GPU, { F(GONE, 0) }, false },
	{ hr_fn_unread, GPU, { F(COMMAND, NONE) }, true },
	{ hr_fn_unread, GPU, { F(COMMAND, NONE), F(GONE, 1) }, false },
	{ hr_fn_unread, GPU, { F(CAPS, 2) }, true },
	{ hr_fn_unread, GPU, { F(CAPS, NONE) }, true },
	{ hr_fn_unread, GPU, { F(CAPS, 0) }, false },
	{ hr_fn_no_bme, GPU, { F(COMMAND, HR_COMMAND_MSE) }, true },
	{ hr_fn_no_bme, GPU, { F(COMMAND, HR_COMMAND_BME) }, false },
	{ hr_fn_no_bme, GPU, { F(COMMAND, NONE) }, false },
	{ hr_fn_no_bme, PORT, { F(COMMAND, 0) }, true },
	{ hr_fn_no_bme, EMPTY, { F(COMMAND, 0) }, false },
	{ hr_fn_no_mse, GPU, { F(COMMAND, HR_COMMAND_BME) }, true },
	{ hr_fn_no_mse, GPU, { F(COMMAND, HR_COMMAND_MSE) }, false },
	{ hr_fn_no_mse, EMPTY, { F(COMMAND, 0) }, false },
	{ hr_fn_sleeping, GPU, { F(PM, NONE) }, false },
	{ hr_fn_sleeping, GPU, { F(PM, 0) }, false },
	{ hr_fn_sleeping, GPU, { F(PM, 1) }, true },
	{ hr_fn_gone, GPU, { F(GONE, 1) }, true },
	{ hr_fn_gone, GPU, { F(GONE, 0) }, false },
	{ hr_fn_gone, GPU, { F(GONE, NONE) }, false },
	{ hr_fn_dpc, PORT, { F(DPC, 1) }, true },
	{ hr_fn_dpc, PORT, { F(DPC, 2) }, false },
	{ hr_fn_dpc, PORT, { F(DPC, NONE) }, false },
	/* A link is down on root ports and downstream ports that can report it, with a card below. */
	{ hr_fn_link_down, PORT, { F(LLACTREP, 1), F(DLACTIVE, 0), F(PRESENT, 1) }, true },
	{ hr_fn_link_down, PORT, { F(LLACTREP, 1), F(DLACTIVE, 0), F(PRESENT, NONE) }, true },
	{ hr_fn_link_down, PORT, { F(LLACTREP, 1), F(DLACTIVE, 0), F(PRESENT, 0) }, false },
	{ hr_fn_link_down, PORT, { F(LLACTREP, 1), F(DLACTIVE, 1), F(PRESENT, 1) }, false },
	{ hr_fn_link_down, PORT, { F(LLACTREP, 0), F(DLACTIVE, 0), F(PRESENT, 1) }, false },
	{ hr_fn_link_down, PORT, { F(LLACTREP, 1), F(DLACTIVE, NONE), F(PRESENT, 1) }, false },
	{ hr_fn_link_down, ROOT, { F(LLACTREP, 1), F(DLACTIVE, 0), F(PRESENT, 1) }, true },
	{ hr_fn_link_down, "01:00.0", { F(LLACTREP, 1), F(DLACTIVE, 0), F(PRESENT, 1) }, false },
	{ hr_fn_link_down, EMPTY, { F(LLACTREP, 1), F(DLACTIVE, 0), F(PRESENT, 1) }, false },
	{ hr_fn_in_reset, PORT, { F(BRIDGE_CTL, HR_BRIDGE_CTL_SBR) }, true },
	{ hr_fn_in_reset, PORT, { F(BRIDGE_CTL, ~HR_BRIDGE_CTL_SBR & 0xffff) }, false },
	{ hr_fn_in_reset, GPU, { F(BRIDGE_CTL, HR_BRIDGE_CTL_SBR) }, false },
	{ hr_fn_raid, SIBLING, { F(CLASS, 0x010400) }, true },
	{ hr_fn_raid, SIBLING, { F(CLASS, 0x0104ff) }, true },
	{ hr_fn_raid, SIBLING, { F(CLASS, 0x010500) }, false },
	{ hr_fn_raid, SIBLING, { F(CLASS, NONE) }, false },
	{ hr_fn_no_peer, "00:02.0", { F(VENDOR, 0x10e8), F(DEVICE, 0xe004), F(ACS, 0) }, true },
	{ hr_fn_no_peer, "00:02.0", { F(VENDOR, 0x10e8), F(DEVICE, 0xe004), F(ACS, 0x100) }, false },
	{ hr_fn_no_peer, PORT, { F(VENDOR, 0x10e8), F(DEVICE, 0xe004), F(ACS, 0) }, false },
	{ hr_fn_virtual, "00:02.0", { F(PORT, HR_PORT_ENDPOINT) }, true },
	{ hr_fn_virtual, "00:02.0", { F(PORT, HR_PORT_LEGACY) }, true },
	{ hr_fn_virtual, "00:02.0", { F(PORT, HR_PORT_RC_ENDPOINT) }, false },
	{ hr_fn_virtual, "00:02.0", { F(PORT, NONE) }, false },
	{ hr_fn_virtual, GPU, { F(PORT, HR_PORT_ENDPOINT) }, false },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, HR_ACS_SV) }, true },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, HR_ACS_TB) }, true },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, HR_ACS_UF) }, true },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, HR_ACS_DT) }, false },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, HR_ACS_SV | HR_ACS_RR) }, false },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, HR_ACS_SV | HR_ACS_CR) }, false },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, HR_ACS_SV | HR_ACS_EC) }, false },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, HR_ACS_SV), F(ACS, 0) }, false },
	{ hr_fn_acs_harmless, PORT, { F(ACS_CTL, NONE) }, false },
	{ hr_fn_acs_wide, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x9d10) }, true },
	{ hr_fn_acs_wide, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x9d10), F(ACS, 0) }, false },
	{ hr_fn_acs_wide, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x1901) }, false },
	{ hr_fn_pch_no_acs, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x9d10), F(ACS, 0) }, true },
	{ hr_fn_pch_no_acs, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x9d10), F(ACS, NONE) }, false },
	{ hr_fn_pch_no_acs, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x9d10), F(ACS, 0x100) }, false },
	{ hr_fn_pch_no_acs, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0xa190), F(ACS, 0) }, false },
	{ hr_fn_pch, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x9d10) }, true },
	{ hr_fn_pch, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0xa190) }, true },
	{ hr_fn_pch, PORT, { F(VENDOR, 0x1022), F(DEVICE, 0x43b4) }, true },
	{ hr_fn_pch, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x1901) }, false },
	{ hr_fn_low_mrrs, GPU, { F(MRRS, 511) }, true },
	{ hr_fn_low_mrrs, GPU, { F(MRRS, 512) }, false },
	{ hr_fn_low_mrrs, GPU, { F(MRRS, NONE) }, false },
	/* The narrower end decides the width that is expected; the port above supports 16. */
	{ hr_fn_narrow, GPU, { F(WIDTH, 8), F(WIDTH_MAX, 16) }, true },
	{ hr_fn_narrow, GPU, { F(WIDTH, 16), F(WIDTH_MAX, 16) }, false },
	{ hr_fn_narrow, GPU, { F(WIDTH, 16), F(WIDTH_MAX, 32) }, false },
	{ hr_fn_narrow, GPU, { F(WIDTH, 15), F(WIDTH_MAX, 32) }, true },
	{ hr_fn_narrow, GPU, { F(WIDTH, 0), F(WIDTH_MAX, 16) }, false },
	{ hr_fn_narrow, GPU, { F(WIDTH, NONE), F(WIDTH_MAX, 16) }, false },
	{ hr_fn_narrow, GPU, { F(WIDTH, 8), F(WIDTH_MAX, NONE) }, false },
	{ hr_fn_narrow, GPU, { F(WIDTH, 8), F(PORT, HR_PORT_LEGACY) }, true },
	{ hr_fn_narrow, GPU, { F(WIDTH, 8), F(PORT, HR_PORT_RC_ENDPOINT) }, false },
	{ hr_fn_narrow, GPU, { F(WIDTH, 8), F(PORT, NONE) }, false },
	{ hr_fn_narrow, "01:00.0", { F(WIDTH, 8) }, true },
	{ hr_fn_narrow, PORT, { F(WIDTH, 8) }, false },
	/* A GPU whose target speed is the maximum is idle. The port above supports speed 4. */
	{ hr_fn_idle, GPU, { F(SPEED, 1), F(SPEED_TARGET, 4) }, true },
	{ hr_fn_idle, GPU, { F(SPEED, 1), F(SPEED_TARGET, 3) }, false },
	{ hr_fn_idle, GPU, { F(SPEED, 1), F(SPEED_TARGET, NONE) }, true },
	{ hr_fn_idle, GPU, { F(SPEED, 1), F(SPEED_TARGET, 4), F(SPEED_MAX, 5) }, true },
	{ hr_fn_idle, GPU, { F(SPEED, 4), F(SPEED_TARGET, 4) }, false },
	{ hr_fn_idle, GPU, { F(SPEED, NONE), F(SPEED_TARGET, 4) }, false },
	{ hr_fn_idle, SIBLING, { F(SPEED, 1), F(SPEED_TARGET, 4) }, false },
	{ hr_fn_slow, GPU, { F(SPEED, 1), F(SPEED_TARGET, 4) }, false },
	{ hr_fn_slow, GPU, { F(SPEED, 1), F(SPEED_TARGET, 3) }, true },
	{ hr_fn_slow, SIBLING, { F(SPEED, 3), F(SPEED_TARGET, 4) }, true },
	{ hr_fn_slow, SIBLING, { F(SPEED, 4), F(SPEED_TARGET, 4) }, false },
	{ hr_fn_slow, SIBLING, { F(SPEED, 4), F(SPEED_MAX, 5) }, false },
	{ hr_fn_aspm, GPU, { F(ASPM, 2) }, true },
	{ hr_fn_aspm, GPU, { F(ASPM, 3) }, true },
	{ hr_fn_aspm, GPU, { F(ASPM, 1) }, false },
	{ hr_fn_aspm, GPU, { F(ASPM, NONE) }, false },
	{ hr_fn_ue, GPU, { F(UESTA, HR_UE_CMPLT_TIMEOUT) }, true },
	{ hr_fn_ue, GPU, { F(UESTA, HR_UE_CMPLT_ABORT) }, true },
	{ hr_fn_ue, GPU, { F(UESTA, HR_UE_MALFORMED) }, true },
	{ hr_fn_ue, GPU, { F(UESTA, HR_UE_UNSUPPORTED) }, true },
	{ hr_fn_ue, GPU, { F(UESTA, HR_UE_ACS_VIOLATION) }, true },
	{ hr_fn_ue, GPU, { F(UESTA, ~(HR_UE_CMPLT_TIMEOUT | HR_UE_CMPLT_ABORT | HR_UE_MALFORMED |
				     HR_UE_UNSUPPORTED | HR_UE_ACS_VIOLATION)) }, false },
	{ hr_fn_ue, GPU, { F(UESTA, NONE) }, false },
	{ hr_fn_ce, GPU, { F(CESTA, 1) }, true },
	{ hr_fn_ce, GPU, { F(CESTA, 0x40) }, true },
	{ hr_fn_ce, GPU, { F(CESTA, 0x80) }, true },
	{ hr_fn_ce, GPU, { F(CESTA, 0x100) }, true },
	{ hr_fn_ce, GPU, { F(CESTA, 0x1000) }, true },
	{ hr_fn_ce, GPU, { F(CESTA, 0xe03e) }, false },
	{ hr_fn_counted, GPU, { F(AER_COR, 99), F(AER_FATAL, 0), F(AER_NONFATAL, 0) }, false },
	{ hr_fn_counted, GPU, { F(AER_COR, 100) }, true },
	{ hr_fn_counted, GPU, { F(AER_FATAL, 1) }, true },
	{ hr_fn_counted, GPU, { F(AER_NONFATAL, 1) }, true },
	{ hr_fn_counted, GPU, { F(AER_COR, NONE) }, false },
	{ hr_fn_fatal, GPU, { F(DEVSTA, 4) }, true },
	{ hr_fn_fatal, GPU, { F(DEVSTA, 0xfffb) }, false },
	{ hr_fn_mounted, SIBLING, { F(MOUNTED, 1) }, true },
	{ hr_fn_mounted, SIBLING, { F(MOUNTED, 0) }, false },
	{ hr_fn_mounted, SIBLING, { F(MOUNTED, NONE) }, false },
	{ hr_fn_pericom, PORT, { F(VENDOR, 0x12d8), F(DEVICE, 0x2404) }, true },
	{ hr_fn_pericom, PORT, { F(VENDOR, 0x12d8), F(DEVICE, 0x2405) }, false },
	{ hr_fn_idt, PORT, { F(VENDOR, 0x111d), F(DEVICE, 0x80b5) }, true },
	{ hr_fn_amd_internal, PORT, { F(VENDOR, 0x1022), F(DEVICE, 0x1484) }, true },
	{ hr_fn_no_relaxed, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x2f01) }, true },
	{ hr_fn_no_relaxed, PORT, { F(VENDOR, 0x8086), F(DEVICE, 0x2f0f) }, false },
	{ hr_fn_unified, GPU, { F(DEVICE, 0x2e12) }, true },
	{ hr_fn_unified, GPU, { F(DEVICE, 0x2e13) }, false },
};
/* clang-format on */

Test(topo_conditions, facts_of_a_function_decide_at_their_boundary)
{
	fake_bridge(&machine, EMPTY, 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 9, 9);
	load();
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct hr_fn *f = &model.fn[fake_at(rows[i].at)];
		const struct hr_fn kept = *f;

		for (unsigned k = 0; k < 3 && (rows[i].fact[k].id || rows[i].fact[k].value); k++)
			f->fact[rows[i].fact[k].id] = (struct hr_fact){
				rows[i].fact[k].value == NONE ? 1 : rows[i].fact[k].value,
				rows[i].fact[k].value == NONE ? HR_SRC_NONE : HR_SRC_USER
			};
		/* A link has one speed, so its other end reports the same. */
		if (f->parent != HR_NO_FN)
			model.fn[f->parent].fact[HR_F_SPEED] = f->fact[HR_F_SPEED];
		cr_expect_eq(rows[i].holds(&topology, f), rows[i].want, "row %zu (%s)", i,
			     rows[i].at);
		*f = kept;
	}
}

/* Conditions on what is no number. */
Test(topo_conditions, flags_of_a_function_decide)
{
	struct hr_fn *f, kept;

	load();
	f = &model.fn[fake_at(GPU)];
	kept = *f;
	cr_expect_not(hr_fn_denied(&topology, f));
	f->denied = true;
	cr_expect_not(hr_fn_denied(&topology, f), "the capabilities are known");
	f->fact[HR_F_CAPS].source = HR_SRC_NONE;
	cr_expect(hr_fn_denied(&topology, f));
	cr_expect_not(hr_fn_unread(&topology, f), "another rule reports it");
	f->disputed = true;
	cr_expect(hr_fn_unread(&topology, f));
	*f = kept;
	cr_expect_not(hr_fn_vmd(&topology, f));
	f->domain = 0xffff;
	cr_expect_not(hr_fn_vmd(&topology, f));
	f->domain = 0x10000;
	cr_expect(hr_fn_vmd(&topology, f));
	*f = kept;
	for (unsigned i = 0; i < 16; i++) {
		static const struct {
			uint32_t vendor, device;
			const char *name;
			bool unified;
		} row[] = {
			{ 0x10de, 0, "GB20B [GB10]", true },  { 0x10de, 0, "Tegra X", true },
			{ 0x10de, 0, "GB100 [B200]", false }, { 0x10de, 0, "GB100 [B100]", false },
			{ 0x10de, 0, "GB102 [B100]", false }, { 0x10de, 0, "GB20", false },
			{ 0x10de, 0, "HGX GB200", false },    { 0x10de, 0, "XGB10", false },
			{ 0x10de, 0x2901, "GB10", false },    { 0x10de, 0x2e12, "", true },
			{ 0x10de, 0x2b00, "Device", true },   { 0x10de, 0x2941, "", false },
			{ 0x10de, 0x31c2, "GB300", false },   { 0x10de, 0x2bb1, "", false },
			{ 0x1002, 0, "GB10", false },	      { 0x10de, 0x4000, "GB10", true },
		};

		hr_fn_set(f, HR_F_VENDOR, row[i].vendor, HR_SRC_USER);
		hr_fn_set(f, HR_F_DEVICE, row[i].device, HR_SRC_USER);
		f->name = row[i].name;
		cr_expect_eq(hr_fn_unified(&topology, f), row[i].unified, "row %u", i);
	}
	*f = kept;
	for (unsigned i = 0; i < 4; i++) {
		static const char *const driver[] = { NULL, "", "nouveau", "nvidia" };

		f->driver = driver[i];
		cr_expect_eq(hr_fn_no_driver(&topology, f), i == 1 || i == 2, "%u", i);
	}
	/* A virtual function decodes when its physical function lets it. */
	*f = kept;
	cr_expect_not(hr_fn_vf_no_mse(&topology, f));
	cr_expect_not(hr_fn_vf_unread(&topology, f));
	f->vf = true;
	cr_expect(hr_fn_vf_unread(&topology, f));
	hr_fn_set(f, HR_F_COMMAND, 0, HR_SRC_USER);
	cr_expect_not(hr_fn_no_mse(&topology, f));
	f->physfn = fake_at(SIBLING);
	cr_expect(hr_fn_vf_unread(&topology, f));
	hr_fn_set(&model.fn[f->physfn], HR_F_VF_CTL, HR_SRIOV_ENABLE, HR_SRC_USER);
	cr_expect_not(hr_fn_vf_unread(&topology, f));
	cr_expect(hr_fn_vf_no_mse(&topology, f));
	hr_fn_set(&model.fn[f->physfn], HR_F_VF_CTL, HR_SRIOV_ENABLE | HR_SRIOV_MSE, HR_SRC_USER);
	cr_expect_not(hr_fn_vf_no_mse(&topology, f));
	f->physfn = HR_NO_FN;
	hr_fn_set(f, HR_F_GONE, 1, HR_SRC_USER);
	cr_expect_not(hr_fn_vf_unread(&topology, f));
}

Test(topo_conditions, a_bar_is_missing_unassigned_or_small)
{
	struct hr_fn *f, kept;
	int bar;

	load();
	f = &model.fn[fake_at(GPU)];
	bar = hr_peer_bar(f);
	kept = *f;
	cr_expect_not(hr_fn_no_bar(&topology, f));
	f->bar[bar].flags |= HR_BAR_UNASSIGNED;
	cr_expect(hr_fn_no_bar(&topology, f));
	memset(f->bar, 0, sizeof f->bar);
	cr_expect(hr_fn_no_bar(&topology, f));
	cr_expect_not(hr_fn_small_bar(&topology, f));
	f->vf = true; /* not read: another rule */
	cr_expect_not(hr_fn_no_bar(&topology, f));
	f->vf = false;
	hr_fn_set(f, HR_F_GONE, 1, HR_SRC_USER);
	cr_expect_not(hr_fn_no_bar(&topology, f));
	hr_fn_set(f, HR_F_GONE, 0, HR_SRC_USER);
	f->fact[HR_F_COMMAND].source = HR_SRC_NONE;
	cr_expect_not(hr_fn_no_bar(&topology, f));
	*f = kept;
	for (unsigned i = 0; i < 6; i++) {
		const uint64_t size = (256ull << 20) + (i % 3) - 1;

		f->bar[bar].size = size;
		f->bar[bar].size_source = i < 3 ? HR_SRC_TEXT : HR_SRC_INFERRED;
		cr_expect_eq(hr_fn_small_bar(&topology, f), i < 2, "%u", i);
	}
}

/* ---- words of the command line */

Test(topo_conditions, words_of_the_command_line_decide)
{
	static const struct {
		condition *holds;
		const char *line;
		bool want;
	} row[] = {
		{ hr_sys_noacs, "pci=noacs", true },
		{ hr_sys_noacs, "quiet pci=nomsi,noacs x", true },
		{ hr_sys_noacs, "pci=noacs,nomsi", true },
		{ hr_sys_noacs, "pci=nomsi pci=noacs", true },
		{ hr_sys_noacs, "pci=noacsx", false },
		{ hr_sys_noacs, "pci=noac", false },
		{ hr_sys_noacs, "xpci=noacs noacs", false },
		{ hr_sys_noacs, "pci= noacs", false },
		{ hr_sys_perf, "pci=pcie_bus_perf", true },
		{ hr_sys_perf, "pci=pcie_bus_safe", false },
		{ hr_sys_no_option, "pci=noacs", false },
		{ hr_sys_no_option, "pci=", false },
		{ hr_sys_no_option, "pci=nomsi,,rom", false },
		{ hr_sys_no_option, "pci=assign-busses,usepirqmask", false },
		{ hr_sys_no_option, "pci=config_acs=1@x,hpmmioprefsize=1", false },
		{ hr_sys_no_option, "pci=check_enable_amd_mmconf", false },
		{ hr_sys_no_option, "pci=check_enable_amd_mmconfig_at_once", true },
		{ hr_sys_no_option, "pci=nomsi,nomsx", true },
		{ hr_sys_no_option, "pci=nomsi,nom", true },
		{ hr_sys_no_option, "quiet nomsx", false },
		{ hr_sys_override, "pcie_acs_override=downstream", true },
		{ hr_sys_override, "pcie_acs_override", false },
		{ hr_sys_two_iommu, "iommu=pt", false },
		{ hr_sys_two_iommu, "iommu=pt iommu=off", true },
		{ hr_sys_two_iommu, "iommu=nopt iommu=pt", true },
		{ hr_sys_two_iommu, "iommu=pt iommu.passthrough=0", true },
		{ hr_sys_two_iommu, "iommu=ptx iommu=off", false },
		{ hr_sys_on_and_off, "intel_iommu=on intel_iommu=off", true },
		{ hr_sys_on_and_off, "intel_iommu=on amd_iommu=off", false },
		{ hr_sys_on_and_off, "amd_iommu=force_enable amd_iommu=off", true },
		{ hr_sys_on_and_off, "amd_iommu=force_enable", false },
		{ hr_sys_iommu_wanted, "", false },
		{ hr_sys_iommu_wanted, "intel_iommu=on", true },
		{ hr_sys_iommu_wanted, "intel_iommu=sm_on,on", true },
		{ hr_sys_iommu_wanted, "intel_iommu=sm_on", false },
		{ hr_sys_iommu_wanted, "intel_iommu=on,x", true },
		{ hr_sys_iommu_wanted, "intel_iommu=ony", false },
		{ hr_sys_iommu_wanted, "xintel_iommu=on", false },
		{ hr_sys_iommu_wanted, "intel_iommu=on intel_iommu=off", false },
		{ hr_sys_iommu_wanted, "intel_iommu=off intel_iommu=on", true },
		{ hr_sys_iommu_wanted, "intel_iommu=on iommu=pt", false },
		{ hr_sys_iommu_wanted, "intel_iommu=on iommu=off", false },
		{ hr_sys_iommu_wanted, "amd_iommu=on", true },
		{ hr_sys_iommu_wanted, "amd_iommu=force_enable", true },
		{ hr_sys_iommu_wanted, "iommu=force", true },
		{ hr_sys_iommu_wanted, "iommu=nopt", true },
		{ hr_sys_iommu_wanted, "iommu.passthrough=1", false },
		{ hr_sys_passthrough, "iommu=pt", true },
		{ hr_sys_passthrough, "iommu=nopt", false },
		{ hr_sys_passthrough, "", false },
	};

	load();
	for (size_t i = 0; i < ROWS(row); i++) {
		snprintf(model.sys.cmdline, sizeof model.sys.cmdline, "%s", row[i].line);
		cr_expect_eq(row[i].holds(&topology, NULL), row[i].want, "row %zu: %s", i,
			     row[i].line);
	}
}

/* ---- facts of the machine */

Test(topo_conditions, facts_of_the_machine_decide)
{
	struct hr_system *sys = &model.sys;

	load();
	for (unsigned i = 0; i < 4; i++) {
		static const char *const lockdown[] = { "", "none", "integrity", "n" };

		strcpy(sys->lockdown, lockdown[i]);
		cr_expect_eq(hr_sys_lockdown(&topology, NULL), i >= 2, "%u", i);
	}
	for (unsigned i = 0; i < 4; i++) {
		const uint8_t source = i < 2 ? HR_SRC_NONE : HR_SRC_SYSFS;

		sys->cpus = (struct hr_fact){ 255 + i % 2, source };
		sys->p2pdma = sys->hypervisor = (struct hr_fact){ i % 2, source };
		cr_expect_eq(hr_sys_many_cpus(&topology, NULL), i == 3);
		cr_expect_eq(hr_sys_no_p2pdma(&topology, NULL), i == 2);
		cr_expect_eq(hr_sys_hypervisor(&topology, NULL), i == 3);
		for (unsigned word = 0; word < 2; word++) {
			sys->amd = (struct hr_fact){ i % 2, source };
			strcpy(sys->cmdline, word ? "amd_iommu=on" : "intel_iommu=on");
			cr_expect_eq(hr_sys_wrong_iommu(&topology, NULL), i >= 2 && word != i % 2);
		}
		topology.zen = i & 1;
		topology.zen_inferred = i & 2;
		cr_expect_eq(hr_sys_zen_inferred(&topology, NULL), i == 3);
	}
}

/* The first function of a root bus identifies NVIDIA's CPUs; nForce chipsets are older. */
Test(topo_conditions, a_host_bridge_identifies_the_cpu)
{
	static const struct {
		uint32_t vendor, device, class;
		bool bridge, orphan, amd, want;
	} row[] = {
		{ 0x10de, 0x1000, 0x060000, false, false, false, true },
		{ 0x10de, 0x0fff, 0x060000, false, false, false, false },
		{ 0x10df, 0x1000, 0x060000, false, false, false, false },
		{ 0x10de, 0x22b0, 0x060400, true, false, false, true },
		{ 0x10de, 0x22b0, 0x030200, false, false, false, false },
		{ 0x10de, 0x22b9, 0x060400, true, false, false, false },
		{ 0x10de, 0x22b0, 0x060400, true, true, false, false },
		{ 0x10de, 0x22b0, 0x060400, true, false, true, false },
	};

	load();
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fn *f = &model.fn[fake_at("00:00.0")];

		hr_fn_set(f, HR_F_VENDOR, row[i].vendor, HR_SRC_USER);
		hr_fn_set(f, HR_F_DEVICE, row[i].device, HR_SRC_USER);
		hr_fn_set(f, HR_F_CLASS, row[i].class, HR_SRC_USER);
		hr_fn_set(f, HR_F_HEADER, row[i].bridge, HR_SRC_USER);
		f->orphan = row[i].orphan;
		model.sys.amd = (struct hr_fact){ 0, row[i].amd ? HR_SRC_SYSFS : HR_SRC_NONE };
		cr_expect_eq(hr_sys_grace(&topology, NULL), row[i].want, "row %zu", i);
	}
}
