/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory for other processes, made by the cuda backend over a fake driver. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "gpu/backend.h"
#include "gpu/cuda/driver/device.h"
#include "tests/fakes/cuda.h"
#include "tests/harness/error.h"

#define MIB ((size_t)1 << 20)

static struct hr_backend backend;

TestSuite(cuda_shared, .timeout = 120, .init = fake_cuda_reset);

Test(cuda_shared, memory_for_other_processes_is_made_in_objects_of_its_own)
{
	struct hr_region region = { 0 };
	size_t object[2] = { 0 };
	int fd[2] = { -1, -1 };
	char *seen;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_expect_eq(backend.shared_align, 2 * MIB);
	cr_assert_eq(backend.ops->reserve_shared(&backend, 5 * MIB, &region, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_eq(region.bytes, 6 * MIB);
	cr_expect_null(region.cpu);
	cr_expect_eq(fake_cuda_used(), 0, "addresses only");
	cr_assert_eq(backend.ops->make_shared(&backend, &region, 0, MIB, &object[0], &fd[0],
					      test_error()),
		     0, "%s", test_error_text());
	cr_expect_eq(backend.ops->make_shared(&backend, &region, 4 * MIB, MIB, &object[1], &fd[1],
					      test_error()),
		     -EINVAL, "a gap has no memory");
	cr_assert_eq(backend.ops->make_shared(&backend, &region, 2 * MIB, 3 * MIB, &object[1],
					      &fd[1], test_error()),
		     0, "%s", test_error_text());
	cr_expect_eq(object[0], 2 * MIB);
	cr_expect_eq(object[1], 4 * MIB);
	strcpy((char *)region.worker + 2 * MIB, "second");
	seen = mmap(NULL, object[1], PROT_READ, MAP_SHARED, fd[1], 0);
	cr_expect_str_eq(seen, "second");
	close(fd[0]);
	cr_assert_eq(backend.ops->make_shared(&backend, &region, 0, MIB, &object[0], &fd[0],
					      test_error()),
		     0, "other memory for the next run: %s", test_error_text());
	cr_expect_eq(fake_cuda_used(), 6 * MIB);
	backend.ops->free(&backend, &region);
	cr_expect_eq(fake_cuda_used(), 0);
	cr_expect_str_eq(seen, "second", "it lives as long as it is mapped");
	munmap(seen, object[1]);
	close(fd[0]);
	close(fd[1]);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_shared, memory_for_other_processes_needs_a_driver_that_exports_it)
{
	struct hr_region region = { 0 };

	fake_cuda.attribute[0][CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] = 0;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_expect_eq(backend.ops->reserve_shared(&backend, MIB, &region, test_error()), -ENOTSUP);
	cr_expect(strstr(test_error_text(), "cannot export memory"), "%s", test_error_text());
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_shared, each_failing_call_for_shared_memory_is_an_error_and_leaks_none)
{
	static const char *const call[] = {
		"cuMemAddressReserve", "cuMemCreate",	  "cuMemMap",
		"cuMemSetAccess",      "cuMemsetD8Async", "cuMemExportToShareableHandle"
	};
	size_t object;
	int fd, err;

	for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
		struct hr_region region = { 0 };

		cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
		fake_cuda_fail(call[i], 1, CUDA_ERROR_UNKNOWN);
		fd = -1;
		err = backend.ops->reserve_shared(&backend, MIB, &region, test_error());
		cr_expect_eq(err != 0, i == 0, "%s", call[i]);
		if (!err)
			err = backend.ops->make_shared(&backend, &region, 0, MIB, &object, &fd,
						       test_error());
		cr_expect_eq(err, -EIO, "%s: %d", call[i], err);
		cr_expect(strstr(test_error_text(), call[i]), "%s", test_error_text());
		cr_expect_eq(fd, -1);
		backend.ops->free(&backend, &region);
		backend.ops->close(&backend);
		cr_expect_str_eq(fake_cuda_leaks(), "");
	}
}

Test(cuda_shared, network_devices_reach_a_memory_object_by_its_dma_buf)
{
	struct hr_region region = { 0 };
	size_t object;
	char *seen;
	int fd = -1;

	/* with a choice of the way to the memory, and without */
	for (int i = 0; i < 2; i++) {
		fake_cuda.no_pcie_choice = i;
		cr_assert_eq(hr_backend_open(&backend, i ? "cuda:0" : "cuda:0,compressible", 1,
					     test_error()),
			     0);
		cr_assert_eq(backend.ops->reserve_shared(&backend, 4 * MIB, &region, test_error()),
			     0);
		for (size_t at = 0; at < 4 * MIB; at += 2 * MIB) {
			cr_assert_eq(backend.ops->make_shared(&backend, &region, at, MIB, &object,
							      &fd, test_error()),
				     0);
			close(fd);
		}
		cr_assert_eq(
			backend.ops->export_shared(&backend, &region, 2 * MIB, &fd, test_error()),
			0, "%s", test_error_text());
		strcpy((char *)region.worker + 2 * MIB, "second");
		seen = mmap(NULL, object, PROT_READ, MAP_SHARED, fd, 0);
		cr_assert_neq(seen, MAP_FAILED);
		cr_expect_str_eq(seen, "second");
		munmap(seen, object);
		close(fd);
		cr_expect_eq(backend.ops->export_shared(&backend, &region, MIB, &fd, test_error()),
			     -EINVAL);
		backend.ops->free(&backend, &region);
		backend.ops->close(&backend);
	}
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

/* Export a memory object of a GPU that lacks something. */
static int export_from(CUdevice_attribute lacks, CUdevice_attribute lacks_too)
{
	struct hr_region region = { 0 };
	size_t object;
	int fd = -1, err;

	fake_cuda_reset();
	fake_cuda.attribute[0][lacks] = fake_cuda.attribute[0][lacks_too] = 0;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_assert_eq(backend.ops->reserve_shared(&backend, MIB, &region, test_error()), 0);
	cr_assert_eq(
		backend.ops->make_shared(&backend, &region, 0, MIB, &object, &fd, test_error()), 0);
	close(fd);
	err = backend.ops->export_shared(&backend, &region, 0, &fd, test_error());
	if (!err)
		close(fd);
	backend.ops->close(&backend);
	return err;
}

Test(cuda_shared, network_devices_need_a_gpu_that_lets_them_in_and_shows_what_they_write)
{
	static const CUdevice_attribute ordering =
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
	static const CUdevice_attribute options =
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS;

	cr_expect_eq(export_from(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, options), -ENOTSUP);
	cr_expect(strstr(test_error_text(), "other devices cannot access its memory"), "%s",
		  test_error_text());
	cr_expect_eq(
		export_from(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, options),
		-ENOTSUP);
	cr_expect_eq(export_from(ordering, options), -ENOTSUP);
	cr_expect(strstr(test_error_text(), "nothing makes writes of other devices visible"), "%s",
		  test_error_text());
	cr_expect_eq(export_from(ordering, ordering), 0, "a flush does");
	cr_expect_eq(export_from(options, options), 0, "their order does");
}

static void *flush_in_a_thread(void *result)
{
	*(int *)result = backend.ops->flush_shared(&backend);
	return NULL;
}

Test(cuda_shared, writes_of_other_devices_are_flushed_by_any_thread)
{
	pthread_t thread;
	int result = -1;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_assert_eq(pthread_create(&thread, NULL, flush_in_a_thread, &result), 0);
	pthread_join(thread, NULL);
	cr_expect_eq(result, 0);
	cr_expect_eq(fake_cuda.flushes, 1);
	fake_cuda_fail("cuFlushGPUDirectRDMAWrites", 1, CUDA_ERROR_UNKNOWN);
	cr_expect_eq(backend.ops->flush_shared(&backend), -EIO);
	fake_cuda_fail("cuCtxSetCurrent", 1, CUDA_ERROR_UNKNOWN);
	cr_expect_eq(backend.ops->flush_shared(&backend), -EIO);
	backend.ops->close(&backend);
}

Test(cuda_shared, a_process_is_a_client_of_mps_while_its_daemon_runs)
{
	char folder[] = "/tmp/headrace-mps-XXXXXX", file[64];
	FILE *out;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(file, sizeof file, "%s/nvidia-cuda-mps-control.pid", folder);
	setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1);
	cr_expect_not(hr_cuda_mps_runs(), "there is no daemon");
	out = fopen(file, "we");
	fprintf(out, "%d\n", (int)getpid());
	fclose(out);
	cr_expect_not(hr_cuda_mps_runs(), "another program has the number of a daemon that ended");
	cr_assert_eq(prctl(PR_SET_NAME, "nvidia-cuda-mps-control"), 0);
	cr_expect(hr_cuda_mps_runs());
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_expect(backend.facts->mps);
	backend.ops->close(&backend);
	unlink(file);
	rmdir(folder);
}
