/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a small run of an access operator, against sizes computed by hand, what must be
 * contiguous on the bus, and the addresses that gpus have of each other. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/layout/access.h"
#include "boot/engine/layout/sizes.h"
#include "cache/page_policy.h"
#include "cache/peers.h"
#include "tests/harness/error.h"

TestSuite(access_layout, .timeout = 60);

#define IO_WORKERS 2
#define COMPUTE_WORKERS 3
#define COMMANDS 8 /* of an I/O worker */

static struct hr_partition partition;
static const uint64_t no_limit[HR_PLACES];
static struct hr_ssd ssd = { .queue_entries = 64 };
static struct hr_access access_run;
static struct hr_access_layout layout;

/* 100 frames of 4 KiB are 14 sets of 7 frames. Commands have two pages. */
static void plan(bool stages, uint64_t scratch_bytes)
{
	struct hr_access *a = &access_run;

	*a = (struct hr_access){ .io_blocks = IO_WORKERS,
				 .compute_blocks = COMPUTE_WORKERS,
				 .warps = 1,
				 .ssds = 1,
				 .merge_pages = 2,
				 .commands = COMMANDS,
				 .state_bytes = 40,
				 .scratch_bytes = scratch_bytes };
	a->cache.computers = COMPUTE_WORKERS;
	hr_cache_set_io_workers(&a->cache, IO_WORKERS);
	cr_assert_eq(hr_page_shape(&a->cache.shape, 100, 12, 1000), 0);
	layout = (struct hr_access_layout){
		.access = a,
		.args_bytes = 24,
		.frames_in = HR_PLACE_GPU,
		.stages = stages,
		.queue = { { .ssd = &ssd, .name = "a", .place = HR_PLACE_HOST } }
	};
	hr_partition_init(&partition, no_limit);
	cr_assert_eq(hr_access_layout_plan(&layout, &partition, "pipeline p"), 0);
}

static const struct hr_part *part_of(const char *purpose)
{
	for (uint32_t i = 0; i < partition.count; i++)
		if (strcmp(partition.part[i].purpose, purpose) == 0)
			return &partition.part[i];
	return NULL;
}

Test(access_layout, a_small_run_has_the_expected_parts)
{
	const struct {
		const char *purpose;
		enum hr_place place;
		uint64_t bytes;
	} row[] = {
		{ "counters of I/O workers", HR_PLACE_CONTROL, 2 * sizeof(struct hr_io_counters) },
		{ "status of workers", HR_PLACE_CONTROL, 5 * sizeof(struct hr_worker_status) },
		{ "operator arguments", HR_PLACE_WORKER, 24 },
		{ "operator states", HR_PLACE_GPU, 3 * 40 },
		{ "page table", HR_PLACE_WORKER, 14 * 32 },
		{ "98 frames of 4 KiB", HR_PLACE_GPU, 98 * 4096 },
		{ "request rings", HR_PLACE_WORKER, 2 * (128 + 256 * 8) },
		{ "words of each worker", HR_PLACE_WORKER, 5 * 64 },
		{ "words of all workers", HR_PLACE_WORKER, 32 },
		{ "numbers of flushes", HR_PLACE_WORKER, 2 * 8 },
		{ "2 queue pairs to a, 64 entries", HR_PLACE_HOST, 2 * 8192 },
		{ "commands in flight", HR_PLACE_WORKER, 2 * hr_layout_table_bytes(64) },
		{ "queue pairs", HR_PLACE_WORKER, 2 * sizeof(struct hr_nvme_qp) },
		{ "commands of I/O workers", HR_PLACE_WORKER, 16 * 64 },
		{ "PRP lists", HR_PLACE_HOST, 16 * 2 * 8 },
	};

	plan(false, 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_part *part = part_of(row[i].purpose);

		cr_expect(part, "%s", row[i].purpose);
		if (!part)
			continue;
		cr_expect_eq(part->place, row[i].place, "%s", row[i].purpose);
		cr_expect_eq(part->bytes, row[i].bytes, "%s: %llu bytes", row[i].purpose,
			     (unsigned long long)part->bytes);
		cr_expect_str_eq(part->owner, "pipeline p");
	}
	cr_expect_null(part_of("staging buffers"));
	cr_expect_null(part_of("memory of the operator"));
	cr_expect_eq(layout.staging, -1);
	cr_expect_eq(partition.part[layout.frames].align, 4096u, "a frame is aligned to its size");
	/* descriptor, stop flag, result; the rows above have all other parts */
	cr_expect_eq(partition.count, sizeof row / sizeof *row + 3);
}

Test(access_layout, staging_and_operator_memory_have_the_expected_sizes)
{
	const struct hr_part *part;

	plan(true, 5000);
	cr_expect_eq(hr_access_staging_bytes(&access_run), 16u * 8192);
	part = part_of("staging buffers");
	cr_assert_not_null(part);
	cr_expect_eq(part, &partition.part[layout.staging]);
	cr_expect_eq(part->place, HR_PLACE_HOST);
	cr_expect_eq(part->bytes, 16u * 8192);
	cr_expect_eq(part->offset % HR_PAGE, 0u);
	part = part_of("memory of the operator");
	cr_assert_not_null(part);
	cr_expect_eq(part->place, HR_PLACE_GPU);
	cr_expect_eq(part->bytes, 5000u);
}

/* Pages of data are not zeroed between two launches, and all other memory is. */
Test(access_layout, only_frames_and_staging_buffers_are_data)
{
	plan(true, 5000);
	for (uint32_t i = 0; i < partition.count; i++)
		cr_expect_eq(partition.part[i].data,
			     (int)i == layout.frames || (int)i == layout.staging, "%s",
			     partition.part[i].purpose);
}

/* The same run on one of three gpus. */
static void plan_on(uint32_t self)
{
	plan(false, 0);
	layout.gpus = 3;
	layout.self = self;
	hr_partition_init(&partition, no_limit);
	cr_assert_eq(hr_access_layout_plan(&layout, &partition, "pipeline p"), 0);
}

Test(access_layout, each_of_several_gpus_has_mailboxes_and_the_first_one_all_states)
{
	const struct hr_part *part;

	plan(false, 0);
	cr_expect_null(part_of("addresses of other gpus"));
	cr_expect_null(part_of("directory and mailboxes"));
	plan_on(0);
	cr_expect_eq(part_of("operator states")->bytes, 3u * 3 * 40);
	plan_on(2);
	cr_expect_eq(part_of("operator states")->bytes, 3u * 40);
	part = part_of("addresses of other gpus");
	cr_assert_not_null(part);
	cr_expect_eq(part->place, HR_PLACE_WORKER);
	cr_expect_eq(part->bytes, sizeof(struct hr_peers));
	part = part_of("directory and mailboxes");
	cr_assert_not_null(part);
	cr_expect_eq(part, &partition.part[layout.peers]);
	cr_expect_eq(part->place, HR_PLACE_WORKER);
	cr_expect_eq(part->offset % HR_PEERS_ALIGN, 0u);
	cr_expect_eq(part->bytes, hr_peers_bytes(&access_run.cache.shape, IO_WORKERS, 3));
}

/* ---- contents */

#define PAGES 192u /* of each place */

static struct hr_bus bus[PAGES];

static uint64_t worker_at(int place)
{
	return ((uint64_t)place + 1) << 40;
}

/* Bind memory of which host pages have one bus address after the other. */
static void bind(bool stages, enum hr_place frames_in)
{
	struct hr_region region[HR_PLACES];

	plan(stages, 0);
	layout.frames_in = frames_in;
	hr_partition_init(&partition, no_limit);
	cr_assert_eq(hr_access_layout_plan(&layout, &partition, "pipeline p"), 0);
	for (uint32_t i = 0; i < PAGES; i++)
		bus[i].addr = (0x70000 + i) * (uint64_t)HR_PAGE;
	for (int i = 0; i < HR_PLACES; i++)
		region[i] = (struct hr_region){ .worker = (void *)worker_at(i),
						.bytes = PAGES * HR_PAGE,
						.bus.addr = worker_at(i) << 4 };
	region[HR_PLACE_HOST].granule_bus = bus;
	region[HR_PLACE_HOST].granule_shift = 12;
	hr_partition_bind(&partition, region);
}

/* The second page of a part, and all behind it, lie elsewhere. */
static void break_part(int part)
{
	const size_t page = partition.part[part].offset / HR_PAGE + 1;

	cr_assert_gt(partition.part[part].bytes, HR_PAGE);
	for (size_t i = page; i < PAGES; i++)
		bus[i].addr += 1 << 30;
}

static void expect_break(int err, int part)
{
	char says[400] = "";

	if (err)
		snprintf(
			says, sizeof says,
			"pipeline p: %s, %llu bytes in host memory, are not contiguous on the "
			"bus, and I/O blocks need that; use vfio: for the ssds, or a smaller cache",
			partition.part[part].purpose,
			(unsigned long long)partition.part[part].bytes);
	cr_expect_str_eq(test_error_text(), says);
	cr_expect_eq(test_error_kind(), err ? HR_ERROR_MISSING : HR_ERROR_NONE);
}

Test(access_layout, a_part_that_controllers_access_is_contiguous)
{
	bind(true, HR_PLACE_GPU);
	break_part(layout.staging);
	cr_expect_eq(hr_access_layout_check(&layout, test_error()), -ENOTSUP);
	expect_break(-ENOTSUP, layout.staging);
	access_run.commands = 300; /* lists of more than a page */
	hr_partition_init(&partition, no_limit);
	layout.queue[0].place = HR_PLACE_GPU;
	cr_assert_eq(hr_access_layout_plan(&layout, &partition, "pipeline p"), 0);
	partition.region[HR_PLACE_HOST] =
		(struct hr_region){ .granule_bus = bus, .granule_shift = 12, .bytes = 1 << 30 };
	layout.staging = -1;
	break_part(layout.prp_lists);
	cr_expect_eq(hr_access_layout_check(&layout, test_error()), -ENOTSUP);
	expect_break(-ENOTSUP, layout.prp_lists);
}

Test(access_layout, frames_are_contiguous_where_controllers_access_them)
{
	bind(false, HR_PLACE_HOST);
	break_part(layout.frames);
	cr_expect_eq(hr_access_layout_check(&layout, test_error()), -ENOTSUP);
	expect_break(-ENOTSUP, layout.frames);
	layout.stages = true; /* only workers use the frames */
	cr_expect_eq(hr_access_layout_check(&layout, test_error()), 0);
	bind(false, HR_PLACE_GPU);
	partition.region[HR_PLACE_GPU].granule_bus = bus;
	partition.region[HR_PLACE_GPU].granule_shift = 12;
	break_part(layout.frames);
	partition.region[HR_PLACE_HOST].granule_bus = NULL;
	cr_expect_eq(hr_access_layout_check(&layout, test_error()), 0, "they are no host memory");
}

Test(access_layout, each_gpu_gets_the_addresses_of_all)
{
	static struct hr_access access_of[2];
	static struct hr_access_layout of[2];
	static struct hr_partition parts[2];
	static struct hr_peers peers[2];
	struct hr_access_layout *const all[HR_GPUS_MAX] = { &of[0], &of[1] };

	for (uint32_t g = 0; g < 2; g++) {
		struct hr_region region[HR_PLACES] = { 0 };

		plan(false, 0);
		layout.gpus = 2;
		layout.self = g;
		hr_partition_init(&partition, no_limit);
		cr_assert_eq(hr_access_layout_plan(&layout, &partition, "p"), 0);
		for (int i = 0; i < HR_PLACES; i++)
			region[i].worker = (void *)(worker_at(i) + (g + 1) * 0x10000000);
		parts[g] = partition;
		hr_partition_bind(&parts[g], region);
		of[g] = layout;
		of[g].parts.partition = &parts[g];
		access_of[g] = access_run;
		of[g].access = &access_of[g];
		access_of[g].cache.peers = &peers[g];
		access_of[g].cache.timeout_ns = 55 + g;
	}
	of[1].states = -1; /* an operator without states there */
	hr_access_layout_join(all);
	for (uint32_t self = 0; self < 2; self++) {
		cr_expect_eq(peers[self].self, self);
		cr_expect_eq(peers[self].gpus, 2u);
		cr_expect_eq(peers[self].timeout_ns, 55 + self);
		cr_expect_geq((void *)peers[self].from,
			      hr_partition_worker(&parts[self], of[self].peers));
		cr_expect_lt((uint8_t *)peers[self].from,
			     (uint8_t *)hr_partition_worker(&parts[self], of[self].peers) +
				     parts[self].part[of[self].peers].bytes);
		for (uint32_t g = 0; g < 2; g++) {
			const struct hr_peer *peer = &peers[self].gpu[g];

			cr_expect_eq((void *)peer->frame,
				     hr_partition_worker(&parts[g], of[g].frames));
			cr_expect_eq((const void *)peer->set,
				     hr_partition_worker(&parts[g], of[g].sets));
			cr_expect_eq((const void *)peer->flushed,
				     hr_partition_worker(&parts[g], of[g].flushed));
			cr_expect_eq((const void *)peer->states,
				     g ? NULL : hr_partition_worker(&parts[g], of[g].states));
		}
	}
}
