/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory, host memory and copies, on a GPU. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/image.h"

#define MIB ((size_t)1 << 20)
#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(memory, .timeout = 60);

static struct gpu_rig rig;
static struct hr_cuda_arena arena;

Test(memory, the_gpu_has_the_reported_facts)
{
	const struct hr_gpu_facts *f = &rig.gpu.facts;
	char text[HR_LOG_LINE_MAX];
	unsigned domain, bus, slot, function;

	gpu_up(&rig);
	hr_gpu_facts_text(f, text, sizeof text);
	fprintf(stderr, "%s: %s\n", f->model, text);
	cr_expect_eq(sscanf(f->pci, "%4x:%2x:%2x.%1u", &domain, &bus, &slot, &function), 4);
	cr_expect_eq(strlen(f->pci), 12, "%s", f->pci);
	cr_expect(f->processors > 0 && f->memory_bytes > 1024 * MIB && f->capability >= 80);
	cr_expect_eq(f->granularity % (2 * MIB), 0);
	cr_expect(f->driver[0], "no version of the kernel's driver");
	gpu_down(&rig);
}

Test(memory, a_missing_gpu_is_refused)
{
	cr_expect_eq(hr_cuda_gpu_open(&rig.gpu, 4096), -ENODEV);
	cr_expect(strstr(rig.gpu.cu.error.text, "last one is cuda:"), "%s", rig.gpu.cu.error.text);
}

Test(memory, an_arena_is_zeroed_grows_in_place_and_is_released)
{
	size_t before;
	CUdeviceptr base;

	gpu_up(&rig);
	before = gpu_free_bytes(&rig);
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 3 * MIB, 1024 * MIB, false), 0, "%s",
		     rig.gpu.cu.error.text);
	base = arena.base;
	cr_expect_eq(arena.bytes, 4 * MIB);
	cr_expect_eq(arena.rdma, rig.gpu.facts.rdma && rig.gpu.facts.rdma_virtual_memory);
	cr_expect_eq(gpu_count_wrong(&rig, base, arena.bytes, 0, 0), 0, "not zeroed");
	gpu_fill(&rig, base, arena.bytes, 0x9e3779b97f4a7c15, 3);
	cr_assert_eq(hr_cuda_arena_grow(&rig.gpu, &arena, 500 * MIB), 0, "%s",
		     rig.gpu.cu.error.text);
	cr_expect_eq(arena.base, base);
	cr_expect_eq(arena.bytes, 504 * MIB);
	cr_expect_eq(gpu_count_wrong(&rig, base, 4 * MIB, 0x9e3779b97f4a7c15, 3), 0, "data moved");
	cr_expect_eq(gpu_count_wrong(&rig, base + 4 * MIB, 500 * MIB, 0, 0), 0, "not zeroed");
	gpu_fill(&rig, base, arena.bytes, 7, 11); /* one range across both chunks */
	cr_expect_eq(gpu_count_wrong(&rig, base, arena.bytes, 7, 11), 0);
	cr_expect_leq(gpu_free_bytes(&rig), before - 504 * MIB);
	cr_expect_eq(hr_cuda_arena_grow(&rig.gpu, &arena, 600 * MIB), -ENOSPC);
	hr_cuda_arena_close(&rig.gpu, &arena);
	cr_expect_eq(gpu_free_bytes(&rig), before, "%zu of %zu bytes", gpu_free_bytes(&rig),
		     before);
	gpu_down(&rig);
}

Test(memory, too_much_memory_is_refused_without_a_leak)
{
	size_t before;

	gpu_up(&rig);
	before = gpu_free_bytes(&rig);
	cr_expect_eq(
		hr_cuda_arena_open(&rig.gpu, &arena, rig.gpu.facts.memory_bytes + MIB, 0, false),
		-ENOMEM);
	fprintf(stderr, "%s\n", rig.gpu.cu.error.text);
	cr_expect_eq(gpu_free_bytes(&rig), before);
	cr_assert_eq(
		hr_cuda_arena_open(&rig.gpu, &arena, MIB, 2 * rig.gpu.facts.memory_bytes, false), 0,
		"%s", rig.gpu.cu.error.text);
	cr_expect_eq(hr_cuda_arena_grow(&rig.gpu, &arena, rig.gpu.facts.memory_bytes), -ENOMEM);
	cr_expect_eq(gpu_count_wrong(&rig, arena.base, arena.bytes, 0, 0), 0, "still usable");
	hr_cuda_arena_close(&rig.gpu, &arena);
	cr_expect_eq(gpu_free_bytes(&rig), before);
	gpu_down(&rig);
}

Test(memory, a_chunk_that_was_added_is_exported)
{
	size_t before;
	int fd = -1;

	gpu_up(&rig);
	before = gpu_free_bytes(&rig);
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 4 * MIB, 64 * MIB, false), 0);
	gpu_fill(&rig, arena.base, arena.bytes, 5, 1);
	cr_assert_eq(hr_cuda_arena_grow(&rig.gpu, &arena, 2 * MIB), 0, "%s", rig.gpu.cu.error.text);
	cr_expect_eq(gpu_count_wrong(&rig, arena.base, 4 * MIB, 5, 1), 0);
	if (arena.exportable) {
		cr_assert_eq(hr_cuda_arena_export(&rig.gpu, &arena, 1, &fd), 0, "%s",
			     rig.gpu.cu.error.text);
		cr_expect_geq(fd, 0);
		close(fd);
	}
	fprintf(stderr, "DMA-BUF over PCIe: mappable %d, ", hr_cuda_dmabuf_mappable(&rig.gpu));
	fd = -1;
	if (hr_cuda_dmabuf_export(&rig.gpu, arena.base, 64 << 10, &fd) == 0)
		close(fd);
	fprintf(stderr, "exported as %d (%s)\n", fd, fd < 0 ? rig.gpu.cu.error.text : "fine");
	hr_cuda_arena_close(&rig.gpu, &arena);
	cr_expect_eq(gpu_free_bytes(&rig), before);
	gpu_down(&rig);
}

Test(memory, compressible_memory_is_as_the_driver_reports)
{
	gpu_up(&rig);
	if (!rig.gpu.facts.compressible) {
		cr_expect_eq(hr_cuda_arena_open(&rig.gpu, &arena, MIB, 0, true), -ENOTSUP);
		cr_skip_test("this GPU has no compressible memory");
	}
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 64 * MIB, 0, true), 0, "%s",
		     rig.gpu.cu.error.text);
	cr_expect(arena.compressible, "the GPU supports it, and the driver gave other memory");
	cr_expect(!arena.rdma);
	gpu_fill(&rig, arena.base, arena.bytes, 0, 42);
	cr_expect_eq(gpu_count_wrong(&rig, arena.base, arena.bytes, 0, 42), 0);
	hr_cuda_arena_close(&rig.gpu, &arena);
	gpu_down(&rig);
}

Test(memory, copies_of_any_size_arrive_whole)
{
	static const size_t size[] = { 0,
				       1,
				       4095,
				       HR_CUDA_STAGING - 1,
				       HR_CUDA_STAGING,
				       HR_CUDA_STAGING + 1,
				       2 * HR_CUDA_STAGING,
				       2 * HR_CUDA_STAGING + 3,
				       5 * HR_CUDA_STAGING + 12345 };
	const size_t most = size[ROWS(size) - 1];
	uint8_t *data = malloc(most), *back = malloc(most + 1);

	gpu_up(&rig);
	gpu_random(data, most);
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, most + 8, 0, false), 0);
	for (size_t i = 0; i < ROWS(size); i++) {
		const size_t n = size[i], odd = i % 2 * 5;
		void *at = (void *)(arena.base + odd);

		gpu_fill(&rig, arena.base, arena.bytes, 0, 0xa5a5a5a5a5a5a5a5);
		cr_assert_eq(hr_cuda_upload(&rig.gpu, &rig.host, at, data, n), 0, "%s",
			     rig.gpu.cu.error.text);
		memset(back, 0x5a, most + 1);
		cr_assert_eq(hr_cuda_download(&rig.gpu, &rig.host, back, at, n), 0, "%s",
			     rig.gpu.cu.error.text);
		cr_expect_eq(memcmp(back, data, n), 0, "%zu bytes", n);
		cr_expect_eq(back[n], 0x5a, "%zu bytes: one too many", n);
		cr_assert_eq(hr_cuda_download(&rig.gpu, &rig.host, back, (uint8_t *)at + n, 1), 0);
		cr_expect_eq(back[0], 0xa5, "%zu bytes: one too many", n);
	}
	free(data);
	free(back);
	hr_cuda_arena_close(&rig.gpu, &arena);
	gpu_down(&rig);
}

Test(memory, a_copy_does_not_wait_for_a_running_kernel)
{
	struct gpu_spin *spin;
	uint64_t word = 77, back = 0;

	gpu_up(&rig);
	spin = gpu_shared(&rig, sizeof *spin);
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 4096, 0, false), 0);
	spin->limit_ns = 10 * HR_NS_PER_S;
	gpu_start(&rig, "spin", spin, 1, 32, 0);
	cr_expect_eq(hr_cuda_upload(&rig.gpu, &rig.host, (void *)arena.base, &word, sizeof word),
		     0);
	cr_expect_eq(hr_cuda_download(&rig.gpu, &rig.host, &back, (void *)arena.base, sizeof back),
		     0);
	cr_expect_eq(back, word);
	cr_expect_eq(hr_cuda_launch_poll(&rig.gpu, &rig.launch), 0, "it runs all the while");
	hr_release_sys_u32(&spin->stop, 1);
	gpu_wait(&rig);
	cr_expect_eq(spin->stopped, 1);
	hr_cuda_arena_close(&rig.gpu, &arena);
	gpu_down(&rig);
}

Test(memory, host_memory_of_any_kind_is_attached_and_checked)
{
	const size_t bytes = 8 * MIB;
	int fd = memfd_create("attached", MFD_CLOEXEC);
	uint8_t *memory;
	void *worker = NULL;

	gpu_up(&rig);
	cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(memory, MAP_FAILED);
	cr_assert_eq(hr_cuda_attach(&rig.gpu, &rig.host, memory, bytes, false, &worker), 0, "%s",
		     rig.gpu.cu.error.text);
	gpu_fill(&rig, (CUdeviceptr)worker, bytes, 13, 4);
	for (size_t i = 0; i < bytes / 8; i++)
		cr_assert_eq(((uint64_t *)memory)[i], i * 13 + 4);
	cr_expect_eq(hr_cuda_attach(&rig.gpu, &rig.host, memory + 4096, 4096, false, &worker),
		     -EEXIST);
	cr_expect_eq(hr_cuda_attach(&rig.gpu, &rig.host, memory + 1, 4096, false, &worker),
		     -EINVAL);
	cr_expect_eq(hr_cuda_detach(&rig.gpu, &rig.host, memory + 4096), -ENOENT);
	cr_expect_eq(hr_cuda_detach(&rig.gpu, &rig.host, memory), 0);
	cr_expect_eq(hr_cuda_detach(&rig.gpu, &rig.host, memory), -ENOENT);
	cr_expect_eq(hr_cuda_attach(&rig.gpu, &rig.host, memory, bytes, false, &worker), 0,
		     "again");
	/* Plain memory is not a BAR: the driver either refuses it or attaches it. */
	cr_expect_eq(hr_cuda_detach(&rig.gpu, &rig.host, memory), 0);
	fprintf(stderr, "memory as a BAR: %d %s\n",
		hr_cuda_attach(&rig.gpu, &rig.host, memory, bytes, true, &worker),
		rig.gpu.cu.error.text);
	gpu_down(&rig);
	munmap(memory, bytes);
	close(fd);
}
