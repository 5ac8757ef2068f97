/* A row becomes a part, and its address goes to the place that the row names. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "boot/engine/layout.h"

TestSuite(layout, .timeout = 60);

struct descriptor {
	uint32_t number;
	void *first, *none, *second;
};

static struct hr_partition partition;
static const uint64_t no_limit[HR_PLACES];

Test(layout, a_part_is_one_row)
{
	const struct hr_region region[HR_PLACES] = {
		[HR_PLACE_HOST] = { .cpu = (void *)0x10000, .worker = (void *)0x20000 },
		[HR_PLACE_GPU] = { .cpu = NULL, .worker = (void *)0x40000 },
	};
	int none = 7, host = 7;
	const struct hr_layout_row row[] = {
		{ "one", HR_PLACE_HOST, 3, 100, .pointer = offsetof(struct descriptor, first),
		  .align = 64 },
		{ "none", HR_PLACE_HOST, 0, 100, .pointer = offsetof(struct descriptor, none),
		  .align = 64, .part = &none },
		{ "two", HR_PLACE_GPU, 2, 8, .pointer = offsetof(struct descriptor, second),
		  .align = 64 },
		{ "three", HR_PLACE_HOST, 1, 1, .align = 4096, .part = &host },
	};
	struct descriptor cpu = { 0 }, worker = { 0 };
	struct hr_layout layout;

	hr_partition_init(&partition, no_limit);
	hr_partition_add(&partition, HR_PLACE_HOST, 1, 1, "another", "part");
	hr_layout_begin(&layout, &partition, "owner");
	cr_assert_eq(hr_layout_add(&layout, row, 4), 0);
	cr_expect_eq(partition.count, 4u);
	cr_expect_eq(layout.first, 1u);
	cr_expect_eq(layout.end, 4u);
	cr_expect_eq(none, -1);
	cr_expect_eq(host, 3);
	cr_expect_eq(partition.part[1].offset, 64u);
	cr_expect_eq(partition.part[1].bytes, 300u);
	cr_expect_str_eq(partition.part[1].owner, "owner");
	cr_expect_str_eq(partition.part[1].purpose, "one");
	hr_partition_bind(&partition, region);
	hr_layout_point_cpu(&layout, &cpu);
	hr_layout_point_workers(&layout, &worker);
	cr_expect_eq(cpu.first, (void *)0x10040);
	cr_expect_eq(worker.first, (void *)0x20040);
	cr_expect_null(cpu.second, "the CPU does not reach it");
	cr_expect_eq(worker.second, (void *)0x40000);
	cr_expect(!cpu.none && !worker.none);
}

/* A sum that overflows must not become a size that fits. */
Test(layout, parts_beyond_the_limit_of_a_partition_are_an_error)
{
	const struct hr_layout_row row[] = {
		{ "wraps", HR_PLACE_HOST, UINT64_MAX / 4 + 2, 4, .align = 64 },
		{ "large", HR_PLACE_HOST, INT64_MAX / 4, 1, .align = 64 },
		{ "small", HR_PLACE_HOST, 1, 1, .align = 64 },
	};
	struct hr_layout layout;

	hr_partition_init(&partition, no_limit);
	hr_layout_begin(&layout, &partition, "owner");
	cr_expect_eq(hr_layout_add(&layout, &row[0], 1), -ENOSPC);
	cr_expect_eq(hr_layout_add(&layout, &row[1], 2), -ENOSPC);
	while (partition.count < HR_PARTS_MAX)
		hr_partition_add(&partition, HR_PLACE_WORKER, 1, 1, "o", "p");
	cr_expect_eq(hr_layout_add(&layout, &row[2], 1), -ENOSPC);
}
