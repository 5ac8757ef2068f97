/* The backend behind a gpu's device string: strings, memory, launches, and what ends them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices.h"
#include "config/clock.h"
#include "config/log.h"
#include "gpu/backend.h"
#include "gpu/ops/operators.h"
#include "gpu/worker/pipeline.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define BLOCKS 6u

TestSuite(backend, .timeout = 60);

static struct hr_backend backend;
static char message[HR_LOG_LINE_MAX];

/* Tiles that nobody has: every block ends at once, and says so. */
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

static void wait_ended(void)
{
	while (backend.ops->poll(&backend) == 0)
		hr_wait_ns(50000);
	cr_assert_eq(backend.ops->poll(&backend), 1);
}

Test(backend, device_strings_are_checked_and_quoted)
{
	static const char *const good[] = { "host:1",
					    "host:64",
					    "auto",
					    "host:2,bar=03:00.0",
					    "host:2,bar=0000:03:00.0/2",
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
		cr_expect_eq(hr_backend_check(good[i], message), 0, "'%s'", good[i]);
	for (size_t i = 0; i < ROWS(bad); i++) {
		message[0] = '\0';
		cr_expect_eq(hr_backend_check(bad[i], message), -EINVAL, "'%s'", bad[i]);
		cr_expect(strstr(message, bad[i]) && strstr(message, "host:"), "%s", message);
		cr_expect_eq(hr_backend_open(&backend, bad[i], 1, message), -EINVAL);
	}
}

Test(backend, memory_of_the_host_backend_is_the_cpus)
{
	struct hr_region region;
	uint8_t word[4] = { 1, 2, 3, 4 };
	void *worker = NULL;

	cr_assert_eq(hr_backend_open(&backend, "host:2", 1, message), 0, "%s", message);
	cr_assert_eq(backend.ops->alloc(&backend, 3 * HR_PAGE + 1, &region), 0);
	cr_expect_eq(region.worker, region.cpu);
	cr_expect_eq(region.bytes, 4 * HR_PAGE);
	for (size_t at = 0; at < region.bytes; at++)
		cr_assert_eq(((uint8_t *)region.cpu)[at], 0);
	cr_expect_eq(backend.ops->upload(&backend, region.worker, word, sizeof word), 0);
	cr_expect_arr_eq(region.cpu, word, sizeof word);
	memset(word, 0, sizeof word);
	cr_expect_eq(backend.ops->download(&backend, word, region.worker, sizeof word), 0);
	cr_expect_eq(word[3], 4);
	backend.ops->free(&backend, &region);
	cr_expect_null(region.cpu);
	cr_expect_eq(backend.ops->alloc(&backend, (size_t)1 << 60, &region), -ENOMEM);
	cr_expect_eq(backend.ops->alloc(&backend, 0, &region), -EINVAL);
	for (int io = 0; io < 2; io++) {
		cr_expect_eq(backend.ops->attach(&backend, &work, sizeof work, io, &worker), 0);
		cr_expect_eq(worker, &work);
		backend.ops->detach(&backend, &work);
	}
	backend.ops->close(&backend);
}

Test(backend, a_host_block_is_one_thread)
{
	cr_assert_eq(hr_backend_open(&backend, "host:1", 3, message), 0, "%s", message);
	cr_expect_eq(backend.processors, 1);
	cr_expect_eq(backend.max_threads, 1);
	cr_expect_eq(backend.ops->resident(&backend, HR_KERNEL_PIPE, 1, 0), 3);
	cr_expect_eq(backend.ops->resident(&backend, HR_KERNEL_PIPE, 32, 0), 0);
	cr_expect_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 1, 32, 0), -EINVAL);
	backend.ops->close(&backend);
}

Test(backend, a_launch_runs_each_block_once_and_can_be_repeated)
{
	cr_assert_eq(hr_backend_open(&backend, "host:2", 2 * BLOCKS, message), 0, "%s", message);
	cr_expect_eq(backend.max_blocks, 2 * BLOCKS);
	cr_expect_eq(backend.lanes, 1);
	cr_expect_eq(backend.ops->poll(&backend), 1, "nothing runs yet");
	for (uint32_t turn = 0; turn < 200; turn++) {
		const uint32_t blocks = 1 + turn % BLOCKS;

		empty_work(blocks);
		cr_assert_eq(
			backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 2 * blocks, 1, 0),
			0);
		wait_ended();
		for (uint32_t i = 0; i < 3 * BLOCKS; i++)
			cr_assert_eq(work.status[i].done, i < 2 * blocks ? 1 : 0);
	}
	backend.ops->close(&backend);
}

Test(backend, a_launch_is_refused_while_one_runs_or_when_it_is_too_large)
{
	cr_assert_eq(hr_backend_open(&backend, "host:1", 2, message), 0, "%s", message);
	empty_work(1);
	cr_expect_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 3, 1, 0), -EINVAL);
	cr_expect_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 0, 1, 0), -EINVAL);
	/* Without its prefetch block the compute block waits for its slot. */
	work.slot[0].state = HR_SLOT_COMPUTED;
	cr_assert_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 2, 1, 0), 0);
	cr_expect_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 2, 1, 0), -EBUSY);
	cr_expect_eq(backend.ops->poll(&backend), 0);
	hr_release_u32(&work.slot[0].state, HR_SLOT_FREE);
	wait_ended();
	backend.ops->close(&backend);
}

Test(backend, what_was_chosen_instead_is_told)
{
	cr_assert_eq(hr_backend_open(&backend, "auto", 1, message), 0);
	cr_expect(strstr(message, "auto"), "%s", message);
	backend.ops->close(&backend);
	cr_assert_eq(hr_backend_open(&backend, "host:4096", 1, message), 0);
	cr_expect(strstr(message, "CPUs are online"), "%s", message);
	backend.ops->close(&backend);
	cr_assert_eq(hr_backend_open(&backend, "host:1", 1, message), 0);
	cr_expect_str_eq(message, "");
	cr_expect_str_eq(backend.name, "host:1");
	backend.ops->close(&backend);
}
