/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comparison values of headrace: reads of a file into GPU memory, over fakes of driver and
 * cuFile.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "gpu/cuda/measure/measure.h"
#include "tests/fakes/cuda.h"
#include "tests/fakes/cufile.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define OPEN "context, stream, event" /* resources of an open GPU */

static struct hr_cuda_gpu gpu;
static struct hr_baseline_row row[3];
static struct hr_baseline_plan plan;
static unsigned stop_after; /* queries; 0: never */

static bool stopped(void)
{
	return stop_after && --stop_after == 0;
}

static void up(void)
{
	fake_cuda_reset();
	fake_cufile_reset();
	cr_assert_eq(hr_cuda_gpu_open(&gpu, 0), 0);
	row[0] = (struct hr_baseline_row){ .threads = 1, .io_bytes = 4096, .random = true };
	row[1] = (struct hr_baseline_row){ .threads = 3, .io_bytes = 65536 };
	row[2] = (struct hr_baseline_row){ .threads = 2, .io_bytes = 1u << 20 };
	plan = (struct hr_baseline_plan){ .fd = memfd_create("file", MFD_CLOEXEC),
					  .file_bytes = HR_BASELINE_FILE_MIN,
					  .duration_ns = 3 * HR_NS_PER_MS,
					  .timeout_ns = 5 * HR_NS_PER_S,
					  .times = 3,
					  .stopped = stopped,
					  .row = row,
					  .rows = ROWS(row) };
	cr_assert_eq(ftruncate(plan.fd, (off_t)plan.file_bytes), 0);
	stop_after = 0;
}

static void down(void)
{
	fake_cuda_fail(NULL, 0, CUDA_SUCCESS);
	close(plan.fd);
	hr_cuda_gpu_close(&gpu);
	cr_expect_str_eq(fake_cuda_leaks(), "");
	cr_expect_eq(fake_cufile.opened + fake_cufile.files + fake_cufile.buffers, 0);
}

TestSuite(cuda_baseline, .timeout = 60, .init = up, .fini = down);

Test(cuda_baseline, every_row_of_both_methods_is_measured_and_all_memory_is_released)
{
	for (plan.method = 0; plan.method < HR_BASELINE_METHODS; plan.method++) {
		for (size_t i = 0; i < ROWS(row); i++)
			row[i].bytes_per_s = 0;
		cr_assert_eq(hr_cuda_baseline(&gpu, &plan), 0, "%s", gpu.cu.error.text);
		for (size_t i = 0; i < ROWS(row); i++)
			cr_expect_gt(row[i].bytes_per_s, 0, "method %u row %zu", plan.method, i);
		cr_expect_str_eq(fake_cuda_leaks(), OPEN);
	}
	cr_expect_geq(fake_cufile.reads, 9, "each of three rows, three times");
}

Test(cuda_baseline, values_out_of_range_are_refused)
{
	static const struct {
		uint32_t threads, io_bytes, times;
		uint64_t file_bytes;
	} bad[] = {
		{ 0, 4096, 1, HR_BASELINE_FILE_MIN },
		{ HR_BASELINE_THREADS_MAX + 1, 4096, 1, HR_BASELINE_FILE_MIN },
		{ 1, 0, 1, HR_BASELINE_FILE_MIN },
		{ 1, HR_BASELINE_IO_MAX + 1, 1, HR_BASELINE_FILE_MIN },
		{ 1, 4096, 2, HR_BASELINE_FILE_MIN },
		{ 1, 4096, HR_BASELINE_TIMES_MAX + 2, HR_BASELINE_FILE_MIN },
		{ 1, 4096, 1, HR_BASELINE_FILE_MIN - 1 },
	};

	for (size_t i = 0; i < ROWS(bad); i++) {
		row[2].threads = bad[i].threads;
		row[2].io_bytes = bad[i].io_bytes;
		plan.times = bad[i].times;
		plan.file_bytes = bad[i].file_bytes;
		cr_expect_eq(hr_cuda_baseline(&gpu, &plan), -EINVAL, "row %zu", i);
	}
}

Test(cuda_baseline, a_failure_of_the_driver_is_named_and_leaks_no_resource)
{
	static const struct {
		const char *call;
		unsigned nth;
		CUresult with;
		int want;
	} bad[] = {
		{ "cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM },
		{ "cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM },
		{ "cuStreamCreate", 3, CUDA_ERROR_UNKNOWN, -EIO },
		{ "cuEventCreate", 4, CUDA_ERROR_UNKNOWN, -EIO },
		{ "cuCtxSetCurrent", 2, CUDA_ERROR_UNKNOWN, -EIO }, /* of a thread */
		{ "cuMemcpyAsync", 5, CUDA_ERROR_ILLEGAL_ADDRESS, -EIO },
		{ "cuEventRecord", 2, CUDA_ERROR_UNKNOWN, -EIO },
		{ "cuEventQuery", 2, CUDA_ERROR_ILLEGAL_ADDRESS, -EIO },
	};

	for (size_t i = 0; i < ROWS(bad); i++) {
		fake_cuda_fail(bad[i].call, bad[i].nth, bad[i].with);
		cr_expect_eq(hr_cuda_baseline(&gpu, &plan), bad[i].want, "%s", bad[i].call);
		cr_expect(fake_cuda.failed, "%s was not called", bad[i].call);
		cr_expect(strstr(gpu.cu.error.text, "CUDA_ERROR_"), "%s", gpu.cu.error.text);
		cr_expect(strstr(gpu.cu.error.text, bad[i].call), "%s", gpu.cu.error.text);
		cr_expect_str_eq(fake_cuda_leaks(), OPEN, "%s", bad[i].call);
	}
}

Test(cuda_baseline, a_file_that_cannot_be_read_is_named)
{
	const int file = plan.fd;

	cr_assert_eq(ftruncate(plan.fd, 1000), 0);
	cr_expect_eq(hr_cuda_baseline(&gpu, &plan), -EIO);
	cr_expect_str_eq(gpu.cu.error.text, "pread: the file has been truncated");
	plan.fd = -1;
	cr_expect_eq(hr_cuda_baseline(&gpu, &plan), -EBADF);
	cr_expect_str_eq(gpu.cu.error.text, "pread: Bad file descriptor");
	plan.fd = file;
}

Test(cuda_baseline, a_stop_takes_effect_between_two_measurements)
{
	stop_after = 5; /* the second time of the second row */
	cr_expect_eq(hr_cuda_baseline(&gpu, &plan), -EINTR);
	cr_expect_gt(row[0].bytes_per_s, 0);
	cr_expect_eq(row[1].bytes_per_s, 0);
	cr_expect_eq(row[2].bytes_per_s, 0);
}

Test(cuda_baseline, the_reason_why_cufile_cannot_be_used_is_reported)
{
	static const struct {
		int no_library;
		const char *missing[2], *failing;
		ssize_t answer, short_by;
		int want;
		const char *says;
	} bad[] = {
		{ -ENOENT, { NULL }, NULL, 0, 0, -ENOENT, "no library in this test" },
		{ 0, { "cuFileRead" }, NULL, 0, 0, -ENOTSUP, "libcufile has no cuFileRead" },
		{ 0, { "cuFileDriverOpen" }, NULL, 0, 0, -ENOTSUP, "no cuFileDriverOpen" },
		{ 0,
		  { "cuFileDriverClose", "cuFileDriverClose_v2" },
		  NULL,
		  0,
		  0,
		  -ENOTSUP,
		  "no cuFileDriverClose_v2" },
		{ 0, { "cuFileDriverClose_v2" }, NULL, 0, 0, 0, "" }, /* an older version */
		{ 0,
		  { NULL },
		  "cuFileDriverOpen",
		  0,
		  0,
		  -ENOTSUP,
		  "cuFileDriverOpen: error 5011, CUDA error 1" },
		{ 0,
		  { NULL },
		  "cuFileHandleRegister",
		  0,
		  0,
		  -ENOTSUP,
		  "cuFileHandleRegister: error 5011" },
		{ 0,
		  { NULL },
		  "cuFileBufRegister",
		  0,
		  0,
		  -ENOTSUP,
		  "cuFileBufRegister: error 5011" },
		{ 0, { NULL }, NULL, -1, 0, -ENOTSUP, "cuFileRead: Bad file descriptor" },
		{ 0, { NULL }, NULL, -5030, 0, -ENOTSUP, "cuFileRead: error 5030" },
		{ 0, { NULL }, NULL, 0, 96, -ENOTSUP, "cuFileRead: 4000 of 4096 bytes" },
	};

	plan.method = HR_BASELINE_CUFILE;
	for (size_t i = 0; i < ROWS(bad); i++) {
		gpu.cu.error.text[0] = '\0';
		fake_cufile.no_library = bad[i].no_library;
		memcpy(fake_cufile.missing, bad[i].missing, sizeof fake_cufile.missing);
		fake_cufile.failing = bad[i].failing;
		fake_cufile.answer = bad[i].answer;
		fake_cufile.short_by = bad[i].short_by;
		cr_expect_eq(hr_cuda_baseline(&gpu, &plan), bad[i].want, "case %zu", i);
		cr_expect(strstr(gpu.cu.error.text, bad[i].says), "case %zu: %s", i,
			  gpu.cu.error.text);
		cr_expect_eq(fake_cufile.opened + fake_cufile.files + fake_cufile.buffers, 0,
			     "case %zu", i);
		cr_expect_str_eq(fake_cuda_leaks(), OPEN, "case %zu", i);
	}
}

Test(cuda_baseline, a_read_that_does_not_come_back_is_given_up)
{
	plan.method = HR_BASELINE_CUFILE;
	plan.timeout_ns = 20 * HR_NS_PER_MS;
	fake_cufile.stall = true;
	cr_expect_eq(hr_cuda_baseline(&gpu, &plan), -ETIMEDOUT);
	cr_expect_str_eq(gpu.cu.error.text, "a read of the file has not ended after 20 ms");
	fake_cufile.stall = false;
	while (fake_cufile.reads < 1) /* the thread is detached, and ends by itself */
		hr_wait_ns(HR_NS_PER_MS);
	fake_cuda_forget();
	fake_cufile.opened = fake_cufile.files = fake_cufile.buffers = 0;
	cr_assert_eq(hr_cuda_gpu_open(&gpu, 0), 0);
}
