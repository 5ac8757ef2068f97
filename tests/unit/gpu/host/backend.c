/* SPDX-License-Identifier: Apache-2.0 */
/* The backend behind a gpu's device string: strings, memory, launches, and what ends them. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "gpu/backend.h"
#include "gpu/ops/operators.h"
#include "gpu/worker/pipeline.h"
#include "gpu/worker/probe.h"
#include "tests/harness/error.h"
#include "tests/harness/launch.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define BLOCKS 6u

TestSuite(backend, .timeout = 60);

static struct hr_backend backend;
static struct hr_launch *launch;

/* A run without tiles: every block ends at once and reports its end. */
static struct {
	struct hr_pipe pipe;
	struct hr_slot slot[BLOCKS];
	struct hr_pipe_control control;
	struct hr_worker_status status[3 * BLOCKS];
	struct hr_nvme_qp qp[BLOCKS];
	uint8_t ring[BLOCKS][2][HR_PAGE] __attribute__((aligned(HR_PAGE)));
	uint64_t table[BLOCKS][16];
	uint8_t result[HR_OP_RESULT_MAX];
} work;

static void empty_work(uint32_t blocks)
{
	memset(&work, 0, sizeof work);
	work.pipe.slots = blocks;
	work.pipe.sources = 1;
	work.pipe.source[0].tile_bytes = 4096;
	work.pipe.op = HR_OP_crc32c;
	work.pipe.blocks[HR_ROLE_PREFETCH] = work.pipe.blocks[HR_ROLE_COMPUTE] = blocks;
	work.pipe.workers[HR_ROLE_PREFETCH] = work.pipe.workers[HR_ROLE_COMPUTE] = 1;
	work.pipe.read_queues = 1;
	work.pipe.read_qp = work.qp;
	work.pipe.slot = work.slot;
	work.pipe.control = &work.control;
	work.pipe.status = work.status;
	work.pipe.op_result = work.result;
	for (uint32_t i = 0; i < BLOCKS; i++) {
		const struct hr_qp_memory memory = { work.ring[i][0], work.ring[i][1],
						     work.table[i] };

		cr_assert_leq(hr_qp_table_bytes(2), sizeof work.table[i]);
		cr_assert_eq(hr_qp_init(&work.qp[i], 1, 2, &memory, HR_NS_PER_S), 0);
	}
}

Test(backend, device_strings_are_checked_and_quoted)
{
	static const char *const good[] = { "host:1",
					    "host:64",
					    "auto",
					    "host:2,bar=03:00.0",
					    "host:2,bar=0000:03:00.0/2",
					    "host:2,bar=ffff:ff:1f.7/5",
					    "cuda:0",
					    "cuda:7",
					    "cuda:0,compressible" };
	static const char *const bad[] = { "",
					   "host",
					   "host:",
					   "host:2,",
					   "host:2,bar=",
					   "host:2,bar=nonsense",
					   "host:2,bar=03:00.0/6",
					   "host:2,bar=03:00.0/22",
					   "host:2,bar=03:20.0",
					   "host:2,bar=03:00.8",
					   "host:2,bar=x3:00.0",
					   "host:2,bar=03:00.0 ",
					   "host:2,bar=03:00.0/",
					   "host:2,bar=03:00.0/:",
					   "host:2,bar=03:00.0/0x",
					   "host:2,bar=03:00.0-1",
					   "host:2,bars=03:00.0",
					   "host:,bar=03:00.0",
					   "host:0",
					   "host:-1",
					   "host:2x",
					   "cuda",
					   "cuda:",
					   "cuda:x",
					   "gpu:0",
					   "auto:1",
					   "HOST:2",
					   "host: 2",
					   "host:99999999999999999999",
					   "cuda:0,",
					   "cuda:0,compress",
					   "host:1,compressible",
					   "cuda:,compressible",
					   "auto,compressible" };

	for (size_t i = 0; i < ROWS(good); i++)
		cr_expect_eq(hr_backend_check(good[i], test_error()), 0, "'%s'", good[i]);
	for (size_t i = 0; i < ROWS(bad); i++) {
		cr_expect_eq(hr_backend_check(bad[i], test_error()), -EINVAL, "'%s'", bad[i]);
		cr_expect(strstr(test_error_text(), bad[i]) && strstr(test_error_text(), "host:"),
			  "%s", test_error_text());
		cr_expect_eq(hr_backend_open(&backend, bad[i], 1, test_error()), -EINVAL);
	}
}

Test(backend, memory_of_the_host_backend_is_the_cpus)
{
	struct hr_region region;
	uint8_t word[4] = { 1, 2, 3, 4 };
	void *worker = NULL;

	cr_assert_eq(hr_backend_open(&backend, "host:2", 1, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(backend.ops->alloc(&backend, 3 * HR_PAGE + 1, &region, NULL), 0);
	cr_expect_eq(region.worker, region.cpu);
	cr_expect_eq(region.bytes, 4 * HR_PAGE);
	for (size_t at = 0; at < region.bytes; at++)
		cr_assert_eq(((uint8_t *)region.cpu)[at], 0);
	cr_expect_eq(backend.ops->upload(&backend, region.worker, word, sizeof word, NULL), 0);
	cr_expect_arr_eq(region.cpu, word, sizeof word);
	memset(word, 0, sizeof word);
	cr_expect_eq(backend.ops->download(&backend, word, region.worker, sizeof word, NULL), 0);
	cr_expect_eq(word[3], 4);
	backend.ops->free(&backend, &region);
	cr_expect_null(region.cpu);
	cr_expect_eq(backend.ops->alloc(&backend, (size_t)1 << 60, &region, NULL), -ENOMEM);
	cr_expect_eq(backend.ops->alloc(&backend, 0, &region, NULL), -EINVAL);
	for (int io = 0; io < 2; io++) {
		cr_expect_eq(backend.ops->attach(&backend, &work, sizeof work, io, &worker, NULL),
			     0);
		cr_expect_eq(worker, &work);
		backend.ops->detach(&backend, &work);
	}
	backend.ops->close(&backend);
}

Test(backend, a_host_block_is_one_thread)
{
	uint32_t blocks;

	cr_assert_eq(hr_backend_open(&backend, "host:1", 3, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_eq(backend.processors, 1);
	cr_expect_eq(backend.max_threads, 1);
	cr_expect_eq(backend.ops->resident(&backend, HR_ENTRY_PIPE, 1, 0, &blocks, NULL), 0);
	cr_expect_eq(blocks, 3);
	cr_expect_eq(backend.ops->resident(&backend, HR_ENTRY_PIPE, 32, 0, &blocks, NULL), 0);
	cr_expect_eq(blocks, 0);
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PIPE, &work.pipe, 1, 32, &launch), -EINVAL);
	backend.ops->close(&backend);
}

/* The number of threads of this process, without the test's, that may use these CPUs only. */
static uint32_t threads_on(const cpu_set_t *want)
{
	const struct dirent *entry;
	DIR *tasks = opendir("/proc/self/task");
	uint32_t found = 0;
	cpu_set_t set;

	cr_assert_not_null(tasks);
	while ((entry = readdir(tasks)) != NULL) {
		const pid_t id = atoi(entry->d_name);

		if (id > 0 && id != getpid() && sched_getaffinity(id, sizeof set, &set) == 0)
			found += CPU_EQUAL(&set, want) != 0;
	}
	closedir(tasks);
	return found;
}

Test(backend, threads_run_on_the_first_cpus_that_the_process_may_use)
{
	cpu_set_t allowed, want;
	int cpu = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
	CPU_ZERO(&want);
	for (int cpus = 1; cpus <= 2; cpus++) {
		char device[16];

		while (cpu < CPU_SETSIZE && !CPU_ISSET((size_t)cpu, &allowed))
			cpu++;
		if (cpu < CPU_SETSIZE)
			CPU_SET((size_t)cpu++, &want);
		snprintf(device, sizeof device, "host:%d", cpus);
		cr_assert_eq(hr_backend_open(&backend, device, 3, test_error()), 0);
		cr_expect_geq(threads_on(&want), 3, "%s", device);
		backend.ops->close(&backend);
	}
}

Test(backend, a_launch_runs_each_block_once_and_can_be_repeated)
{
	cr_assert_eq(hr_backend_open(&backend, "host:2", 2 * BLOCKS, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_eq(backend.max_blocks, 2 * BLOCKS);
	cr_expect_eq(backend.lanes, 1);
	for (uint32_t turn = 0; turn < 200; turn++) {
		const uint32_t blocks = 1 + turn % BLOCKS;

		empty_work(blocks);
		cr_assert_eq(
			launch_start(&backend, HR_ENTRY_PIPE, &work.pipe, 2 * blocks, 1, &launch),
			0);
		cr_assert_eq(launch_end(launch), 1);
		for (uint32_t i = 0; i < 3 * BLOCKS; i++)
			cr_assert_eq(work.status[i].ended, i < 2 * blocks ? 1 : 0);
	}
	backend.ops->close(&backend);
}

Test(backend, a_launch_is_refused_while_one_runs_or_when_it_is_too_large)
{
	cr_assert_eq(hr_backend_open(&backend, "host:1", 2, test_error()), 0, "%s",
		     test_error_text());
	empty_work(1);
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PIPE, &work.pipe, 3, 1, &launch), -EINVAL);
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PIPE, &work.pipe, 0, 1, &launch), -EINVAL);
	/* Without its prefetch block the compute block waits for its slot. */
	work.slot[0].state = HR_SLOT_COMPUTED;
	cr_assert_eq(launch_start(&backend, HR_ENTRY_PIPE, &work.pipe, 2, 1, &launch), 0);
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PIPE, &work.pipe, 2, 1, &launch), -EBUSY);
	cr_expect_eq(hr_launch_poll(launch, NULL), 0);
	hr_release_u32(&work.slot[0].state, HR_SLOT_FREE);
	cr_assert_eq(launch_end(launch), 1);
	backend.ops->close(&backend);
}

/*
 * Block 0 of each launch waits for `ping` `rounds` times, so the test chooses the order of the
 * ends.
 */
Test(backend, several_launches_run_side_by_side_and_end_one_by_one)
{
	static struct hr_probe probe[3];
	static uint32_t ping[3], pong[3], end[3][2];
	struct hr_launch *handle[3], *more;

	cr_assert_eq(hr_backend_open(&backend, "host:2", 6, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_eq(backend.side_by_side, 6);
	for (uint32_t i = 0; i < 3; i++) {
		probe[i] = (struct hr_probe){ .blocks = 2,
					      .rounds = 1,
					      .timeout_ns = 60 * HR_NS_PER_S,
					      .ping = &ping[i],
					      .pong = &pong[i],
					      .end = end[i] };
		cr_assert_eq(launch_start(&backend, HR_ENTRY_PROBE, &probe[i], 2, 1, &handle[i]),
			     0);
	}
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PROBE, &probe[0], 4, 1, &more), -EBUSY,
		     "block 0 of each has a thread");
	for (uint32_t turn = 0; turn < 3; turn++) {
		const uint32_t i = (turn + 1) % 3;

		for (uint32_t j = turn; j < 3; j++)
			cr_expect_eq(hr_launch_poll(handle[(j + 1) % 3], NULL), 0);
		hr_release_sys_u32(&ping[i], 1);
		cr_assert_eq(launch_end(handle[i]), 1);
		cr_expect_eq(pong[i], 1);
		for (uint32_t b = 0; b < 2; b++)
			cr_expect_eq(end[i][b], HR_PROBE_DONE);
	}
	backend.ops->close(&backend);
}

Test(backend, a_launch_has_a_word_that_stops_it)
{
	const struct hr_launch_args args = { .entry = HR_ENTRY_PIPE,
					     .argument = &work.pipe,
					     .blocks = 2,
					     .threads = 1,
					     .stop = &work.control.stop };

	cr_assert_eq(hr_backend_open(&backend, "host:1", 2, test_error()), 0, "%s",
		     test_error_text());
	empty_work(1);
	cr_assert_eq(backend.ops->launch(&backend, &args, &launch, NULL), 0);
	hr_launch_stop(launch, HR_STOP_ABANDON);
	cr_expect_eq(work.control.stop, HR_STOP_ABANDON);
	cr_assert_eq(launch_end(launch), 1);
	backend.ops->close(&backend);
}

/* A handle that was given back is used again; there are as many handles as pipelines. */
Test(backend, handles_are_limited_and_used_again)
{
	struct hr_launch *handle[HR_LAUNCHES_MAX];

	cr_assert_eq(hr_backend_open(&backend, "host:1", 2, test_error()), 0, "%s",
		     test_error_text());
	for (uint32_t turn = 0; turn < 2; turn++) {
		for (uint32_t i = 0; i < HR_LAUNCHES_MAX; i++) {
			empty_work(1);
			cr_assert_eq(
				launch_start(&backend, HR_ENTRY_PIPE, &work.pipe, 2, 1, &handle[i]),
				0);
			cr_assert_eq(hr_launch_wait(handle[i], UINT64_MAX, 50000, NULL), 1);
		}
		cr_expect_eq(launch_start(&backend, HR_ENTRY_PIPE, &work.pipe, 2, 1, &launch),
			     -EBUSY);
		for (uint32_t i = 0; i < HR_LAUNCHES_MAX; i++)
			hr_launch_free(handle[i]);
	}
	backend.ops->close(&backend);
}

Test(backend, choices_that_differ_from_the_request_are_reported)
{
	cr_assert_eq(hr_backend_open(&backend, "auto", 1, test_error()), 0);
	cr_expect(strstr(backend.note, "auto"), "%s", backend.note);
	backend.ops->close(&backend);
	cr_assert_eq(hr_backend_open(&backend, "host:4096", 1, test_error()), 0);
	cr_expect(strstr(backend.note, "CPUs are online"), "%s", backend.note);
	backend.ops->close(&backend);
	cr_assert_eq(hr_backend_open(&backend, "host:1", 1, test_error()), 0);
	cr_expect_str_eq(backend.note, "");
	cr_expect_str_eq(backend.name, "host:1");
	backend.ops->close(&backend);
}

Test(backend, entries_with_a_tap_or_a_feed)
{
	static const struct {
		unsigned entry, tap, feed;
	} row[] = { { HR_ENTRY_PIPE, HR_ENTRY_TAP, HR_ENTRY_FEED },
		    { HR_ENTRY_FEED, HR_ENTRY_TAP, HR_ENTRY_FEED },
		    { HR_ENTRY_USER, HR_ENTRY_USER_TAP, HR_ENTRY_USER_TAP + HR_OPERATORS_MAX },
		    { HR_ENTRY_USER + 3, HR_ENTRY_USER_TAP + 3,
		      HR_ENTRY_USER_TAP + HR_OPERATORS_MAX + 3 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_entry_with_tap((enum hr_entry)row[i].entry), row[i].tap);
		cr_expect_eq(hr_entry_with_feed((enum hr_entry)row[i].entry), row[i].feed);
	}
}
