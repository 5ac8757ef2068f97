/* BARs in the text of each version of lspci, and in the Enhanced Allocation capability. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/verdict.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_bars, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static const struct hr_options plain;

#define HEAD "\tControl: I/O- Mem+ BusMaster+\n\tStatus: Cap+ 66MHz-\n"
#define EXPRESS                                                \
	"\tCapabilities: [40] Express (v1) Endpoint, MSI 00\n" \
	"\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0\n"     \
	"\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n"   \
	"\tCapabilities: [100 v1] Advanced Error Reporting\n"

/* The GPU as lspci -vv prints it, without registers. */
static void gpu_as_text(const char *title, const char *regions)
{
	struct fake_fn *f = fake_find(&machine, GPU);

	f->bytes = 0;
	snprintf(f->title, sizeof f->title, "%s", title);
	snprintf(f->text, sizeof f->text, HEAD "%s" EXPRESS, regions);
}

#define NVIDIA "3D controller [0302]: NVIDIA Card [10de:20b0]"
#define AMD "Display controller [0380]: AMD Card [1002:740f]"
#define REGISTERS "\tRegion 0: Memory at e2000000 (32-bit, non-prefetchable) [size=16M]\n"

struct virtual_row {
	const char *title, *regions, *ssd;
	enum hr_verdict verdict;
};

static void check_rows(const struct virtual_row *row, size_t rows)
{
	struct hr_pair p;

	for (size_t i = 0; i < rows; i++) {
		fake_two_ports(&machine);
		gpu_as_text(row[i].title, row[i].regions);
		fake_evaluate(row[i].ssd, &plain, &p);
		cr_expect_eq(p.verdict, row[i].verdict, "row %zu: verdict %u by %s", i, p.verdict,
			     hr_rules[p.rule].id);
		cr_expect_eq(fake_found(&p, "R3-bar"), row[i].verdict == HR_BLOCKED, "row %zu", i);
	}
}

Test(topo_bars, a_bar_at_a_multiple_of_4_gib_is_not_virtual)
{
	static const struct virtual_row row[] = {
		/* Versions up to 3.6.2: the low half of the register reads 0. */
		{ NVIDIA,
		  REGISTERS "\tRegion 1: [virtual] Memory at 38000000000 (64-bit, prefetchable) "
			    "[size=16G]\n",
		  SIBLING, HR_DIRECT },
		{ NVIDIA,
		  REGISTERS "\tRegion 1: [virtual] Memory at 38000000000 (64-bit, prefetchable) "
			    "[size=16G]\n",
		  OTHER, HR_RC_UNLISTED },
		{ AMD,
		  "\tRegion 0: [virtual] Memory at 38000000000 (64-bit, prefetchable) [size=16G]\n",
		  SIBLING, HR_DIRECT },
		{ AMD, "\tRegion 0: [virtual] Memory at 38000000000 (64-bit, prefetchable)\n",
		  SIBLING, HR_DIRECT },
		/*
		 * Versions from 3.6.3 to 2022: the mark of one region also appears at the following
		 * regions.
		 */
		{ NVIDIA,
		  "\tRegion 0: Memory at e2000000 (32-bit, non-prefetchable) [virtual] [size=16M]\n"
		  "\tRegion 1: Memory at 38000000000 (64-bit, prefetchable) [virtual] [size=16G]\n",
		  SIBLING, HR_DIRECT },
		{ NVIDIA,
		  "\tRegion 0: I/O ports at 2000 [virtual] [size=32]\n"
		  "\tRegion 1: Memory at 38000000000 (64-bit, prefetchable) [virtual] [size=16G]\n",
		  SIBLING, HR_DIRECT },
	};

	check_rows(row, sizeof row / sizeof *row);
}

Test(topo_bars, a_bar_that_the_register_does_not_have_is_unassigned)
{
	static const struct virtual_row row[] = {
		/* The low half of the register reads 0, but the address has a low half. */
		{ NVIDIA,
		  REGISTERS "\tRegion 1: [virtual] Memory at d0000000 (64-bit, prefetchable) "
			    "[size=256M]\n",
		  SIBLING, HR_BLOCKED },
		{ NVIDIA,
		  REGISTERS "\tRegion 1: [virtual] Memory at 38010000000 (64-bit, prefetchable) "
			    "[size=256M]\n",
		  SIBLING, HR_BLOCKED },
		/* Both halves read 0. */
		{ NVIDIA,
		  REGISTERS "\tRegion 1: Memory at 38000000000 (64-bit, prefetchable) [virtual] "
			    "[size=16G]\n",
		  SIBLING, HR_BLOCKED },
		{ NVIDIA, REGISTERS "\tRegion 1: Memory at <unassigned> (64-bit, prefetchable)\n",
		  SIBLING, HR_BLOCKED },
		{ NVIDIA, REGISTERS "\tRegion 1: Memory at <ignored> (64-bit, prefetchable)\n",
		  SIBLING, HR_BLOCKED },
	};

	check_rows(row, sizeof row / sizeof *row);
}

Test(topo_bars, a_register_in_the_capture_decides)
{
	struct fake_fn *f = fake_find(&machine, GPU);
	struct hr_pair p;

	snprintf(f->text, sizeof f->text,
		 "\tRegion 1: Memory at 38000000000 (64-bit, prefetchable) [virtual] [size=16G]\n");
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_DIRECT);
	fake_put(f, HR_CFG_BAR0 + 8, 4, 0);
	snprintf(f->text, sizeof f->text,
		 "\tRegion 1: [virtual] Memory at 38000000000 (64-bit, prefetchable) [size=16G]\n");
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_BLOCKED);
	cr_expect(fake_found(&p, "R3-bar"));
}

/* "BAR 0: current size: 16MB" below a Resizable BAR capability replaces the size of the region. */
Test(topo_bars, a_resizable_bar_has_its_current_size)
{
	static const struct {
		const char *section, *line;
		uint64_t size;
	} row[] = {
		{ "Physical Resizable BAR", "BAR 0: current size: 1MB, supported: 1MB",
		  1ull << 20 },
		{ "Physical Resizable BAR", "BAR 0: current size: 16MB, supported: 1MB",
		  16ull << 20 },
		{ "Physical Resizable BAR", "BAR 0: current size: 512GB, supported: 1MB",
		  512ull << 30 },
		{ "Physical Resizable BAR", "BAR 0: current size: 2TB, supported: 1MB",
		  2ull << 40 },
		{ "Physical Resizable BAR", "BAR 0: current size: 1048575MB", 1048575ull << 20 },
		/* no size, no such BAR, no such section: the size of the region stays */
		{ "Physical Resizable BAR", "BAR 0: current size: 1048576MB", 32u << 10 },
		{ "Physical Resizable BAR", "BAR 0: current size: 0MB", 32u << 10 },
		{ "Physical Resizable BAR", "BAR 6: current size: 16MB", 32u << 10 },
		{ "Physical Resizable BAR", "BAR x: current size: 16MB", 32u << 10 },
		{ "Physical Resizable BAR", "BAR 0: supported: 16MB", 32u << 10 },
		{ "Virtual Resizable BAR", "BAR 0: current size: 16MB", 32u << 10 },
		{ "Power Budgeting", "BAR 0: current size: 16MB", 32u << 10 },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char regions[256];

		fake_two_ports(&machine);
		snprintf(regions, sizeof regions,
			 "\tRegion 0: Memory at e0000000 (64-bit, prefetchable) [size=32K]\n"
			 "\tCapabilities: [240 v1] %s\n\t\t%s\n",
			 row[i].section, row[i].line);
		gpu_as_text(NVIDIA, regions);
		fake_evaluate(SIBLING, &plain, &p);
		cr_expect_eq(model.fn[fake_at(GPU)].bar[0].size, row[i].size, "row %zu: %llu", i,
			     (unsigned long long)model.fn[fake_at(GPU)].bar[0].size);
	}
}

/* ---- Enhanced Allocation (PCIe Base 7.8.5): fixed BARs, whose registers read 0 */

#define EA 0xa0u

static uint32_t entry(unsigned dwords, unsigned index, unsigned properties, bool on)
{
	return dwords | index << 4 | properties << 8 | 0xffu << 16 | (on ? 1u << 31 : 0);
}

/* The disk's BAR0 as an entry of 32 or 64 bits. */
static struct fake_fn *disk_with_entry(uint64_t base, uint32_t bytes, bool wide, bool on)
{
	struct fake_fn *f = fake_find(&machine, SIBLING);
	unsigned at = EA + 4;

	fake_put(f, HR_CFG_BAR0, 4, 0);
	f->text[0] = '\0';
	fake_put(f, FAKE_PM + 1, 1, EA);
	fake_put(f, EA, 4, HR_CAP_EA | 1u << 16);
	fake_put(f, at, 4, entry(wide ? 4 : 2, 0, 0, on));
	fake_put(f, at + 4, 4, (uint32_t)base | (wide ? 2 : 0));
	fake_put(f, at + 8, 4, (bytes - 1) & ~3u & ~2u);
	if (wide)
		fake_put(f, at + 12, 4, (uint32_t)(base >> 32));
	return f;
}

Test(topo_bars, an_entry_of_enhanced_allocation_is_the_bar)
{
	struct hr_pair p;
	const struct hr_fn *disk;

	disk_with_entry(0xe0004000, 0x4000, false, true);
	fake_evaluate(SIBLING, &plain, &p);
	disk = &model.fn[fake_at(SIBLING)];
	cr_expect_eq(p.verdict, HR_DIRECT, "%s", hr_rules[p.rule].id);
	cr_expect_eq(disk->bar[0].base, 0xe0004000u);
	cr_expect_eq(disk->bar[0].size, 0x4000u);
}

Test(topo_bars, an_entry_in_64_bits_is_the_bar)
{
	struct hr_pair p;

	disk_with_entry(0x38100000000, 0x4000, true, true);
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(model.fn[fake_at(SIBLING)].bar[0].base, 0x38100000000ull);
	cr_expect(fake_found(&p, "R3"), "no window of the disk's port holds it");
	cr_expect_not(fake_found(&p, "R3-bar"));
}

Test(topo_bars, an_entry_that_is_off_or_cut_is_no_bar)
{
	struct hr_pair p;

	disk_with_entry(0xe0004000, 0x4000, false, false);
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_BLOCKED);
	cr_expect(fake_found(&p, "R3-bar"));
	/* 63 entries do not fit into 256 bytes. */
	fake_put(disk_with_entry(0xe0004000, 0x4000, false, true), EA + 2, 1, 63);
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_DIRECT);
}
