/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of an access operator on several gpus: which of them are watched, and the worker that is
 * named. */
#include "boot/engine/runner/stall.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(watch_gpus, .timeout = 60);

/* On each of two gpus two I/O workers and three compute blocks. */
enum { GPUS = 2, IO = 2, BLOCKS = 3 };

static struct hr_engine engine;
static struct hr_config_pipeline config;
static struct hr_run run;
static struct hr_stall watch;
static struct hr_worker_status status[GPUS][IO + BLOCKS];
static struct hr_io_counters counters[GPUS][IO + 1]; /* the last one is no worker */
static uint32_t named;

static void begin(uint64_t now_ns)
{
	memset(&engine, 0, sizeof engine);
	memset(&run, 0, sizeof run);
	memset(status, 0, sizeof status);
	memset(counters, 0, sizeof counters);
	memset(&watch, 0xff, sizeof watch); /* of an earlier run */
	engine.timeout_ns = 100;
	config.objects = 1;
	config.other_gpus = GPUS - 1;
	run.config = &config;
	for (uint32_t p = 0; p < GPUS; p++) {
		struct hr_access *a = &run.gpu[p].cpu;

		a->io_blocks = IO;
		a->compute_blocks = BLOCKS;
		a->warps = 1;
		a->status = status[p];
		a->counters = counters[p];
		run.gpu[p].access = a;
	}
	hr_stall_begin(&watch, &engine, &run, now_ns);
}

/* All I/O workers but one have a heartbeat. */
static uint32_t look(uint64_t now_ns, uint32_t p, uint32_t except)
{
	for (uint32_t g = 0; g < GPUS; g++)
		for (uint32_t i = 0; i < IO; i++)
			status[g][i].heartbeat += g != p || i != except;
	named = 99;
	return hr_stall_check(&watch, now_ns, &named);
}

Test(watch_gpus, an_io_worker_of_each_gpu_is_watched_unless_the_gpu_has_failed)
{
	for (uint32_t p = 0; p < GPUS; p++)
		for (uint32_t i = 0; i < IO; i++)
			for (uint32_t failed = 0; failed < 1u << GPUS; failed++) {
				const bool watched = !(failed >> p & 1);

				begin(1000);
				for (uint32_t g = 0; g < GPUS; g++)
					status[g][0].ended = 1; /* its epoch need not move */
				status[p][i].ended = 0;
				watch.failed_gpus = failed;
				watch.timeout_ns[HR_ROLE_ACCESS] = UINT64_MAX;
				cr_expect_eq(look(1099, p, i), HR_RUN_ROLES);
				cr_expect_eq(look(1100, p, i), watched ? HR_ROLE_IO : HR_RUN_ROLES,
					     "%u.%u %u", p, i, failed);
				if (watched)
					cr_expect_eq(named, p * IO + i);
			}
}

/* The epoch of a gpu does not move: the block behind is counted among those of all gpus. */
Test(watch_gpus, the_block_behind_is_named_on_its_gpu)
{
	static const struct {
		uint64_t behind, of_io[IO];
		uint32_t block; /* 99: none */
	} row[] = {
		{ 0, { 0, 0 }, 0 },
		{ 2, { 0, 0 }, 2 },
		{ BLOCKS, { BLOCKS, 1 }, 99 },
		{ BLOCKS + 1, { 0, 1 }, 1 },
		{ BLOCKS + 1, { 0, BLOCKS }, 99 },
		{ BLOCKS + IO, { 0, 0 }, 99 },
		{ UINT64_MAX, { 0, 0 }, 99 },
	};

	for (uint32_t p = 0; p < GPUS; p++)
		for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
			const bool names = row[i].block != 99;

			begin(1000);
			status[!p][0].ended = 1;
			for (uint32_t k = 0; k < IO; k++)
				counters[p][k].behind = row[i].of_io[k];
			counters[p][0].behind = row[i].behind;
			cr_expect_eq(look(1099, GPUS, 0), HR_RUN_ROLES, "%u %zu", p, i);
			cr_expect_eq(look(1100, GPUS, 0), names ? HR_ROLE_ACCESS : HR_RUN_ROLES,
				     "%u %zu", p, i);
			if (names)
				cr_expect_eq(named, p * BLOCKS + row[i].block, "%u %zu", p, i);
			watch.failed_gpus = 1u << p;
			cr_expect_eq(look(1101, GPUS, 0), HR_RUN_ROLES, "it has failed");
			watch.failed_gpus = 0;
			counters[p][0].epochs++;
			cr_expect_eq(look(1101, GPUS, 0), HR_RUN_ROLES, "it moves");
		}
}

Test(watch_gpus, after_a_stop_each_block_has_to_end)
{
	for (uint32_t p = 0; p < GPUS; p++)
		for (uint32_t i = 0; i < BLOCKS; i++) {
			begin(1000);
			hr_stall_stopping(&watch, 5000);
			for (uint32_t g = 0; g < GPUS; g++)
				for (uint32_t k = 0; k < IO + BLOCKS; k++)
					status[g][k].ended = g != p || k != IO + i;
			cr_expect_eq(look(5099, GPUS, 0), HR_RUN_ROLES);
			cr_expect_eq(look(5100, GPUS, 0), HR_ROLE_ACCESS);
			cr_expect_eq(named, p * BLOCKS + i);
			status[p][IO + i].ended = 1;
			cr_expect_eq(look(5100, GPUS, 0), HR_RUN_ROLES);
		}
}

Test(watch_gpus, workers_without_a_heartbeat_are_absent)
{
	begin(0);
	cr_expect_eq(hr_stall_not_started(&watch), (uint32_t)(GPUS * IO));
	status[1][1].heartbeat = 1;
	cr_expect_eq(hr_stall_not_started(&watch), GPUS * IO - 1u);
	status[1][IO].heartbeat = 1; /* blocks have none while they run */
	cr_expect_eq(hr_stall_not_started(&watch), GPUS * IO - 1u);
	status[0][0].heartbeat = status[0][1].heartbeat = status[1][0].heartbeat = 1;
	cr_expect_eq(hr_stall_not_started(&watch), 0u);
}
