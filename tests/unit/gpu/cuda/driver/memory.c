/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory that grows in place, attached host memory, copies: over a fake driver. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/cuda/driver/host_memory.h"
#include "gpu/cuda/driver/memory.h"
#include "tests/fakes/cuda.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MIB ((size_t)1 << 20)

static struct hr_cuda_gpu gpu;
static struct hr_cuda_host host;
static struct hr_cuda_arena arena;

static void up(void)
{
	fake_cuda_reset();
	fake_cuda.devices = 2;
	cr_assert_eq(hr_cuda_gpu_open(&gpu, 0), 0);
	cr_assert_eq(hr_cuda_host_open(&gpu, &host), 0);
}

static void down(void)
{
	fake_cuda_fail(NULL, 0, CUDA_SUCCESS);
	hr_cuda_host_close(&gpu, &host);
	hr_cuda_gpu_close(&gpu);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

TestSuite(cuda_memory, .timeout = 60, .init = up, .fini = down);

static bool all(CUdeviceptr at, size_t bytes, uint8_t value)
{
	const uint8_t *p = (const uint8_t *)at;

	for (size_t i = 0; i < bytes; i++)
		if (p[i] != value)
			return false;
	return true;
}

Test(cuda_memory, an_arena_is_zeroed_and_grows_behind_its_parts)
{
	CUdeviceptr base;

	cr_assert_eq(hr_cuda_arena_open(&gpu, &arena, 1, 16 * MIB, false), 0, "%s",
		     gpu.cu.error.text);
	base = arena.base;
	cr_expect_eq(arena.bytes, 2 * MIB);
	cr_expect_eq(arena.reserved, 16 * MIB);
	cr_expect(arena.rdma && arena.exportable && !arena.compressible);
	cr_expect(all(base, arena.bytes, 0));
	memset((void *)base, 0x77, arena.bytes);
	cr_assert_eq(hr_cuda_arena_grow(&gpu, &arena, 3 * MIB), 0, "%s", gpu.cu.error.text);
	cr_expect_eq(arena.base, base);
	cr_expect_eq(arena.bytes, 6 * MIB);
	cr_expect(all(base, 2 * MIB, 0x77) && all(base + 2 * MIB, 4 * MIB, 0));
	cr_expect_eq(fake_cuda_used(), 6 * MIB);
	hr_cuda_arena_close(&gpu, &arena);
	cr_expect_eq(fake_cuda_used(), 0);
	cr_expect_eq(arena.base, 0);
}

Test(cuda_memory, a_size_beyond_an_arena_is_refused_and_leaves_the_arena_unchanged)
{
	cr_expect_eq(hr_cuda_arena_open(&gpu, &arena, 0, MIB, false), -EINVAL);
	cr_expect_eq(hr_cuda_arena_open(&gpu, &arena, SIZE_MAX, 0, false), -ENOMEM);
	cr_expect_eq(hr_cuda_arena_open(&gpu, &arena, 1, SIZE_MAX, false), -ENOMEM);
	cr_expect_eq(hr_cuda_arena_open(&gpu, &arena, 257 * MIB, 0, false), -ENOMEM);
	cr_expect(strstr(gpu.cu.error.text, "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY"), "%s",
		  gpu.cu.error.text);
	cr_assert_eq(hr_cuda_arena_open(&gpu, &arena, 2 * MIB, 300 * MIB, false), 0);
	cr_expect_eq(hr_cuda_arena_grow(&gpu, &arena, 0), -EINVAL);
	cr_expect_eq(hr_cuda_arena_grow(&gpu, &arena, SIZE_MAX), -ENOSPC);
	cr_expect_eq(hr_cuda_arena_grow(&gpu, &arena, 299 * MIB), -ENOSPC);
	cr_expect(strstr(gpu.cu.error.text, "2097152 of 314572800"), "%s", gpu.cu.error.text);
	cr_expect_eq(hr_cuda_arena_grow(&gpu, &arena, 255 * MIB), -ENOMEM);
	cr_expect_eq(arena.bytes, 2 * MIB);
	cr_expect_eq(fake_cuda_used(), 2 * MIB);
	for (unsigned i = 1; i < HR_CUDA_CHUNKS_MAX; i++)
		cr_assert_eq(hr_cuda_arena_grow(&gpu, &arena, 1), 0);
	cr_expect_eq(hr_cuda_arena_grow(&gpu, &arena, 1), -ENOSPC);
	cr_expect(strstr(gpu.cu.error.text, "63 times"), "%s", gpu.cu.error.text);
	hr_cuda_arena_close(&gpu, &arena);
}

Test(cuda_memory, an_arena_is_shared_with_gpus_that_can_reach_it)
{
	cr_assert_eq(hr_cuda_arena_open(&gpu, &arena, 2 * MIB, 8 * MIB, false), 0);
	cr_expect_eq(hr_cuda_arena_share(&gpu, &arena, 1), 0, "%s", gpu.cu.error.text);
	cr_expect_eq(arena.sharers, 1);
	cr_expect_eq(hr_cuda_arena_share(&gpu, &arena, 0), -ENOTSUP, "itself");
	cr_expect_eq(hr_cuda_arena_share(&gpu, &arena, 2), -ENODEV);
	fake_cuda.no_peers = true;
	cr_expect_eq(hr_cuda_arena_share(&gpu, &arena, 1), -ENOTSUP);
	fake_cuda.no_peers = false;
	for (unsigned i = 1; i < HR_GPUS_MAX; i++)
		cr_assert_eq(hr_cuda_arena_share(&gpu, &arena, 1), 0);
	cr_expect_eq(hr_cuda_arena_share(&gpu, &arena, 1), -ENOSPC);
	cr_expect_eq(hr_cuda_arena_grow(&gpu, &arena, 1), 0);
	hr_cuda_arena_close(&gpu, &arena);
}

Test(cuda_memory, a_chunk_is_exported_as_a_descriptor)
{
	int fd = -1;

	cr_assert_eq(hr_cuda_arena_open(&gpu, &arena, 2 * MIB, 8 * MIB, false), 0);
	cr_expect_eq(hr_cuda_arena_export(&gpu, &arena, 0, &fd), 0);
	cr_expect_geq(fcntl(fd, F_GETFD), 0);
	close(fd);
	cr_expect_eq(hr_cuda_arena_export(&gpu, &arena, 1, &fd), -EINVAL);
	hr_cuda_arena_close(&gpu, &arena);
	gpu.facts.fd_handles = false;
	cr_assert_eq(hr_cuda_arena_open(&gpu, &arena, 2 * MIB, 8 * MIB, false), 0);
	cr_expect_eq(hr_cuda_arena_export(&gpu, &arena, 0, &fd), -ENOTSUP);
	hr_cuda_arena_close(&gpu, &arena);
}

Test(cuda_memory, compression_is_reported_as_granted_not_as_requested)
{
	cr_assert_eq(hr_cuda_arena_open(&gpu, &arena, 2 * MIB, 8 * MIB, true), 0);
	cr_expect(arena.compressible && !arena.rdma);
	cr_assert_eq(hr_cuda_arena_grow(&gpu, &arena, 1), 0);
	cr_expect(arena.compressible);
	fake_cuda_fail("cuMemMap", 1, CUDA_ERROR_UNKNOWN);
	fake_cuda.not_compressible = true;
	cr_expect_eq(hr_cuda_arena_grow(&gpu, &arena, 1), -EIO);
	cr_expect(arena.compressible, "the chunk that is not was not kept");
	fake_cuda_fail(NULL, 0, CUDA_SUCCESS);
	cr_assert_eq(hr_cuda_arena_grow(&gpu, &arena, 1), 0);
	cr_expect(!arena.compressible);
	hr_cuda_arena_close(&gpu, &arena);
	gpu.facts.compressible = false;
	cr_expect_eq(hr_cuda_arena_open(&gpu, &arena, 2 * MIB, 8 * MIB, true), -ENOTSUP);
}

/*
 * Every call of an arena's life fails once; open resources are released, and kept ones stay usable.
 */
static int whole_life(void)
{
	int err = hr_cuda_arena_open(&gpu, &arena, 2 * MIB, 16 * MIB, true), fd = -1;

	if (err)
		return err;
	err = hr_cuda_arena_share(&gpu, &arena, 1);
	if (!err)
		err = hr_cuda_arena_grow(&gpu, &arena, MIB);
	if (!err)
		err = hr_cuda_arena_export(&gpu, &arena, 0, &fd);
	if (fd >= 0)
		close(fd);
	memset((void *)arena.base, 9, arena.bytes);
	fake_cuda_fail(NULL, 0, CUDA_SUCCESS); /* the release has a test of its own */
	hr_cuda_arena_close(&gpu, &arena);
	return err;
}

Test(cuda_memory, every_failing_call_is_reported_and_leaks_no_memory)
{
	unsigned calls, before = fake_cuda.calls;

	cr_assert_eq(whole_life(), 0);
	calls = fake_cuda.calls - before;
	for (unsigned n = 1; n <= calls; n++) {
		int err;

		fake_cuda_fail(NULL, n, CUDA_ERROR_UNKNOWN);
		err = whole_life();
		if (!fake_cuda.failed)
			break; /* the last calls belong to close */
		cr_expect_eq(err, -EIO, "call %u, %s: %d", n, fake_cuda.failed, err);
		cr_expect(strstr(gpu.cu.error.text, fake_cuda.failed), "%s: %s", fake_cuda.failed,
			  gpu.cu.error.text);
		cr_expect_eq(fake_cuda_used(), 0, "call %u, %s", n, fake_cuda.failed);
		cr_expect_eq(arena.base, 0);
	}
}

Test(cuda_memory, host_memory_is_attached_at_the_address_the_driver_gives)
{
	uint8_t *memory =
		mmap(NULL, 4 * HR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *worker = NULL, *second = NULL;

	cr_assert_eq(hr_cuda_attach(&gpu, &host, memory, 2 * HR_PAGE, false, &worker), 0);
	cr_expect_eq((uintptr_t)worker, (uintptr_t)memory | FAKE_CUDA_HOST);
	cr_expect_eq(fake_cuda.registered_flags,
		     CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE);
	cr_assert_eq(hr_cuda_attach(&gpu, &host, memory + 2 * HR_PAGE, HR_PAGE, true, &second), 0);
	cr_expect_eq(fake_cuda.registered_flags, CU_MEMHOSTREGISTER_DEVICEMAP |
							 CU_MEMHOSTREGISTER_PORTABLE |
							 CU_MEMHOSTREGISTER_IOMEMORY);
	cr_expect_eq(hr_cuda_detach(&gpu, &host, memory), 0);
	cr_expect_eq(hr_cuda_detach(&gpu, &host, memory), -ENOENT);
	cr_expect_eq(hr_cuda_attach(&gpu, &host, memory, 2 * HR_PAGE, false, &worker), 0);
	munmap(memory, 4 * HR_PAGE); /* closing also detaches memory that is still attached */
}

/* The driver registers a range once in a process. */
Test(cuda_memory, two_gpus_attach_the_same_host_memory)
{
	struct hr_cuda_gpu other;
	struct hr_cuda_host others;
	uint8_t *memory =
		mmap(NULL, 2 * HR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *worker = NULL, *second = NULL;

	cr_assert_eq(hr_cuda_gpu_open(&other, 1), 0);
	cr_assert_eq(hr_cuda_host_open(&other, &others), 0);
	cr_assert_eq(hr_cuda_attach(&gpu, &host, memory, 2 * HR_PAGE, false, &worker), 0);
	cr_assert_eq(hr_cuda_attach(&other, &others, memory, 2 * HR_PAGE, false, &second), 0, "%s",
		     other.cu.error.text);
	cr_expect_eq((uintptr_t)second, (uintptr_t)memory | FAKE_CUDA_HOST);
	cr_expect_eq(hr_cuda_attach(&other, &others, memory, 2 * HR_PAGE, false, &second), -EEXIST);
	cr_expect_eq(hr_cuda_detach(&gpu, &host, memory), 0);
	/* still registered: it is attached to the other gpu, and attached again without a call */
	cr_expect_eq(hr_cuda_attach(&gpu, &host, memory, 2 * HR_PAGE, false, &worker), 0);
	cr_expect_eq(hr_cuda_detach(&other, &others, memory), 0);
	cr_expect_eq(hr_cuda_detach(&gpu, &host, memory), 0);
	/* the range is registered with another length now */
	cr_expect_eq(hr_cuda_attach(&other, &others, memory, HR_PAGE, true, &second), 0);
	cr_expect_eq(hr_cuda_attach(&gpu, &host, memory, 2 * HR_PAGE, false, &worker), -EEXIST);
	hr_cuda_host_close(&other, &others);
	cr_expect_eq(hr_cuda_attach(&gpu, &host, memory, 2 * HR_PAGE, false, &worker), 0);
	hr_cuda_gpu_close(&other);
	munmap(memory, 2 * HR_PAGE);
}

Test(cuda_memory, ranges_that_cannot_be_attached_are_refused)
{
	uint8_t *memory = mmap(NULL, 64 * 2 * HR_PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *worker = NULL;
	const struct {
		void *cpu;
		size_t bytes;
		int want;
	} row[] = {
		{ NULL, HR_PAGE, -EINVAL },
		{ memory, 0, -EINVAL },
		{ memory + 8, HR_PAGE, -EINVAL },
		{ memory, HR_PAGE + 8, -EINVAL },
		{ memory, SIZE_MAX - HR_PAGE + 1, -EINVAL },
		{ memory + 4 * HR_PAGE, 4 * HR_PAGE, 0 },
		{ memory + 4 * HR_PAGE, HR_PAGE, -EEXIST },
		{ memory + 7 * HR_PAGE, 2 * HR_PAGE, -EEXIST },
		{ memory + 3 * HR_PAGE, 2 * HR_PAGE, -EEXIST },
		{ memory + 3 * HR_PAGE, 9 * HR_PAGE, -EEXIST },
		{ memory + 3 * HR_PAGE, HR_PAGE, 0 },
		{ memory + 8 * HR_PAGE, HR_PAGE, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(hr_cuda_attach(&gpu, &host, row[i].cpu, row[i].bytes, false, &worker),
			     row[i].want, "row %zu", i);
	for (unsigned i = host.count; i < HR_CUDA_ATTACHED_MAX; i++)
		cr_assert_eq(hr_cuda_attach(&gpu, &host, memory + (10 + i) * HR_PAGE, HR_PAGE,
					    false, &worker),
			     0);
	cr_expect_eq(hr_cuda_attach(&gpu, &host, memory, HR_PAGE, false, &worker), -ENOSPC);
	cr_expect(strstr(gpu.cu.error.text, "at most 64 ranges"), "%s", gpu.cu.error.text);
	munmap(memory, 64 * 2 * HR_PAGE);
}

Test(cuda_memory, an_attach_that_fails_half_way_leaves_no_range_attached)
{
	uint8_t *memory =
		mmap(NULL, HR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const char *const call[] = { "cuCtxSetCurrent", "cuMemHostRegister",
					    "cuMemHostGetDevicePointer" };
	void *worker = NULL;

	for (size_t i = 0; i < ROWS(call); i++) {
		const unsigned count = host.count;

		fake_cuda_reset();
		fake_cuda_fail(call[i], 1, CUDA_ERROR_NOT_SUPPORTED);
		cr_expect_eq(hr_cuda_attach(&gpu, &host, memory, HR_PAGE, true, &worker), -ENOTSUP);
		cr_expect_eq(host.count, count);
		cr_expect_null(strstr(fake_cuda_leaks(), "registration"));
	}
	munmap(memory, HR_PAGE);
}

Test(cuda_memory, copies_of_any_size_arrive_whole)
{
	static const size_t size[] = { 0,
				       1,
				       HR_CUDA_STAGING - 1,
				       HR_CUDA_STAGING,
				       HR_CUDA_STAGING + 1,
				       2 * HR_CUDA_STAGING,
				       2 * HR_CUDA_STAGING + 1,
				       3 * HR_CUDA_STAGING + 77 };
	const size_t most = size[ROWS(size) - 1];
	uint8_t *data = malloc(most), *back = malloc(most + 1);

	for (size_t i = 0; i < most; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	cr_assert_eq(hr_cuda_arena_open(&gpu, &arena, most + 1, 0, false), 0);
	for (size_t i = 0; i < ROWS(size); i++) {
		void *at = (void *)arena.base;

		memset(at, 0xee, most + 1);
		cr_assert_eq(hr_cuda_upload(&gpu, &host, at, data, size[i]), 0);
		cr_expect_eq(memcmp(at, data, size[i]), 0, "%zu bytes", size[i]);
		cr_expect_eq(((uint8_t *)at)[size[i]], 0xee, "%zu bytes", size[i]);
		memset(back, 0xdd, most + 1);
		cr_assert_eq(hr_cuda_download(&gpu, &host, back, at, size[i]), 0);
		cr_expect_eq(memcmp(back, data, size[i]), 0, "%zu bytes", size[i]);
		cr_expect_eq(back[size[i]], 0xdd, "%zu bytes", size[i]);
	}
	hr_cuda_arena_close(&gpu, &arena);
	free(data);
	free(back);
}
