/* The self-test of a GPU, over a fake driver whose launches do what a GPU might do wrong. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices.h"
#include "config/clock.h"
#include "boot/cmd/post/post.h"
#include "gpu/worker/probe.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/cuda.h"
#include "tests/fakes/log.h"

static struct hr_backend backend;
static char message[HR_LOG_LINE_MAX], detail[HR_POST_DETAIL];
static struct hr_probe probe;
static pthread_t gpu;
static bool runs;
static enum { RIGHT, WRONG_PAGE, LOST_WRITE, NO_BLOCK_2, NO_ANSWER } does;

static void *plain(const void *worker)
{
	return (void *)((uintptr_t)worker & ~FAKE_CUDA_HOST);
}

/* What the worker code does, on a thread: all blocks one after another. */
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
		probe.pong = probe.crc; /* goes astray */
	runs = fake_cuda.busy = true;
	pthread_create(&gpu, NULL, run_blocks, NULL);
}

static void up(void)
{
	fake_cuda_reset();
	fake_cuda.run = run;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, message), 0, "%s", message);
}

static void down(void)
{
	if (runs)
		pthread_join(gpu, NULL);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

TestSuite(cuda_post, .timeout = 60, .init = up, .fini = down);

Test(cuda_post, workers_that_do_right_pass)
{
	cr_expect_eq(hr_post_workers(&backend, detail), 0, "%s", detail);
	cr_expect(strstr(detail, "blocks of 256 threads, 2048 KiB"), "%s", detail);
}

Test(cuda_post, a_page_that_arrives_wrong_is_named)
{
	does = WRONG_PAGE;
	cr_expect_eq(hr_post_workers(&backend, detail), -EIO);
	cr_expect(strstr(detail, "page 0 of 512 has CRC-32C ") && strstr(detail, "host memory"),
		  "%s", detail);
}

Test(cuda_post, a_write_that_is_lost_is_noticed)
{
	does = LOST_WRITE;
	cr_expect_eq(hr_post_workers(&backend, detail), -EIO);
	cr_expect(strstr(detail, "page 7 of 512") && strstr(detail, "memory of the GPU"), "%s",
		  detail);
}

Test(cuda_post, a_block_that_does_not_run_is_named)
{
	does = NO_BLOCK_2;
	cr_expect_eq(hr_post_workers(&backend, detail), -EPROTO);
	cr_expect(strstr(detail, "block 2 of ") && strstr(detail, "has not run"), "%s", detail);
}

Test(cuda_post, a_store_that_does_not_arrive_ends_the_test)
{
	does = NO_ANSWER;
	cr_expect_eq(hr_post_workers(&backend, detail), -EPROTO);
	cr_expect(strstr(detail, "block 0 of ") && strstr(detail, "no store of the CPU"), "%s",
		  detail);
}

Test(cuda_post, launches_and_memory_that_fail_are_told)
{
	fake_cuda_fail("cuLaunchCooperativeKernel", 1, CUDA_ERROR_UNKNOWN);
	cr_expect_eq(hr_post_workers(&backend, detail), -EIO);
	cr_expect(strstr(detail, "cannot be launched"), "%s", detail);
	fake_cuda_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
	cr_expect_eq(hr_post_workers(&backend, detail), -ENOMEM);
	cr_expect(strstr(detail, "no memory"), "%s", detail);
	fake_cuda_fail("cuMemHostRegister", 1, CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(hr_post_workers(&backend, detail), -ENOTSUP);
}

Test(cuda_post, kernels_are_listed)
{
	hr_post_kernels(backend.facts, detail);
	cr_expect(strstr(detail, "hr_kernel_pipe: 40 registers") == detail, "%s", detail);
	cr_expect(strstr(detail, "; hr_kernel_probe: "), "%s", detail);
}
