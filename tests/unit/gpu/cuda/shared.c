/* GPU memory for other processes, made by the cuda backend over a fake driver. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "boot/engine/devices.h"
#include "gpu/backend.h"
#include "gpu/cuda/mps.h"
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
