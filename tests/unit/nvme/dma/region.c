/* SPDX-License-Identifier: Apache-2.0 */
/* Bus addresses of regions: contiguous ones, granules, and the I/O address space that they share. */
#include "nvme/dma/region.h"

#include <criterion/criterion.h>
#include <errno.h>

#include "config/base/limits.h"

#define START (64ull << 30)
#define END (1ull << 39)
#define MIB (1ull << 20)

TestSuite(region, .timeout = 60);

/* ---- granules */

/* Granules of 8 KiB: two in a row, one apart, three in a row, of which the last is not whole. */
static struct hr_bus granule[6] = {
	{ 0x100000 }, { 0x102000 }, { 0x200000 }, { 0x300000 }, { 0x302000 }, { 0x304000 },
};
static const struct hr_region pieces = {
	.bytes = 6 * 8192, .bus = { 0x100000 }, .granule_bus = granule, .granule_shift = 13
};
static const struct hr_region whole = { .bytes = 6 * 8192, .bus = { 0x700000 } };

Test(region, each_byte_has_the_address_of_its_granule)
{
	static const struct {
		size_t offset;
		uint64_t bus;
	} row[] = {
		{ 0, 0x100000 },     { 1, 0x100001 },	  { 8191, 0x101fff },  { 8192, 0x102000 },
		{ 16384, 0x200000 }, { 20480, 0x201000 }, { 24576, 0x300000 }, { 49151, 0x305fff },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(hr_region_bus(&pieces, row[i].offset).addr, row[i].bus, "row %zu", i);
		cr_expect_eq(hr_region_bus(&whole, row[i].offset).addr, 0x700000 + row[i].offset);
	}
}

Test(region, contiguous_parts_end_where_addresses_jump_or_the_region_ends)
{
	static const struct {
		size_t offset, bytes;
	} row[] = {
		{ 0, 16384 }, { 8192, 8192 }, { 16384, 8192 }, { 24576, 24576 }, { 40960, 8192 },
	};
	struct hr_region cut = pieces;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(hr_region_contiguous_bytes(&pieces, row[i].offset), row[i].bytes,
			     "row %zu", i);
		cr_expect_eq(hr_region_contiguous_bytes(&whole, row[i].offset),
			     whole.bytes - row[i].offset);
	}
	cut.bytes = 5 * 8192 + 4096; /* the last granule is not whole */
	cr_expect_eq(hr_region_contiguous_bytes(&cut, 24576), 20480);
	cr_expect_eq(hr_region_contiguous_bytes(&cut, 40960), 4096);
}

Test(region, a_range_is_contiguous_when_no_granule_in_it_jumps)
{
	static const struct {
		size_t offset, bytes;
		bool want;
	} row[] = {
		{ 0, 1, true },		{ 0, 16384, true },	{ 0, 16385, false },
		{ 8191, 2, true },	{ 16383, 1, true },	{ 16383, 2, false },
		{ 16384, 8192, true },	{ 16384, 8193, false }, { 16000, 8000, false },
		{ 24576, 24576, true }, { 24575, 2, false },	{ 30000, 19152, true },
		{ 0, 49152, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(hr_region_contiguous(&pieces, row[i].offset, row[i].bytes),
			     row[i].want, "row %zu", i);
		cr_expect(hr_region_contiguous(&whole, row[i].offset, row[i].bytes), "row %zu", i);
	}
}

/* ---- the address space: each test is a program's first use of it, or gives all of it back */

static uint64_t take(size_t bytes)
{
	struct hr_bus bus = { 0 };

	cr_assert_eq(hr_region_assign_bus(bytes, &bus), 0);
	return bus.addr;
}

Test(region, ranges_are_apart_and_aligned)
{
	cr_expect_eq(take(1), START);
	cr_expect_eq(take(2 * MIB), START + 2 * MIB);
	cr_expect_eq(take(2 * MIB + 1), START + 4 * MIB);
	cr_expect_eq(take(4096), START + 8 * MIB);
	for (unsigned i = 0; i < 4; i++)
		hr_region_unassign_bus();
}

Test(region, the_space_starts_again_when_no_range_is_in_use)
{
	cr_expect_eq(take(4096), START);
	cr_expect_eq(take(4096), START + 2 * MIB);
	hr_region_unassign_bus();
	cr_expect_eq(take(4096), START + 4 * MIB, "one is in use");
	hr_region_unassign_bus();
	hr_region_unassign_bus();
	cr_expect_eq(take(4096), START);
	hr_region_unassign_bus();
}

Test(region, the_space_has_an_end)
{
	struct hr_bus bus = { 7 };

	cr_expect_eq(hr_region_assign_bus(END - START + 1, &bus), -ENOSPC);
	cr_expect_eq(bus.addr, 7u);
	cr_expect_eq(take(END - START - 4 * MIB), START);
	cr_expect_eq(hr_region_assign_bus(4 * MIB + 1, &bus), -ENOSPC);
	cr_expect_eq(take(2 * MIB), END - 4 * MIB);
	cr_expect_eq(take(1), END - 2 * MIB);
	cr_expect_eq(hr_region_assign_bus(1, &bus), -ENOSPC, "all of it is in use");
	cr_expect_eq(take(0), END);
	for (unsigned i = 0; i < 4; i++)
		hr_region_unassign_bus();
	cr_expect_eq(take(END - START), START);
	hr_region_unassign_bus();
}

Test(region, host_memory_is_described_or_refused)
{
	static uint8_t memory[2 * HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_region region = { .bytes = 99, .granule_shift = 5, .granule_bus = granule };

	cr_expect_eq(hr_region_init_host(&region, "x", NULL, HR_PAGE), -EINVAL);
	cr_expect_eq(hr_region_init_host(&region, "x", memory, END), -ENOSPC);
	cr_expect_eq(region.bytes, 99u);
	cr_assert_eq(hr_region_init_host(&region, "x", memory, 2 * HR_PAGE), 0);
	cr_expect_str_eq(region.name, "x");
	cr_expect_eq(region.kind, HR_REGION_HOST);
	cr_expect_eq(region.cpu, memory);
	cr_expect_eq(region.worker, memory);
	cr_expect_eq(region.bytes, 2 * HR_PAGE);
	cr_expect_eq(region.bus.addr, START);
	cr_expect_null(region.granule_bus);
	cr_expect_eq(region.granule_shift, 0u);
	hr_region_unassign_bus();
}
