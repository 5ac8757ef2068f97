/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/gpu.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "config/base/clock.h"
#include "tests/gpu/image.h"

#define WAIT_NS (20 * HR_NS_PER_S)

#define must(call) cr_assert_eq((call), 0, "%s", rig->gpu.cu.error.text)

void gpu_up(struct gpu_rig *rig)
{
	memset(rig, 0, sizeof *rig);
	must(hr_cuda_gpu_open(&rig->gpu, HR_CUDA_ANY));
	must(hr_cuda_host_open(&rig->gpu, &rig->host));
	must(hr_cuda_launch_open(&rig->gpu, &rig->launch));
	must(hr_cuda_image_load(&rig->gpu, &rig->image, gpu_test_image, "test image"));
}

void gpu_down(struct gpu_rig *rig)
{
	hr_cuda_image_unload(&rig->gpu, &rig->image);
	hr_cuda_launch_close(&rig->gpu, &rig->launch);
	hr_cuda_host_close(&rig->gpu, &rig->host);
	hr_cuda_gpu_close(&rig->gpu);
}

static size_t pages(size_t bytes)
{
	return (bytes + HR_PAGE - 1) / HR_PAGE * HR_PAGE;
}

void *gpu_shared(struct gpu_rig *rig, size_t bytes)
{
	void *memory = mmap(NULL, pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	void *worker = NULL;

	cr_assert_neq(memory, MAP_FAILED);
	must(hr_cuda_attach(&rig->gpu, &rig->host, memory, pages(bytes), false, &worker));
	cr_assert_eq(worker, memory, "the GPU sees %p at %p", memory, worker);
	return memory;
}

void gpu_unshare(struct gpu_rig *rig, void *memory, size_t bytes)
{
	must(hr_cuda_detach(&rig->gpu, &rig->host, memory));
	munmap(memory, pages(bytes));
}

void gpu_find(struct gpu_rig *rig, struct hr_cuda_entry *entry, const char *name)
{
	must(hr_cuda_entry_find(&rig->gpu, &rig->image, entry, name));
}

void gpu_start(struct gpu_rig *rig, const char *name, void *argument, uint32_t blocks,
	       uint32_t threads, uint32_t shared_bytes)
{
	struct hr_cuda_entry entry;

	gpu_find(rig, &entry, name);
	must(hr_cuda_launch_start(&rig->gpu, &rig->launch, &entry, argument, blocks, threads,
				  shared_bytes));
}

void gpu_wait(struct gpu_rig *rig)
{
	const uint64_t end = hr_now_ns() + WAIT_NS;
	int state;

	while ((state = hr_cuda_launch_poll(&rig->gpu, &rig->launch)) == 0) {
		cr_assert(hr_now_ns() < end, "the launch does not end");
		hr_wait_ns(20000);
	}
	cr_assert_eq(state, 1, "%s", rig->gpu.cu.error.text);
}

void gpu_run(struct gpu_rig *rig, const char *name, void *argument, uint32_t blocks,
	     uint32_t threads)
{
	gpu_start(rig, name, argument, blocks, threads, 0);
	gpu_wait(rig);
}

void gpu_fill(struct gpu_rig *rig, CUdeviceptr at, size_t bytes, uint64_t factor, uint64_t add)
{
	struct gpu_fill *a = gpu_shared(rig, sizeof *a);

	*a = (struct gpu_fill){ (uint64_t *)at, bytes / sizeof(uint64_t), factor, add };
	gpu_run(rig, "fill", a, 64, 256);
	gpu_unshare(rig, a, sizeof *a);
}

uint64_t gpu_count_wrong(struct gpu_rig *rig, CUdeviceptr at, size_t bytes, uint64_t factor,
			 uint64_t add)
{
	struct gpu_sum *a = gpu_shared(rig, sizeof *a);
	uint64_t wrong;

	*a = (struct gpu_sum){ (const uint64_t *)at, bytes / sizeof(uint64_t), factor, add, 0, 0 };
	gpu_run(rig, "sum", a, 64, 256);
	wrong = a->wrong;
	gpu_unshare(rig, a, sizeof *a);
	return wrong;
}

size_t gpu_free_bytes(struct gpu_rig *rig)
{
	size_t left = 0, all = 0;

	must(hr_cuda_gpu_enter(&rig->gpu));
	must(HR_CU(&rig->gpu.cu, MemGetInfo, &left, &all));
	return left;
}

unsigned gpu_open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	cr_assert_not_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

unsigned long gpu_resident_kib(void)
{
	unsigned long kib = 0;
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");

	cr_assert_not_null(file);
	while (fgets(line, sizeof line, file))
		if (sscanf(line, "VmRSS: %lu", &kib) == 1)
			break;
	fclose(file);
	return kib;
}

void gpu_random(void *data, size_t bytes)
{
	uint64_t state;
	uint8_t *to = data;

	cr_assert_eq(getrandom(&state, sizeof state, 0), sizeof state);
	fprintf(stderr, "seed 0x%llx, %zu bytes\n", (unsigned long long)state, bytes);
	for (size_t i = 0; i < bytes; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		to[i] = (uint8_t)(state >> 56);
	}
}
