/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ACS controls outside the listing of a function: each form of a line, and lines that look alike.
 */
#include "pci/topo/lspci/text.h"

#include <criterion/criterion.h>
#include <string.h>

#define FLAGS "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"

static struct hr_acs_reader reader;
static struct hr_acs_line found;

static enum hr_acs_kind read_line(const char *line)
{
	return hr_acs_line(&reader, line, &found);
}

static void begin(void)
{
	memset(&reader, 0, sizeof reader);
}

TestSuite(acs_lines, .init = begin, .timeout = 60);

Test(acs_lines, a_line_with_address_and_control)
{
	static const struct {
		const char *line;
		uint64_t address;
		uint32_t value, offset; /* value of flags: ~0 */
	} row[] = {
		{ "0000:c8:00.0 ACSCtl: " FLAGS, 0xc800, ~0u, 0 },
		{ "c8:00.0: ACSCtl:\t" FLAGS, 0xc800, ~0u, 0 },
		{ "0000:04:08.0: 001d", 0x440, 0x1d, 0 },
		{ "04:08.0 = 0x001d", 0x440, 0x1d, 0 },
		{ "10001:04:08.1 -> 007f", 0, 0x7f, 0 },
		{ "04:08.0 ACSCtl: 001d", 0x440, 0x1d, 0 },
		{ "0000:04:08.0 (ecap 000d @148) @14e = 001d", 0x440, 0x1d, 0x148 },
		{ "0000:04:08.0 (ecap 000d @f24) @f2a 001d->(0000:002c)->0011", 0x440, 0x11,
		  0xf24 },
		{ "0000:04:08.0 (ecap 000d @148) @14e 0000", 0x440, 0, 0x148 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint64_t want = i == 4 ? (uint64_t)0x10001 << 16 | 0x441 : row[i].address;

		cr_expect_eq(read_line(row[i].line), HR_ACS_OF, "%s", row[i].line);
		cr_expect_eq(found.address, want, "%s", row[i].line);
		cr_expect_eq(found.offset, row[i].offset, "%s", row[i].line);
		cr_expect_eq(found.flags != NULL, row[i].value == ~0u, "%s", row[i].line);
		if (!found.flags)
			cr_expect_eq(found.value, row[i].value, "%s", row[i].line);
	}
}

Test(acs_lines, a_line_before_it_names_the_function)
{
	static const char *const row[] = {
		"04:08.0",
		"0000:04:08.0:",
		"=== 04:08.0 ===",
		"$ sudo lspci -s 04:08.0 -vvv | grep ACSCtl",
		"# lspci -vvvs 04:08.0; lspci -s 04:08.0 -vv | grep -i acs",
		"[root@host ~]# lspci -s '04:08.0' -vvvv",
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		cr_expect_eq(read_line(row[i]), HR_ACS_END, "%s", row[i]);
		cr_expect_eq(read_line("Capabilities: [148 v1] Access Control Services"),
			     HR_ACS_NOTHING);
		cr_expect_eq(read_line("ACSCap:\tSrcValid+ ReqRedir+"), HR_ACS_NOTHING);
		cr_expect_eq(read_line("ACSCtl:\t" FLAGS), HR_ACS_OF, "%s", row[i]);
		cr_expect_eq(found.address, 0x440, "%s", row[i]);
	}
}

Test(acs_lines, a_setpci_command_asks_for_the_next_line)
{
	cr_expect_eq(read_line("# setpci -s 04:08.0 ECAP_ACS+0x6.w"), HR_ACS_END);
	cr_expect_eq(read_line("001d"), HR_ACS_OF);
	cr_expect_eq(found.value, 0x1d);
	cr_expect_eq(found.address, 0x440);
	cr_expect_eq(read_line("001d"), HR_ACS_NOTHING, "one value for each command");
	/* a write, another register, another width: no value follows */
	read_line("# setpci -s 04:08.0 ECAP_ACS+6.w=0:2c");
	cr_expect_eq(read_line("001d"), HR_ACS_NOTHING);
	read_line("# setpci -s 04:08.0 ECAP_ACS+4.w");
	cr_expect_eq(read_line("005f"), HR_ACS_NOTHING);
	read_line("# setpci -s 04:08.0 ECAP_ACS+6.b");
	cr_expect_eq(read_line("001d"), HR_ACS_NOTHING);
}

Test(acs_lines, a_command_for_several_functions_names_none)
{
	static const char *const row[] = { "# lspci -vvv | grep ACSCtl",
					   "# lspci -s 04: -vvv | grep ACSCtl",
					   "# lspci -s 04:*.0 -vvv | grep ACSCtl",
					   "# lspci -d 10b5: -vvv | grep ACSCtl" };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		cr_expect_eq(read_line(row[i]), HR_ACS_END, "%s", row[i]);
		cr_expect(reader.listed, "%s", row[i]);
		cr_expect_eq(read_line("ACSCtl: " FLAGS), HR_ACS_NEAR, "%s", row[i]);
	}
}

Test(acs_lines, lines_of_other_kinds)
{
	static const char *const row[] = {
		"",
		"-",
		"-s",
		"lspci",
		"setpci ",
		"lspci -s",
		"00: 86 80 00 00",
		"100: 01 00 02 00",
		"04:08.0 PCI bridge: PLX Technology, Inc. PEX 8747",
		"04:08.0 0604: 10b5:8747 (rev ca)",
		"04:08.0 ",
		"04:08.0/05:00.0 VGA compatible controller",
		"04:28.0: 001d",
		"04:08.9: 001d",
		"04:08.0: 0600",
		"04:08.0: 001g",
		"04:08.0: 1d",
		"ACSCtl:",
		"ACSCtl: none",
		"ACSCap:\t" FLAGS,
		"0000:04:08.0 (ecap 000d @148) @150 = 001d (another register)",
		"-[0000:00]-+-00.0",
		" +-08.0-[05]----00.0",
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		cr_expect_neq(read_line(row[i]), HR_ACS_OF, "%s", row[i]);
		cr_expect_neq(read_line(row[i]), HR_ACS_NEAR, "%s", row[i]);
	}
	cr_expect_eq(read_line("04:08.0 PCI bridge: PLX"), HR_ACS_NOTHING);
	cr_expect_eq(read_line("04:08.0 "), HR_ACS_NOTHING, "a function without a title");
}

Test(acs_lines, redirects_by_its_flags)
{
	cr_expect(hr_acs_flags_redirect("ACSCtl: " FLAGS));
	cr_expect(hr_acs_flags_redirect("ACSCtl: ReqRedir- CmpltRedir- EgressCtrl+"));
	cr_expect_not(hr_acs_flags_redirect("ACSCtl: SrcValid+ ReqRedir- UpstreamFwd+"));
}
