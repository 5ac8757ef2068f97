/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver as a table of functions, its errors as errno values, and the choice of a GPU. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "gpu/cuda/driver/device.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/cuda.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(cuda_driver, .timeout = 60, .init = fake_cuda_reset);

static struct hr_cuda_gpu gpu;

/* Open a GPU; the error text contains `part`. */
static void refused(int ordinal, int want, const char *part)
{
	const int err = hr_cuda_gpu_open(&gpu, ordinal);

	cr_expect_eq(err, want, "%d, expected %d: %s", err, want, gpu.cu.error.text);
	cr_expect(strstr(gpu.cu.error.text, part), "'%s' is not in: %s", part, gpu.cu.error.text);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_driver, the_facts_of_a_gpu_come_from_the_driver)
{
	const struct hr_gpu_facts *f = &gpu.facts;
	char text[HR_LOG_LINE_MAX];

	cr_assert_eq(hr_cuda_gpu_open(&gpu, 0), 0, "%s", gpu.cu.error.text);
	cr_expect_str_eq(f->model, "Fake GPU 0");
	cr_expect_str_eq(f->pci, "0000:40:0a.0");
	cr_expect_eq(f->capability, 90);
	cr_expect_eq(f->processors, 4);
	cr_expect_eq(f->block_threads, 1024);
	cr_expect_eq(f->wave, 32);
	cr_expect_eq(f->shared_bytes, 200 << 10);
	cr_expect_eq(f->memory_bytes, 256 << 20);
	cr_expect_eq(f->granularity, 2 << 20);
	cr_expect(f->virtual_memory && f->cooperative && f->host_register && f->fd_handles);
	cr_expect(f->rdma && f->rdma_virtual_memory && f->compressible && !f->dma_buf);
	cr_expect(f->flush_from_host && !f->flush_from_stream);
	cr_expect(f->ordered_for_owner && !f->ordered_for_all);
	hr_gpu_facts_text(f, text, sizeof text);
	cr_expect(strstr(text, "0000:40:0a.0, driver ") == text && strstr(text, "4 SMs, 0.2 GiB") &&
			  strstr(text, "; supports virtual memory management, ") &&
			  !strstr(text, "DMA-BUF"),
		  "%s", text);
	hr_cuda_gpu_close(&gpu);
	cr_expect_str_eq(fake_cuda_leaks(), "");
	hr_cuda_gpu_close(&gpu); /* not open, so this does nothing */
}

Test(cuda_driver, a_text_of_facts_is_cut_where_it_does_not_fit)
{
	char text[40];

	cr_assert_eq(hr_cuda_gpu_open(&gpu, 0), 0);
	for (size_t bytes = 1; bytes <= sizeof text; bytes++) {
		memset(text, 'x', sizeof text);
		hr_gpu_facts_text(&gpu.facts, text, bytes);
		cr_expect_eq(strnlen(text, sizeof text), bytes - 1);
	}
	hr_cuda_gpu_close(&gpu);
}

Test(cuda_driver, a_missing_or_old_part_is_reported_in_one_line)
{
	fake_cuda.no_library = -ENODEV;
	refused(0, -ENODEV, "no driver in this test");
	fake_cuda_reset();
	fake_cuda.missing = "cuMemCreate";
	refused(0, -ENOTSUP, "lacks cuMemCreate of CUDA 10.2");
	fake_cuda_reset();
	fake_cuda.version = HR_CUDA_VERSION_MIN - 10;
	refused(0, -ENOTSUP, "or later; install a newer one");
	fake_cuda_reset();
	fake_cuda.devices = 0;
	refused(HR_CUDA_ANY, -ENODEV, "cuInit: CUDA_ERROR_NO_DEVICE: in words");
	fake_cuda_reset();
	refused(1, -ENODEV, "the last one is cuda:0");
}

/* Its other clients end, and then it accepts this process. */
Test(cuda_driver, a_server_of_mps_that_recovers_is_waited_for)
{
	fake_cuda_fail("cuInit", 1, CUDA_ERROR_MPS_SERVER_NOT_READY);
	cr_expect_eq(hr_cuda_gpu_open(&gpu, 0), 0);
	cr_expect_str_eq(fake_cuda.failed, "cuInit");
	hr_cuda_gpu_close(&gpu);
}

Test(cuda_driver, a_gpu_without_a_required_feature_is_refused_by_name)
{
	static const struct {
		CUdevice_attribute attribute;
		int value;
		const char *part;
	} row[] = {
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 7, "capability 7.0, needs 8.0" },
		{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 64,
		  "a warp has 64 threads, but the worker code is for 32" },
		{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0,
		  "no virtual memory management" },
		{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0, "no cooperative launch" },
		{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 0,
		  "no registration of host memory" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		fake_cuda_reset();
		fake_cuda.attribute[0][row[i].attribute] = row[i].value;
		refused(0, -ENOTSUP, row[i].part);
		refused(HR_CUDA_ANY, -ENOTSUP, row[i].part);
	}
}

Test(cuda_driver, the_first_gpu_that_can_be_used_is_chosen)
{
	fake_cuda.devices = 3;
	fake_cuda.attribute[0][CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 6;
	cr_assert_eq(hr_cuda_gpu_open(&gpu, HR_CUDA_ANY), 0, "%s", gpu.cu.error.text);
	cr_expect_eq(gpu.ordinal, 1);
	cr_expect_str_eq(gpu.facts.model, "Fake GPU 1");
	hr_cuda_gpu_close(&gpu);
	fake_cuda.attribute[1][CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 6;
	fake_cuda.attribute[2][CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 0;
	refused(HR_CUDA_ANY, -ENOTSUP, "cuda:0: 0000:40:0a.0 Fake GPU 0: compute capability 6.0");
	cr_expect(strstr(gpu.cu.error.text,
			 "; cuda:2: 0000:42:0a.0 Fake GPU 2: the driver offers no "
			 "cooperative launch"),
		  "%s", gpu.cu.error.text);
}

/* A GPU that may come, and errors that waiting does not change. */
Test(cuda_driver, awaits_a_gpu)
{
	static const struct {
		CUresult init;
		int one, any; /* of GPU 0, of the first one */
	} row[] = {
		{ CUDA_SUCCESS, 0, 0 },
		{ CUDA_ERROR_SYSTEM_NOT_READY, -EAGAIN, -EAGAIN },
		{ CUDA_ERROR_NO_DEVICE, -EAGAIN, 0 },
		{ CUDA_ERROR_UNKNOWN, -EAGAIN, 0 },
		{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 0, 0 },
		{ CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 0, 0 },
		{ CUDA_ERROR_STUB_LIBRARY, 0, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		fake_cuda_reset();
		fake_cuda_fail("cuInit", row[i].init != CUDA_SUCCESS, row[i].init);
		cr_expect_eq(hr_cuda_gpu_await(&gpu.cu, 0), row[i].one, "row %zu", i);
		fake_cuda_fail("cuInit", row[i].init != CUDA_SUCCESS, row[i].init);
		cr_expect_eq(hr_cuda_gpu_await(&gpu.cu, HR_CUDA_ANY), row[i].any, "row %zu", i);
	}
	fake_cuda_reset();
	cr_expect_eq(hr_cuda_gpu_await(&gpu.cu, fake_cuda.devices), -EAGAIN);
	cr_expect_str_eq(gpu.cu.error.text, "the NVIDIA driver has 1 GPUs");
	fake_cuda.no_library = -ENODEV;
	cr_expect_eq(hr_cuda_gpu_await(&gpu.cu, 0), 0);
}

Test(cuda_driver, an_attribute_unknown_to_an_older_driver_is_unsupported)
{
	for (unsigned n = 1; n <= 16; n++) {
		fake_cuda_reset();
		fake_cuda_fail("cuDeviceGetAttribute", n, CUDA_ERROR_INVALID_VALUE);
		if (hr_cuda_gpu_open(&gpu, 0) == 0)
			hr_cuda_gpu_close(&gpu);
		else /* unless it is needed */
			cr_expect(strstr(gpu.cu.error.text, "Fake GPU 0: ") != NULL, "%s",
				  gpu.cu.error.text);
		cr_expect_not_null(fake_cuda.failed);
	}
}

Test(cuda_driver, errors_have_our_numbers)
{
	static const struct {
		CUresult result;
		int want;
	} row[] = {
		{ CUDA_SUCCESS, 0 },
		{ CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM },
		{ CUDA_ERROR_NO_DEVICE, -ENODEV },
		{ CUDA_ERROR_DEVICE_UNAVAILABLE, -ENODEV },
		{ CUDA_ERROR_SYSTEM_NOT_READY, -ENODEV },
		{ CUDA_ERROR_NOT_SUPPORTED, -ENOTSUP },
		{ CUDA_ERROR_NO_BINARY_FOR_GPU, -ENOTSUP },
		{ CUDA_ERROR_INVALID_VALUE, -EINVAL },
		{ CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, -EINVAL },
		{ CUDA_ERROR_NOT_PERMITTED, -EPERM },
		{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, -EEXIST },
		{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, -ENOENT },
		{ CUDA_ERROR_ILLEGAL_ADDRESS, -EIO },
		{ CUDA_ERROR_ECC_UNCORRECTABLE, -EIO },
		{ (CUresult)123456, -EIO },
	};

	cr_assert_eq(hr_cuda_gpu_open(&gpu, 0), 0);
	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(hr_cuda_check(&gpu.cu, "cuCall", row[i].result), row[i].want,
			     "row %zu", i);
	cr_expect_str_eq(gpu.cu.error.text, "cuCall: CUDA error 123456"); /* it has no name */
	hr_cuda_gpu_close(&gpu);
}

Test(cuda_driver, a_wait_for_a_copy_is_bounded)
{
	cr_assert_eq(hr_cuda_gpu_open(&gpu, 0), 0);
	cr_assert_eq(gpu.cu.EventRecord(gpu.done, gpu.stream), CUDA_SUCCESS);
	cr_expect_eq(hr_cuda_gpu_wait(&gpu, gpu.done), 0);
	fake_cuda.polls = UINT32_MAX;
	cr_assert_eq(gpu.cu.LaunchCooperativeKernel(NULL, 1, 1, 1, 32, 1, 1, 0, gpu.stream,
						    (void *[]){ &gpu }),
		     CUDA_SUCCESS);
	cr_assert_eq(gpu.cu.EventRecord(gpu.done, gpu.stream), CUDA_SUCCESS);
	fake_clock_start(1000, NULL, NULL);
	cr_expect_eq(hr_cuda_gpu_wait(&gpu, gpu.done), -ETIMEDOUT);
	cr_expect(strstr(gpu.cu.error.text, "20 s"), "%s", gpu.cu.error.text);
	fake_clock_stop();
	fake_cuda.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
	cr_expect_eq(hr_cuda_gpu_wait(&gpu, gpu.done), -EIO);
	cr_expect(strstr(gpu.cu.error.text, "ILLEGAL_ADDRESS"), "%s", gpu.cu.error.text);
	hr_cuda_gpu_close(&gpu);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}
