/* Registers of configuration space as facts: each bit, and where a cut makes a fact unknown. */
#include <criterion/criterion.h>
#include <string.h>

#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "pci/topo/resize.h"
#include "tests/harness/machine.h"

TestSuite(topo_decode, .timeout = 60);

static struct fake_machine machine;
static struct hr_fn fn;

/* A physical function with every capability that an endpoint has, or a switch port with a slot. */
static struct fake_fn *endpoint(void)
{
	struct fake_fn *f;

	machine.count = 0;
	f = fake_gpu(&machine, "03:00.0", 0x38000000000ull, 34);
	fake_sriov(f, 4, 1, 0x39000000000ull, 0);
	return f;
}

static struct fake_fn *port(void)
{
	struct fake_fn *f;

	machine.count = 0;
	f = fake_bridge(&machine, "02:00.0", 0x11f8, 0x4000, HR_PORT_DOWNSTREAM, 3, 3);
	fake_put(f, FAKE_EXP + HR_EXP_FLAGS, 2,
		 2 | HR_PORT_DOWNSTREAM << 4 | HR_EXP_SLOT_IMPLEMENTED);
	fake_put(f, FAKE_ACS + HR_ACS_CAP, 2, 0x7f);
	return f;
}

static void decode(const struct fake_fn *f, uint32_t bytes)
{
	memset(&fn, 0, sizeof fn);
	hr_decode(&fn, f->config, bytes);
}

/* ---- a fact is known when the read bytes include its whole register */

struct end_row {
	enum hr_fact_id fact;
	uint32_t end;
};

static void expect_ends(const struct fake_fn *f, const struct end_row *row, size_t rows)
{
	struct hr_fn full;

	decode(f, HR_CFG_EXTENDED);
	full = fn;
	for (uint32_t bytes = HR_CFG_BASIC; bytes <= HR_CFG_EXTENDED; bytes++) {
		if (bytes > FAKE_SRIOV + 0x100 && bytes < HR_CFG_EXTENDED)
			continue;
		decode(f, bytes);
		for (size_t i = 0; i < rows; i++) {
			const enum hr_fact_id fact = row[i].fact;

			cr_assert_eq(hr_known(&fn, fact), bytes >= row[i].end, "row %zu, %u bytes",
				     i, bytes);
			cr_assert(bytes < row[i].end ||
					  hr_get(&fn, fact, 0) == hr_get(&full, fact, 0),
				  "row %zu, %u bytes", i, bytes);
		}
	}
}

Test(topo_decode, an_endpoint_that_is_cut_off_is_unknown_behind_the_cut)
{
	static const struct end_row row[] = {
		{ HR_F_VENDOR, HR_CFG_BASIC },
		{ HR_F_COMMAND, HR_CFG_BASIC },
		{ HR_F_CLASS, HR_CFG_BASIC },
		{ HR_F_PORT, FAKE_EXP + HR_EXP_FLAGS + 2 },
		{ HR_F_MPSS, FAKE_EXP + HR_EXP_DEVCAP + 4 },
		{ HR_F_DEVCTL, FAKE_EXP + HR_EXP_DEVCTL + 2 },
		{ HR_F_MPS, FAKE_EXP + HR_EXP_DEVCTL + 2 },
		{ HR_F_MRRS, FAKE_EXP + HR_EXP_DEVCTL + 2 },
		{ HR_F_DEVSTA, FAKE_EXP + HR_EXP_DEVSTA + 2 },
		{ HR_F_SPEED_MAX, FAKE_EXP + HR_EXP_LNKCAP + 4 },
		{ HR_F_PORT_NUMBER, FAKE_EXP + HR_EXP_LNKCAP + 4 },
		{ HR_F_ASPM, FAKE_EXP + HR_EXP_LNKCTL + 4 },
		{ HR_F_WIDTH, FAKE_EXP + HR_EXP_LNKCTL + 4 },
		{ HR_F_DEVCAP2, FAKE_EXP + HR_EXP_DEVCAP2 + 4 },
		{ HR_F_DEVCTL2, FAKE_EXP + HR_EXP_DEVCTL2 + 2 },
		{ HR_F_SPEED_TARGET, FAKE_EXP + HR_EXP_LNKCTL2 + 2 },
		{ HR_F_PM, FAKE_PM + HR_PM_CTL + 2 },
		{ HR_F_UESTA, FAKE_AER + HR_AER_UESTA + 4 },
		{ HR_F_CESTA, FAKE_AER + HR_AER_CESTA + 4 },
		{ HR_F_ATS, FAKE_ATS + 4 },
		{ HR_F_ATS_CTL, FAKE_ATS + HR_ATS_CTL + 2 },
		{ HR_F_SRIOV, FAKE_SRIOV + 4 },
		{ HR_F_VF_CTL, FAKE_SRIOV + HR_SRIOV_CTL + 2 },
		{ HR_F_VFS, FAKE_SRIOV + HR_SRIOV_VFS + 2 },
		{ HR_F_VF_OFFSET, FAKE_SRIOV + HR_SRIOV_OFFSET + 2 },
		{ HR_F_VF_STRIDE, FAKE_SRIOV + HR_SRIOV_STRIDE + 2 },
		{ HR_F_VF_DEVICE, FAKE_SRIOV + HR_SRIOV_DEVICE + 2 },
	};

	expect_ends(endpoint(), row, sizeof row / sizeof *row);
}

Test(topo_decode, a_port_that_is_cut_off_is_unknown_behind_the_cut)
{
	static const struct end_row row[] = {
		{ HR_F_SECONDARY, HR_CFG_BASIC },
		{ HR_F_BRIDGE_CTL, HR_CFG_BASIC },
		{ HR_F_SLOT, FAKE_EXP + HR_EXP_SLTCAP + 4 },
		{ HR_F_PRESENT, FAKE_EXP + HR_EXP_SLTSTA + 2 },
		{ HR_F_ACS, FAKE_ACS + 4 },
		{ HR_F_ACS_CAP, FAKE_ACS + HR_ACS_CAP + 2 },
		{ HR_F_ACS_CTL, FAKE_ACS + HR_ACS_CTL + 2 },
		{ HR_F_ACS_EGRESS, FAKE_ACS + HR_ACS_EGRESS + 4 },
		{ HR_F_DPC, FAKE_DPC + HR_DPC_STATUS + 2 },
	};

	expect_ends(port(), row, sizeof row / sizeof *row);
}

Test(topo_decode, bars_and_sizes_are_unknown_behind_the_cut)
{
	const struct fake_fn *f = endpoint();

	for (uint32_t bytes = HR_CFG_BASIC; bytes <= FAKE_SRIOV + 0x40; bytes++) {
		decode(f, bytes);
		cr_assert_eq(hr_known(&fn, HR_F_ECAPS), bytes >= HR_CFG_CONV + 4, "%u bytes",
			     bytes);
		cr_assert_eq(fn.bar[1].base, 0x38000000000ull);
		cr_assert_eq(fn.bar[1].size,
			     bytes >= FAKE_REBAR + HR_REBAR_CTL + 4 ? 1ull << 34 : 0, "%u bytes",
			     bytes);
		/* the low half is a BAR of 32 bits, until the upper half is there */
		cr_assert_eq(fn.vf_bar[0].base,
			     bytes >= FAKE_SRIOV + HR_SRIOV_BAR0 + 8 ? 0x39000000000ull : 0,
			     "%u bytes", bytes);
		cr_assert_eq(fn.vf_bar[0].source != HR_SRC_NONE,
			     bytes >= FAKE_SRIOV + HR_SRIOV_BAR0 + 4, "%u bytes", bytes);
	}
}

/* ---- single registers */

struct bit_row {
	uint32_t offset;
	unsigned width;
	uint32_t value;
	enum hr_fact_id fact;
	uint32_t want;
};

static void expect_bits(struct fake_fn *(*make)(void), const struct bit_row *row, size_t rows)
{
	struct fake_fn *f;

	for (size_t i = 0; i < rows; i++) {
		f = make();
		fake_put(f, row[i].offset, row[i].width, row[i].value);
		decode(f, HR_CFG_EXTENDED);
		cr_expect_eq(hr_get(&fn, row[i].fact, ~0u), row[i].want, "row %zu: %x", i,
			     hr_get(&fn, row[i].fact, ~0u));
	}
}

#define EXP(register) (FAKE_EXP + HR_EXP_##register)

Test(topo_decode, each_field_has_its_bits)
{
	static const struct bit_row row[] = {
		{ EXP(FLAGS), 2, 0xff92, HR_F_PORT, 9 },
		{ EXP(DEVCAP), 4, 0xfffffffd, HR_F_MPSS, 4096 },
		{ EXP(DEVCAP), 4, 0xfffffff8, HR_F_MPSS, 128 },
		{ EXP(DEVCTL), 2, 0xff5f, HR_F_MPS, 512 },
		{ EXP(DEVCTL), 2, 0xbfff, HR_F_MRRS, 1024 },
		{ EXP(LNKCAP), 4, 0xfffffff5, HR_F_SPEED_MAX, 5 },
		{ EXP(LNKCAP), 4, 0xfffffc8f, HR_F_WIDTH_MAX, 8 },
		{ EXP(LNKCAP), 4, 0x17ffffff, HR_F_PORT_NUMBER, 0x17 },
		{ EXP(LNKCAP), 4, 0xffefffff, HR_F_LLACTREP, 0 },
		{ EXP(LNKCAP), 4, 0x00100000, HR_F_LLACTREP, 1 },
		{ EXP(LNKCTL), 2, 0xfffe, HR_F_ASPM, 2 },
		{ EXP(LNKSTA), 2, 0xfff3, HR_F_SPEED, 3 },
		{ EXP(LNKSTA), 2, 0xfd0f, HR_F_WIDTH, 16 },
		{ EXP(LNKSTA), 2, 0xdfff, HR_F_DLACTIVE, 0 },
		{ EXP(LNKSTA), 2, 0x2000, HR_F_DLACTIVE, 1 },
		{ EXP(LNKCTL2), 2, 0xfff5, HR_F_SPEED_TARGET, 5 },
		{ EXP(DEVCAP2), 4, 0x80010203, HR_F_DEVCAP2, 0x80010203 },
		{ FAKE_PM + HR_PM_CTL, 2, 0xfffd, HR_F_PM, 1 },
		{ FAKE_AER + HR_AER_UESTA, 4, 0x81020304, HR_F_UESTA, 0x81020304 },
		{ FAKE_SRIOV + HR_SRIOV_VFS, 2, 0x1234, HR_F_VFS, 0x1234 },
		{ HR_CFG_REVISION, 4, 0x010802a5, HR_F_CLASS, 0x010802 },
		{ HR_CFG_REVISION, 4, 0x010802a5, HR_F_REVISION, 0xa5 },
		/* The second half exists from version 2 on. */
		{ EXP(FLAGS), 2, 0xfff1, HR_F_DEVCAP2, 0 },
		{ EXP(FLAGS), 2, 0xfff1, HR_F_DEVCTL2, 0 },
		{ EXP(FLAGS), 2, 0x0001, HR_F_SPEED_TARGET, ~0u },
	};
	static const struct bit_row of_port[] = {
		{ EXP(SLTCAP), 4, 0x000fffff, HR_F_SLOT, 1 },
		{ EXP(SLTCAP), 4, 0xfff00000, HR_F_SLOT, 0x1ffe },
		{ EXP(SLTSTA), 2, 0xffbf, HR_F_PRESENT, 0 },
		{ EXP(SLTSTA), 2, 0x0040, HR_F_PRESENT, 1 },
		{ EXP(FLAGS), 2, 0x0062, HR_F_SLOT, ~0u },
		{ EXP(FLAGS), 2, 0x0062, HR_F_PRESENT, ~0u },
		{ FAKE_ACS + HR_ACS_CAP, 2, 0x005f, HR_F_ACS_EGRESS, ~0u },
		{ FAKE_ACS + HR_ACS_EGRESS, 4, 0x80000001, HR_F_ACS_EGRESS, 0x80000001 },
	};

	expect_bits(endpoint, row, sizeof row / sizeof *row);
	expect_bits(port, of_port, sizeof of_port / sizeof *of_port);
}

/* The two low bits of a pointer are reserved. */
Test(topo_decode, low_bits_of_pointers_are_ignored)
{
	for (uint32_t low = 1; low < 4; low++) {
		const struct bit_row row[] = {
			{ HR_CFG_CAP_PTR, 1, FAKE_EXP | low, HR_F_EXP, FAKE_EXP },
			{ HR_CFG_CAP_PTR, 1, FAKE_EXP | low, HR_F_CAPS, 1 },
			{ FAKE_EXP + 1, 1, FAKE_PM | low, HR_F_PM, 0 },
			{ FAKE_EXP + 1, 1, FAKE_PM | low, HR_F_CAPS, 1 },
			{ FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | (FAKE_ATS | low) << 20, HR_F_ATS,
			  FAKE_ATS },
			{ FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | (FAKE_ATS | low) << 20, HR_F_ECAPS,
			  1 },
		};

		expect_bits(endpoint, row, sizeof row / sizeof *row);
	}
}

/* A capability may be at each multiple of 4, and a list that comes back to it is damaged. */
Test(topo_decode, loops_are_found_at_each_place)
{
	for (uint32_t at = FAKE_PM; at < FAKE_PM + 32; at += 4) {
		struct fake_fn *f = endpoint();

		fake_put(f, HR_CFG_CAP_PTR, 1, at);
		fake_put(f, at, 2, HR_CAP_PM | (at + 4) << 8);
		fake_put(f, at + 4, 2, HR_CAP_PM);
		decode(f, HR_CFG_EXTENDED);
		cr_expect_eq(hr_get(&fn, HR_F_CAPS, 0), 1u, "%x", at);
		fake_put(f, at + 4, 2, HR_CAP_PM | at << 8);
		decode(f, HR_CFG_EXTENDED);
		cr_expect_eq(hr_get(&fn, HR_F_CAPS, 0), 2u, "%x", at);
	}
	for (uint32_t at = 0x400; at < 0x420; at += 4) {
		struct fake_fn *f = endpoint();

		fake_put(f, FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | at << 20);
		fake_put(f, at, 4, 0xb | 1 << 16 | (at + 4) << 20);
		fake_put(f, at + 4, 4, 0xb | 1 << 16);
		decode(f, HR_CFG_EXTENDED);
		cr_expect_eq(hr_get(&fn, HR_F_ECAPS, 0), 1u, "%x", at);
		fake_put(f, at + 4, 4, 0xb | 1 << 16 | at << 20);
		decode(f, HR_CFG_EXTENDED);
		cr_expect_eq(hr_get(&fn, HR_F_ECAPS, 0), 2u, "%x", at);
	}
}

/* sysfs shows the address of a memory BAR whose register reads 0: the BAR is unassigned. */
Test(topo_decode, a_register_that_reads_zero_is_an_unassigned_bar)
{
	struct fake_fn *f = endpoint();

	fake_put(f, HR_CFG_BAR0, 4, 0);
	memset(&fn, 0, sizeof fn);
	fn.bar[0] = (struct hr_bar){ .base = 0xe2000000,
				     .size = 1 << 24,
				     .flags = HR_BAR_MEM | HR_BAR_PREF,
				     .source = HR_SRC_SYSFS,
				     .size_source = HR_SRC_SYSFS };
	hr_decode(&fn, f->config, HR_CFG_EXTENDED);
	cr_expect_eq(fn.bar[0].base, 0);
	cr_expect_eq(fn.bar[0].flags, HR_BAR_MEM | HR_BAR_PREF | HR_BAR_UNASSIGNED);
	cr_expect_eq(fn.bar[0].source, HR_SRC_SYSFS);
	cr_expect_eq(fn.bar[0].size, 1u << 24);
	/* Without sysfs it is unknown whether there is a BAR. */
	decode(f, HR_CFG_EXTENDED);
	cr_expect_eq(fn.bar[0].flags, HR_BAR_UNASSIGNED);
	cr_expect_eq(fn.bar[0].source, HR_SRC_CONFIG);
	/* The lowest bits of a BAR: I/O or memory, width, prefetchable. */
	fake_put(f, HR_CFG_BAR0, 4, 0x2001);
	decode(f, HR_CFG_EXTENDED);
	cr_expect_eq(fn.bar[0].flags, 0);
	fake_put(f, HR_CFG_BAR0, 4, 0xe2000008);
	decode(f, HR_CFG_EXTENDED);
	cr_expect_eq(fn.bar[0].flags, HR_BAR_MEM | HR_BAR_PREF);
	cr_expect_eq(fn.bar[0].base, 0xe2000000u);
}

/* 1: read to the end; 2: damaged. */
Test(topo_decode, a_damaged_capability_list_is_reported_as_damaged)
{
	static const struct bit_row row[] = {
		{ HR_CFG_CAP_PTR, 1, 0, HR_F_CAPS, 1 },
		{ HR_CFG_CAP_PTR, 1, HR_CFG_BASIC - 4, HR_F_CAPS, 2 },
		{ HR_CFG_CAP_PTR, 1, HR_CFG_BASIC, HR_F_CAPS, 1 },
		{ FAKE_EXP + 1, 1, FAKE_EXP, HR_F_CAPS, 2 },
		{ FAKE_EXP + 1, 1, 0xfc, HR_F_CAPS, 1 },
		{ FAKE_PM, 2, 0x00ff, HR_F_CAPS, 2 },
		{ FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | (HR_CFG_CONV - 4) << 20, HR_F_ECAPS, 2 },
		{ FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | HR_CFG_CONV << 20, HR_F_ECAPS, 2 },
		{ FAKE_AER, 4, HR_ECAP_AER | 1 << 16 | 0xffcu << 20, HR_F_ECAPS, 1 },
		{ FAKE_AER, 4, 0, HR_F_ECAPS, 0 },
		{ FAKE_AER, 4, ~0u, HR_F_ECAPS, 2 },
		{ FAKE_ATS, 4, ~0u, HR_F_ECAPS, 2 },
		/* Without lists there is no Express, and without extended ones no ACS. */
		{ HR_CFG_STATUS, 2, 0, HR_F_EXP, 0 },
		{ HR_CFG_CAP_PTR, 1, 0, HR_F_ECAPS, 0 },
		{ FAKE_AER, 4, 0, HR_F_ACS, 0 },
		{ FAKE_AER, 4, 0, HR_F_ATS, 0 },
		{ FAKE_AER, 4, ~0u, HR_F_ATS, ~0u },
	};

	expect_bits(endpoint, row, sizeof row / sizeof *row);
}

Test(topo_decode, resizable_bars_have_their_limits)
{
	static const struct {
		uint32_t ctl, bar;
		uint64_t size;
	} row[] = {
		{ 1u << 5 | 0u << 8 | 0, 0, 1ull << 20 }, { 1u << 5 | 43u << 8 | 5, 5, 1ull << 63 },
		{ 1u << 5 | 44u << 8 | 5, 5, 0 },	  { 1u << 5 | 4u << 8 | 6, 5, 0 },
		{ 0u << 5 | 4u << 8 | 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_fn *f = endpoint();

		fake_put(f, FAKE_REBAR + HR_REBAR_CTL, 4, row[i].ctl);
		decode(f, HR_CFG_EXTENDED);
		cr_expect_eq(fn.bar[row[i].bar].size, row[i].size, "row %zu", i);
		cr_expect_eq(fn.bar[row[i].bar].size_source != HR_SRC_NONE, row[i].size != 0,
			     "row %zu", i);
	}
}

Test(topo_decode, resizable_bars_offer_sizes)
{
	static const struct {
		uint32_t cap, ctl;
		uint64_t sizes, most;
	} row[] = {
		{ 0x00000010, 1u << 5, 1, 1ull << 20 },
		{ 0x007fc000, 1u << 5, 0x7fc00, 1ull << 38 },
		{ 0xffffffff, 0xffffu << 16 | 1u << 5, 0xfffffffffffull, 1ull << 63 },
		{ 0x0000000f, 1u << 5, 0, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_fn *f = endpoint();

		fake_put(f, FAKE_REBAR + HR_REBAR_CAP, 4, row[i].cap);
		fake_put(f, FAKE_REBAR + HR_REBAR_CTL, 4, row[i].ctl);
		decode(f, HR_CFG_EXTENDED);
		cr_expect_eq(fn.bar[0].sizes, row[i].sizes, "row %zu", i);
		cr_expect_eq(fn.bar[0].sizes_source, HR_SRC_CONFIG, "row %zu", i);
		cr_expect_eq(hr_resize_most(&fn.bar[0]), row[i].most, "row %zu", i);
	}
}

Test(topo_decode, ports_tell_slots_and_thunderbolt)
{
	struct fake_fn *f;

	machine.count = 0;
	f = fake_bridge(&machine, "00:01.0", 0x8086, 0x1234, HR_PORT_DOWNSTREAM, 1, 1);
	decode(f, HR_CFG_EXTENDED);
	cr_expect_eq(hr_get(&fn, HR_F_SLOT_IMPL, 2), 0);
	cr_expect_not(hr_known(&fn, HR_F_TUNNEL));
	fake_slot(f);
	fake_put(f, FAKE_DPC, 4, HR_ECAP_VENDOR | 1 << 16);
	fake_put(f, FAKE_DPC + HR_VSEC_ID, 2, HR_VSEC_THUNDERBOLT);
	decode(f, HR_CFG_EXTENDED);
	cr_expect_eq(hr_get(&fn, HR_F_SLOT_IMPL, 2), 1);
	cr_expect_eq(hr_get(&fn, HR_F_TUNNEL, 2), 1);
	fake_put(f, HR_CFG_VENDOR, 2, 0x1022);
	decode(f, HR_CFG_EXTENDED);
	cr_expect_not(hr_known(&fn, HR_F_TUNNEL));
}

Test(topo_decode, chipset_ports_with_wide_acs_are_identified_by_device_id)
{
	static const uint16_t range[][2] = { { 0xa110, 0xa11f },
					     { 0xa167, 0xa16a },
					     { 0xa290, 0xa29f },
					     { 0xa2e7, 0xa2ee },
					     { 0x9d10, 0x9d1b } };

	for (size_t i = 0; i < sizeof range / sizeof *range; i++) {
		cr_expect_not(hr_acs_is_wide(0x8086, range[i][0] - 1u), "range %zu", i);
		cr_expect(hr_acs_is_wide(0x8086, range[i][0]), "range %zu", i);
		cr_expect(hr_acs_is_wide(0x8086, range[i][1]), "range %zu", i);
		cr_expect_not(hr_acs_is_wide(0x8086, range[i][1] + 1u), "range %zu", i);
		cr_expect_not(hr_acs_is_wide(0x8087, range[i][0]), "range %zu", i);
	}
}
