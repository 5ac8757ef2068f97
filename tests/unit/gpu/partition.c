/* SPDX-License-Identifier: Apache-2.0 */
/* The static partition: layout, limits, addresses, the printed map. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"
#include "gpu/partition.h"
#include "tests/harness/random.h"
#include "tests/harness/error.h"

TestSuite(arena, .timeout = 60);

static struct hr_partition partition;
static const uint64_t no_limit[HR_PLACES];

Test(arena, parts_are_aligned_and_never_overlap)
{
	struct fake_random random = { 1 };

	hr_partition_init(&partition, no_limit);
	for (uint32_t i = 0; i < HR_PARTS_MAX; i++) {
		const uint32_t align = 1u << fake_random_below(&random, 13);
		const uint64_t bytes = fake_random_below(&random, 100000);
		const enum hr_place place = (enum hr_place)fake_random_below(&random, HR_PLACES);

		cr_assert_eq(hr_partition_add(&partition, place, bytes, align, "o", "p"), (int)i);
		cr_expect_eq(partition.part[i].offset % align, 0);
	}
	for (uint32_t i = 0; i < partition.count; i++) {
		const struct hr_part *a = &partition.part[i];

		cr_assert_leq(a->offset + a->bytes, partition.used[a->place]);
		cr_assert_eq(partition.used[a->place] % HR_PAGE, 0);
		for (uint32_t j = 0; j < i; j++) {
			const struct hr_part *b = &partition.part[j];

			cr_assert(a->place != b->place || a->offset >= b->offset + b->bytes ||
				  b->offset >= a->offset + a->bytes);
		}
	}
}

Test(arena, one_part_too_many_is_refused)
{
	hr_partition_init(&partition, no_limit);
	for (uint32_t i = 0; i < HR_PARTS_MAX; i++)
		cr_assert_geq(hr_partition_add(&partition, HR_PLACE_HOST, 1, 1, "o", "p"), 0);
	cr_expect_eq(hr_partition_add(&partition, HR_PLACE_HOST, 1, 1, "o", "p"), -ENOSPC);
	cr_expect_eq(partition.count, HR_PARTS_MAX);
}

/* Sums that do not fit 64 bits must not become small sums. */
Test(arena, a_size_beyond_all_memory_is_refused_and_leaves_the_arena_unchanged)
{
	static const uint64_t bytes[] = { UINT64_MAX, UINT64_MAX - 4095, INT64_MAX, 1ull << 62 };

	for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
		hr_partition_init(&partition, no_limit);
		cr_assert_eq(hr_partition_add(&partition, HR_PLACE_GPU, 5, 1, "o", "p"), 0);
		cr_expect_eq(hr_partition_add(&partition, HR_PLACE_GPU, bytes[i], 4096, "o", "p"),
			     -ENOSPC);
		cr_expect_eq(partition.count, 1);
		cr_expect_eq(partition.used[HR_PLACE_GPU], HR_PAGE);
	}
}

Test(arena, a_limit_holds_to_the_page)
{
	const uint64_t limit[HR_PLACES] = { 0, 3 * HR_PAGE };

	hr_partition_init(&partition, limit);
	hr_partition_add(&partition, HR_PLACE_CONTROL, 100 * HR_PAGE, 1, "o", "p");
	hr_partition_add(&partition, HR_PLACE_HOST, 3 * HR_PAGE, 1, "o", "p");
	cr_expect_eq(hr_partition_check(&partition, test_error()), 0);
	hr_partition_add(&partition, HR_PLACE_HOST, 1, 1, "o", "p");
	cr_expect_eq(hr_partition_check(&partition, test_error()), -ENOSPC);
	cr_expect(strstr(test_error_text(), "host") && strstr(test_error_text(), "16384") &&
			  strstr(test_error_text(), "12288"),
		  "%s", test_error_text());
}

Test(arena, addresses_follow_from_the_region_of_the_place)
{
	struct hr_region region[HR_PLACES] = { 0 };
	int control, host;

	hr_partition_init(&partition, no_limit);
	hr_partition_add(&partition, HR_PLACE_HOST, 100, 1, "o", "p");
	control = hr_partition_add(&partition, HR_PLACE_CONTROL, 8, 64, "o", "p");
	host = hr_partition_add(&partition, HR_PLACE_HOST, 8192, 4096, "o", "p");
	region[HR_PLACE_CONTROL].cpu = (void *)0x10000;
	region[HR_PLACE_CONTROL].worker = (void *)0x20000;
	region[HR_PLACE_HOST].cpu = (void *)0x30000;
	region[HR_PLACE_HOST].worker = (void *)0x40000;
	hr_partition_bind(&partition, region);
	cr_expect_eq(hr_partition_cpu(&partition, control), (void *)0x10000);
	cr_expect_eq(hr_partition_worker(&partition, control), (void *)0x20000);
	cr_expect_eq(hr_partition_cpu(&partition, host), (void *)0x31000);
	cr_expect_eq(hr_partition_worker(&partition, host), (void *)0x41000);
}

Test(arena, the_map_names_every_part_and_every_gap)
{
	const uint64_t limit[HR_PLACES] = { 0, 65536 };
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	hr_partition_init(&partition, limit);
	hr_partition_add(&partition, HR_PLACE_HOST, 10, 1, "ssd0", "submission queue");
	hr_partition_add(&partition, HR_PLACE_HOST, 20, 4096, "ssd1", "completion queue");
	hr_partition_print(&partition, out);
	fclose(out);
	cr_expect_str_eq(
		text,
		"place    offset                bytes  owner                    purpose\n"
		"host     0x000000000000           10  ssd0                     submission queue\n"
		"host     0x00000000000a         4086                           (alignment)\n"
		"host     0x000000001000           20  ssd1                     completion queue\n"
		"host     0x000000001014         4076                           (alignment)\n"
		"host     total                  8192  of 65536\n",
		"%s", text);
	free(text);
}

Test(arena, the_map_has_addresses_once_there_is_memory)
{
	struct hr_region region[HR_PLACES] = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	hr_partition_init(&partition, no_limit);
	hr_partition_add(&partition, HR_PLACE_HOST, 10, 1, "ssd0", "submission queue");
	hr_partition_add(&partition, HR_PLACE_HOST, 4096, 4096, "ssd1", "completion queue");
	hr_partition_add(&partition, HR_PLACE_CONTROL, 4096, 64, "pipeline p", "stop flag");
	hr_partition_add(&partition, HR_PLACE_GPU, 4096, 1, "pipeline p", "states");
	region[HR_PLACE_HOST].cpu = (void *)0x30000;
	region[HR_PLACE_HOST].worker = (void *)0x40000;
	region[HR_PLACE_HOST].bus.addr = 0x50000;
	region[HR_PLACE_HOST].bytes = 8192;
	region[HR_PLACE_CONTROL] = region[HR_PLACE_HOST];
	region[HR_PLACE_GPU].worker = (void *)0x7f0000000000;
	region[HR_PLACE_GPU].bytes = 4096;
	hr_partition_bind(&partition, region);
	hr_partition_print(&partition, out);
	fclose(out);
	cr_expect_str_eq(text,
			 "place    offset                bytes  workers        CPU            ssds "
			 "          owner                    purpose\n"
			 "control  0x000000000000         4096  0x000000040000 0x000000030000 -    "
			 "          pipeline p               stop flag\n"
			 "control  total                  4096\n"
			 "host     0x000000000000           10  0x000000040000 0x000000030000 "
			 "0x000000050000 ssd0                     submission queue\n"
			 "host     0x00000000000a         4086  0x00000004000a 0x00000003000a "
			 "0x00000005000a                          (alignment)\n"
			 "host     0x000000001000         4096  0x000000041000 0x000000031000 "
			 "0x000000051000 ssd1                     completion queue\n"
			 "host     total                  8192\n"
			 "gpu      0x000000000000         4096  0x7f0000000000 -              -    "
			 "          pipeline p               states\n"
			 "gpu      total                  4096\n",
			 "%s", text);
	free(text);
}
