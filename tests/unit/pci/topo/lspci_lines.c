/* Single lines of lspci -v: facts, windows, BARs; and what the end of a function concludes. */
#include "pci/topo/lspci_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "tests/harness/lspci_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define NONE 0xfffffffeu /* the fact is unknown */

TestSuite(topo_lines, .init = up, .fini = down, .timeout = 60);

#define EXP "Capabilities: [40] Express (v2) Endpoint"
#define PM "Capabilities: [44] Power Management version 3"
#define SRIOV "Capabilities: [180 v1] Single Root I/O Virtualization (SR-IOV)"

static const struct {
	const char *before, *text;
	enum hr_fact_id fact;
	uint32_t want;
} fact[] = {
	{ "", "!!! Unknown header type 7f", HR_F_GONE, 1 },
	{ "", "!!! Unknown header type 7e", HR_F_GONE, NONE },
	{ "", "Control: I/O- Mem+ BusMaster- SpecCycle-", HR_F_COMMAND, 2 },
	{ "", "Control: I/O+ Mem- BusMaster+ SpecCycle-", HR_F_COMMAND, 4 },
	{ "", "Control: I/O+ Mem- BusMaster- SpecCycle-", HR_F_COMMAND, 0 },
	{ "", "Control: I/O+", HR_F_COMMAND, NONE },
	{ "", "Status: Cap+ 66MHz-", HR_F_STATUS, 0x10 },
	{ "", "Status: Cap- 66MHz-", HR_F_STATUS, 0 },
	{ EXP, "Status: Cap+ 66MHz-", HR_F_STATUS, NONE },
	{ "", "Status: D3 NoSoftRst+", HR_F_PM, NONE },
	{ PM, "Status: D0 NoSoftRst+", HR_F_PM, 0 },
	{ PM, "Status: D3 NoSoftRst+", HR_F_PM, 3 },
	{ PM, "Status: D4 NoSoftRst+", HR_F_PM, NONE },
	{ PM, "Status: D/ NoSoftRst+", HR_F_PM, NONE },
	{ EXP, "Status: D3 NoSoftRst+", HR_F_PM, NONE },
	{ "", "Bus: primary=0a, secondary=0b, subordinate=ff, sec-latency=0", HR_F_PRIMARY, 0x0a },
	{ "", "Bus: primary=0a, secondary=0b, subordinate=ff", HR_F_SECONDARY, 0x0b },
	{ "", "Bus: primary=0a, secondary=0b, subordinate=ff", HR_F_SUBORDINATE, 0xff },
	{ "", "Bus: primary=0a, secondary=0b, subordinate=ff", HR_F_HEADER, 1 },
	{ "", "BridgeCtl: Parity- SERR+ MAbort- >Reset+ FastB2B-", HR_F_BRIDGE_CTL, 0x40 },
	{ "", "BridgeCtl: Parity- SERR+ MAbort- >Reset- FastB2B-", HR_F_BRIDGE_CTL, 0 },
	{ "", "NUMA node: 12", HR_F_NUMA, 12 },
	{ "", "NUMA node: x", HR_F_NUMA, NONE },
	{ "", "IOMMU group: 75", HR_F_GROUP, 75 },
	{ "", "IOMMU group: 4294967295", HR_F_GROUP, UINT32_MAX },
	{ "", "IOMMU group: 4294967296", HR_F_GROUP, NONE },
	{ EXP, "LnkCap:\tPort #0, Speed 2.5GT/s, Width x1, ASPM L1", HR_F_SPEED_MAX, 1 },
	{ EXP, "LnkCap:\tPort #0, Speed 5GT/s, Width x1, ASPM L1", HR_F_SPEED_MAX, 2 },
	{ EXP, "LnkCap:\tPort #0, Speed 8GT/s, Width x1, ASPM L1", HR_F_SPEED_MAX, 3 },
	{ EXP, "LnkCap:\tPort #0, Speed 16GT/s, Width x4, ASPM L1", HR_F_SPEED_MAX, 4 },
	{ EXP, "LnkCap:\tPort #0, Speed 32GT/s, Width x16", HR_F_SPEED_MAX, 5 },
	{ EXP, "LnkCap:\tPort #0, Speed 64GT/s, Width x16", HR_F_SPEED_MAX, 6 },
	{ EXP, "LnkCap:\tPort #0, Speed 7GT/s, Width x16", HR_F_SPEED_MAX, NONE },
	{ EXP, "LnkCap:\tPort #0, Speed 64GT/s, Width x16", HR_F_WIDTH_MAX, 16 },
	{ EXP, "LnkSta:\tSpeed 16GT/s (ok), Width x4 (ok)", HR_F_SPEED, 4 },
	{ EXP, "LnkSta:\tSpeed unknown, Width x4 (ok)", HR_F_SPEED, NONE },
	{ EXP, "LnkSta:\tSpeed 16GT/s (ok), Width x4 (ok)", HR_F_WIDTH, 4 },
	{ EXP, "LnkSta:\tTrErr- Train- SlotClk+ DLActive+ BWMgmt-", HR_F_DLACTIVE, 1 },
	{ EXP, "LnkSta:\tTrErr- Train- SlotClk+ DLActive- BWMgmt-", HR_F_DLACTIVE, 0 },
	{ PM, "LnkSta:\tTrErr- Train- SlotClk+ DLActive+ BWMgmt-", HR_F_DLACTIVE, NONE },
	{ EXP, "ClockPM- Surprise- LLActRep+ BwNot-", HR_F_LLACTREP, 1 },
	{ EXP, "ClockPM- Surprise- LLActRep- BwNot-", HR_F_LLACTREP, 0 },
	{ EXP, "LnkCtl2: Target Link Speed: 32GT/s, EnterCompliance-", HR_F_SPEED_TARGET, 5 },
	{ EXP, "LnkCtl:\tASPM Disabled; RCB 64 bytes", HR_F_ASPM, 0 },
	{ EXP, "LnkCtl:\tASPM L0s Enabled; RCB 64 bytes", HR_F_ASPM, 1 },
	{ EXP, "LnkCtl:\tASPM L1 Enabled; RCB 64 bytes", HR_F_ASPM, 2 },
	{ EXP, "LnkCtl:\tASPM L0s L1 Enabled; RCB 64 bytes", HR_F_ASPM, 3 },
	{ EXP, "LnkCtl:\tRCB 64 bytes", HR_F_ASPM, NONE },
	{ EXP, "SltSta:\tStatus: AttnBtn- PowerFlt- MRL- CmdCplt- PresDet+", HR_F_PRESENT, 1 },
	{ EXP, "SltSta:\tStatus: AttnBtn- PowerFlt- MRL- CmdCplt- PresDet-", HR_F_PRESENT, 0 },
	{ EXP, "DevCap:\tMaxPayload 512 bytes, PhantFunc 0", HR_F_MPSS, 512 },
	{ EXP, "DevCap:\tMaxPayload 512 bytes, PhantFunc 0", HR_F_MPS, NONE },
	{ EXP, "MaxPayload 256 bytes, MaxReadReq 4096 bytes", HR_F_MPS, 256 },
	{ EXP, "MaxPayload 256 bytes, MaxReadReq 4096 bytes", HR_F_MRRS, 4096 },
	{ EXP, "MaxPayload 256 bytes, MaxReadReq 4096 bytes", HR_F_MPSS, NONE },
	{ EXP, "DevSta:\tCorrErr+ NonFatalErr- FatalErr- UnsupReq-", HR_F_DEVSTA, 1 },
	{ EXP, "DevSta:\tCorrErr- NonFatalErr+ FatalErr- UnsupReq-", HR_F_DEVSTA, 2 },
	{ EXP, "DevSta:\tCorrErr- NonFatalErr- FatalErr+ UnsupReq-", HR_F_DEVSTA, 4 },
	{ EXP, "RlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+", HR_F_DEVCTL, 0x10 },
	{ EXP, "RlxdOrd- ExtTag+ PhantFunc- AuxPwr- NoSnoop+", HR_F_DEVCTL, 0 },
	{ EXP, "DevCap2: Completion Timeout: Range ABCD, 10BitTagComp+ 10BitTagReq-", HR_F_DEVCAP2,
	  0x10000 },
	{ EXP, "DevCap2: 10BitTagComp- 10BitTagReq+", HR_F_DEVCAP2, 0x20000 },
	{ EXP, "DevCtl2: 10BitTagReq+ OBFF Disabled", HR_F_DEVCTL2, 0x1000 },
	{ EXP, "DevCtl2: 10BitTagReq- OBFF Disabled", HR_F_DEVCTL2, 0 },
	{ EXP, "DevCtl2: 10BitTagReq+ OBFF Disabled", HR_F_DEVCAP2, NONE },
	{ SRIOV, "IOVCtl:\tEnable+ Migration- Interrupt- MSE- ARIHierarchy-", HR_F_VF_CTL, 1 },
	{ SRIOV, "IOVCtl:\tEnable- Migration- Interrupt- MSE+ ARIHierarchy-", HR_F_VF_CTL, 8 },
	{ SRIOV, "IOVCtl:\tEnable- MSE- ARIHierarchy- 10BitTagReq+", HR_F_VF_CTL, 0x20 },
	{ EXP, "IOVCtl:\tEnable+ Migration- Interrupt- MSE- ARIHierarchy-", HR_F_VF_CTL, NONE },
	{ SRIOV, "Initial VFs: 32, Total VFs: 32, Number of VFs: 4, Function Dependency", HR_F_VFS,
	  4 },
	{ SRIOV, "VF offset: 16, stride: 1, Device ID: a824", HR_F_VF_OFFSET, 16 },
	{ SRIOV, "VF offset: 16, stride: 3, Device ID: a824", HR_F_VF_STRIDE, 3 },
	{ SRIOV, "VF offset: 16, stride: 1, Device ID: a824", HR_F_VF_DEVICE, 0xa824 },
};

Test(topo_lines, each_line_sets_its_fact)
{
	for (size_t i = 0; i < ROWS(fact); i++) {
		begin();
		line(fact[i].before);
		line(fact[i].text);
		cr_expect_eq(hr_get(&fn, fact[i].fact, NONE), fact[i].want, "%s: %x", fact[i].text,
			     hr_get(&fn, fact[i].fact, NONE));
	}
}

/* The lines behind DevCtl2: belong to it until another register begins. */
Test(topo_lines, tags_belong_to_the_register_above)
{
	begin();
	line(EXP);
	line("DevCap2: Completion Timeout: Range ABCD");
	line("10BitTagComp+ 10BitTagReq+ OBFF Via message");
	cr_expect_eq(hr_get(&fn, HR_F_DEVCAP2, NONE), 0x30000);
	cr_expect_not(hr_known(&fn, HR_F_DEVCTL2));
	line("DevCtl2: Completion Timeout: 50us to 50ms");
	line("AtomicOpsCtl: ReqEn- 10BitTagReq+");
	cr_expect_eq(hr_get(&fn, HR_F_DEVCTL2, NONE), 0x1000);
	line("LnkCap2: Supported Link Speeds: 2.5-16GT/s");
	line("10BitTagReq-");
	cr_expect_eq(hr_get(&fn, HR_F_DEVCTL2, NONE), 0x1000);
	cr_expect_eq(hr_get(&fn, HR_F_DEVCAP2, NONE), 0x10000);
}

Test(topo_lines, words_are_kept)
{
	begin();
	line("Physical Slot: 12-1");
	line("Kernel driver in use: nvme");
	cr_expect_str_eq(fn.pci_slot, "12-1");
	cr_expect_str_eq(fn.driver, "nvme");
}

Test(topo_lines, a_window_is_a_range_or_closed)
{
	static const struct {
		const char *text;
		uint64_t base, limit;
		bool known;
	} row[] = {
		{ "e0000000-e0ffffff [size=16M]", 0xe0000000, 0xe0ffffff, true },
		{ "0-0", 0, 0, true },
		{ "None", 1, 0, true },
		{ "[disabled]", 1, 0, true },
		{ "e0000000-e0ffffff [disabled]", 1, 0, true },
		{ "e0000000-e0ffffff [size=16M] [disabled] [32-bit]", 1, 0, true },
		{ "e0000000-", 0, 0, false },
		{ "-e0000000", 0, 0, false },
		{ "e0000000", 0, 0, false },
		{ "<ignored>", 0, 0, false },
	};

	for (unsigned pref = 0; pref < 2; pref++) {
		for (size_t i = 0; i < ROWS(row); i++) {
			const struct hr_window *window = pref ? &fn.pref : &fn.mem;
			const struct hr_window *other = pref ? &fn.mem : &fn.pref;
			char text[128];

			snprintf(text, sizeof text, "%s behind bridge: %s",
				 pref ? "Prefetchable memory" : "Memory", row[i].text);
			begin();
			line(text);
			cr_expect_eq(window->base, row[i].base, "%s", text);
			cr_expect_eq(window->limit, row[i].limit, "%s", text);
			cr_expect_eq(window->source, row[i].known ? HR_SRC_TEXT : 0, "%s", text);
			cr_expect_eq(other->source, 0);
		}
	}
}

Test(topo_lines, a_region_has_place_size_and_kind)
{
#define NP "non-prefetchable"
	static const struct {
		const char *text;
		uint64_t base, size;
		unsigned flags; /* 0: no memory */
	} row[] = {
		{ "Memory at e0000000 (32-bit, " NP ") [size=16K]", 0xe0000000, 16384, HR_BAR_MEM },
		{ "Memory at e0000000 (64-bit, " NP ") [size=16M]", 0xe0000000, 16 << 20,
		  HR_BAR_MEM | HR_BAR_64 },
		{ "Memory at 3800000000 (64-bit, prefetchable) [size=128G]", 0x3800000000,
		  128ull << 30, HR_BAR_MEM | HR_BAR_64 | HR_BAR_PREF },
		{ "Memory at 3800000000 (64-bit, prefetchable) [size=2T]", 0x3800000000, 2ull << 40,
		  HR_BAR_MEM | HR_BAR_64 | HR_BAR_PREF },
		{ "Memory at e0000000 (32-bit, " NP ") [size=256]", 0xe0000000, 256, HR_BAR_MEM },
		{ "Memory at e0000000 (32-bit, " NP ") [size=4000000000]", 0xe0000000, 0x4000000000,
		  HR_BAR_MEM },
		{ "Memory at e0000000 (32-bit, " NP ") [size=80000000]", 0xe0000000, 0x80000000,
		  HR_BAR_MEM },
		{ "Memory at e0000000 (32-bit, " NP ") [size=1048575K]", 0xe0000000,
		  1048575ull << 10, HR_BAR_MEM },
		{ "Memory at e0000000 (32-bit, " NP ") [size=1048576K]", 0xe0000000, 0,
		  HR_BAR_MEM },
		{ "Memory at e0000000 (32-bit, " NP ")", 0xe0000000, 0, HR_BAR_MEM },
		{ "Memory at <unassigned> (32-bit, " NP ") [size=1M]", 0, 1 << 20,
		  HR_BAR_MEM | HR_BAR_UNASSIGNED },
		{ "Memory at 00000000 (32-bit, " NP ") [size=1M]", 0, 1 << 20,
		  HR_BAR_MEM | HR_BAR_UNASSIGNED },
		{ "[virtual] Memory at 38e0000000 (64-bit, " NP ") [size=1M]", 0x38e0000000,
		  1 << 20, HR_BAR_MEM | HR_BAR_64 | HR_BAR_UNASSIGNED },
		{ "[virtual] Memory at 3800000000 (64-bit, " NP ") [size=1M]", 0x3800000000,
		  1 << 20, HR_BAR_MEM | HR_BAR_64 },
		{ "[virtual] Memory at 3800000000 (32-bit, " NP ") [size=1M]", 0x3800000000,
		  1 << 20, HR_BAR_MEM | HR_BAR_UNASSIGNED },
		{ "I/O ports at 6000 [size=128]", 0, 0, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		for (unsigned k = 0; k <= HR_BARS_MAX; k++) {
			char text[160];

			snprintf(text, sizeof text, "Region %u: %s", k, row[i].text);
			begin();
			line(text);
			for (unsigned j = 0; j < HR_BARS_MAX; j++) {
				const bool here = j == k;

				cr_expect_eq(fn.bar[j].base, here ? row[i].base : 0, "%s", text);
				cr_expect_eq(fn.bar[j].size, here ? row[i].size : 0, "%s: %llx",
					     text, (unsigned long long)fn.bar[j].size);
				cr_expect_eq(fn.bar[j].flags, here ? row[i].flags : 0, "%s: %x",
					     text, fn.bar[j].flags);
			}
			cr_expect_eq(state.saw_virtual,
				     k < HR_BARS_MAX && strstr(text, "[virtual]") != NULL, "%s",
				     text);
		}
	}
}

/* Regions below SR-IOV are those of virtual functions, and a mark after the address counts once. */
Test(topo_lines, regions_of_virtual_functions_and_marks)
{
	begin();
	line(SRIOV);
	line("Region 2: Memory at e0000000 (64-bit, non-prefetchable)");
	cr_expect_eq(fn.vf_bar[2].base, 0xe0000000);
	cr_expect_eq(fn.bar[2].flags, 0);
	begin();
	line("Region 0: Memory at e0000000 (32-bit, non-prefetchable) [virtual] [size=4K]");
	line("Region 1: Memory at e0001000 (32-bit, non-prefetchable) [virtual] [size=4K]");
	cr_expect_eq(fn.bar[0].flags, HR_BAR_MEM | HR_BAR_UNASSIGNED);
	cr_expect_eq(fn.bar[1].flags, HR_BAR_MEM);
	cr_expect(state.saw_virtual);
}

Test(topo_lines, registers_take_precedence_over_regions)
{
	begin();
	fn.bar[0] = (struct hr_bar){ .base = 0x1000,
				     .size = 0x2000,
				     .flags = HR_BAR_MEM,
				     .source = HR_SRC_CONFIG,
				     .size_source = HR_SRC_CONFIG };
	line("Region 0: Memory at e0000000 (64-bit, prefetchable) [size=4K]");
	cr_expect_eq(fn.bar[0].base, 0x1000);
	cr_expect_eq(fn.bar[0].size, 0x2000);
	cr_expect_eq(fn.bar[0].flags, HR_BAR_MEM);
	line("Region 0: Memory at <unassigned> (64-bit, prefetchable) [size=4K]");
	cr_expect_eq(fn.bar[0].flags, HR_BAR_MEM | HR_BAR_UNASSIGNED);
	cr_expect_eq(fn.bar[0].base, 0x1000);
	fn.bar[0].size_source = 0;
	line("Region 0: Memory at <unassigned> (64-bit, prefetchable) [size=4K]");
	cr_expect_eq(fn.bar[0].size, 4096);
	cr_expect_eq(fn.bar[0].size_source, HR_SRC_TEXT);
}

Test(topo_lines, a_resizable_bar_has_its_current_size)
{
	static const struct {
		const char *capability, *text;
		unsigned index; /* of the BAR; HR_BARS_MAX: none */
		bool of_vfs;
		uint64_t size;
	} row[] = {
#define REBAR "Capabilities: [bb0 v1] Physical Resizable BAR"
#define VF_REBAR "Capabilities: [bb0 v1] Virtual Resizable BAR"
		{ REBAR, "BAR 1: current size: 256MB, supported: 64MB", 1, false, 256 << 20 },
		{ REBAR, "BAR 0: current size: 16GB, supported: 64MB", 0, false, 16ull << 30 },
		{ REBAR, "BAR 5: current size: 1TB, supported: 64MB", 5, false, 1ull << 40 },
		{ REBAR, "BAR 6: current size: 1TB, supported: 64MB", HR_BARS_MAX, false, 0 },
		{ REBAR, "BAR 1: current size: 0MB", HR_BARS_MAX, false, 0 },
		{ REBAR, "BAR 1: current size: 1048575MB", 1, false, 1048575ull << 20 },
		{ REBAR, "BAR 1: current size: 1048576MB", HR_BARS_MAX, false, 0 },
		{ VF_REBAR, "BAR 1: current size: 256MB, supported: 64MB", 1, true, 256 << 20 },
		{ EXP, "BAR 1: current size: 256MB, supported: 64MB", HR_BARS_MAX, false, 0 },
		{ REBAR, "BAR 1: supported: 64MB", HR_BARS_MAX, false, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		line(row[i].capability);
		line(row[i].text);
		for (unsigned j = 0; j < HR_BARS_MAX; j++) {
			const bool here = j == row[i].index;

			cr_expect_eq(fn.bar[j].size, here && !row[i].of_vfs ? row[i].size : 0, "%s",
				     row[i].text);
			cr_expect_eq(fn.vf_bar[j].size, here && row[i].of_vfs ? row[i].size : 0,
				     "%s", row[i].text);
		}
	}
	begin();
	fn.bar[1].size_source = HR_SRC_CONFIG;
	line(REBAR);
	line("BAR 1: current size: 256MB, supported: 64MB");
	cr_expect_eq(fn.bar[1].size, 0);
}

/* What is absent from a complete text is absent from the function. */
Test(topo_lines, the_end_concludes_what_is_absent)
{
#define SERIAL "Capabilities: [100 v1] Device Serial Number"
	static const struct {
		const char *first, *second;
		uint32_t caps, exp, ecaps, acs, ats;
		bool denied;
	} row[] = {
		{ "", "", NONE, NONE, NONE, NONE, NONE, false },
		{ "Capabilities: <access denied>", "", NONE, NONE, NONE, NONE, NONE, true },
		{ PM, "Capabilities: <access denied>", NONE, NONE, NONE, NONE, NONE, true },
		{ PM, "", 1, 0, 1, 0, 0, false },
		{ EXP, "", 1, 0x40, NONE, NONE, NONE, false },
		{ EXP, SERIAL, 1, 0x40, 1, 0, 0, false },
		{ EXP, "Capabilities: [150 v1] Access Control Services", 1, 0x40, 1, 0x150, 0,
		  false },
		{ EXP, "Capabilities: [160 v1] Address Translation Service (ATS)", 1, 0x40, 1, 0,
		  0x160, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		line(row[i].first);
		line(row[i].second);
		hr_text_end(&fn, &state);
		cr_expect_eq(hr_get(&fn, HR_F_CAPS, NONE), row[i].caps, "row %zu", i);
		cr_expect_eq(hr_get(&fn, HR_F_EXP, NONE), row[i].exp, "row %zu", i);
		cr_expect_eq(hr_get(&fn, HR_F_ECAPS, NONE), row[i].ecaps, "row %zu", i);
		cr_expect_eq(hr_get(&fn, HR_F_ACS, NONE), row[i].acs, "row %zu", i);
		cr_expect_eq(hr_get(&fn, HR_F_ATS, NONE), row[i].ats, "row %zu", i);
		cr_expect_eq(fn.denied, row[i].denied, "row %zu", i);
		cr_expect_not(fn.vf_maybe);
	}
	for (unsigned mem = 0; mem < 2; mem++) {
		begin();
		line(mem ? "Control: I/O- Mem+ BusMaster-" : "Control: I/O- Mem- BusMaster-");
		line("Region 0: [virtual] Memory at e0000000 (64-bit, prefetchable)");
		hr_text_end(&fn, &state);
		cr_expect_eq(fn.vf_maybe, !mem);
	}
}
