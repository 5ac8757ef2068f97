/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration space as a whole record: all facts that a few registers make, and no others. */
#include "pci/topo/decode.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "tests/harness/described.h"

TestSuite(topo_decode_records, .timeout = 60);

struct poke {
	uint32_t at;
	unsigned width;
	uint64_t value;
};

struct row {
	struct poke poke[14];
	uint32_t bytes; /* 0: 256 */
	const char *want;
};

/* Remove registers of BARs that read zero, of which most rows have several. */
static const char *brief(const struct hr_fn *f)
{
	static char text[2048];
	char *to = text;

	for (const char *at = fake_described(f); *at;) {
		int n = 0;

		sscanf(at, " bar%*1u=0+0 f8 5,0%n", &n);
		if (!n)
			sscanf(at, " vf_bar%*1u=0+0 f8 5,0%n", &n);
		if (n)
			at += n;
		else
			*to++ = *at++;
	}
	*to = '\0';
	return text;
}

#define HEAD "vendor=10de/5 device=2330/5 class=30200/5 revision=a1/5 "

static void expect(const struct row *row, size_t rows)
{
	for (size_t i = 0; i < rows; i++) {
		static const uint8_t head[] = { 0xde, 0x10, 0x30, 0x23, 0, 0, 0, 0, 0xa1, 0, 2, 3 };
		uint8_t config[4096] = { 0 };
		struct hr_fn f = { .name = "" };
		const char *text;

		memcpy(config, head, sizeof head);
		for (const struct poke *p = row[i].poke; p->width; p++)
			memcpy(config + p->at, &p->value, p->width);
		hr_decode(&f, config, row[i].bytes ? row[i].bytes : 256);
		text = brief(&f);
		cr_assert_eq(strncmp(text, HEAD, strlen(HEAD)), 0, "row %zu: %s", i, text);
		cr_expect_str_eq(text + strlen(HEAD), row[i].want, "row %zu: %s", i,
				 text + strlen(HEAD));
	}
}

#define LIST(cap)                             \
	{ HR_CFG_STATUS, 2, HR_STATUS_CAPS }, \
	{                                     \
		HR_CFG_CAP_PTR, 1, cap        \
	}
#define NO_CAPS "caps=0/5 ecaps=0/5 exp_offset=0/5 acs_offset=0/5 ats_offset=0/5"
#define PLAIN "header=0/5 command=0/5 status=0/5 " NO_CAPS
#define BRIDGE                                                                         \
	"header=1/5 command=0/5 status=0/5 primary=1/5 secondary=2/5 subordinate=3/5 " \
	"bridge_ctl=40/5 " NO_CAPS
#define BUSES                                                       \
	{ HR_CFG_HEADER, 1, 1 }, { HR_CFG_PRIMARY, 4, 0x00030201 }, \
	{                                                           \
		HR_CFG_BRIDGE_CTL, 2, 0x40                          \
	}
#define BAR(i) (HR_CFG_BAR0 + 4 * (i))

Test(topo_decode_records, bars)
{
	static const struct row row[] = {
		{ .want = PLAIN },
		{ { { BAR(0), 4, 0xe0000000 } }, .want = PLAIN " bar0=e0000000+0 f1 5,0" },
		{ { { BAR(5), 4, 0xe0000008 } }, .want = PLAIN " bar5=e0000000+0 f5 5,0" },
		{ { { BAR(0), 8, 0x38000000000c } },
		  .want = PLAIN " bar0=380000000000+0 f7 5,0 bar1=0+0 f10 5,0" },
		{ { { BAR(4), 8, 0x380000000004 } },
		  .want = PLAIN " bar4=380000000000+0 f3 5,0 bar5=0+0 f10 5,0" },
		/* The last one has no upper half; type 1 and 3 have 32 bits. */
		{ { { BAR(5), 8, 0x1e0000004 } }, .want = PLAIN " bar5=e0000000+0 f1 5,0" },
		{ { { BAR(0), 8, 0x1e0000002 } },
		  .want = PLAIN " bar0=e0000000+0 f1 5,0 bar1=0+0 f0 5,0" },
		{ { { BAR(2), 4, 0xe0000006 } }, .want = PLAIN " bar2=e0000000+0 f1 5,0" },
		{ { { BAR(2), 4, 0xe001 } }, .want = PLAIN " bar2=0+0 f0 5,0" },
		{ { { BAR(2), 4, 0xc } }, .want = PLAIN " bar2=0+0 ff 5,0 bar3=0+0 f10 5,0" },
		{ { { BAR(2), 4, 0x10 } }, .want = PLAIN " bar2=10+0 f1 5,0" },
		{ { BUSES, { BAR(0), 4, 0xe0000000 }, { BAR(1), 4, 0xe1000000 } },
		  .want = BRIDGE
		  " bar0=e0000000+0 f1 5,0 bar1=e1000000+0 f1 5,0 mem=100000-fffff/5 "
		  "pref=100000-fffff/5" },
		/* Another header type has no BARs. */
		{ { { HR_CFG_HEADER, 1, 2 }, { BAR(0), 4, 0xe0000000 } },
		  .want = "header=2/5 command=0/5 status=0/5 " NO_CAPS },
		{ { { HR_CFG_HEADER, 1, 0x80 }, { BAR(0), 4, 0xe0000000 } },
		  .want = "header=80/5 command=0/5 status=0/5 " NO_CAPS " bar0=e0000000+0 f1 5,0" },
	};

	expect(row, sizeof row / sizeof *row);
}

Test(topo_decode_records, windows)
{
	static const struct row row[] = {
		{ { BUSES, { HR_CFG_MEM_BASE, 4, 0xe2f0e200 } },
		  .want = BRIDGE " mem=e2000000-e2ffffff/5 pref=100000-fffff/5" },
		{ { BUSES,
		    { HR_CFG_MEM_BASE, 4, 0xe2ffe20f },
		    { HR_CFG_PREF_BASE, 4, 0xe3f0e300 },
		    { HR_CFG_PREF_BASE_UPPER, 4, 0x11 },
		    { HR_CFG_PREF_LIMIT_UPPER, 4, 0x22 } },
		  .want = BRIDGE " mem=e2000000-e2ffffff/5 pref=e3000000-e3ffffff/5" },
		{ { BUSES,
		    { HR_CFG_PREF_BASE, 4, 0xe3f1e301 },
		    { HR_CFG_PREF_BASE_UPPER, 4, 0x11 },
		    { HR_CFG_PREF_LIMIT_UPPER, 4, 0x22 } },
		  .want = BRIDGE " mem=100000-fffff/5 pref=11e3000000-22e3ffffff/5" },
		{ { BUSES,
		    { HR_CFG_PREF_BASE, 4, 0xe3f3e303 },
		    { HR_CFG_PREF_BASE_UPPER, 4, 0x11 } },
		  .want = BRIDGE " mem=100000-fffff/5 pref=e3000000-e3ffffff/5" },
		{ { BUSES, { HR_CFG_MEM_BASE, 4, 0x0010fff0 } },
		  .want = BRIDGE " mem=fff00000-1fffff/5 pref=100000-fffff/5" },
		{ { BUSES, { HR_CFG_MEM_BASE, 4, 0x00200000 } },
		  .want = BRIDGE " mem=300000-2fffff/5 pref=100000-fffff/5" },
	};

	expect(row, sizeof row / sizeof *row);
}

/* An entry: its head (dwords behind it, index, properties, enable), base, offset, upper halves. */
#define EA(dwords, index, first, second, on) \
	((dwords) | (index) << 4 | (first) << 8 | (second) << 16 | (on) << 31)
#define EA_CAP(count)                         \
	{                                     \
		0x40, 4, 0x14 | (count) << 16 \
	}

static const struct row fixed[] = {
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 0u, 0u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "bar0=e0000000+10000 f1 5,5" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 5u, 1u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "bar5=e0000000+10000 f5 5,5" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 0u, 0u, 0u, 0u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "" },
	/* Index 6 and 7 are not BARs, 9 to 14 are BARs of virtual functions. */
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 6u, 0u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 9u, 4u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "vf_bar0=e0000000+10000 f1 5,5" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 14u, 3u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "vf_bar5=e0000000+10000 f5 5,5" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 15u, 3u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 8u, 3u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 9u, 0u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 0u, 2u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "" },
	/* The second property counts when the first one is not known. */
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 0u, 0xfdu, 1u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "bar0=e0000000+10000 f5 5,5" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 0u, 7u, 1u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc } },
	  .want = "" },
	/* Upper halves of the base, of the offset, of both; a second entry behind them. */
	{ { LIST(0x40),
	    EA_CAP(2u),
	    { 0x44, 4, EA(3u, 0u, 0u, 0u, 1u) },
	    { 0x48, 4, 0xe0000002 },
	    { 0x4c, 4, 0xfffc },
	    { 0x50, 4, 0x38 },
	    { 0x54, 4, EA(3u, 2u, 1u, 0u, 1u) },
	    { 0x58, 4, 0xd0000000 },
	    { 0x5c, 4, 0xfffffffe },
	    { 0x60, 4, 1 } },
	  .want = "bar0=38e0000000+10000 f3 5,5 bar2=d0000000+200000000 f5 5,5" },
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(4u, 1u, 0u, 0u, 1u) },
	    { 0x48, 4, 0xe0000002 },
	    { 0x4c, 4, 0xfffffffe },
	    { 0x50, 4, 0x38 },
	    { 0x54, 4, 3 } },
	  .want = "bar1=38e0000000+400000000 f3 5,5" },
	/* One entry is counted, two are there. */
	{ { LIST(0x40),
	    EA_CAP(1u),
	    { 0x44, 4, EA(2u, 0u, 0u, 0u, 1u) },
	    { 0x48, 4, 0xe0000000 },
	    { 0x4c, 4, 0xfffc },
	    { 0x50, 4, EA(2u, 1u, 0u, 0u, 1u) },
	    { 0x54, 4, 0xf0000000 },
	    { 0x58, 4, 0xfffc } },
	  .want = "bar0=e0000000+10000 f1 5,5" },
};

Test(topo_decode_records, enhanced_allocation)
{
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
		struct row one = fixed[i];
		char want[256];

		snprintf(want, sizeof want,
			 "header=0/5 command=0/5 status=10/5 caps=1/5 ecaps=0/5 exp_offset=0/5 "
			 "acs_offset=0/5 ats_offset=0/5%s%s",
			 one.want[0] ? " " : "", one.want);
		one.want = want;
		expect(&one, 1);
	}
}

/* A bridge has its bus numbers in front of the entries; the list may end with the space. */
Test(topo_decode_records, enhanced_allocation_of_a_bridge_and_at_the_end)
{
	static const struct row row[] = {
		{ { BUSES,
		    LIST(0x40),
		    EA_CAP(1u),
		    { 0x48, 4, EA(2u, 1u, 0u, 0u, 1u) },
		    { 0x4c, 4, 0xe0000000 },
		    { 0x50, 4, 0xfffc } },
		  .want = "header=1/5 command=0/5 status=10/5 primary=1/5 secondary=2/5 "
			  "subordinate=3/5 bridge_ctl=40/5 caps=1/5 ecaps=0/5 exp_offset=0/5 "
			  "acs_offset=0/5 ats_offset=0/5 "
			  "bar1=e0000000+10000 f1 5,5 mem=100000-fffff/5 pref=100000-fffff/5" },
		{ { LIST(0xf0),
		    { 0xf0, 4, 0x10014 },
		    { 0xf4, 4, EA(2u, 0u, 0u, 0u, 1u) },
		    { 0xf8, 4, 0xe0000000 },
		    { 0xfc, 4, 0xfffc } },
		  .want = "header=0/5 command=0/5 status=10/5 caps=1/5 ecaps=0/5 exp_offset=0/5 "
			  "acs_offset=0/5 ats_offset=0/5 bar0=e0000000+10000 f1 5,5" },
		{ { LIST(0xf4),
		    { 0xf4, 4, 0x10014 },
		    { 0xf8, 4, EA(2u, 0u, 0u, 0u, 1u) },
		    { 0xfc, 4, 0xe0000000 } },
		  .bytes = 4096,
		  .want = "header=0/5 command=0/5 status=10/5 caps=1/5 ecaps=0/5 exp_offset=0/5 "
			  "acs_offset=0/5 ats_offset=0/5" },
		/* A list that leaves the bytes that were read; a whole entry is within them. */
		{ { LIST(0x40), { 0x40, 2, 0x0001 } },
		  .bytes = 64,
		  .want = "header=0/5 command=0/5 status=10/5 denied" },
		{ { LIST(0x40), { 0x40, 2, 0x0001 } },
		  .bytes = 65,
		  .want = "header=0/5 command=0/5 status=10/5 caps=2/5" },
		{ { LIST(0x40), { 0x40, 2, 0x0001 } },
		  .bytes = 66,
		  .want = "header=0/5 command=0/5 status=10/5 caps=1/5 ecaps=0/5 exp_offset=0/5 "
			  "acs_offset=0/5 ats_offset=0/5" },
	};

	expect(row, sizeof row / sizeof *row);
}

#define EXPRESS                     \
	{                           \
		0x40, 4, 0x00020010 \
	}
#define ORDER                                                                                        \
	"header=0/5 command=0/5 status=10/5 caps=1/5 ecaps=1/5 port_type=0/5 exp_offset=40/5 "       \
	"mps_supported=80/5 mps=80/5 mrrs=80/5 devctl=0/5 devsta=0/5 port_number=0/5 "               \
	"link_speed_max=0/5 link_width_max=0/5 link_speed=0/5 link_width=0/5 link_speed_target=0/5 " \
	"dl_active_reporting=0/5 dl_active=0/5 aspm=0/5 devcap2=0/5 devctl2=0/5 "

Test(topo_decode_records, capabilities_of_the_extended_space)
{
	static const struct row row[] = {
		{ { LIST(0x40),
		    EXPRESS,
		    { 0x100, 4, 0x10001 },
		    { 0x104, 4, 0x11 },
		    { 0x110, 4, 0x22 } },
		  4096,
		  ORDER "acs_offset=0/5 ats_offset=0/5 aer_uesta=11/5 aer_cesta=22/5" },
		/* ACS with an egress vector, and without. */
		{ { LIST(0x40),
		    EXPRESS,
		    { 0x100, 4, 0x1000d },
		    { 0x104, 2, 0x3f },
		    { 0x106, 2, 0x1d },
		    { 0x108, 4, 0x77 } },
		  4096,
		  ORDER
		  "acs_offset=100/5 acs_cap=3f/5 acs_ctl=1d/5 acs_egress=77/5 ats_offset=0/5" },
		{ { LIST(0x40),
		    EXPRESS,
		    { 0x100, 4, 0x1000d },
		    { 0x104, 2, 0x1f },
		    { 0x106, 2, 0x1d },
		    { 0x108, 4, 0x77 } },
		  4096,
		  ORDER "acs_offset=100/5 acs_cap=1f/5 acs_ctl=1d/5 ats_offset=0/5" },
		{ { LIST(0x40), EXPRESS, { 0x100, 4, 0x1000f }, { 0x106, 2, 0x8000 } },
		  4096,
		  ORDER "acs_offset=0/5 ats_offset=100/5 ats_ctl=8000/5" },
		{ { LIST(0x40), EXPRESS, { 0x100, 4, 0x1001d }, { 0x108, 2, 5 } },
		  4096,
		  ORDER "acs_offset=0/5 ats_offset=0/5 dpc_status=5/5" },
		/* Resizable BARs of the function, and of virtual functions. */
		{ { LIST(0x40),
		    EXPRESS,
		    { 0x100, 4, 0x10015 },
		    { 0x108, 4, 0x0e40 },
		    { 0x110, 4, 0x2b05 } },
		  4096,
		  ORDER "acs_offset=0/5 ats_offset=0/5 rebar_offset=100/5 bar0=0+400000000 f8 5,5 "
			"bar5=0+8000000000000000 f8 5,5" },
		{ { LIST(0x40),
		    EXPRESS,
		    { 0x100, 4, 0x10015 },
		    { 0x108, 4, 0x0060 },
		    { 0x110, 4, 0x2c01 },
		    { 0x118, 4, 0x0106 } },
		  4096,
		  ORDER "acs_offset=0/5 ats_offset=0/5 rebar_offset=100/5 bar0=0+100000 f8 5,5" },
		{ { LIST(0x40), EXPRESS, { 0x100, 4, 0x10024 }, { 0x108, 4, 0x0122 } },
		  4096,
		  ORDER "acs_offset=0/5 ats_offset=0/5 vf_bar2=0+200000 f0 0,5" },
		/* A list of two, and lists that are damaged. */
		{ { LIST(0x40), EXPRESS, { 0x100, 4, 0x1101000f }, { 0x110, 4, 0x1001d } },
		  4096,
		  ORDER "acs_offset=0/5 ats_offset=100/5 ats_ctl=0/5 dpc_status=0/5" },
	};

	expect(row, sizeof row / sizeof *row);
}
