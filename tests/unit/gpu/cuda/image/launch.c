/* SPDX-License-Identifier: Apache-2.0 */
/* Images and launches, over a fake driver. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "gpu/cuda/image/image.h"
#include "tests/fakes/cuda.h"
#include "tests/fakes/log.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_cuda_gpu gpu;
static struct hr_cuda_image image;
static struct hr_cuda_launch launch;
static struct hr_cuda_entry entry;

static void up(void)
{
	fake_cuda_reset();
	cr_assert_eq(hr_cuda_gpu_open(&gpu, 0), 0);
	cr_assert_eq(hr_cuda_launch_open(&gpu, &launch), 0);
	cr_assert_eq(hr_cuda_image_load(&gpu, &image, "image", "test"), 0);
	cr_assert_eq(hr_cuda_entry_find(&gpu, &image, &entry, "hr_entry_pipe"), 0);
}

static void down(void)
{
	fake_cuda_fail(NULL, 0, CUDA_SUCCESS);
	hr_cuda_image_unload(&gpu, &image);
	hr_cuda_launch_close(&gpu, &launch);
	hr_cuda_gpu_close(&gpu);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

TestSuite(cuda_launch, .timeout = 60, .init = up, .fini = down);

Test(cuda_launch, an_entry_point_has_the_resources_that_the_compiler_chose)
{
	cr_expect_str_eq(entry.facts.name, "hr_entry_pipe");
	cr_expect_eq(entry.facts.registers, 40);
	cr_expect_eq(entry.facts.shared_bytes, 1024);
	cr_expect_eq(entry.facts.max_threads, 512);
	cr_expect_eq(entry.facts.machine, 90);
	cr_expect_eq(hr_cuda_entry_find(&gpu, &image, &entry, "missing"), -ENOENT);
	cr_expect_str_eq(gpu.cu.error.text, "the worker image has no entry point missing");
}

Test(cuda_launch, the_whole_log_of_the_compiler_is_shown)
{
	struct hr_cuda_image other;

	fake_cuda.jit_log = "line one\n\nline two\nline three";
	fake_cuda_fail("cuModuleLoadDataEx", 1, CUDA_ERROR_INVALID_PTX);
	cr_expect_eq(hr_cuda_image_load(&gpu, &other, "bad", "user operator"), -ENOTSUP);
	cr_expect_eq(fake_log_count(), 3);
	cr_expect_str_eq(fake_log_last(), "user operator: line three");
	cr_expect_null(other.module);
	hr_cuda_image_unload(&gpu, &other); /* not loaded, so this does nothing */
}

Test(cuda_launch, shapes_are_checked_before_the_launch)
{
	static const struct {
		uint32_t blocks, threads, shared_bytes;
		int want;
	} row[] = {
		{ 32, 32, 0, 0 }, /* 4 SMs, 8 blocks of one warp each */
		{ 33, 32, 0, -EINVAL },
		{ 0, 32, 0, -EINVAL },
		{ 16, 64, 0, 0 },
		{ 17, 64, 0, -EINVAL },
		{ 1, 0, 0, -EINVAL },
		{ 1, 31, 0, -EINVAL },
		{ 1, 33, 0, -EINVAL },
		{ 1, 544, 0, -EINVAL },
		{ 1, 32, (47 << 10) + 1, 0 }, /* one byte more than the default */
		{ 1, 32, 199 << 10, 0 },
		/* 200 KiB, but the entry point needs 1 KiB itself. */
		{ 1, 32, (199 << 10) + 1, -EINVAL },
		{ 1, 32, UINT32_MAX, -EINVAL },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const unsigned before = fake_cuda.launches;

		cr_expect_eq(hr_cuda_launch_start(&gpu, &launch, &entry, &launch, row[i].blocks,
						  row[i].threads, row[i].shared_bytes),
			     row[i].want, "row %zu: %s", i, gpu.cu.error.text);
		cr_expect_eq(fake_cuda.launches - before, row[i].want == 0, "row %zu", i);
		cr_expect_eq(hr_cuda_launch_poll(&gpu, &launch), 1);
	}
}

Test(cuda_launch, a_launch_runs_until_it_has_ended)
{
	fake_cuda.polls = 3;
	cr_expect_eq(hr_cuda_launch_poll(&gpu, &launch), 1, "nothing yet");
	cr_assert_eq(hr_cuda_launch_start(&gpu, &launch, &entry, &image, 5, 64, 2048), 0);
	cr_expect_str_eq(fake_cuda.last.entry, "hr_entry_pipe");
	cr_expect_eq(fake_cuda.last.argument, &image);
	cr_expect_eq(fake_cuda.last.blocks, 5);
	cr_expect_eq(fake_cuda.last.threads, 64);
	cr_expect_eq(fake_cuda.last.shared_bytes, 2048);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(hr_cuda_launch_poll(&gpu, &launch), 0);
		cr_expect_eq(hr_cuda_launch_start(&gpu, &launch, &entry, &image, 1, 32, 0), -EBUSY);
	}
	cr_expect_eq(hr_cuda_launch_poll(&gpu, &launch), 1);
	cr_expect_eq(hr_cuda_launch_poll(&gpu, &launch), 1);
	cr_expect_eq(hr_cuda_launch_start(&gpu, &launch, &entry, &image, 1, 32, 0), 0);
}

Test(cuda_launch, a_failure_is_named_and_stays)
{
	fake_cuda.polls = 5;
	cr_assert_eq(hr_cuda_launch_start(&gpu, &launch, &entry, &image, 1, 32, 0), 0);
	cr_expect_eq(hr_cuda_launch_poll(&gpu, &launch), 0);
	fake_cuda.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
	cr_expect_eq(hr_cuda_launch_poll(&gpu, &launch), -EIO);
	cr_expect_str_eq(gpu.cu.error.text,
			 "cuEventQuery (worker blocks): CUDA_ERROR_ILLEGAL_ADDRESS: in words");
	fake_cuda.broken = CUDA_SUCCESS;
	cr_expect_eq(hr_cuda_launch_poll(&gpu, &launch), -EIO);
	cr_expect_eq(hr_cuda_launch_start(&gpu, &launch, &entry, &image, 1, 32, 0), -EIO);
}
