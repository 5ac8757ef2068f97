/* The cuda backend behind a gpu's device string, over a fake driver: all its life, failing anywhere. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "boot/engine/devices.h"
#include "config/clock.h"
#include "gpu/backend.h"
#include "gpu/ops/operator.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/cuda.h"
#include "tests/fakes/log.h"

#define MIB ((size_t)1 << 20)

static struct hr_backend backend;
static char message[HR_LOG_LINE_MAX];

TestSuite(cuda_backend, .timeout = 120, .init = fake_cuda_reset);

Test(cuda_backend, a_gpu_is_opened_by_number_and_described)
{
	fake_cuda.devices = 2;
	cr_assert_eq(hr_backend_open(&backend, "cuda:1", 5, message), 0, "%s", message);
	cr_expect_str_eq(message, "");
	cr_expect_str_eq(backend.name, "cuda:1 Fake GPU 1");
	cr_expect_eq(backend.lanes, 32);
	cr_expect_eq(backend.max_blocks, 32);
	cr_expect_eq(backend.processors, 4);
	cr_expect_eq(backend.max_threads, 512);
	cr_assert_not_null(backend.facts);
	cr_expect_str_eq(backend.facts->pci, "0000:41:0a.0");
	cr_expect_eq(backend.facts->kernels, 3);
	cr_expect_str_eq(backend.facts->kernel[1].name, "hr_kernel_bench");
	backend.ops->close(&backend);
	cr_expect_null(backend.ops);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, each_role_says_what_it_takes_when_it_is_asked)
{
	static const char *const name[] = { "prefetch", "compute", "writeback" };
	char text[HR_LOG_LINE_MAX] = "?";

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, message), 0);
	hr_gpu_roles_text(backend.facts, text, sizeof text);
	cr_expect_str_eq(text, "", "nobody has asked");
	cr_assert_eq(backend.ops->roles(&backend), 0, "%s", fake_log_last());
	cr_assert_eq(backend.facts->roles, 3);
	for (unsigned r = 0; r < 3; r++) {
		cr_expect_str_eq(backend.facts->role[r].name, name[r]);
		cr_expect_eq(backend.facts->role[r].registers, 40);
		cr_expect_eq(backend.facts->role[r].max_threads, 512);
	}
	hr_gpu_roles_text(backend.facts, text, sizeof text);
	cr_expect_str_eq(text, "prefetch 40, compute 40, writeback 40, all in one kernel 40; "
			       "a block of 512 threads can have 128 each");
	hr_gpu_roles_text(backend.facts, text, 16);
	cr_expect_str_eq(text, "prefetch 40, co");
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, roles_that_cannot_be_asked_are_told_and_nothing_is_left)
{
	static const struct {
		const char *call;
		unsigned nth;
		CUresult with;
		int want;
	} row[] = {
		{ "cuModuleLoadDataEx", 1, CUDA_ERROR_NO_BINARY_FOR_GPU, -ENOTSUP },
		{ "cuModuleLoadDataEx", 1, CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM },
		{ "cuModuleGetFunction", 2, CUDA_ERROR_UNKNOWN, -EIO },
		{ "cuFuncGetAttribute", 7, CUDA_ERROR_ILLEGAL_ADDRESS, -EIO },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, message), 0);
		fake_cuda_fail(row[i].call, row[i].nth, row[i].with);
		cr_expect_eq(backend.ops->roles(&backend), row[i].want, "row %zu", i);
		cr_expect(strstr(fake_log_last(), row[i].call), "%s", fake_log_last());
		cr_expect_eq(backend.facts->roles, 0);
		fake_cuda_fail(NULL, 0, CUDA_SUCCESS);
		backend.ops->close(&backend);
		cr_expect_str_eq(fake_cuda_leaks(), "");
	}
}

Test(cuda_backend, what_would_end_or_block_a_launch_is_told)
{
	fake_cuda.attribute[0][CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT] = 1;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, message), 0);
	cr_expect(strstr(fake_log_last(), "a display hangs on this GPU"), "%s", fake_log_last());
	backend.ops->close(&backend);
	fake_cuda_reset();
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, message), 0);
	cr_expect(strstr(fake_log_last(), "CUDA_LAUNCH_BLOCKING=1 in the environment is ignored"),
		  "%s", fake_log_last());
	cr_expect_null(getenv("CUDA_LAUNCH_BLOCKING"));
	backend.ops->close(&backend);
}

Test(cuda_backend, auto_takes_a_gpu_when_there_is_one_and_says_so)
{
	cr_assert_eq(hr_backend_open(&backend, "auto", 1, message), 0);
	cr_expect_str_eq(message, "auto: worker blocks run on cuda:0 Fake GPU 0");
	backend.ops->close(&backend);
	fake_cuda.devices = 0;
	cr_assert_eq(hr_backend_open(&backend, "auto", 1, message), 0);
	cr_expect(strstr(message, "auto: cuInit: CUDA_ERROR_NO_DEVICE: in words; worker blocks "
				  "run on the "),
		  "%s", message);
	cr_expect_eq(backend.lanes, 1);
	cr_expect_null(backend.facts);
	backend.ops->close(&backend);
}

Test(cuda_backend, what_cannot_be_opened_says_what_and_what_else_to_do)
{
	cr_expect_eq(hr_backend_open(&backend, "cuda:3", 1, message), -ENODEV);
	cr_expect_str_eq(message,
			 "cuda:3: no such GPU, the last one is cuda:0; or use host:CPUS or auto");
	fake_cuda.attribute[0][CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED] = 0;
	cr_expect_eq(hr_backend_open(&backend, "cuda:0,compressible", 1, message), -ENOTSUP);
	cr_expect(strstr(message, "no compressible memory"), "%s", message);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, memory_has_no_cpu_address_and_is_freed_with_its_region)
{
	struct hr_region region[2];
	uint8_t data[100], back[100];

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, message), 0);
	cr_assert_eq(backend.ops->alloc(&backend, 3 * MIB, &region[0]), 0);
	cr_assert_eq(backend.ops->alloc(&backend, 1, &region[1]), 0);
	cr_expect_null(region[0].cpu);
	cr_expect_eq(region[0].kind, HR_REGION_GPU);
	cr_expect_eq(region[0].bytes, 4 * MIB);
	memset(data, 0x42, sizeof data);
	cr_expect_eq(backend.ops->upload(&backend, region[0].worker, data, sizeof data), 0);
	cr_expect_eq(backend.ops->download(&backend, back, region[0].worker, sizeof back), 0);
	cr_expect_eq(memcmp(data, back, sizeof data), 0);
	backend.ops->free(&backend, &region[0]);
	cr_expect_eq(fake_cuda_used(), 2 * MIB);
	cr_expect_eq(region[0].bytes, 0);
	backend.ops->free(&backend, &region[1]);
	cr_expect_eq(fake_cuda_used(), 0);
	cr_expect_eq(backend.ops->alloc(&backend, 0, &region[0]), -EINVAL);
	cr_expect_eq(backend.ops->alloc(&backend, 999 * MIB, &region[0]), -ENOMEM);
	cr_expect(strstr(fake_log_last(), "cuda:0 Fake GPU 0: cuMemCreate: "), "%s",
		  fake_log_last());
	backend.ops->close(&backend);
}

Test(cuda_backend, compressible_memory_that_is_none_is_told)
{
	struct hr_region region;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0,compressible", 1, message), 0);
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region), 0);
	cr_expect(strstr(fake_log_last(), ", compressible"), "%s", fake_log_last());
	fake_cuda.not_compressible = true;
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region), 0);
	cr_expect_null(strstr(fake_log_last(), ", compressible"), "%s", fake_log_last());
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, memory_can_be_let_out_when_other_devices_can_reach_it)
{
	struct hr_region region;
	int fd = -1;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, message), 0);
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region), 0);
	cr_assert_not_null(backend.window);
	cr_expect(!backend.window->mappable(backend.window->to));
	fake_cuda.attribute[0][152] = 1;
	cr_expect(backend.window->mappable(backend.window->to));
	fake_cuda_fail("cuDeviceGetAttribute", 1, CUDA_ERROR_INVALID_VALUE);
	cr_expect(!backend.window->mappable(backend.window->to), "an older driver");
	cr_expect_eq(
		backend.window->export(backend.window->to, (uint64_t)region.worker, HR_PAGE, &fd),
		0);
	cr_expect_geq(fd, 0);
	close(fd);
	cr_expect_eq(backend.window->export(backend.window->to, 4096, HR_PAGE, &fd), -EINVAL);
	cr_expect(strstr(fake_log_last(), "cuMemGetHandleForAddressRange"), "%s", fake_log_last());
	backend.ops->close(&backend);
	cr_assert_eq(hr_backend_open(&backend, "cuda:0,compressible", 1, message), 0);
	cr_expect_null(backend.window);
	backend.ops->close(&backend);
	fake_cuda.attribute[0][CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED] = 0;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, message), 0);
	cr_expect_null(backend.window);
	backend.ops->close(&backend);
}

static const uint8_t code[8];
static const struct hr_operator user = { .gpu = code, .gpu_end = code + 8, .name = "mine" };

/* The life of a backend as boot leads it: 0, or what failed first. */
static int live(void)
{
	enum hr_kernel kernel;
	uint32_t threads;
	uint8_t *host = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t data[64] = { 1 };
	struct hr_region region = { 0 };
	void *worker = NULL;
	int err = hr_backend_open(&backend, "cuda:0", 4, message), state;

	if (err) {
		munmap(host, MIB);
		return err;
	}
	err = backend.ops->link(&backend, &user, &kernel, &threads, message);
	if (!err)
		err = backend.ops->alloc(&backend, MIB, &region);
	if (!err)
		err = backend.ops->attach(&backend, host, MIB, false, &worker);
	if (!err)
		err = backend.ops->upload(&backend, region.worker, data, sizeof data);
	if (!err && backend.ops->resident(&backend, kernel, 64, 0) == 0)
		err = -EIO;
	if (!err)
		err = backend.ops->launch(&backend, HR_KERNEL_BENCH, region.worker, 4, 64, 0);
	for (state = 0; !err && state == 0;)
		state = backend.ops->poll(&backend);
	err = state < 0 ? state : err;
	if (!err)
		err = backend.ops->download(&backend, data, region.worker, sizeof data);
	if (worker)
		backend.ops->detach(&backend, host);
	if (region.bytes)
		backend.ops->free(&backend, &region);
	backend.ops->close(&backend);
	munmap(host, MIB);
	return err;
}

Test(cuda_backend, a_life_with_any_call_failing_ends_in_an_error_and_leaves_nothing)
{
	unsigned n, failed = 0;

	for (n = 1;; n++) {
		int err;

		fake_cuda_reset();
		fake_cuda.polls = 3;
		fake_cuda_fail(NULL, n, CUDA_ERROR_UNKNOWN);
		err = live();
		if (!fake_cuda.failed)
			break;
		failed += err != 0;
		cr_expect(err == 0 || err == -EIO, "call %u, %s: %d", n, fake_cuda.failed, err);
		/* What the driver refuses to take back cannot be given back. */
		cr_expect(strstr(fake_cuda.failed, "Unmap") ||
				  strstr(fake_cuda.failed, "Release") ||
				  strstr(fake_cuda.failed, "AddressFree") ||
				  strcmp(fake_cuda_leaks(), "") == 0,
			  "call %u, %s leaves %s", n, fake_cuda.failed, fake_cuda_leaks());
		fake_cuda_forget();
	}
	cr_expect_gt(failed, 60);
}

Test(cuda_backend, a_gpu_that_fails_is_named_once_and_close_comes_back)
{
	struct hr_region region;
	unsigned told;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region), 0);
	fake_cuda.polls = 10;
	cr_assert_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, region.worker, 1, 32, 0), 0);
	fake_cuda.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
	cr_expect_eq(backend.ops->poll(&backend), -EIO);
	cr_expect_str_eq(fake_log_last(), "cuda:0 Fake GPU 0: cuEventQuery (worker blocks): "
					  "CUDA_ERROR_ILLEGAL_ADDRESS: in words");
	told = fake_log_count();
	cr_expect_eq(backend.ops->poll(&backend), -EIO);
	cr_expect_eq(fake_log_count(), told);
	backend.ops->free(&backend, &region);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, worker_blocks_that_never_end_are_given_up_on)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
	fake_cuda.polls = UINT32_MAX;
	cr_assert_eq(backend.ops->launch(&backend, HR_KERNEL_PIPE, message, 1, 32, 0), 0);
	fake_clock_start(HR_NS_PER_S, NULL, NULL);
	backend.ops->close(&backend);
	fake_clock_stop();
	cr_expect(strstr(fake_log_last(), "still run after 10 s"), "%s", fake_log_last());
	cr_expect_null(backend.ops);
}

Test(cuda_backend, a_driver_that_does_not_come_back_is_given_up_on)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
	fake_cuda.stall = "cuModuleUnload";
	fake_clock_start(HR_NS_PER_S, NULL, NULL);
	backend.ops->close(&backend);
	fake_clock_stop();
	cr_expect(strstr(fake_log_last(), "has not let go of the GPU after 10 s"), "%s",
		  fake_log_last());
	fake_cuda.stall = NULL; /* the driver comes back later, to nobody */
}

/* ---- user operators */

static enum hr_kernel kernel;
static uint32_t threads;

Test(cuda_backend, a_user_operator_is_linked_once_and_runs)
{
	static const struct hr_operator other = { .gpu = code,
						  .gpu_end = code + 4,
						  .name = "other" };
	enum hr_kernel again;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
	fake_cuda.kernel_threads = 96;
	cr_assert_eq(backend.ops->link(&backend, &user, &kernel, &threads, message), 0, "%s",
		     message);
	cr_expect_geq(kernel, HR_KERNEL_USER);
	cr_expect_eq(threads, 96);
	cr_expect_eq(fake_cuda.parts, 2);
	cr_expect_eq(fake_cuda.part_bytes, 8);
	cr_expect(strstr(fake_log_last(), "operator mine: linked; 40 registers, 1024 bytes shared, "
					  "40 bytes local, blocks of up to 96 threads"),
		  "%s", fake_log_last());
	cr_assert_eq(backend.ops->link(&backend, &user, &again, &threads, message), 0);
	cr_expect_eq(again, kernel);
	cr_assert_eq(backend.ops->link(&backend, &other, &again, &threads, message), 0);
	cr_expect_neq(again, kernel);
	cr_expect_eq(fake_cuda.part_bytes, 4);
	cr_assert_eq(backend.ops->launch(&backend, kernel, message, 2, 64, 0), 0);
	cr_expect_str_eq(fake_cuda.last.kernel, "hr_kernel_pipe");
	cr_expect_eq(backend.ops->poll(&backend), 1);
	/* What it cannot have is told with its name. */
	cr_expect_eq(backend.ops->resident(&backend, kernel, 128, 0), 0);
	cr_expect(strstr(fake_log_last(), "operator mine: 128 threads per block, expected a "
					  "multiple of 32 up to 96"),
		  "%s", fake_log_last());
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, a_user_operator_without_gpu_code_is_refused)
{
	static const struct hr_operator host_only = { .gpu = code,
						      .gpu_end = code,
						      .name = "mine" };

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
	cr_expect_eq(backend.ops->link(&backend, &host_only, &kernel, &threads, message), -ENOTSUP);
	cr_expect_str_eq(message,
			 "its file has no GPU part; build it where nvcc is, with 'make op'");
	backend.ops->close(&backend);
}

Test(cuda_backend, what_the_linker_says_is_shown_whole)
{
	static const struct {
		const char *call;
		CUresult result;
		const char *log;
		int want;
	} row[] = {
		{ "cuLinkComplete", CUDA_ERROR_UNKNOWN, "Undefined a\nUndefined b\n", -EINVAL },
		{ "cuLinkAddData", CUDA_ERROR_INVALID_IMAGE, "bad\nbad\n", -EINVAL },
		{ "cuLinkAddData", CUDA_ERROR_NO_BINARY_FOR_GPU, "", -ENOTSUP },
		{ "cuLinkAddData", CUDA_ERROR_UNKNOWN, "too\nmany\n", -EINVAL },
		{ "cuLinkCreate", CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "", -ENOTSUP },
		{ "cuLinkComplete", CUDA_ERROR_ILLEGAL_ADDRESS, "", -EIO },
		{ "cuLinkComplete", CUDA_ERROR_OUT_OF_MEMORY, "", -ENOMEM },
		{ "cuModuleLoadDataEx", CUDA_ERROR_INVALID_IMAGE, "x\ny\n", -ENOTSUP },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		unsigned before;

		fake_cuda_reset();
		cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
		fake_cuda.jit_log = row[i].log;
		fake_cuda_fail(row[i].call, 1, row[i].result);
		before = fake_log_count();
		cr_expect_eq(backend.ops->link(&backend, &user, &kernel, &threads, message),
			     row[i].want, "row %zu: %s", i, message);
		cr_expect(strstr(message, row[i].call), "row %zu: %s", i, message);
		cr_expect_geq(fake_log_count() - before, *row[i].log ? 2 : 0, "row %zu", i);
		if (i == 0)
			cr_expect_str_eq(fake_log_last(), "operator mine: Undefined b");
		if (i == 2)
			cr_expect(strstr(message, "worker image: no code in it runs on compute "
						  "capability 9.0"),
				  "%s", message);
		backend.ops->close(&backend);
		cr_expect_str_eq(fake_cuda_leaks(), "", "row %zu", i);
	}
}

/* The driver's linker goes on without it, and then misses everything. */
Test(cuda_backend, a_user_operator_for_other_gpus_is_refused)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
	fake_cuda.jit_info = " No code for sm_90 in operator mine; continuing.\n";
	cr_expect_eq(backend.ops->link(&backend, &user, &kernel, &threads, message), -ENOTSUP);
	cr_expect(strstr(message, "no code in it runs on compute capability 9.0"), "%s", message);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, more_local_memory_than_the_gpu_has_is_refused)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
	fake_cuda.local_bytes = 32 << 10; /* 4 SMs with 2048 threads: 256 MiB, all there is */
	cr_expect_eq(backend.ops->link(&backend, &user, &kernel, &threads, message), 0);
	fake_cuda.local_bytes += 16;
	static const struct hr_operator greedy = { .gpu = code,
						   .gpu_end = code + 8,
						   .name = "greedy" };

	cr_expect_eq(backend.ops->link(&backend, &greedy, &kernel, &threads, message), -EINVAL);
	cr_expect(strstr(message, "operator greedy: 32784 bytes of local memory per thread"), "%s",
		  message);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, only_so_many_user_operators_are_linked)
{
	static struct hr_operator many[HR_OPERATORS_MAX + 1];

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, message), 0);
	for (unsigned i = 0; i <= HR_OPERATORS_MAX; i++) {
		many[i] = user;
		cr_expect_eq(backend.ops->link(&backend, &many[i], &kernel, &threads, message),
			     i < HR_OPERATORS_MAX ? 0 : -ENOSPC, "%u", i);
	}
	cr_expect_str_eq(message, "16 operators are linked, that is all");
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}
