/* SPDX-License-Identifier: Apache-2.0 */
/* What opening a GPU refuses: a GPU that is not there, and one for which the binary has no image. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "gpu/backend.h"
#include "tests/fakes/cuda.h"
#include "tests/harness/error.h"

static struct hr_backend backend;

TestSuite(cuda_refusals, .timeout = 60, .init = fake_cuda_reset);

/* Each of the images, because each is a file of its own. */
Test(cuda_refusals, a_binary_for_other_gpus_names_the_remedy)
{
	for (unsigned nth = 1; nth <= 4; nth++) {
		fake_cuda_reset();
		fake_cuda_fail("cuModuleLoadDataEx", nth, CUDA_ERROR_NO_BINARY_FOR_GPU);
		cr_expect_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), -ENOTSUP);
		cr_expect(strstr(test_error_text(),
				 "worker image: no code in it runs on compute capability 9.0; "
				 "build headrace on this machine, or with ARCHS=all"),
			  "%s", test_error_text());
		cr_expect_str_eq(fake_cuda_leaks(), "", "image %u", nth);
	}
}

Test(cuda_refusals, a_failed_open_names_the_cause_and_the_remedy)
{
	cr_expect_eq(hr_backend_open(&backend, "cuda:3", 1, test_error()), -ENODEV);
	cr_expect_str_eq(test_error_text(),
			 "cuda:3: no such GPU, the last one is cuda:0; or use host:CPUS or auto");
	fake_cuda.attribute[0][CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED] = 0;
	cr_expect_eq(hr_backend_open(&backend, "cuda:0,compressible", 1, test_error()), -ENOTSUP);
	cr_expect(strstr(test_error_text(), "no compressible memory"), "%s", test_error_text());
	cr_expect_str_eq(fake_cuda_leaks(), "");
}
