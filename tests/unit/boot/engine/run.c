/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a run: its tiles as a part of several, status records, credits and the end of a feed. */
#include "boot/engine/run.h"

#include <criterion/criterion.h>
#include <string.h>

#include "config/operator.h"

TestSuite(run, .timeout = 60);

static struct hr_run run;
static struct hr_config_pipeline config;
static struct hr_pipe pipe_;
static struct hr_operator op;
static struct hr_worker_status status[2][32];
static struct hr_io_counters counters[2][8];

static void begin(void)
{
	memset(&run, 0, sizeof run);
	memset(&config, 0, sizeof config);
	memset(&pipe_, 0, sizeof pipe_);
	run.config = &config;
	config.op = &op;
}

Test(run, the_parts_of_a_run_follow_each_other)
{
	static const struct {
		uint64_t tiles;
		uint32_t parts, part;
		uint64_t begin, end;
	} row[] = {
		{ 10, 0, 0, 0, 10 }, { 10, 1, 0, 0, 10 },
		{ 10, 3, 0, 0, 3 },  { 10, 3, 1, 3, 6 },
		{ 10, 3, 2, 6, 10 }, { 2, 4, 0, 0, 0 },
		{ 2, 4, 1, 0, 1 },   { 2, 4, 3, 1, 2 },
		{ 0, 2, 1, 0, 0 },   { UINT64_MAX, 2, 1, UINT64_MAX / 2, UINT64_MAX },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		run.tiles = row[i].tiles;
		run.parts = row[i].parts;
		run.part = row[i].part;
		run.shard_begin = 77;
		run.shard_end = 99;
		cr_expect_eq(hr_run_first_tile(&run), row[i].begin, "%zu", i);
		cr_expect_eq(hr_run_end_tile(&run), row[i].end, "%zu", i);
		run.of_shards = true;
		cr_expect_eq(hr_run_first_tile(&run), 77u);
		cr_expect_eq(hr_run_end_tile(&run), 99u);
	}
}

/* Two prefetch workers, three compute blocks, four write-back workers. */
static void be_a_stream(void)
{
	begin();
	for (int role = 0; role < HR_ROLES; role++) {
		run.cpu.blocks[role] = pipe_.blocks[role] = 1 + (uint32_t)role;
		run.cpu.workers[role] = pipe_.workers[role] = 2;
	}
	run.cpu.status = status[0];
	run.blocks[HR_ROLE_PREFETCH] = 5;
	run.blocks[HR_RUN_ROLES - 1] = 6;
	run.pipe = &pipe_;
}

/* Two I/O blocks of three warps and four compute blocks on each of two gpus. */
static void be_an_access_operator(void)
{
	begin();
	config.objects = 1;
	config.other_gpus = 1;
	for (uint32_t p = 0; p < 2; p++) {
		struct hr_access *a = &run.gpu[p].cpu;

		a->io_blocks = 2;
		a->warps = 3;
		a->compute_blocks = 4;
		a->status = status[p];
		a->counters = counters[p];
		a->control = (struct hr_pipe_control *)(void *)&status[p][31];
		run.gpu[p].access = a;
		run.gpu[p].layout.descriptor = 20 + (int)p;
	}
}

Test(run, the_status_records_of_a_stream_are_in_role_order)
{
	static const uint32_t first[] = { 0, 2, 4, 10, 10, 10 };
	uint32_t number;

	begin();
	cr_expect_not(hr_run_wired(&run));
	be_a_stream();
	cr_expect(hr_run_wired(&run));
	for (uint32_t role = 0; role <= HR_RUN_ROLES; role++)
		cr_expect_eq(hr_run_first_status(&run, role), first[role], "%u", role);
	cr_expect_eq(hr_run_role_statuses(&run, HR_ROLE_COMPUTE), 2u, "one for each block");
	cr_expect_eq(hr_run_role_statuses(&run, HR_ROLES), 0u);
	cr_expect_eq(hr_run_statuses(&run), 10u);
	for (uint32_t i = 0; i < 10; i++) {
		const uint32_t want = i < 2 ? i : i < 4 ? i - 2 : i - 4;

		cr_expect_eq(hr_run_status(&run, i), &status[0][i]);
		cr_expect_eq(hr_run_status_gpu(&run, i, &number), 0u);
		cr_expect_eq(number, want, "%u", i);
	}
	run.cpu.control = (struct hr_pipe_control *)(void *)status;
	run.layout.descriptor = 9;
	cr_expect_eq(hr_run_control(&run, 0), run.cpu.control);
	cr_expect_eq(hr_run_layout(&run, 0), &run.layout.parts);
	cr_expect_eq(hr_run_descriptor(&run, 0), 9);
	cr_expect_eq(hr_run_gpus(&run), 1u);
	cr_expect_eq(hr_run_blocks(&run), 11u);
	run.source[2].writer = 3;
	run.object[2].writer = 4;
	cr_expect_eq(hr_run_writer_of(&run, 2), 3);
	cr_expect_eq(hr_run_pages_read(&run), 0u);
}

/* First the I/O workers of both gpus, then the compute blocks of both. */
Test(run, the_status_records_of_an_access_operator_are_those_of_all_gpus)
{
	be_an_access_operator();
	cr_expect(hr_run_wired(&run));
	cr_expect_eq(hr_run_role_statuses(&run, HR_ROLE_IO), 12u);
	cr_expect_eq(hr_run_role_statuses(&run, HR_ROLE_ACCESS), 8u);
	cr_expect_eq(hr_run_role_statuses(&run, HR_ROLE_PREFETCH), 0u);
	cr_expect_eq(hr_run_first_status(&run, HR_ROLE_ACCESS), 12u);
	cr_expect_eq(hr_run_statuses(&run), 20u);
	for (uint32_t i = 0; i < 20; i++) {
		const uint32_t io = i < 12, of_one = io ? 6 : 4, k = io ? i : i - 12;
		uint32_t number;

		cr_expect_eq(hr_run_status_gpu(&run, i, &number), k / of_one, "%u", i);
		cr_expect_eq(number, k % of_one, "%u", i);
		cr_expect_eq(hr_run_status(&run, i), &status[k / of_one][(io ? 0 : 6) + k % of_one],
			     "%u", i);
	}
	for (uint32_t p = 0; p < 2; p++) {
		cr_expect_eq(hr_run_control(&run, p), run.gpu[p].cpu.control);
		cr_expect_eq(hr_run_layout(&run, p), &run.gpu[p].layout.parts);
		cr_expect_eq(hr_run_descriptor(&run, p), 20 + (int)p);
		for (uint32_t i = 0; i < 8; i++)
			counters[p][i].reads = 1ull << (8 * p + i);
	}
	cr_expect_eq(hr_run_pages_read(&run), 0x3f3fu);
	run.started_ns = 1;
	config.cache.page_bytes = 8192;
	cr_expect_eq(hr_run_bytes_read(&run), 0x3f3fu * 8192);
	run.read_bytes = 7; /* set at the end */
	run.ended_ns = 2;
	cr_expect_eq(hr_run_bytes_read(&run), 7u);
	run.gpu[0].access = NULL;
	cr_expect_eq(hr_run_pages_read(&run), 0u);
	run.object[1].writer = 4;
	cr_expect_eq(hr_run_writer_of(&run, 1), 4);
}

Test(run, credits_are_limited_by_the_slots)
{
	static const struct {
		uint32_t slots, limit, tap, feed;
	} row[] = {
		{ 1, 0, 1, 1 }, { 2, 0, 1, 2 }, { 3, 0, 1, 3 }, { 4, 0, 2, 4 }, { 8, 0, 6, 8 },
		{ 8, 5, 5, 5 }, { 8, 6, 6, 6 }, { 8, 7, 6, 7 }, { 8, 9, 6, 8 }, { 8, 1, 1, 1 },
	};

	begin();
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		run.slots = row[i].slots;
		config.tap.credits = row[i].limit;
		config.feed.credits = row[i].limit;
		cr_expect_eq(hr_run_tap_credits(&run), row[i].tap, "%zu", i);
		cr_expect_eq(hr_run_feed_credits(&run), row[i].feed, "%zu", i);
	}
}

Test(run, the_end_of_a_feed_is_that_of_the_run)
{
	static struct hr_feed_role role;
	static struct hr_feed_words words[3];
	static struct hr_partition partition;

	begin();
	partition.part[1].place = HR_PLACE_CONTROL;
	partition.part[1].offset = sizeof words[0];
	partition.region[HR_PLACE_CONTROL].cpu = words;
	run.layout.parts.partition = &partition;
	run.layout.feed_words = 1;
	cr_expect_eq(hr_run_feed_words(&run), &words[1]);
	words[1].total = 3;
	words[1].total_bytes = 3000;
	op.out_num = 5;
	op.out_den = 2;
	run.tiles = run.source[0].bytes = run.sink_bytes = 9;
	hr_run_set_feed_end(&run);
	cr_expect_eq(run.tiles, 9u, "it has no feed");
	run.cpu.feed = &role;
	words[1].total = HR_NO_TILE;
	hr_run_set_feed_end(&run);
	cr_expect_eq(run.tiles, 9u, "the end is not known");
	words[1].total = 3;
	hr_run_set_feed_end(&run);
	cr_expect_eq(run.tiles, 3u);
	cr_expect_eq(run.source[0].bytes, 3000u);
	cr_expect_eq(run.sink_bytes, 9u, "there is no output");
	strcpy(config.tap.name, "t");
	hr_run_set_feed_end(&run);
	cr_expect_eq(run.sink_bytes, 7500u);
	words[1].total_bytes = UINT64_MAX / 5 * 4; /* times five it has more than 64 bits */
	op.out_den = 4;
	hr_run_set_feed_end(&run);
	cr_expect_eq(run.sink_bytes, UINT64_MAX / 5 * 5);
}
