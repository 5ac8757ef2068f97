/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda backend, opened by a gpu's device string, over a fake driver: its whole life, with a
 * failure of each call.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "gpu/backend.h"
#include "gpu/measuring.h"
#include "gpu/ops/operator.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/cuda.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"
#include "tests/harness/launch.h"

#define MIB ((size_t)1 << 20)

static struct hr_backend backend;
static struct hr_launch *launch;
static char space[64]; /* an address */

TestSuite(cuda_backend, .timeout = 120, .init = fake_cuda_reset);

Test(cuda_backend, a_gpu_is_opened_by_number_and_described)
{
	fake_cuda.devices = 2;
	cr_assert_eq(hr_backend_open(&backend, "cuda:1", 5, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_str_eq(backend.note, "");
	cr_expect_str_eq(backend.name, "cuda:1 Fake GPU 1");
	cr_expect_eq(backend.lanes, 32);
	cr_expect_eq(backend.max_blocks, 32);
	cr_expect_eq(backend.processors, 4);
	cr_expect_eq(backend.max_threads, 512);
	cr_assert_not_null(backend.facts);
	cr_expect_str_eq(backend.facts->pci, "0000:41:0a.0");
	cr_expect_eq(backend.facts->entries, 7);
	cr_expect_str_eq(backend.facts->entry[1].name, "hr_entry_bench");
	backend.ops->close(&backend);
	cr_expect_null(backend.ops);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, the_resources_of_each_role_are_reported)
{
	static const char *const name[] = { "prefetch", "compute", "writeback" };
	char text[HR_LOG_LINE_MAX] = "?";

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	hr_gpu_roles_text(backend.facts, text, sizeof text);
	cr_expect_str_eq(text, "", "nobody has asked");
	cr_assert_eq(backend.measuring->roles(&backend, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(backend.facts->roles, 3);
	for (unsigned r = 0; r < 3; r++) {
		cr_expect_str_eq(backend.facts->role[r].name, name[r]);
		cr_expect_eq(backend.facts->role[r].registers, 40);
		cr_expect_eq(backend.facts->role[r].max_threads, 512);
	}
	hr_gpu_roles_text(backend.facts, text, sizeof text);
	cr_expect_str_eq(text, "prefetch 40, compute 40, writeback 40, all in one launch 40; "
			       "a block of 512 threads can have 128 each");
	hr_gpu_roles_text(backend.facts, text, 16);
	cr_expect_str_eq(text, "prefetch 40, co");
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, roles_without_readable_resources_are_reported_and_released)
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
		cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
		fake_cuda_fail(row[i].call, row[i].nth, row[i].with);
		cr_expect_eq(backend.measuring->roles(&backend, test_error()), row[i].want,
			     "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].call), "%s", test_error_text());
		cr_expect_eq(backend.facts->roles, 0);
		fake_cuda_fail(NULL, 0, CUDA_SUCCESS);
		backend.ops->close(&backend);
		cr_expect_str_eq(fake_cuda_leaks(), "");
	}
}

Test(cuda_backend, a_cause_that_ends_or_blocks_a_launch_is_reported)
{
	fake_cuda.attribute[0][CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT] = 1;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_expect(strstr(fake_log_last(), "this GPU has a display"), "%s", fake_log_last());
	backend.ops->close(&backend);
	fake_cuda_reset();
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_expect(strstr(fake_log_last(), "CUDA_LAUNCH_BLOCKING=1 in the environment is ignored"),
		  "%s", fake_log_last());
	cr_expect_null(getenv("CUDA_LAUNCH_BLOCKING"));
	backend.ops->close(&backend);
}

Test(cuda_backend, auto_chooses_a_present_gpu_and_reports_the_choice)
{
	cr_assert_eq(hr_backend_open(&backend, "auto", 1, test_error()), 0);
	cr_expect_str_eq(backend.note, "auto: worker blocks run on cuda:0 Fake GPU 0");
	backend.ops->close(&backend);
	fake_cuda.devices = 0;
	cr_assert_eq(hr_backend_open(&backend, "auto", 1, test_error()), 0);
	cr_expect(strstr(backend.note,
			 "auto: cuInit: CUDA_ERROR_NO_DEVICE: in words; worker blocks "
			 "run on the "),
		  "%s", test_error_text());
	cr_expect_eq(backend.lanes, 1);
	cr_expect_null(backend.facts);
	backend.ops->close(&backend);
}

Test(cuda_backend, memory_has_no_cpu_address_and_is_freed_with_its_region)
{
	struct hr_region region[2];
	uint8_t data[100], back[100];

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_assert_eq(backend.ops->alloc(&backend, 3 * MIB, &region[0], test_error()), 0);
	cr_assert_eq(backend.ops->alloc(&backend, 1, &region[1], test_error()), 0);
	cr_expect_null(region[0].cpu);
	cr_expect_eq(region[0].kind, HR_REGION_GPU);
	cr_expect_eq(region[0].bytes, 4 * MIB);
	memset(data, 0x42, sizeof data);
	cr_expect_eq(
		backend.ops->upload(&backend, region[0].worker, data, sizeof data, test_error()),
		0);
	cr_expect_eq(
		backend.ops->download(&backend, back, region[0].worker, sizeof back, test_error()),
		0);
	cr_expect_eq(memcmp(data, back, sizeof data), 0);
	backend.ops->free(&backend, &region[0]);
	cr_expect_eq(fake_cuda_used(), 2 * MIB);
	cr_expect_eq(region[0].bytes, 0);
	backend.ops->free(&backend, &region[1]);
	cr_expect_eq(fake_cuda_used(), 0);
	cr_expect_eq(backend.ops->alloc(&backend, 0, &region[0], test_error()), -EINVAL);
	cr_expect_eq(backend.ops->alloc(&backend, 999 * MIB, &region[0], test_error()), -ENOMEM);
	cr_expect(strstr(test_error_text(), "cuda:0 Fake GPU 0: cuMemCreate: "), "%s",
		  test_error_text());
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	backend.ops->close(&backend);
}

Test(cuda_backend, only_compressible_memory_is_reported_as_compressible)
{
	struct hr_region region;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0,compressible", 1, test_error()), 0);
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region, test_error()), 0);
	cr_expect(strstr(fake_log_last(), ", compressible"), "%s", fake_log_last());
	fake_cuda.not_compressible = true;
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region, test_error()), 0);
	cr_expect_null(strstr(fake_log_last(), ", compressible"), "%s", fake_log_last());
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, memory_is_shared_with_a_backend_of_another_gpu_that_reaches_it)
{
	struct hr_backend other;
	struct hr_region region;

	fake_cuda.devices = 2;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_assert_eq(hr_backend_open(&other, "cuda:1", 1, test_error()), 0);
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region, test_error()), 0);
	cr_expect_eq(backend.ops->share(&backend, NULL, &other, test_error()), 0);
	cr_expect_eq(backend.ops->share(&backend, &region, &other, test_error()), 0);
	fake_cuda.no_peers = true;
	cr_expect_eq(backend.ops->share(&backend, NULL, &other, test_error()), -ENOTSUP);
	cr_expect(strstr(test_error_text(), "cuda:1 cannot reach memory of cuda:0"), "%s",
		  test_error_text());
	cr_expect_eq(backend.ops->share(&backend, &region, &other, test_error()), -ENOTSUP);
	backend.ops->free(&backend, &region);
	other.ops->close(&other);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, memory_can_be_exported_to_devices_that_reach_the_gpu)
{
	struct hr_region region;
	int fd = -1;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region, test_error()), 0);
	cr_assert_not_null(backend.window);
	cr_expect(!backend.window->mappable(backend.window->to));
	fake_cuda.attribute[0][152] = 1;
	cr_expect(backend.window->mappable(backend.window->to));
	fake_cuda_fail("cuDeviceGetAttribute", 1, CUDA_ERROR_INVALID_VALUE);
	cr_expect(!backend.window->mappable(backend.window->to), "an older driver");
	cr_expect_eq(backend.window->export(backend.window->to, (uint64_t)region.worker, HR_PAGE,
					    &fd, test_error()),
		     0);
	cr_expect_geq(fd, 0);
	close(fd);
	fake_cuda.no_pcie_choice = true;
	cr_expect_eq(backend.window->export(backend.window->to, (uint64_t)region.worker, HR_PAGE,
					    &fd, test_error()),
		     0, "%s", test_error_text());
	close(fd);
	cr_expect_eq(backend.window->export(backend.window->to, 4096, HR_PAGE, &fd, test_error()),
		     -EINVAL);
	cr_expect(strstr(test_error_text(), "cuMemGetHandleForAddressRange"), "%s",
		  test_error_text());
	backend.ops->close(&backend);
	cr_assert_eq(hr_backend_open(&backend, "cuda:0,compressible", 1, test_error()), 0);
	cr_expect_null(backend.window);
	backend.ops->close(&backend);
	fake_cuda.attribute[0][CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED] = 0;
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	cr_expect_null(backend.window);
	backend.ops->close(&backend);
}

static const uint8_t code[8];
static const struct hr_operator user = { .gpu = code, .gpu_end = code + 8, .name = "mine" };

static unsigned before_end; /* calls of a life before anything is released */

/* The life of a backend in the order of boot: 0, or the first error. */
static int live(void)
{
	enum hr_entry entry;
	uint32_t threads, blocks;
	uint8_t *host = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t data[64] = { 1 };
	struct hr_region region = { 0 };
	void *worker = NULL;
	int err = hr_backend_open(&backend, "cuda:0", 4, test_error()), state;

	if (err) {
		munmap(host, MIB);
		return err;
	}
	err = backend.ops->link(&backend, &user, &entry, &threads, test_error());
	if (!err)
		err = backend.ops->alloc(&backend, MIB, &region, test_error());
	if (!err)
		err = backend.ops->attach(&backend, host, MIB, false, &worker, test_error());
	if (!err)
		err = backend.ops->upload(&backend, region.worker, data, sizeof data, test_error());
	if (!err)
		err = backend.ops->resident(&backend, entry, 64, 0, &blocks, test_error());
	if (!err)
		err = launch_start(&backend, HR_ENTRY_BENCH, region.worker, 4, 64, &launch);
	for (state = 0; !err && state == 0;)
		state = hr_launch_poll(launch, test_error());
	err = state < 0 ? state : err;
	if (!err)
		err = backend.ops->download(&backend, data, region.worker, sizeof data,
					    test_error());
	before_end = fake_cuda.calls;
	if (worker)
		backend.ops->detach(&backend, host);
	if (region.bytes)
		backend.ops->free(&backend, &region);
	backend.ops->close(&backend);
	munmap(host, MIB);
	return err;
}

Test(cuda_backend, each_failing_call_is_an_error_and_leaks_no_resource)
{
	for (unsigned n = 1;; n++) {
		int err;

		fake_cuda_reset();
		fake_cuda.polls = 3;
		fake_cuda_fail(NULL, n, CUDA_ERROR_ILLEGAL_STATE);
		err = live();
		if (!fake_cuda.failed)
			break;
		cr_expect(err || n > before_end || strcmp(fake_cuda.failed, "cuLinkDestroy") == 0,
			  "call %u, %s", n, fake_cuda.failed);
		cr_expect(err == 0 || err == -EIO, "call %u, %s: %d", n, fake_cuda.failed, err);
		if (err)
			cr_expect(strstr(test_error_text(), fake_cuda.failed), "%s: %s",
				  fake_cuda.failed, test_error_text());
		/* Memory that the driver refuses to release cannot be released. */
		cr_expect(strstr(fake_cuda.failed, "Unmap") ||
				  strstr(fake_cuda.failed, "Release") ||
				  strstr(fake_cuda.failed, "AddressFree") ||
				  strcmp(fake_cuda_leaks(), "") == 0,
			  "call %u, %s leaves %s", n, fake_cuda.failed, fake_cuda_leaks());
		fake_cuda_forget();
	}
	cr_expect_gt(before_end, 100);
}

Test(cuda_backend, a_gpu_that_fails_is_named_and_close_comes_back)
{
	struct hr_region region, none;
	unsigned told;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	cr_assert_eq(backend.ops->alloc(&backend, MIB, &region, test_error()), 0);
	fake_cuda.polls = 10;
	cr_assert_eq(launch_start(&backend, HR_ENTRY_PIPE, region.worker, 1, 32, &launch), 0);
	fake_cuda.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
	cr_expect_eq(hr_launch_poll(launch, test_error()), -EIO);
	cr_expect_str_eq(test_error_text(), "cuda:0 Fake GPU 0: cuEventQuery (worker blocks): "
					    "CUDA_ERROR_ILLEGAL_ADDRESS: in words");
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	told = fake_log_count();
	/* A later error of the driver does not replace the first. */
	cr_expect_neq(backend.ops->alloc(&backend, 0, &none, test_error()), 0);
	cr_expect_eq(hr_launch_poll(launch, test_error()), -EIO);
	cr_expect(strstr(test_error_text(), "cuEventQuery (worker blocks)"), "%s",
		  test_error_text());
	cr_expect_eq(fake_log_count(), told, "the caller prints it");
	backend.ops->free(&backend, &region);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

/* Each has a stream of its own; blocks of several are at most one a processor. */
Test(cuda_backend, several_launches_run_within_the_reserved_blocks)
{
	struct hr_launch *handle[3];
	uint32_t half;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	fake_cuda.polls = 2;
	half = backend.side_by_side / 2;
	cr_assert_eq(launch_start(&backend, HR_ENTRY_PIPE, space, 2 * half + 1, 32, &handle[0]), 0,
		     "alone it may have as many as are resident");
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PIPE, space, 1, 32, &handle[1]), -EBUSY);
	cr_expect(strstr(test_error_text(), "1 of 1 launches have not ended"), "%s",
		  test_error_text());
	cr_expect_eq(launch_end(handle[0]), 1);
	cr_assert_eq(backend.ops->reserve(&backend, 3, test_error()), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(launch_start(&backend, HR_ENTRY_PIPE, space, half, 32, &handle[i]), 0);
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PIPE, space, 2, 32, &handle[2]), -EBUSY);
	cr_expect(strstr(test_error_text(), "beside"), "%s", test_error_text());
	for (int i = 0; i < 2; i++)
		cr_expect_eq(launch_end(handle[i]), 1);
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

/* All launches lose the context, and each launch returns the first error. */
/* 4 processors of 8 blocks of a warp, or of 4 with twice the registers. */
Test(cuda_backend, a_launch_has_more_registers_when_all_its_blocks_are_resident_with_them)
{
	static const struct {
		enum hr_entry entry;
		uint32_t blocks, threads;
		const char *name;
	} row[] = {
		{ HR_ENTRY_ACCESS, 1, 32, "hr_entry_access_wide" },
		{ HR_ENTRY_ACCESS, 16, 32, "hr_entry_access_wide" },
		{ HR_ENTRY_ACCESS, 17, 32, "hr_entry_access" },
		{ HR_ENTRY_ACCESS, 4, 128, "hr_entry_access_wide" },
		{ HR_ENTRY_ACCESS, 5, 128, "hr_entry_access" },
		{ HR_ENTRY_ACCESS, 1, 256, "hr_entry_access" },
		{ HR_ENTRY_PIPE, 1, 32, "hr_entry_pipe" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
		cr_expect_eq(launch_start(&backend, row[i].entry, space, row[i].blocks,
					  row[i].threads, &launch),
			     0, "row %zu: %s", i, test_error_text());
		cr_expect_str_eq(fake_cuda.last.entry, row[i].name, "row %zu", i);
		backend.ops->close(&backend);
	}
}

Test(cuda_backend, a_launch_fails_when_the_driver_cannot_tell_which_blocks_are_resident)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 1, test_error()), 0);
	fake_cuda_fail("cuOccupancyMaxActiveBlocksPerMultiprocessor", 1, CUDA_ERROR_UNKNOWN);
	cr_expect_eq(launch_start(&backend, HR_ENTRY_ACCESS, space, 1, 32, &launch), -EIO);
	cr_expect_eq(fake_cuda.launches, 0);
	backend.ops->close(&backend);
}

Test(cuda_backend, a_gpu_that_fails_ends_all_launches)
{
	struct hr_launch *handle[2], *more;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	cr_assert_eq(backend.ops->reserve(&backend, 3, test_error()), 0);
	fake_cuda.polls = 10;
	for (int i = 0; i < 2; i++)
		cr_assert_eq(launch_start(&backend, HR_ENTRY_PIPE, space, 1, 32, &handle[i]), 0);
	fake_cuda.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(launch_end(handle[i]), -EIO);
		cr_expect(strstr(test_error_text(), "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s",
			  test_error_text());
	}
	cr_expect_eq(launch_start(&backend, HR_ENTRY_PIPE, space, 1, 32, &more), -EIO);
	cr_expect(strstr(test_error_text(), "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", test_error_text());
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, worker_blocks_that_never_end_are_given_up_on)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	fake_cuda.polls = UINT32_MAX;
	cr_assert_eq(launch_start(&backend, HR_ENTRY_PIPE, space, 1, 32, &launch), 0);
	fake_clock_start(HR_NS_PER_S, NULL, test_error());
	backend.ops->close(&backend);
	fake_clock_stop();
	cr_expect(strstr(fake_log_last(), "still run after 10 s"), "%s", fake_log_last());
	cr_expect_null(backend.ops);
}

Test(cuda_backend, a_driver_that_does_not_come_back_is_given_up_on)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	fake_cuda.stall = "cuModuleUnload";
	fake_clock_start(HR_NS_PER_S, NULL, test_error());
	backend.ops->close(&backend);
	fake_clock_stop();
	cr_expect(strstr(fake_log_last(), "has not released the GPU after 10 s"), "%s",
		  fake_log_last());
	fake_cuda.stall = NULL; /* the driver's call returns later, when no caller waits for it */
}

/* ---- user operators */

static enum hr_entry entry;
static uint32_t threads;

Test(cuda_backend, a_user_operator_is_linked_once_and_runs)
{
	static const struct hr_operator other = { .gpu = code,
						  .gpu_end = code + 4,
						  .name = "other" };
	enum hr_entry again;
	uint32_t blocks;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	fake_cuda.entry_threads = 96;
	cr_assert_eq(backend.ops->link(&backend, &user, &entry, &threads, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_geq(entry, HR_ENTRY_USER);
	cr_expect_eq(threads, 96);
	cr_expect_eq(fake_cuda.parts, 2);
	cr_expect_eq(fake_cuda.part_bytes, 8);
	cr_expect(strstr(fake_log_last(), "operator mine: linked; 40 registers, 1024 bytes shared, "
					  "40 bytes local, blocks of up to 96 threads"),
		  "%s", fake_log_last());
	cr_assert_eq(backend.ops->link(&backend, &user, &again, &threads, test_error()), 0);
	cr_expect_eq(again, entry);
	cr_assert_eq(backend.ops->link(&backend, &other, &again, &threads, test_error()), 0);
	cr_expect_neq(again, entry);
	cr_expect_eq(fake_cuda.part_bytes, 4);
	cr_assert_eq(launch_start(&backend, entry, space, 2, 64, &launch), 0);
	cr_expect_str_eq(fake_cuda.last.entry, "hr_entry_pipe");
	cr_expect_eq(hr_launch_poll(launch, test_error()), 1);
	hr_launch_free(launch);
	cr_assert_eq(launch_start(&backend, hr_entry_with_tap(entry), space, 2, 64, &launch), 0);
	cr_expect_str_eq(fake_cuda.last.entry, "hr_entry_tap");
	cr_expect_eq(hr_launch_poll(launch, test_error()), 1);
	hr_launch_free(launch);
	cr_assert_eq(launch_start(&backend, hr_entry_with_feed(entry), space, 2, 64, &launch), 0);
	cr_expect_str_eq(fake_cuda.last.entry, "hr_entry_feed");
	cr_expect_eq(hr_launch_poll(launch, test_error()), 1);
	/* An unavailable resource is reported with the operator's name. */
	cr_expect_eq(backend.ops->resident(&backend, entry, 128, 0, &blocks, test_error()),
		     -EINVAL);
	cr_expect(strstr(test_error_text(), "operator mine: 128 threads per block, expected a "
					    "multiple of 32 up to 96"),
		  "%s", test_error_text());
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, a_user_operator_without_gpu_code_is_refused)
{
	static const struct hr_operator host_only = { .gpu = code,
						      .gpu_end = code,
						      .name = "mine" };

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	cr_expect_eq(backend.ops->link(&backend, &host_only, &entry, &threads, test_error()),
		     -ENOTSUP);
	cr_expect_str_eq(
		test_error_text(),
		"its file has no GPU part; build it with 'make op' on a machine with nvcc");
	backend.ops->close(&backend);
}

Test(cuda_backend, the_text_of_the_linker_is_shown_whole)
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
		cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
		fake_cuda.jit_log = row[i].log;
		fake_cuda_fail(row[i].call, 1, row[i].result);
		before = fake_log_count();
		cr_expect_eq(backend.ops->link(&backend, &user, &entry, &threads, test_error()),
			     row[i].want, "row %zu: %s", i, test_error_text());
		cr_expect(strstr(test_error_text(), row[i].call), "row %zu: %s", i,
			  test_error_text());
		cr_expect_geq(fake_log_count() - before, *row[i].log ? 2 : 0, "row %zu", i);
		if (i == 0)
			cr_expect_str_eq(fake_log_last(), "operator mine: Undefined b");
		if (i == 2)
			cr_expect(strstr(test_error_text(),
					 "worker image: no code in it runs on compute "
					 "capability 9.0"),
				  "%s", test_error_text());
		backend.ops->close(&backend);
		cr_expect_str_eq(fake_cuda_leaks(), "", "row %zu", i);
	}
}

/* The driver's linker continues without that file, and then reports every symbol as missing. */
Test(cuda_backend, a_user_operator_for_other_gpus_is_refused)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	fake_cuda.jit_info = " No code for sm_90 in operator mine; continuing.\n";
	cr_expect_eq(backend.ops->link(&backend, &user, &entry, &threads, test_error()), -ENOTSUP);
	cr_expect(strstr(test_error_text(), "no code in it runs on compute capability 9.0"), "%s",
		  test_error_text());
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, more_local_memory_than_the_gpu_has_is_refused)
{
	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	fake_cuda.local_bytes = 32 << 10; /* 4 SMs with 2048 threads: 256 MiB, all of the memory */
	cr_expect_eq(backend.ops->link(&backend, &user, &entry, &threads, test_error()), 0);
	fake_cuda.local_bytes += 16;
	static const struct hr_operator greedy = { .gpu = code,
						   .gpu_end = code + 8,
						   .name = "greedy" };

	cr_expect_eq(backend.ops->link(&backend, &greedy, &entry, &threads, test_error()), -EINVAL);
	cr_expect(strstr(test_error_text(),
			 "operator greedy: 32784 bytes of local memory per thread"),
		  "%s", test_error_text());
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

Test(cuda_backend, user_operators_beyond_the_limit_are_refused)
{
	static struct hr_operator many[HR_OPERATORS_MAX + 1];

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0);
	for (unsigned i = 0; i <= HR_OPERATORS_MAX; i++) {
		many[i] = user;
		cr_expect_eq(backend.ops->link(&backend, &many[i], &entry, &threads, test_error()),
			     i < HR_OPERATORS_MAX ? 0 : -ENOSPC, "%u", i);
	}
	cr_expect_str_eq(test_error_text(), "at most 16 user operators can be linked");
	backend.ops->close(&backend);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}
