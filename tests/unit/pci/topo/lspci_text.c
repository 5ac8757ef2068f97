/* Facts of single lines of lspci -v: each flag, each type, each class in words. */
#include "pci/topo/lspci_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/lspci_title.h"
#include "tests/harness/lspci_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(topo_text, .init = up, .fini = down, .timeout = 60);

/* A line with all these flags, of which one is set. */
static void expect_flags(const char *capability, const char *start, enum hr_fact_id fact,
			 const char *const *name, const uint32_t *bit, size_t flags)
{
	for (size_t set = 0; set <= flags; set++) {
		char text[256];
		size_t at = (size_t)snprintf(text, sizeof text, "%s:\t", start);

		for (size_t i = 0; i < flags; i++)
			at += (size_t)snprintf(text + at, sizeof text - at, "%s%c ", name[i],
					       i == set ? '+' : '-');
		begin();
		line(capability);
		line(text);
		cr_expect_eq(hr_get(&fn, fact, ~0u), set < flags ? bit[set] : 0, "%s: %x", text,
			     hr_get(&fn, fact, ~0u));
	}
}

Test(topo_text, each_flag_has_its_bit)
{
	static const char *const acs[] = { "SrcValid",	  "TransBlk",	"ReqRedir",   "CmpltRedir",
					   "UpstreamFwd", "EgressCtrl", "DirectTrans" };
	static const uint32_t acs_bit[] = { 1, 2, 4, 8, 16, 32, 64 };
	static const char *const ue[] = { "CmpltTO", "CmpltAbrt", "MalfTLP", "UnsupReq",
					  "ACSViol" };
	static const uint32_t ue_bit[] = { 1 << 14, 1 << 15, 1 << 18, 1 << 20, 1 << 21 };
	static const char *const ce[] = { "RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout" };
	static const uint32_t ce_bit[] = { 1, 1 << 6, 1 << 7, 1 << 8, 1 << 12 };
	static const char *const ats[] = { "Enable" };
	static const uint32_t ats_bit[] = { 1 << 15 };
	static const char *const dpc[] = { "Trigger" };
	static const uint32_t dpc_bit[] = { 1 };

	expect_flags("Capabilities: [150 v1] Access Control Services", "ACSCap", HR_F_ACS_CAP, acs,
		     acs_bit, ROWS(acs));
	expect_flags("Capabilities: [150 v1] Access Control Services", "ACSCtl", HR_F_ACS_CTL, acs,
		     acs_bit, ROWS(acs));
	expect_flags("Capabilities: [100 v1] Advanced Error Reporting", "UESta", HR_F_UESTA, ue,
		     ue_bit, ROWS(ue));
	expect_flags("Capabilities: [100 v1] Advanced Error Reporting", "CESta", HR_F_CESTA, ce,
		     ce_bit, ROWS(ce));
	expect_flags("Capabilities: [160 v1] Address Translation Service (ATS)", "ATSCtl",
		     HR_F_ATS_CTL, ats, ats_bit, ROWS(ats));
	expect_flags("Capabilities: [170 v1] Downstream Port Containment", "DpcSta", HR_F_DPC, dpc,
		     dpc_bit, ROWS(dpc));
}

Test(topo_text, capabilities_have_their_offset)
{
	static const struct {
		const char *name;
		enum hr_fact_id fact;
	} row[] = { { "Access Control Services", HR_F_ACS },
		    { "Address Translation Service (ATS)", HR_F_ATS },
		    { "Single Root I/O Virtualization (SR-IOV)", HR_F_SRIOV } };

	for (size_t i = 0; i < ROWS(row); i++) {
		char text[96];

		snprintf(text, sizeof text, "Capabilities: [1b0 v1] %s", row[i].name);
		begin();
		line(text);
		for (size_t k = 0; k < ROWS(row); k++)
			cr_expect_eq(hr_get(&fn, row[k].fact, ~0u), i == k ? 0x1b0 : ~0u, "%s",
				     row[i].name);
		snprintf(text, sizeof text, "Capabilities: [1000 v1] %s", row[i].name);
		begin();
		line(text);
		cr_expect_eq(hr_get(&fn, row[i].fact, ~0u), ~0u, "beyond the registers");
	}
}

/* Registers take precedence over text; text takes precedence over an unknown value. */
Test(topo_text, windows_of_the_text_do_not_replace_those_of_registers)
{
	begin();
	line("Memory behind bridge: e0000000-e0ffffff [size=16M]");
	line("Prefetchable memory behind bridge: 38000000000-383ffffffff");
	cr_expect_eq(fn.mem.base, 0xe0000000u);
	cr_expect_eq(fn.mem.limit, 0xe0ffffffu);
	cr_expect_eq(fn.mem.source, HR_SRC_TEXT);
	cr_expect_eq(fn.pref.base, 0x38000000000ull);
	cr_expect_eq(fn.pref.limit, 0x383ffffffffull);
	fn.mem.source = HR_SRC_CONFIG;
	line("Memory behind bridge: d0000000-d0ffffff [size=16M]");
	cr_expect_eq(fn.mem.base, 0xe0000000u);
	cr_expect_eq(fn.mem.source, HR_SRC_CONFIG);
}

Test(topo_text, each_type_of_port_has_its_number)
{
	static const struct {
		const char *words;
		uint32_t type;
	} row[] = {
		{ "Endpoint, MSI 00", HR_PORT_ENDPOINT },
		{ "Legacy Endpoint, MSI 00", HR_PORT_LEGACY },
		{ "Root Port (Slot+), MSI 00", HR_PORT_ROOT },
		{ "Upstream Port, MSI 00", HR_PORT_UPSTREAM },
		{ "Downstream Port (Slot-), MSI 00", HR_PORT_DOWNSTREAM },
		{ "PCI-Express to PCI/PCI-X Bridge, MSI 00", HR_PORT_TO_PCI },
		{ "PCI/PCI-X to PCI-Express Bridge, MSI 00", HR_PORT_FROM_PCI },
		{ "Root Complex Integrated Endpoint, MSI 00", HR_PORT_RC_ENDPOINT },
		{ "Root Complex Event Collector, MSI 00", HR_PORT_RC_EVENTS },
	};
	char text[128];

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		snprintf(text, sizeof text, "Capabilities: [40] Express (v2) %s", row[i].words);
		line(text);
		cr_expect_eq(hr_get(&fn, HR_F_PORT, ~0u), row[i].type, "%s", row[i].words);
		cr_expect_eq(hr_get(&fn, HR_F_EXP, 0), 0x40u);
		cr_expect_not(hr_known(&fn, HR_F_DEVCAP2));
		snprintf(text, sizeof text, "Capabilities: [40] Express (v1) %s", row[i].words);
		line(text);
		cr_expect_eq(hr_get(&fn, HR_F_DEVCAP2, 1), 0u, "version 1 has no second half");
		cr_expect_eq(hr_get(&fn, HR_F_DEVCTL2, 1), 0u);
	}
}

/* An offset tells a capability from an extended one. */
Test(topo_text, offsets_of_capabilities_have_limits)
{
	static const struct {
		const char *text;
		bool caps, ecaps;
	} row[] = {
		{ "Capabilities: [40] Power Management version 3", true, false },
		{ "Capabilities: [fc] Power Management version 3", true, false },
		{ "Capabilities: [100 v1] Device Serial Number", true, true },
		{ "Capabilities: [ffc v1] Device Serial Number", true, true },
		{ "Capabilities: [1000 v1] Device Serial Number", false, false },
		{ "Capabilities: [x] Device Serial Number", false, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		line(row[i].text);
		cr_expect_eq(state.saw_caps, row[i].caps, "%s", row[i].text);
		cr_expect_eq(state.saw_ecaps, row[i].ecaps, "%s", row[i].text);
	}
}

Test(topo_text, a_class_in_words_is_that_class)
{
	static const struct {
		const char *title;
		uint32_t class, header; /* 9: unknown */
	} row[] = {
		{ "Non-Volatile memory controller: X", 0x010800, 9 },
		{ "VGA compatible controller: X", 0x030000, 9 },
		{ "3D controller: X", 0x030200, 9 },
		{ "Display controller: X", 0x038000, 9 },
		{ "Processing accelerators: X", 0x120000, 9 },
		{ "PCI bridge: X", 0x060400, 1 },
		{ "Host bridge: X", 0x060000, 9 },
		{ "ISA bridge: X", 0x060100, 9 },
		{ "RAID bus controller: X", 0x010400, 9 },
		{ "SATA controller: X", 0x010600, 9 },
		{ "Ethernet controller: X", 0x020000, 9 },
		{ "Class 0108: X", 0x010800, 9 },
		{ "Something new [0b40]: X", 0x0b4000, 9 },
		{ "Something new [0b4]: X", 9, 9 },
		{ "Something new: X", 9, 9 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		fn.name = "";
		hr_text_title(&model, &fn, row[i].title, strlen(row[i].title));
		cr_expect_eq(hr_get(&fn, HR_F_CLASS, 9), row[i].class, "%s: %x", row[i].title,
			     hr_get(&fn, HR_F_CLASS, 9));
		cr_expect_eq(hr_get(&fn, HR_F_HEADER, 9), row[i].header, "%s", row[i].title);
	}
}
