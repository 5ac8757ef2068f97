/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of a GPU, over a fake driver whose launches behave like a faulty GPU. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "boot/cmd/post/step.h"
#include "gpu/worker/probe.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/cuda.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

static struct hr_backend backend;
static char detail[HR_POST_DETAIL];
static struct hr_probe probe;
static pthread_t gpu;
static bool runs;
static enum { RIGHT, WRONG_PAGE, LOST_WRITE, NO_BLOCK_2, NO_ANSWER } does;

static void *plain(const void *worker)
{
	return (void *)((uintptr_t)worker & ~FAKE_CUDA_HOST);
}

/* Worker code on a thread: all blocks one after another. */
static void *run_blocks(void *unused)
{
	uint8_t *wrong = probe.to + 7 * HR_PAGE + 5;

	for (uint32_t b = probe.blocks; b-- > 0;)
		if (does != NO_BLOCK_2 || b != 2)
			hr_probe_block(&probe, b);
	if (does == LOST_WRITE)
		*wrong ^= 0x10;
	fake_cuda.busy = false;
	return unused;
}

static void run(const struct fake_cuda_launch *launch)
{
	if (runs)
		pthread_join(gpu, NULL);
	probe = *(struct hr_probe *)plain(launch->argument);
	probe.from = plain(probe.from);
	probe.to = plain(probe.to);
	probe.crc = plain(probe.crc);
	probe.ping = plain(probe.ping);
	probe.pong = plain(probe.pong);
	probe.end = plain(probe.end);
	if (does == WRONG_PAGE)
		probe.from += HR_PAGE, probe.pages--;
	if (does == NO_ANSWER)
		probe.pong = probe.crc; /* the write goes to other memory */
	runs = fake_cuda.busy = true;
	pthread_create(&gpu, NULL, run_blocks, NULL);
}

static void up(void)
{
	fake_cuda_reset();
	fake_cuda.run = run;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0, "%s",
		     test_error_text());
}

static void down(void)
{
	if (runs)
		pthread_join(gpu, NULL);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

TestSuite(cuda_post, .timeout = 60, .init = up, .fini = down);

Test(cuda_post, correct_workers_pass_the_test)
{
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), 0, "%s", test_error_text());
	cr_expect(strstr(detail, "blocks of 256 threads, 2048 KiB"), "%s", detail);
}

Test(cuda_post, a_page_that_arrives_wrong_is_named)
{
	does = WRONG_PAGE;
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), -EIO);
	cr_expect(strstr(test_error_text(), "page 0 of 512 has CRC-32C ") &&
			  strstr(test_error_text(), "host memory"),
		  "%s", test_error_text());
}

Test(cuda_post, a_lost_write_is_reported)
{
	does = LOST_WRITE;
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), -EIO);
	cr_expect(strstr(test_error_text(), "page 7 of 512") &&
			  strstr(test_error_text(), "memory of the GPU"),
		  "%s", test_error_text());
}

Test(cuda_post, a_block_that_does_not_run_is_named)
{
	does = NO_BLOCK_2;
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), -EPROTO);
	cr_expect(strstr(test_error_text(), "block 2 of ") &&
			  strstr(test_error_text(), "did not run"),
		  "%s", test_error_text());
}

Test(cuda_post, a_store_that_does_not_arrive_ends_the_test)
{
	does = NO_ANSWER;
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), -EPROTO);
	cr_expect(strstr(test_error_text(), "block 0 of ") &&
			  strstr(test_error_text(), "did not see the CPU's store"),
		  "%s", test_error_text());
}

Test(cuda_post, launches_and_memory_that_fail_are_reported)
{
	fake_cuda_fail("cuLaunchCooperativeKernel", 1, CUDA_ERROR_UNKNOWN);
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), -EIO);
	cr_expect(strstr(test_error_text(), "cuLaunchCooperativeKernel: "), "%s",
		  test_error_text());
	fake_cuda_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), -ENOMEM);
	cr_expect(strstr(test_error_text(), "cuMemCreate: "), "%s", test_error_text());
	fake_cuda_fail("cuMemHostRegister", 1, CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), -ENOTSUP);
}

Test(cuda_post, entry_points_are_listed)
{
	hr_post_entries(backend.facts, detail);
	cr_expect(strstr(detail, "hr_entry_pipe: 40 registers") == detail, "%s", detail);
	cr_expect(strstr(detail, "; hr_entry_probe: "), "%s", detail);
}
