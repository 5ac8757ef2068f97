/* The backend behind a gpu's device string: strings, memory, launches, and what ends them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/clock.h"
#include "boot/log.h"
#include "gpu/backend.h"
#include "gpu/pipeline.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define BLOCKS 6u

TestSuite(backend, .timeout = 60);

static struct hr_backend backend;
static char message[HR_LOG_LINE_MAX];

/* Tiles that nobody has: every block ends at once, and says so. */
static struct {
	struct hr_pipe pipe;
	struct hr_slot slot[BLOCKS];
	struct hr_block_status status[3 * BLOCKS];
	struct hr_qp qp[BLOCKS];
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
	static const char *const good[] = { "host:1", "host:64", "auto", "cuda:0", "cuda:7" };
	static const char *const bad[] = { "",	      "host",
					   "host:",   "host:0",
					   "host:-1", "host:2x",
					   "cuda",    "cuda:",
					   "cuda:x",  "gpu:0",
					   "auto:1",  "HOST:2",
					   "host: 2", "host:99999999999999999999" };

	for (size_t i = 0; i < ROWS(good); i++)
		cr_expect_eq(hr_backend_check(good[i], message), 0, "'%s'", good[i]);
	for (size_t i = 0; i < ROWS(bad); i++) {
		message[0] = '\0';
		cr_expect_eq(hr_backend_check(bad[i], message), -EINVAL, "'%s'", bad[i]);
		cr_expect(strstr(message, bad[i]) && strstr(message, "host:"), "%s", message);
		cr_expect_eq(hr_backend_open(&backend, bad[i], 1, message), -EINVAL);
	}
}

Test(backend, host_memory_is_zeroed_and_has_bus_addresses_of_its_own)
{
	struct hr_region region[2];

	cr_assert_eq(hr_backend_open(&backend, "host:2", 1, message), 0, "%s", message);
	for (size_t i = 0; i < 2; i++) {
		const uint8_t *bytes;

		cr_assert_eq(
			backend.ops->alloc(&backend, HR_PLACE_HOST, 3 * HR_PAGE + 1, &region[i]),
			0);
		bytes = region[i].cpu;
		cr_expect_eq(region[i].worker, region[i].cpu);
		cr_expect_eq(region[i].bytes, 4 * HR_PAGE);
		cr_expect_neq(region[i].bus.addr, (uint64_t)(uintptr_t)region[i].cpu);
		for (size_t at = 0; at < region[i].bytes; at++)
			cr_assert_eq(bytes[at], 0);
	}
	cr_expect(region[0].bus.addr + region[0].bytes <= region[1].bus.addr ||
		  region[1].bus.addr + region[1].bytes <= region[0].bus.addr);
	cr_expect_eq(backend.ops->alloc(&backend, HR_PLACE_HOST, (size_t)1 << 60, &region[0]),
		     -ENOMEM);
	backend.ops->free(&backend, &region[1]);
	cr_expect_null(region[1].cpu);
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
		cr_assert_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 2 * blocks),
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
	cr_expect_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 3), -EINVAL);
	cr_expect_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 0), -EINVAL);
	/* Without its prefetch block the compute block waits for its slot. */
	work.slot[0].state = HR_SLOT_COMPUTED;
	cr_assert_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 2), 0);
	cr_expect_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, &work.pipe, 2), -EBUSY);
	cr_expect_eq(backend.ops->poll(&backend), 0);
	hr_store_release_u32(&work.slot[0].state, HR_SLOT_FREE);
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
