/* SPDX-License-Identifier: Apache-2.0 */
/* A row becomes a part with its addresses; the parts of an owner are cleared and copied. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "boot/engine/layout/layout.h"
#include "tests/harness/calls.h"

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

/* ---- before a launch, and after it */

static unsigned calls, fails_at;

static int fail(void)
{
	return ++calls == fails_at ? -EIO : 0;
}

static int upload(struct hr_backend *b, void *worker, const void *from, size_t bytes,
		  struct hr_error *e)
{
	calls_note("up %zx %zx;", (size_t)worker, bytes);
	return fail();
}

static int download(struct hr_backend *b, void *to, const void *worker, size_t bytes,
		    struct hr_error *e)
{
	calls_note("down %zx %zx;", (size_t)worker, bytes);
	return fail();
}

static const struct hr_backend_ops ops = { .upload = upload, .download = download };

#define MANY (16 * HR_PAGE) /* one upload has at most so many zeros */

/* The parts of one owner between those of others. */
static void add_parts(struct hr_layout *layout)
{
	const struct hr_layout_row row[] = {
		{ "words", HR_PLACE_HOST, 1, 70, .align = 64 },
		{ "tiles", HR_PLACE_HOST, 1, 10, .align = 64, .data = true },
		{ "descriptor", HR_PLACE_WORKER, 1, 100, .align = 64 },
		{ "frames", HR_PLACE_GPU, 1, 64, .align = 64, .data = true },
		{ "states", HR_PLACE_GPU, 1, MANY, .align = 64 },
		{ "slots", HR_PLACE_WORKER, 1, 30, .align = 64 },
		{ "blocks", HR_PLACE_GPU, 2, MANY + 1, .align = 64 },
	};
	const struct hr_layout_row other[] = {
		{ "o", HR_PLACE_WORKER, 1, 64, .align = 64,
		  .pointer = offsetof(struct descriptor, second) },
		{ "o", HR_PLACE_HOST, 1, 64, .align = 64 },
		{ "o", HR_PLACE_GPU, 1, 64, .align = 64 },
	};
	struct hr_layout others;

	hr_partition_init(&partition, no_limit);
	hr_layout_begin(&others, &partition, "other");
	cr_assert_eq(hr_layout_add(&others, other, 3), 0);
	hr_layout_begin(layout, &partition, "owner");
	cr_assert_eq(hr_layout_add(layout, row, sizeof row / sizeof *row), 0);
	hr_layout_begin(&others, &partition, "another");
	cr_assert_eq(hr_layout_add(&others, other, 3), 0);
}

Test(layout, a_clear_leaves_data_and_the_parts_of_others)
{
	static uint8_t host[320], worker[320];
	struct hr_backend backend = { .ops = &ops };
	struct hr_places places = { .backend = &backend };
	struct hr_layout layout;

	places.region[HR_PLACE_HOST].cpu = host;
	places.region[HR_PLACE_WORKER].cpu = worker;
	places.region[HR_PLACE_WORKER].worker = (void *)0x900000; /* a copy is cleared */
	places.region[HR_PLACE_GPU].worker = (void *)0x100000;
	add_parts(&layout);
	memset(host, 1, sizeof host);
	memset(worker, 1, sizeof worker);
	cr_expect_eq(hr_layout_clear(&layout, &places, NULL), 0);
	for (uint32_t i = 0; i < sizeof host; i++) {
		cr_expect_eq(host[i], i < 64 || i >= 64 + 70, "%u", i);
		cr_expect_eq(worker[i], i < 64 || (i >= 64 + 100 && i < 192) || i >= 192 + 30, "%u",
			     i);
	}
	cr_expect_str_eq(calls_take(), "up 100080 10000;"
				       "up 110080 10000;up 120080 10000;up 130080 2;");
	for (unsigned n = 1; n <= 4; n++) {
		calls = 0;
		fails_at = n;
		cr_expect_eq(hr_layout_clear(&layout, &places, NULL), -EIO, "%u", n);
		cr_expect_eq(calls, n);
	}
}

Test(layout, all_parts_of_workers_are_copied_at_once)
{
	const struct descriptor blank = { 0 };
	struct descriptor descriptor = { 0 };
	const struct hr_layout_row none = { "w", HR_PLACE_HOST, 1, 8, .align = 64 };
	struct hr_backend backend = { .ops = &ops };
	struct hr_places places = { 0 };
	struct hr_layout layout;

	add_parts(&layout);
	places.backend = &backend;
	places.region[HR_PLACE_HOST].cpu = places.region[HR_PLACE_HOST].worker = (void *)0x100000;
	places.region[HR_PLACE_WORKER] = places.region[HR_PLACE_HOST];
	hr_partition_bind(&partition, places.region);
	hr_layout_point_cpu(&layout, &descriptor);
	hr_layout_point_workers(&layout, &descriptor);
	cr_expect_eq(memcmp(&descriptor, &blank, sizeof blank), 0, "it has no pointers");
	cr_expect_eq(hr_layout_upload(&layout, &places, NULL), 0);
	cr_expect_eq(hr_layout_download(&layout, &places, NULL), 0);
	cr_expect_str_eq(calls_take(), "up 100040 9e;down 100040 9e;");
	fails_at = 3;
	cr_expect_eq(hr_layout_upload(&layout, &places, NULL), -EIO);
	fails_at = 4;
	cr_expect_eq(hr_layout_download(&layout, &places, NULL), -EIO);
	calls_take();
	hr_layout_begin(&layout, &partition, "third");
	cr_assert_eq(hr_layout_add(&layout, &none, 1), 0);
	cr_expect_eq(hr_layout_upload(&layout, &places, NULL), 0);
	cr_expect_str_eq(calls_take(), "", "it has no part there");
}
